"""The `envsmith` command: gathers the subcommands and is the one error boundary."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise

import click

from envsmith import __version__
from envsmith.errors import BuildFailedError, EnvsmithError, UsageError

EXIT_INTERRUPT = 130

COMMANDS = ("plan", "render", "build", "check", "certificate", "portable")


class _Commands(click.Group):
    """The subcommands. Each is in the module of its name, which is imported when it is asked for: start-up is short."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"envsmith.cli.{cmd_name}"), cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="envsmith %(version)s", help="Show the version.")
def app() -> None:
    """Resolve, build, check and certify PyTorch + CUDA environments."""


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether --format json was typed. Asked of the words themselves, since they may be what is wrong."""
    return "--format=json" in arguments or ("--format", "json") in pairwise(arguments)


def _document_error(message: str, hint: str, exit_status: int) -> None:
    """Print the one document of a command that came to no answer. The words for people go to stderr all the same."""
    plain = {"schema": 1, "kind": "error", "message": message, "hint": hint, "exit_status": exit_status}
    click.echo(json.dumps(plain, indent=2))


def _report_error(error: EnvsmithError) -> None:
    for line in error.log_tail if isinstance(error, BuildFailedError) else ():
        _tell(f"  | {line}")
    _tell(f"envsmith: error: {error.message}")
    if error.hint:
        _tell(f"  hint: {error.hint}")


def _tell(text: str) -> None:
    """Write to stderr. It may quote what a file, an engine or a container said, so that is made harmless."""
    from envsmith.engine.text import printable

    for line in text.split("\n"):
        click.echo(printable(line), err=True)


def _report_bug(bug: Exception, words: Sequence[str]) -> int:
    """Tell of an exception that is no error of envsmith's own kind, or of click's; return the exit status."""
    from envsmith.cli.bug import describe_exception

    message, status = describe_exception(bug)
    _tell(message)
    if _wants_json(words):
        words_alone = bug.format_message() if isinstance(bug, click.ClickException) else message
        _document_error(words_alone, "", status)
    return status


def _give_up_stdout() -> None:
    """Let stdout lead nowhere: Python would try once more to write what is left when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status; never lets an exception out."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with app.make_context("envsmith", list(words)) as context:
            result = app.invoke(context)
        sys.stdout.flush()  # at exit it would be too late to say that it failed
    except EnvsmithError as error:
        _report_error(error)
        if _wants_json(words):
            _document_error(error.message, error.hint, error.exit_status)
        return error.exit_status
    except click.exceptions.Exit as leave:  # after --help and --version
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as nothing_asked:
        click.echo(nothing_asked.format_message(), err=True)
        return nothing_asked.exit_code
    except KeyboardInterrupt:
        click.echo("\nenvsmith: interrupted", err=True)  # a terminal has just shown ^C
        return EXIT_INTERRUPT
    except BrokenPipeError:
        _give_up_stdout()  # the reader (head, less) has gone: that is no failure
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _report_bug(error, words)
        if error.filename is None:
            _give_up_stdout()
        full = UsageError(f"a disk is full: {error}", "see df, also for TMPDIR")
        _report_error(full)
        return full.exit_status
    except Exception as bug:  # noqa: BLE001 - the boundary
        return _report_bug(bug, words)
    return result if isinstance(result, int) else 0


def entry() -> None:
    """Console script."""
    sys.exit(run())
