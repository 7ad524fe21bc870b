"""The answer of `envsmith build`."""

from __future__ import annotations

from dataclasses import dataclass

from envsmith.model.image import BuiltImage
from envsmith.model.plan import Plan


@dataclass(frozen=True)
class CheckSummary:
    """What the check inside the image came to. status, reason: of the verdict; the lists hold ids.

    findings: ids of the rules that found something.
    """

    status: str
    reason: str
    passed: tuple[str, ...]
    not_passed: tuple[str, ...]
    skipped: tuple[str, ...]
    findings: tuple[str, ...]


@dataclass(frozen=True)
class BuildResult:
    """check: None = it was not asked for. certificate: path of the file, None = none was written.

    seconds: all of it, the check too.
    """

    plan: Plan
    image: BuiltImage
    context_digest: str
    check: CheckSummary | None
    certificate: str | None
    seconds: float
    schema: int = 1
    kind: str = "build"
