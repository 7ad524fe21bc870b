"""Names of images, checked against the grammar of the distribution project before Docker sees them."""

from __future__ import annotations

import re

from envsmith.errors import UsageError

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_LABEL}(?:\.{_HOST_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_REFERENCE = re.compile(rf"(?P<name>(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>{_TAG}))?")
_HEX_ID = re.compile(r"[a-f0-9]{64}")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}")
_NAME_MAX = 255


def check_reference(text: str) -> str:
    """Return the text if it can name an image that exists: a name, with tag or digest, or an id.

    Raises UsageError otherwise, before any engine is asked.
    """
    name, at, digest = text.partition("@")
    named = _REFERENCE.fullmatch(name) is not None and (not at or _DIGEST.fullmatch(digest) is not None)
    if not named and _DIGEST.fullmatch(text) is None:
        raise UsageError(
            f"--image {text!r} is not the name or the id of a Docker image",
            "give [REGISTRY/]NAME[:TAG], NAME@sha256:..., or an id from docker image ls",
        )
    return text


def check_tag(text: str) -> str:
    """Return the reference "name:tag" (":latest" added where no tag is given).

    Raises UsageError when Docker would not accept it as the name of a new image.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or len(match["name"]) > _NAME_MAX or _HEX_ID.fullmatch(match["name"]):
        raise UsageError(
            f"--tag {text!r} is not the name of a Docker image",
            "give [REGISTRY/]NAME[:TAG] in lower case, for example envsmith/torch:2.6",
        )
    return f"{match['name']}:{match['tag'] or 'latest'}"
