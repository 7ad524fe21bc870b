"""The portable bundle's own command line: `facts` and `check`, for any interpreter from Python 3.8 on.

It runs where nothing is installed, so it prints plain text itself; rules and certificates are the host's work.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Sequence

from envsmith import __version__, probe
from envsmith.probe.summary import fact_lines
from envsmith.validator.text import one_message
from envsmith.wire.encode import to_plain
from envsmith.wire.facts import Gap, LibraryFacts, Snapshot, TorchRuntimeFacts
from envsmith.wire.results import PASS, SKIP, CheckResult, Expectation, ValidationReport

# The checks are imported by those who run them: `facts` must be quick, and a bundle is compiled at each start.
if TYPE_CHECKING:
    from envsmith.validator.check import Check
    from envsmith.validator.devices import Device

TOOL = f"envsmith {__version__}"
EXIT_USAGE = 2
EXIT_FAILED = 5
EXIT_SIGNAL = 128

_TORCH_FACTS = "torch-facts"
# CUDA is initialised for it, on every GPU
_TORCH_FACTS_LIMIT_S = 60.0


class UsageError(Exception):
    """The command line cannot be used."""


class Interrupted(BaseException):
    """A signal that ends the run; a BaseException, so that no check's error handling takes it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status."""
    options = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it, and a shell for what is in the background
            signal.signal(number, _interrupt)
    # a parent that ignores SIGCHLD bequeaths that, and the kernel would then tell nobody how a check ended
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        status: int = options.command(options)
    except UsageError as error:
        print(f"envsmith: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except Interrupted as interrupted:
        print("envsmith: interrupted", file=sys.stderr)
        return EXIT_SIGNAL + interrupted.number
    except BrokenPipeError:
        # the reader has gone; Python must not flush into the pipe when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_SIGNAL + signal.SIGPIPE
    return status


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)  # the cleaning up must not be interrupted as well
    raise Interrupted(number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="envsmith.pyz", description="Look at and check a PyTorch + CUDA environment.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=TOOL)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    facts = commands.add_parser("facts", help="what this environment holds; runs no check", allow_abbrev=False)
    facts.set_defaults(command=_facts)
    check = commands.add_parser("check", help="run the checks", allow_abbrev=False)
    check.set_defaults(command=_check)
    for command in (facts, check):
        command.add_argument("--format", choices=("text", "json", "jsonl"), default="text", help="default: text")
    check.add_argument("--list", action="store_true", help="list the checks and exit")
    check.add_argument("--only", action="append", default=[], metavar="ID", help="run only this check (repeatable)")
    check.add_argument("--skip", action="append", default=[], metavar="ID", help="leave out this check (repeatable)")
    check.add_argument("--expect", metavar="JSON", help="what the environment should hold, as JSON")
    check.add_argument("--require-gpu", action="store_true", help="fail unless every check passed on a GPU")
    return parser


def _facts(options: argparse.Namespace) -> int:
    snapshot = probe.collect(TOOL)
    if options.format == "text":
        _print_facts(snapshot)
        _print_gaps(snapshot)
    else:
        _print_json({"event": "snapshot", "snapshot": snapshot} if options.format == "jsonl" else snapshot)
    return 0


def _check(options: argparse.Namespace) -> int:
    if options.list:
        return _list(options.format)
    from envsmith.validator.expectation import read_expectation
    from envsmith.validator.forked import NoProcessError

    checks = choose(options.only, options.skip)
    try:
        expectation = read_expectation(options.expect) if options.expect is not None else None
    except ValueError as error:
        raise UsageError(f"--expect: {error}") from None
    try:
        report, devices = _run(checks, expectation, options.format)
    except NoProcessError as error:
        print(f"envsmith: error: {error}", file=sys.stderr)
        return EXIT_FAILED
    certified = bool(report.proved_compute_capabilities)
    if options.format == "jsonl":
        _print_json({"event": "report", "report": report})
    elif options.format == "json":
        _print_json(report)
    else:
        _print_gaps(report.snapshot)
        print(f"\n{verdict(report, devices)}")
    if any(result.status not in (PASS, SKIP) for result in report.results):
        return EXIT_FAILED
    return EXIT_FAILED if options.require_gpu and not certified else 0


def _list(output: str) -> int:
    from envsmith.validator.catalogue import ALL

    if output == "text":
        for check in ALL:
            print(f"{check.id:20} {check.title}{'' if not check.needs_gpu else ' [GPU]'}")
        return 0
    names = ("id", "title", "limit_s", "needs_gpu", "needs_torch", "requires")
    checks = [{name: getattr(check, name) for name in names} for check in ALL]
    _print_json({"schema": 1, "kind": "checks", "checks": checks})
    return 0


def choose(only: Sequence[str], skip: Sequence[str]) -> tuple[Check, ...]:
    """The checks to run, in their order. Raises UsageError for an unknown id, or when none is left."""
    from envsmith.validator.catalogue import ALL

    wanted, unwanted = ([name for item in items for name in item.split(",") if name] for items in (only, skip))
    known = [check.id for check in ALL]
    for name in (*wanted, *unwanted):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise UsageError(
                f"there is no check {one_message(name)!r}"
                + (f": did you mean {near[0]!r}?" if near else ": see --list")
            )
    chosen = tuple(c for c in ALL if (not wanted or c.id in wanted) and c.id not in unwanted)
    if not chosen:
        raise UsageError("--only and --skip leave no check to run")
    return chosen


@dataclass
class _Output:
    """Tells of each event as it happens, in the format asked for."""

    format: str

    def snapshot(self, snapshot: Snapshot) -> None:
        if self.format == "jsonl":
            _print_json({"event": "snapshot", "snapshot": snapshot})
        elif self.format == "text":
            _print_facts(snapshot)
            print()

    def start(self, check: Check) -> None:
        if self.format == "jsonl":
            _print_json({"event": "start", "id": check.id, "title": check.title, "limit_s": check.limit_s})

    def result(self, result: CheckResult) -> None:
        if self.format == "jsonl":
            _print_json({"event": "result", "result": result})
        elif self.format == "text":
            print(f"{result.status:7} {result.id:19} {result.seconds:6.1f} s  {result.message}", flush=True)
            for line in result.log_tail[-8:]:
                print(f"        | {line}")


def _run(
    checks: tuple[Check, ...], expectation: Expectation | None, output: str
) -> tuple[ValidationReport, tuple[Device, ...]]:
    from envsmith.validator.catalogue import ALL
    from envsmith.validator.proof import proved
    from envsmith.validator.supervise import Supervisor

    started_at, started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    tell = _Output(output)
    snapshot = probe.collect(TOOL)
    tell.snapshot(snapshot)
    results = []
    try:
        supervisor = Supervisor(ALL, expectation, {_TORCH_FACTS: _torch_facts})
    except OSError as error:
        raise UsageError(f"a folder for temporary files is needed: {error} (TMPDIR names another)") from None
    with supervisor:
        for check in checks:
            tell.start(check)
            result = supervisor.run(check)
            results.append(result)
            tell.result(result)
        if any(check.needs_torch for check in checks):
            snapshot = _with_torch_facts(snapshot, *supervisor.call_in_torch(_TORCH_FACTS, _TORCH_FACTS_LIMIT_S))
        devices = supervisor.devices
    report = ValidationReport(
        tool=TOOL,
        bundle_digest=bundle_digest(),
        started_at=started_at,
        seconds=round(time.monotonic() - started, 3),
        snapshot=snapshot,
        results=tuple(results),
        proved_compute_capabilities=proved(ALL, tuple(results), devices),
    )
    return report, devices


def _torch_facts() -> dict[str, object]:
    """Called in a process in which torch has been imported."""
    from envsmith.probe.loaded import loaded_libraries
    from envsmith.probe.torch_runtime import torch_runtime

    return {"torch_runtime": torch_runtime(), "loaded_libraries": loaded_libraries()}


def _with_torch_facts(snapshot: Snapshot, value: Any, reason: str) -> Snapshot:
    """The snapshot with what only a process with torch could see, or with gaps that say why not."""
    names = ("torch_runtime", "loaded_libraries")
    gaps = tuple(gap for gap in snapshot.gaps if gap.fact not in names)
    if value is None:
        kind = "failed" if snapshot.torch is not None else "absent"
        return replace(snapshot, gaps=(*gaps, *(Gap(name, kind, reason) for name in names)))
    runtime: Any = {
        name: tuple(item) if isinstance(item, list) else item for name, item in value["torch_runtime"].items()
    }
    return replace(
        snapshot,
        torch_runtime=TorchRuntimeFacts(**runtime),
        loaded_libraries=tuple(LibraryFacts(**library) for library in value["loaded_libraries"]),
        gaps=gaps,
    )


def bundle_digest() -> str | None:
    """Digest, "sha256:...", of the bundle that this module was loaded from; None outside a bundle."""
    archive = getattr(globals().get("__loader__"), "archive", None)
    return f"sha256:{hashlib.sha256(Path(archive).read_bytes()).hexdigest()}" if archive else None


def verdict(report: ValidationReport, devices: tuple[Device, ...]) -> str:
    """One sentence on what the run came to. "Certified" is not said here: that word is the host's."""
    bad = [result.id for result in report.results if result.status not in (PASS, SKIP)]
    if bad:
        return f"FAILED: {', '.join(bad)}"
    if report.proved_compute_capabilities:
        return f"passed on {len(devices)} GPU(s): {', '.join(device.label for device in devices)}"
    reasons = [f"{r.id} was skipped: {r.message}" for r in report.results if r.needs_gpu and r.status == SKIP]
    return f"not certified on a GPU: {reasons[0] if reasons else 'not every GPU check was asked for'}"


def _print_json(value: object) -> None:
    print(json.dumps(to_plain(value), allow_nan=False, ensure_ascii=True), flush=True)


def _print_facts(snapshot: Snapshot) -> None:
    print(f"{TOOL}" + (f", bundle {bundle_digest()}" if bundle_digest() else ""))
    for name, text in fact_lines(snapshot):
        print(f"{name:10} {text}")


def _print_gaps(snapshot: Snapshot) -> None:
    if snapshot.gaps:
        print("\nnot looked at:")
    for gap in snapshot.gaps:
        print(f"  {gap.fact}: {gap.reason}" + (f" ({gap.detail})" if gap.detail else ""))
