"""The `envsmith` command: gathers the subcommands and is the one error boundary."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from envsmith import __version__
from envsmith.cli import build, certificate, check, plan, portable, render
from envsmith.errors import BuildFailedError, EnvsmithError

EXIT_BUG = 70
EXIT_INTERRUPT = 130

app = typer.Typer(
    name="envsmith",
    help="Resolve, build, check and certify PyTorch + CUDA environments.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("plan")(plan.plan)
app.command("render")(render.render)
app.command("build")(build.build)
app.command("check")(check.check)
app.add_typer(certificate.app, name="certificate")
app.command("portable")(portable.portable)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"envsmith {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Resolve, build, check and certify PyTorch + CUDA environments."""


def _report_error(error: EnvsmithError) -> None:
    for line in error.log_tail if isinstance(error, BuildFailedError) else ():
        typer.echo(f"  | {line}", err=True)
    typer.echo(f"envsmith: error: {error.message}", err=True)
    if error.hint:
        typer.echo(f"  hint: {error.hint}", err=True)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status; never lets an exception out."""
    try:
        result = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except EnvsmithError as error:
        _report_error(error)
        return error.exit_status
    except typer.Exit as leave:
        result = leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        result = EXIT_INTERRUPT
    except BrokenPipeError:
        # the reader (head, less) has gone: that is no failure, but Python must not flush into it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as bug:  # noqa: BLE001 - the boundary
        from envsmith.cli.bug import describe_exception

        message, status = describe_exception(bug)
        typer.echo(message, err=True)
        return status
    if result == EXIT_INTERRUPT:  # newer typer turns Ctrl-C into this status, without a word
        typer.echo("envsmith: interrupted", err=True)
    return result if isinstance(result, int) else 0


def entry() -> None:
    """Console script."""
    sys.exit(run())
