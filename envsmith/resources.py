"""The one place that knows where the data folders `matrix/` and `templates/` are."""

from __future__ import annotations

from pathlib import Path

from envsmith.errors import DataError

_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """Return the folder `matrix` or `templates`, installed or in a checkout.

    A checkout (or an editable install, which points at one) wins, so that an edit there is seen at
    once: hatchling's editable wheel also drops a copy that goes stale.

    Raises DataError when neither place has it.
    """
    checkout = _PACKAGE.parent / name
    if checkout.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file():
        return checkout
    installed = _PACKAGE / "_data" / name
    if installed.is_dir():
        return installed
    raise DataError(
        f"envsmith's data folder {name!r} is missing (looked in {installed} and {checkout})",
        "reinstall envsmith-gpu",
    )
