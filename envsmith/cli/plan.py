"""`envsmith plan`: what would be built, and why."""

from __future__ import annotations

from typing import Any

import click

from envsmith.cli import request as options
from envsmith.errors import NoSolutionError


@click.command()
@options.planning_options
@options.format_option
def plan(output: str, **wanted: Any) -> int:
    """Choose versions that fit each other, and say why. Anything left out is chosen."""
    from envsmith.app.plan import make_plan
    from envsmith.compat.load import load_matrix
    from envsmith.model.plan import Refusal

    as_json = options.output_format(output) == "json"
    matrix = load_matrix()
    answer = make_plan(options.build_request(options.Typed(**wanted), matrix), matrix)
    if as_json:
        from envsmith.report.documents import print_json

        print_json(answer)
    else:
        from envsmith.report.plan_text import print_answer

        print_answer(answer)
    return NoSolutionError.exit_status if isinstance(answer, Refusal) else 0
