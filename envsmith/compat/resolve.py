"""The resolver: a request and the matrix in, a plan or a refusal out. Pure, and the same answer every time."""

from __future__ import annotations

from envsmith.compat import alternatives, compose, explain
from envsmith.compat.choose import solve
from envsmith.model.matrix import Matrix
from envsmith.model.plan import Plan, Refusal
from envsmith.model.request import BuildRequest


def resolve(request: BuildRequest, matrix: Matrix) -> Plan | Refusal:
    """Return the best plan for a request; where there is none, why not, and the nearest requests that have one."""
    fitting = solve(request, matrix)
    if fitting:
        chosen = fitting[0]
        return compose.compose(request, chosen, alternatives.neighbours(request, chosen, matrix), matrix)
    clash = explain.minimal_conflict(request, matrix)
    return Refusal(
        summary=explain.summary(clash),
        conflicts=explain.conflicts(request, clash, matrix),
        alternatives=alternatives.ways_out(request, clash, matrix),
        matrix_digest=matrix.digest,
    )
