"""The options of `envsmith build` about building, and where they become types."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import click

from envsmith.errors import UsageError

PROGRESS = ("auto", "plain", "tty")
INDEX_VARIABLE = "ENVSMITH_INDEX_URL"
EXTRA_INDEX_VARIABLE = "ENVSMITH_EXTRA_INDEX_URL"
# where pip, requests and OpenSSL look for one; the first that is set counts
CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
_PEM_BEGIN = b"-----BEGIN CERTIFICATE-----"
_SECRET_BYTES_MAX = 500 * 1024  # BuildKit takes no larger build secret

_BUILDING = (
    click.option("--tag", "-t", "tags", metavar="NAME", multiple=True, help="Name of the image. Repeatable."),
    click.option("--pull", is_flag=True, help="Ask the registry for a newer base image."),
    click.option("--no-cache", is_flag=True, help="Take no step from an earlier build."),
    click.option("--progress", metavar="NAME", default="auto", show_default=True, help="auto, plain or tty."),
    click.option(
        "--ca-bundle",
        metavar="PATH",
        help="CA certificates (PEM) for what downloads inside the build; never part of the image. "
        f"Default: {', '.join(CA_VARIABLES)}.",
    ),
    click.option(
        "--index-url",
        metavar="URL",
        envvar=INDEX_VARIABLE,
        show_envvar=True,
        help="A mirror that is asked instead of PyPI and PyTorch's indexes.",
    ),
    click.option(
        "--extra-index-url",
        "extra_index_urls",
        metavar="URL",
        multiple=True,
        envvar=EXTRA_INDEX_VARIABLE,
        show_envvar=True,
        help="An index that is asked first. Repeatable.",
    ),
    click.option("--no-check", is_flag=True, help="Do not check the image after it is built."),
    click.option("--require-gpu", is_flag=True, help="Exit 5 unless every GPU check ran and passed."),
    click.option("--dry-run", is_flag=True, help="Print the Dockerfile and build nothing."),
    click.option(
        "--certificate",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Where to write it. Default: here, named after the tag.",
    ),
)

_Command = TypeVar("_Command", bound=Callable[..., int])


def building_options(command: _Command) -> _Command:
    """Give a command the options about building."""
    for option in reversed(_BUILDING):  # decorators apply from the last to the first, and so stands the help
        command = option(command)
    return command


def refuse_contradictions(given: dict[str, bool]) -> None:
    """Raise UsageError for two options that exclude each other. given: option -> whether it was given."""
    excluding = {
        "--dry-run": ("--tag", "--pull", "--no-cache", "--no-check", "--require-gpu", "--certificate", "--format json"),
        "--no-check": ("--require-gpu", "--certificate"),
    }
    for option, others in excluding.items():
        for other in others:
            if given.get(option) and given.get(other):
                raise UsageError(f"{option} and {other} contradict each other", "leave one of them out")


def live_progress(name: str) -> bool:
    """Whether the progress is live. Raises UsageError for an unknown name, and for tty without a terminal."""
    if name not in PROGRESS:
        raise UsageError(f"--progress {name!r} is not known", f"expected one of {', '.join(PROGRESS)}")
    terminal = sys.stderr.isatty()
    if name == "tty" and not terminal:
        raise UsageError("--progress tty needs a terminal on stderr", "take --progress plain")
    return terminal and name != "plain"


def ca_bundle(given: str | None) -> str | None:
    """The path of the CA bundle, given or from the environment. Raises UsageError when it holds no certificate."""
    variable = next((name for name in CA_VARIABLES if os.environ.get(name)), None)
    if given is None and variable is None:
        return None
    path = given if given is not None else os.environ[variable or ""]
    where = "--ca-bundle" if given is not None else f"{variable}, taken as --ca-bundle,"
    hint = "give a file of PEM certificates" if given is not None else "unset it, or give --ca-bundle PATH"
    try:
        with Path(path).open("rb") as stream:
            content = stream.read(_SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{where} {path!r} cannot be read: {error.strerror}", hint) from error
    if len(content) > _SECRET_BYTES_MAX:
        raise UsageError(
            f"{where} {path!r} is too long: BuildKit takes at most {_SECRET_BYTES_MAX} bytes",
            "give a bundle with the company's certificates only",
        )
    if _PEM_BEGIN not in content:
        raise UsageError(f"{where} {path!r} holds no PEM certificate", hint)
    return path


def index_url(option: str, url: str) -> str:
    """Return the URL. Raises UsageError, without showing a password, when it is none that an index can have."""
    from envsmith.engine.text import mask_url

    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if usable and url.isascii() and url.isprintable() and not set(url) & set(" \"'\\"):
        return url
    raise UsageError(f"{option} {mask_url(url)!a} is not the URL of a package index", "expected https://HOST/PATH")


def certificate_name(tag: str) -> Path:
    """The certificate's file where none is named: the tag, with the signs that a path must not hold replaced."""
    return Path(tag.replace("/", "-").replace(":", "-") + ".certificate.json")
