"""What the error boundary says of an exception that is not an EnvsmithError."""

from __future__ import annotations

import platform
import traceback

import click

from envsmith import __version__

EXIT_BUG = 70


def describe_exception(error: Exception) -> tuple[str, int]:
    """Return (text for stderr, exit status): click's usage errors are 2, anything else is a bug of ours, 70."""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "envsmith"
        return f"envsmith: error: {error.format_message()}\n  hint: {command} --help", 2
    frames = "".join(traceback.format_exception(error))
    report = f"envsmith {__version__}, Python {platform.python_version()}, {platform.platform()}\n{frames}"
    return (
        f"envsmith: a bug of envsmith ({type(error).__name__}: {error}). Please report this text:\n\n{report}",
        EXIT_BUG,
    )
