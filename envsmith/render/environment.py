"""The Jinja environment of the templates. It lets no value through that no quoting filter has seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

import jinja2

from envsmith import quoting
from envsmith.errors import DataError
from envsmith.resources import data_dir

_BLOCK_NAME = re.compile(r"[a-z][a-z-]*")


class Quoted(str):
    """Text that came out of a quoting filter."""

    __slots__ = ()


def environment() -> jinja2.Environment:
    """Return an environment over `templates/`: undefined values and unquoted values are errors."""
    # autoescape is for HTML; a Dockerfile is quoted by the filters, and _only_quoted sees that none is forgotten
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701
        finalize=_only_quoted,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[[str], str]] = {
        "block_name": _block_name,
        "dockerfile_string": quoting.dockerfile_string,
        "image_name": quoting.image_name,
        "label_name": quoting.label_name,
        "run_word": quoting.run_word,
    }
    # the built-in filters go: what they make (tojson, e, urlencode) looks quoted and is not
    jinja.filters = {name: partial(_quoted, function) for name, function in filters.items()}
    jinja.filters["run_words"] = _run_words
    return jinja


def _only_quoted(value: object) -> object:
    """Jinja's finalize: called with every value that a template prints."""
    if not isinstance(value, Quoted):
        raise DataError(f"a template prints {value!r} without a quoting filter")
    return value


def _quoted(function: Callable[[str], str], text: object) -> Quoted:
    if not isinstance(text, str):
        raise DataError(f"a template quotes {text!r}, which is no text")
    return Quoted(function(text))


def _run_words(texts: Iterable[str]) -> Quoted:
    return Quoted(" ".join(_quoted(quoting.run_word, text) for text in texts))


def _block_name(text: str) -> str:
    if not _BLOCK_NAME.fullmatch(text):
        raise DataError(f"{text!r} is not the name of a template block")
    return text
