"""The bundle's command line: what it prints in each format, its exit statuses, and bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from envsmith import inside
from envsmith.model.check_events import CheckStarted, Refusal, read_event
from envsmith.model.decode import decode
from envsmith.validator import catalogue, supervise
from envsmith.validator.catalogue import ALL
from envsmith.validator.check import Check
from envsmith.validator.devices import Device
from envsmith.validator.expectation import read_expectation
from envsmith.wire.facts import Gap, Snapshot
from envsmith.wire.results import CheckResult, Expectation, ValidationReport
from tests.source_tree import ROOT
from tests.unit.validator import toys

DEVICE = Device(0, "Toy", "9.0")
SNAPSHOT = Snapshot("envsmith test", "2026-01-01T00:00:00Z", gaps=(Gap("torch_runtime", "not-looked", "first"),))


@pytest.fixture(autouse=True)
def _signals_as_before() -> object:  # type: ignore[misc]
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def toy_run(monkeypatch: pytest.MonkeyPatch, *checks: Check, gpu: bool = False) -> None:
    found = ((DEVICE,), None) if gpu else ((), "no NVIDIA GPU here")
    monkeypatch.setattr(supervise, "what_was_seen", lambda answer: found)
    monkeypatch.setattr(catalogue, "ALL", checks)
    monkeypatch.setattr(inside.probe, "collect", lambda tool: SNAPSHOT)


def good(*, needs_gpu: bool = False) -> Check:
    return toys.toy("good", toys.passes, needs_gpu=needs_gpu)


def bad(status: str) -> Check:
    bodies = {"fail": toys.fails, "crash": toys.aborts, "timeout": toys.hangs}
    return toys.toy("bad", bodies[status], limit_s=0.3)


def test_text_ends_with_the_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    toy_run(monkeypatch, good(), toys.toy("gpu", toys.passes, needs_gpu=True))
    assert inside.main(["check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "not certified on a GPU: gpu was skipped: no NVIDIA GPU here"
    assert any(line.startswith("pass    good ") and line.endswith(" s  fine") for line in lines)
    assert "  torch_runtime: not-looked (first)" in lines


def test_text_of_a_pass_on_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    toy_run(monkeypatch, good(needs_gpu=True), gpu=True)
    assert inside.main(["check", "--require-gpu"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "passed on 1 GPU(s): cuda:0 Toy (9.0)"


@pytest.mark.parametrize("status", ["fail", "crash", "timeout"])
def test_a_failure_is_status_5(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    toy_run(monkeypatch, good(), bad(status))
    assert inside.main(["check"]) == 5
    assert capsys.readouterr().out.splitlines()[-1] == "FAILED: bad"


def test_require_gpu_is_status_5_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    toy_run(monkeypatch, good(), toys.toy("gpu", toys.passes, needs_gpu=True))
    assert inside.main(["check", "--require-gpu"]) == 5


def test_require_gpu_is_status_5_for_some_of_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    toy_run(monkeypatch, good(needs_gpu=True), toys.toy("other", toys.passes, needs_gpu=True), gpu=True)
    assert inside.main(["check", "--require-gpu", "--only", "good"]) == 5


def test_json_is_one_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    toy_run(monkeypatch, good(needs_gpu=True), gpu=True)
    assert inside.main(["check", "--format", "json"]) == 0
    report = decode(capsys.readouterr().out.encode(), ValidationReport, "report")
    assert report.proved_compute_capabilities == ("9.0",)
    assert report.results[0].ran_on == ("cuda:0 Toy (9.0)",)
    assert report.bundle_digest is None


def test_jsonl_is_a_stream_of_events_that_the_host_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_run(monkeypatch, good(), bad("fail"))
    assert inside.main(["check", "--format", "jsonl"]) == 5
    events = [read_event(line) for line in capsys.readouterr().out.splitlines()]
    kinds = [type(event) for event in events]
    assert kinds == [Snapshot, CheckStarted, CheckResult, CheckStarted, CheckResult, ValidationReport]
    assert isinstance(events[1], CheckStarted)
    assert events[1].id == "good"


def test_the_run_is_that_of_a_level_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = toys.toy("quick", toys.passes, needs_gpu=True, level="quick")
    slow = toys.toy("slow", toys.passes, needs_gpu=True)
    toy_run(monkeypatch, quick, slow, gpu=True)
    assert inside.main(["check", "--level", "quick", "--format", "json"]) == 0
    report = decode(capsys.readouterr().out.encode(), ValidationReport, "report")
    assert [result.id for result in report.results] == ["quick"]
    assert (report.level, report.gpus) == ("quick", ("cuda:0 Toy (9.0)",))
    assert report.proved_compute_capabilities == ("9.0",)


def test_a_gpu_that_is_chosen_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    once = toys.toy("once", toys.passes, needs_gpu=True, per_gpu=True)
    toy_run(monkeypatch, once, gpu=True)
    other = replace(DEVICE, index=1, name="Other", uuid="GPU-1234")
    monkeypatch.setattr(supervise, "what_was_seen", lambda answer: ((DEVICE, other), None))
    assert inside.main(["check", "--gpus", "GPU-12", "--format", "jsonl"]) == 0
    events = [read_event(line) for line in capsys.readouterr().out.splitlines()]
    started, result = (next(e for e in events if isinstance(e, kind)) for kind in (CheckStarted, CheckResult))
    assert started.device == "cuda:0 Other (9.0)"
    assert result.ran_on == ("cuda:0 Other (9.0)",)
    assert [metric.name for metric in result.metrics] == ["cuda0.size_bytes", "cuda0.ratio"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "1"], "--gpus: there is no GPU '1' here: this run sees 0 (Toy, no UUID)"),
        (["--gpus", "0,0"], "--gpus: '0' names a GPU that is named already"),
        (["--gpus", ","], "--gpus names none"),
        (["--seconds", "5"], "--seconds is about checks of level stress: add --level stress"),
        (["--level", "stress", "--seconds", "nan"], "--seconds nan is out of bounds"),
        (["--only", "goood"], "there is no check 'goood': did you mean 'good'?"),
    ],
)
def test_what_cannot_be_run_is_one_line_an_event_and_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    toy_run(monkeypatch, good(needs_gpu=True), gpu=True)
    assert inside.main(["check", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"envsmith: error: {message}")
    assert len(captured.err.splitlines()) == 1
    assert inside.main(["check", "--format", "jsonl", *arguments]) == 2
    event = read_event(capsys.readouterr().out.strip())
    assert isinstance(event, Refusal)
    assert event.message.startswith(message)


def test_facts_of_torch_are_added_and_their_gaps_go(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = replace(toys.toy("torch", toys.passes, needs_torch=True), starts_host=True)
    toy_run(monkeypatch, start)
    runtime = {
        "version": "2.6.0+cu124", "wheel_cuda": "12.4", "cudnn": None, "nccl": None, "ptx": (),
        "compute_capabilities": ("9.0",), "cuda_available": False, "device_count": 0, "unavailable_reason": "no driver",
    }  # fmt: skip
    library = {"name": "cudnn", "path": "/x/libcudnn.so.9", "version": "9", "origin": "wheel"}
    monkeypatch.setattr(inside, "torch_facts", lambda: {"torch_runtime": runtime, "loaded_libraries": (library,)})
    inside.main(["check", "--format", "json"])
    snapshot = decode(capsys.readouterr().out.encode(), ValidationReport, "report").snapshot
    assert snapshot.torch_runtime is not None
    assert snapshot.torch_runtime.compute_capabilities == ("9.0",)
    assert snapshot.loaded_libraries is not None
    assert snapshot.loaded_libraries[0].path == "/x/libcudnn.so.9"
    assert snapshot.gaps == ()


def test_without_torch_its_facts_are_gaps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    start = replace(toys.toy("torch", toys.skips, needs_torch=True), starts_host=True)
    toy_run(monkeypatch, start)
    inside.main(["check", "--format", "json"])
    gaps = decode(capsys.readouterr().out.encode(), ValidationReport, "report").snapshot.gaps
    reason = "no torch: nothing to do"
    assert gaps == (Gap("torch_runtime", "absent", reason), Gap("loaded_libraries", "absent", reason))


def test_the_list_names_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert inside.main(["check", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [check.id for check in ALL]
    assert inside.main(["check", "--list", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["kind"], len(document["checks"])) == (1, "checks", len(ALL))


def test_expectations_cross() -> None:
    text = json.dumps({"wheel": "2.6.0+cu124", "nccl": None, "compute_capabilities": ["9.0"], "source": "plan"})
    assert read_expectation(text) == Expectation("2.6.0+cu124", None, None, None, ("9.0",), "plan")
    assert read_expectation('{"wheel": null, "source": null}') == Expectation()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"what": "x"}', '{"wheel": 2}', '{"compute_capabilities": "9.0"}', '"wheel"']
)
def test_a_bad_expectation_is_status_2(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert inside.main(["check", "--expect", text]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("envsmith: error: --expect")
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [[], ["chekc"], ["check", "--onl", "x"], ["check", "--format", "yaml"]])
def test_a_bad_command_line_is_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        inside.main(arguments)
    assert caught.value.code == 2


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    toy_run(monkeypatch, good())

    def refuse(prefix: str) -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(supervise.tempfile, "mkdtemp", refuse)
    assert inside.main(["check"]) == 2
    assert "TMPDIR" in capsys.readouterr().err


def test_no_more_processes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("envsmith.validator.forked.fork", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert inside.main(["check"]) == 5
    assert capsys.readouterr().err == "envsmith: error: no process can be started: Resource temporarily unavailable\n"
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import sys
from envsmith import inside
from envsmith.validator import catalogue, schedule
from tests.unit.validator import toys

def hang(context):
    marker = sys.argv[1] + context.scratch
    toys.start_daemon(marker)
    toys.become_sleeper(marker)

schedule.usable_cpus = lambda: 16
start = toys.toy("start", toys.passes, starts_host=True, needs_torch=True)
hanging = (toys.toy(f"hang{number}", hang, 60.0, needs_torch=number > 1) for number in range(4))
catalogue.ALL = (start, *hanging)
sys.exit(inside.main(["check", "--format", "jsonl"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(tmp_path: Path, number: signal.Signals) -> None:
    marker = f"envsmith-toy:{tmp_path}"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, marker],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment,
    ) as process:
        deadline = time.monotonic() + 30
        # the program, the host and its warden; of each of four checks its warden, itself and its daemon
        while len(toys.processes_with(marker)) != 15:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert errors == b"envsmith: interrupted\n"
    assert toys.processes_with(marker) == []
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    code = "import sys; from envsmith.inside import main; sys.exit(main(['check', '--list']))"
    command = [sys.executable, "-c", code]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, cwd=ROOT)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode in (128 + signal.SIGPIPE, 120)


@pytest.mark.parametrize(
    ("ignored", "line"),
    [
        # what nohup and a shell's background hand on must go on being ignored
        (signal.SIGHUP, "signal.raise_signal(signal.SIGHUP)"),
        # with this one ignored the kernel tells nobody how a process ended
        (signal.SIGCHLD, "assert subprocess.run(['false']).returncode == 1"),
    ],
)
def test_signals_that_the_parent_ignored(ignored: signal.Signals, line: str) -> None:
    code = f"""if True:
        import signal, subprocess, sys
        signal.signal({int(ignored)}, signal.SIG_IGN)
        from envsmith import inside
        def command(options):
            {line}
            return 3
        inside._facts = command
        sys.exit(inside.main(["facts"]))
    """
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (3, b"")


def test_a_reason_that_many_checks_share_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_run(monkeypatch, *(toys.toy(f"gpu{number}", toys.passes, needs_gpu=True) for number in range(3)), good())
    assert inside.main(["check"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("skip")]
    assert [line.split(" s  ")[1] for line in lines] == ["no NVIDIA GPU here", "the same", "the same"]
