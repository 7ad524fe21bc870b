"""`envsmith render`: the Dockerfile, or the whole build context, of what `envsmith build` would build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envsmith.cli import request as options
from envsmith.errors import NoSolutionError

if TYPE_CHECKING:
    from envsmith.model.image import RenderedContext
    from envsmith.model.plan import Plan


@click.command(short_help="Print the Dockerfile, or write the whole build context.")
@options.planning_options
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the whole build context into this folder, which must not exist yet or be empty.",
)
def render(output: Path | None, **wanted: Any) -> int:
    """Print the Dockerfile that `envsmith build` would build; with --output, write all that its build needs."""
    from envsmith.app.plan import make_plan
    from envsmith.compat.load import load_matrix
    from envsmith.model.plan import Refusal
    from envsmith.render.dockerfile import render as render_plan

    matrix = load_matrix()
    plan = make_plan(options.build_request(options.Typed(**wanted), matrix), matrix)
    if isinstance(plan, Refusal):
        from envsmith.report.plan_text import print_answer

        print_answer(plan)
        return NoSolutionError.exit_status
    context = render_plan(plan)
    if output is None:
        click.echo(context.dockerfile, nl=False)
    else:
        _write(context, output)
        click.echo(f"envsmith: wrote {output}; build it with:\n  {_build_command(plan, output)}", err=True)
    return 0


def _write(context: RenderedContext, folder: Path) -> None:
    from envsmith.files import write_folder

    contents = {"Dockerfile": context.dockerfile.encode()}
    write_folder(folder, contents | {file.path: file.content for file in context.files})


def _build_command(plan: Plan, folder: Path) -> str:
    """The command that builds a written context without envsmith. The uv here serves this machine's platform only."""
    from envsmith.app.build import default_tag
    from envsmith.engine.uv_folder import own_uv
    from envsmith.quoting import shell_command

    native = plan.platform == options.native_platform()
    uv = own_uv().parent if native else f"FOLDER_OF_UV_FOR_{plan.platform.replace('/', '_').upper()}"
    argv = ["docker", "buildx", "build", "--load", "--platform", plan.platform, f"--build-context=uv={uv}"]
    return shell_command([*argv, f"--tag={default_tag(plan)}", str(folder)])
