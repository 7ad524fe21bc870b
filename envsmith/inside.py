"""The portable bundle's own command line: `facts` and `check`, for any interpreter from Python 3.8 on.

It runs where nothing is installed, so it prints plain text itself; rules and certificates are the host's work.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Sequence

from envsmith import __version__, probe
from envsmith.probe.summary import fact_lines
from envsmith.probe.torch_facts import torch_facts, with_torch_facts
from envsmith.wire.encode import to_plain
from envsmith.wire.facts import Snapshot
from envsmith.wire.results import PASS, SKIP, CheckResult, ClusterReport, ValidationReport

# The checks are imported by those who run them: `facts` must be quick, and a bundle is compiled at each start.
if TYPE_CHECKING:
    from envsmith.validator.asked import Asked
    from envsmith.validator.check import Check
    from envsmith.validator.devices import Device

TOOL = f"envsmith {__version__}"
EXIT_USAGE = 2
EXIT_FAILED = 5
EXIT_SIGNAL = 128

_TORCH_FACTS = "torch-facts"


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
    from envsmith.validator.asked import add_options

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
    add_options(check)
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
    from envsmith.validator.cluster.join import end
    from envsmith.validator.forked import NoProcessError
    from envsmith.validator.proof import verdict

    try:
        report, devices = _run(_read_options(options), options.format)
    except UsageError as error:
        if options.format == "jsonl":  # for a program that reads the events: it tells this from a crash by that
            _print_json({"event": "usage-error", "message": str(error)})
        raise
    except NoProcessError as error:
        print(f"envsmith: error: {error}", file=sys.stderr)
        return EXIT_FAILED
    if report.cluster is not None and report.cluster.rank != 0 and options.format != "jsonl":
        _print_as_follower(report.cluster)
    elif options.format == "jsonl":
        _print_json({"event": "report", "report": report})
    elif options.format == "json":
        _print_json(report)
    else:
        _print_gaps(report.snapshot)
        _print_nodes(report)
        print(f"\n{verdict(report, devices)}")
    if report.cluster is not None:  # what is required of each node has been asked for there
        return 0 if end(report.cluster) else EXIT_FAILED
    if any(result.status not in (PASS, SKIP) for result in report.results):
        return EXIT_FAILED
    return EXIT_FAILED if options.require_gpu and not report.proved_compute_capabilities else 0


def _list(output: str) -> int:
    from envsmith.validator.selection import listing, listing_lines

    if output == "text":
        print("\n".join(listing_lines()))
    else:
        _print_json({"schema": 1, "kind": "checks", "checks": listing()})
    return 0


def _read_options(options: argparse.Namespace) -> Asked:
    from envsmith.validator.asked import AskedError, read_options

    try:
        return read_options(options, os.environ)
    except AskedError as error:
        raise UsageError(str(error)) from None


@dataclass
class _Output:
    """Tells of each event as it happens, in the format asked for."""

    format: str
    reason: str = ""  # why the last check was skipped: for many it is the same

    def snapshot(self, snapshot: Snapshot) -> None:
        if self.format == "jsonl":
            _print_json({"event": "snapshot", "snapshot": snapshot})
        elif self.format == "text":
            _print_facts(snapshot)
            print()

    def start(self, check: Check, device: Device | None) -> None:
        if self.format == "jsonl":
            told = {"id": check.id, "title": check.title, "limit_s": check.limit_s}
            _print_json({"event": "start", **told, "device": device and device.label})

    def result(self, result: CheckResult) -> None:
        if self.format == "jsonl":
            _print_json({"event": "result", "result": result})
        elif self.format == "text":
            message = "the same" if result.status == SKIP and result.message == self.reason else result.message
            self.reason = result.message if result.status == SKIP else self.reason
            print(f"{result.status:7} {result.id:24} {result.seconds:6.1f} s  {message}", flush=True)
            print("".join(f"        | {line}\n" for line in result.log_tail[-8:]), end="")


def _run(asked: Asked, output: str) -> tuple[ValidationReport, tuple[Device, ...]]:
    """Raises UsageError for GPUs that are not there, and without a folder for temporary files; NoProcessError."""
    from envsmith.validator.catalogue import ALL
    from envsmith.validator.cluster.join import conclude, joined, take_up
    from envsmith.validator.devices import DeviceChoiceError
    from envsmith.validator.supervise import Supervisor

    tell = _Output("nothing" if asked.is_follower else output)
    checks = asked.checks
    started = _Started.now()
    try:
        joining = joined(asked.place, asked.wait_s)
        supervisor = Supervisor(ALL, asked.expectation, {_TORCH_FACTS: torch_facts}, asked.level, asked.stress_s)
    except OSError as error:
        raise UsageError(f"a folder for temporary files is needed: {error} (TMPDIR names another)") from None
    with joining as member, supervisor:
        # what takes longest goes on while this process looks around; of several processes not all need it
        supervisor.begin(checks if member is None else ())
        if asked.gpus:
            try:
                supervisor.choose_devices(asked.gpus)
            except DeviceChoiceError as error:
                raise UsageError(f"--gpus: {error}") from None
        snapshot = probe.collect(TOOL)
        tell.snapshot(snapshot)
        if member is not None and not take_up(member, TOOL, snapshot, supervisor):
            checks = ()
        results = supervisor.run_all(checks, tell.start, tell.result)
        if any(check.needs_torch for check in checks):
            snapshot = with_torch_facts(snapshot, *supervisor.torch_value(_TORCH_FACTS))
        devices = supervisor.devices
        report = _report(asked, started, snapshot, results, devices)
        if member is not None:
            certified = bool(report.proved_compute_capabilities)
            missing = "not certified on a GPU" if asked.require_gpu and checks and not certified else ""
            report = conclude(member, report, missing)
            tell.result(report.results[-1])
    return report, devices


@dataclass(frozen=True)
class _Started:
    """When a run began: by the calendar, for people, and by a clock that nobody sets."""

    at: str
    clock_s: float

    @classmethod
    def now(cls) -> _Started:
        return cls(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic())


def _report(
    asked: Asked,
    started: _Started,
    snapshot: Snapshot,
    results: tuple[CheckResult, ...],
    devices: tuple[Device, ...],
) -> ValidationReport:
    from envsmith.validator.proof import proved
    from envsmith.validator.selection import of_level

    return ValidationReport(
        tool=TOOL,
        bundle_digest=bundle_digest(),
        started_at=started.at,
        seconds=round(time.monotonic() - started.clock_s, 3),
        snapshot=snapshot,
        results=results,
        proved_compute_capabilities=proved(of_level(asked.level), results, devices),
        level=asked.level,
        gpus=tuple(device.label for device in devices),
    )


def bundle_digest() -> str | None:
    """Digest, "sha256:...", of the bundle that this module was loaded from; None outside a bundle."""
    archive = getattr(globals().get("__loader__"), "archive", None)
    return f"sha256:{hashlib.sha256(Path(archive).read_bytes()).hexdigest()}" if archive else None


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


def _print_nodes(report: ValidationReport) -> None:
    from envsmith.validator.cluster.report import report_lines

    if report.cluster is not None:
        print("\n" + "\n".join(report_lines(report.cluster)))


def _print_as_follower(cluster: ClusterReport) -> None:
    from envsmith.validator.cluster.report import follower_line

    print(follower_line(cluster), file=sys.stderr)
