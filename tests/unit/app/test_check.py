"""check_host and check_image on bundles that behave, and on those that do not."""

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

from envsmith import certify
from envsmith.app import check
from envsmith.app.check import CheckOptions, check_host, check_image, exit_status, judge_snapshot
from envsmith.errors import UsageError, ValidationFailedError
from envsmith.model.certificate import CERTIFIED, FAILED, NOT_ON_GPU
from envsmith.model.image import BuiltImage, ContainerRun, EngineInfo
from envsmith.validator.catalogue import ALL
from envsmith.wire.encode import canonical_json
from envsmith.wire.facts import LibcudaFacts
from envsmith.wire.results import CheckResult, ClusterReport, Expectation, ValidationReport
from tests.machines import driver, gpu, host, laptop, machine
from tests.unit.model.test_check_events import line

FIRST_TWO, THIRD = (ALL[0].id, ALL[1].id), ALL[2].id
ON_GPU = CheckResult("cuda-kernel", "A CUDA kernel", "pass", 0.5, needs_gpu=True)
SKIPPED = replace(ON_GPU, status="skip", message="no GPU here")
FAILING = replace(ON_GPU, status="fail", message="wrong sum")


def report(*results: CheckResult, snapshot=None, proved=("9.0",)) -> ValidationReport:
    return ValidationReport("envsmith 0.1.0", None, "2026-11-30T21:00:00Z", 1.0, snapshot or machine(), results, proved)


def stream(*results: CheckResult, snapshot=None) -> str:
    """The lines of a good run."""
    seen = snapshot or machine()
    lines = [line("snapshot", seen)]
    for result in results:
        lines.append(canonical_json({"event": "start", "id": result.id, "title": result.title, "limit_s": 60}))
        lines.append(line("result", result))
    return "\n".join([*lines, line("report", report(*results, snapshot=seen))]) + "\n"


@pytest.fixture
def bundle(monkeypatch):
    """Set the program that stands for the bundle; Python runs a plain script under that name, too."""

    def set_bundle(source: str) -> None:
        monkeypatch.setattr(check, "bundle", lambda: source.encode())

    return set_bundle


def printing(text: str, after: str = "") -> str:
    return f"import sys\nsys.stdout.write({text!r})\nsys.stdout.flush()\n{after}\n"


def run_host(options: CheckOptions | None = None, on_event=lambda _: None):
    return check_host(sys.executable, options or CheckOptions(), on_event)


def test_a_good_run_comes_back_judged(bundle):
    seen: list[object] = []
    bundle(printing(stream(ON_GPU)))
    run = run_host(on_event=seen.append)
    assert run.verdict.status == CERTIFIED
    assert run.subject == sys.executable
    assert run.report == report(ON_GPU)
    assert [type(event).__name__ for event in seen] == ["Snapshot", "CheckStarted", "CheckResult", "ValidationReport"]
    assert exit_status(run, require_gpu=True) == 0


def test_the_bundle_gets_its_command_line(bundle):
    bundle(printing(stream(ON_GPU), "sys.stderr.write(repr(sys.argv[1:]))"))
    options = CheckOptions(only=FIRST_TWO, skip=(THIRD,), expectation=Expectation(wheel="2.6.0+cu124"))
    (arguments,) = run_host(options).stray_output
    words = eval(arguments)
    assert words[:9] == ["check", "--format", "jsonl", "--only", FIRST_TWO[0], "--only", FIRST_TWO[1], "--skip", THIRD]
    assert words[9] == "--expect"
    assert json.loads(words[10])["wheel"] == "2.6.0+cu124"


def test_level_seconds_and_gpus_reach_the_bundle_when_they_are_not_the_default():
    assert CheckOptions().arguments() == ["check", "--format", "jsonl"]
    words = CheckOptions(level="stress", seconds=5.0, gpus=("0", "GPU-ab")).arguments()
    assert words[3:] == ["--level", "stress", "--seconds", "5.0", "--gpus", "0,GPU-ab"]


def test_seconds_without_stress_are_refused_before_anything_runs(bundle):
    bundle("raise SystemExit('ran')")
    with pytest.raises(UsageError, match="--seconds is about checks of level stress"):
        run_host(CheckOptions(seconds=5.0))


def test_what_the_bundle_refuses_is_a_usage_error(bundle):
    refusal = canonical_json({"event": "usage-error", "message": "--gpus: there is no GPU '7'"})
    bundle(printing(refusal + "\n", "sys.exit(2)"))
    with pytest.raises(UsageError, match="--gpus: there is no GPU '7'") as caught:
        run_host(CheckOptions(gpus=("7",)))
    assert sys.executable in caught.value.hint
    with pytest.raises(UsageError, match="--gpus: there is no GPU '7'"):
        run_image(FakeEngine(refusal, ended=ContainerRun(2, False, 1.0, ())), CheckOptions(gpus=("7",)))


def test_stress_in_a_container_gets_its_time(bundle):
    bundle("")
    assert CheckOptions(level="stress", seconds=600.0).container_limit_s() > 3600 + 600


def test_a_part_of_the_checks_certifies_nothing(bundle):
    bundle(printing(stream(ON_GPU)))
    run = run_host(CheckOptions(only=FIRST_TWO))
    assert run.verdict.status == NOT_ON_GPU
    assert exit_status(run, require_gpu=False) == 0
    assert exit_status(run, require_gpu=True) == 5


def test_an_error_of_the_listener_is_not_told_of_the_interpreter(bundle):
    def closed(_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    bundle(printing(stream(ON_GPU)))
    with pytest.raises(BrokenPipeError):
        run_host(on_event=closed)


def test_facts_only_take_the_snapshot_and_need_no_report(bundle):
    bundle(printing(line("snapshot", machine()) + "\n"))
    run = run_host(CheckOptions(facts_only=True))
    assert (run.report.snapshot, run.report.results) == (machine(), ())
    assert run.verdict.status == NOT_ON_GPU


def test_lines_that_are_no_events_are_kept_and_do_no_harm(bundle):
    bundle(printing("hello\n{broken\n" + stream(ON_GPU) + "bye\n", "sys.stderr.write('and an error')"))
    run = run_host()
    assert run.stray_output == ("hello", "{broken", "bye", "and an error")
    assert run.verdict.status == CERTIFIED


@pytest.mark.parametrize(
    ("after", "how"),
    [("sys.exit(3)", "exit status 3"), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit status -9")],
)
def test_an_ending_without_a_report_shows_the_last_lines(bundle, after, how):
    cut = stream(ON_GPU)[:-40]
    bundle(printing(cut + "\n", "sys.stderr.write('out of memory\\n'); sys.stderr.flush(); " + after))
    with pytest.raises(ValidationFailedError, match="ended before its report") as caught:
        run_host()
    assert how in caught.value.message
    assert caught.value.hint.endswith("out of memory")


def test_an_ending_without_a_word_says_so(bundle):
    bundle("")
    with pytest.raises(ValidationFailedError) as caught:
        run_host()
    assert caught.value.hint == "it printed nothing"


def test_a_check_that_does_not_exist_is_refused_before_anything_runs(bundle):
    bundle("raise SystemExit('ran')")
    engine = FakeEngine("")
    for options in (CheckOptions(only=("torch-imports",)), CheckOptions(skip=("torch-imports",))):
        with pytest.raises(UsageError, match="there is no check 'torch-imports'") as caught:
            run_host(options)
        assert caught.value.hint == "did you mean 'torch-import'?"
        with pytest.raises(UsageError, match="there is no check"):
            run_image(engine, options)
    with pytest.raises(UsageError, match="leave no check"):
        run_host(CheckOptions(only=FIRST_TWO, skip=FIRST_TWO))
    assert engine.calls == []


def test_a_file_that_cannot_be_run_is_named(bundle, tmp_path):
    bundle("")
    program = tmp_path / "python3"
    program.write_bytes(b"no program")
    program.chmod(0o755)
    with pytest.raises(UsageError, match=r"python3 cannot be run: Exec format error"):
        check_host(str(program), CheckOptions(), lambda _: None)


def test_without_room_for_the_bundle_there_is_one_clear_error(bundle, tmp_path, monkeypatch):
    bundle("")
    monkeypatch.setattr(check.tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="a folder for temporary files is needed"):
        run_host()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(check.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match="No space left on device"):
        run_host()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_the_bundle(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(check.tempfile, "tempdir", str(tmp_path))
    bundle(printing(stream(ON_GPU)))
    run_host()
    assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import os, signal, sys, threading
from envsmith import certify
from envsmith.app import check
child = "import os, sys, time\\nopen(sys.argv[-1], 'w').write(str(os.getpid()))\\ntime.sleep(60)"
check.bundle = lambda: child.encode()
options = check.CheckOptions()
check.CheckOptions.arguments = lambda self: [sys.argv[1]]
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    check.check_host(sys.executable, options, print)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_an_interrupt_ends_what_was_started(tmp_path):
    pid_file = tmp_path / "pid"
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(pid_file)], timeout=60, check=False)
    assert done.returncode == 130
    assert time.monotonic() - begun < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), signal.SIG_DFL)


class FakeEngine:
    """An engine whose containers print given lines."""

    def __init__(self, text: str, gpu: str | None = "cdi", ended: ContainerRun | None = None, labels=()) -> None:
        self.image = BuiltImage("img:tag", "sha256:" + "a1" * 32, 1, "linux/amd64", dict(labels), "overlay2")
        self.text, self.gpu, self.ended = text, gpu, ended or ContainerRun(0, False, 1.0, ())
        self.calls: list[tuple] = []

    def info(self) -> EngineInfo:
        return EngineInfo("29.0", "unix", "overlay2", None, "", "linux/amd64", "0.30", self.gpu, "no CDI device")

    def inspect(self, reference: str) -> BuiltImage:
        return self.image

    def run_bundle(self, image, bundle, arguments, gpu, on_line, limit_s) -> ContainerRun:
        self.calls.append((image, bundle, list(arguments), gpu))
        for text in self.text.splitlines():
            on_line(text)
        return self.ended


def run_image(engine: FakeEngine, options: CheckOptions | None = None):
    return check_image(engine, "img:tag", options or CheckOptions(), lambda _: None)


def test_an_image_that_is_named_by_its_digest_keeps_its_name(bundle):
    bundle("the bundle")
    engine = FakeEngine(stream(ON_GPU))
    run = check_image(engine, engine.image.digest, CheckOptions(), lambda _: None, name="img:tag")
    assert (run.subject, run.image_digest) == ("img:tag", engine.image.digest)


def test_an_image_is_checked_by_its_digest_with_the_gpu_of_the_engine(bundle):
    bundle("the bundle")
    engine = FakeEngine(stream(ON_GPU))
    run = run_image(engine)
    assert engine.calls == [(engine.image.digest, b"the bundle", ["check", "--format", "jsonl"], "cdi")]
    assert (run.subject, run.image_digest, run.verdict.status) == ("img:tag", engine.image.digest, CERTIFIED)


def test_an_image_is_held_against_its_own_labels(bundle):
    bundle("")
    engine = FakeEngine(stream(ON_GPU), labels={"io.envsmith.wheel": "2.6.0+cu124"})
    run_image(engine)
    arguments = engine.calls[0][2]
    assert json.loads(arguments[arguments.index("--expect") + 1])["source"] == "labels"
    run_image(engine, CheckOptions(expectation=Expectation(wheel="2.7.1+cu128", source="plan")))
    arguments = engine.calls[1][2]
    assert json.loads(arguments[arguments.index("--expect") + 1])["wheel"] == "2.7.1+cu128"


def test_what_an_image_promises_is_certified_as_predicted_by_its_labels(bundle):
    bundle("")
    plan_digest = "sha256:" + "c3" * 32
    labels = {
        "io.envsmith.wheel": "2.6.0+cu124",
        "io.envsmith.compute-capabilities": "8.0 9.0",
        "io.envsmith.plan-digest": plan_digest,
    }
    predicate = certify.issue(run_image(FakeEngine(stream(ON_GPU), labels=labels))).predicate
    assert (predicate.predicted_compute_capabilities, predicate.predicted_from) == (("8.0", "9.0"), "labels")
    assert (predicate.plan, predicate.plan_digest) == (None, plan_digest)
    foreign = certify.issue(
        run_image(FakeEngine(stream(ON_GPU), labels={"io.envsmith.plan-digest": "\x1b[31m"}))
    ).predicate
    assert (foreign.predicted_compute_capabilities, foreign.predicted_from, foreign.plan_digest) == ((), "", None)


def test_an_engine_without_a_gpu_is_the_reason_and_the_container_is_not_blamed(bundle):
    bundle("")
    bare = driver(libcuda=None, library_version=None, driver_cuda=None)
    inside = machine(host=host("docker"), driver=bare, device_nodes=(), gpus=())
    run = run_image(FakeEngine(stream(SKIPPED, snapshot=inside), gpu=None))
    assert run.verdict.status == NOT_ON_GPU
    assert run.verdict.reason == "the engine gives containers no GPU: no CDI device"
    assert exit_status(run, require_gpu=False) == 0
    assert exit_status(run, require_gpu=True) == 5
    with_gpu = run_image(FakeEngine(stream(SKIPPED, snapshot=inside)))
    assert exit_status(with_gpu, require_gpu=False) == 1


@pytest.mark.parametrize(
    ("ended", "how"),
    [
        (ContainerRun(None, True, 3600.0, ("still waiting",)), "stopped at its time limit"),
        (ContainerRun(137, False, 1.0, ("killed",)), "exit status 137"),
    ],
)
def test_a_container_that_ends_without_a_report(bundle, ended, how):
    bundle("")
    with pytest.raises(ValidationFailedError, match="the check of img:tag ended") as caught:
        run_image(FakeEngine("", ended=ended))
    assert how in caught.value.message
    assert ended.log_tail[0] in caught.value.hint


@pytest.mark.parametrize(
    ("snapshot", "results", "require_gpu", "expected"),
    [
        (machine(), (ON_GPU,), True, 0),
        (laptop(), (SKIPPED,), False, 0),
        (laptop(), (SKIPPED,), True, 5),
        (laptop(), (), True, 5),
        (machine(), (FAILING,), False, 5),
        (machine(), (replace(ON_GPU, status="timeout"),), False, 5),
        (machine(gpus=(gpu("NVIDIA GeForce RTX 5090", "12.0"),)), (ON_GPU,), False, 1),
        (machine(gpus=(gpu("NVIDIA GeForce RTX 5090", "12.0"),)), (FAILING,), False, 5),
    ],
)
def test_the_exit_status(bundle, snapshot, results, require_gpu, expected):
    bundle(printing(stream(*results, snapshot=snapshot)))
    run = run_host()
    assert exit_status(run, require_gpu=require_gpu) == expected
    assert (run.verdict.status == FAILED) == (FAILING in results or any(r.status == "timeout" for r in results))


def test_a_saved_snapshot_is_judged_by_the_rules():
    old = machine(driver=driver("470.256.02", "11.4", libcuda=LibcudaFacts("/libcuda.so.1", "470.256.02", "driver")))
    run = judge_snapshot(canonical_json(old).encode(), "old.json")
    assert [finding.rule for finding in run.diagnosis.findings] == ["ENV002"]
    assert exit_status(run, require_gpu=False) == 1
    assert run.verdict.status == NOT_ON_GPU


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "snapshot old.json is not usable"),
        (b"\xff\xfe", "snapshot old.json is not usable"),
        (b'{"schema": 1, "kind": "plan"}', "missing required field"),
        (b'{"tool": "x", "collected_at": "y", "kind": "plan"}', "kind 'plan'"),
        (b'{"tool": "x", "collected_at": "y", "schema": 9}', "schema 9"),
        (b'{"tool": "x", "collected_at": "y", "gpus": "many"}', "gpus"),
        (b"[" * 100_000, "snapshot old.json is not usable"),
    ],
)
def test_a_snapshot_that_is_not_one(data, message):
    with pytest.raises(UsageError, match=message):
        judge_snapshot(data, "old.json")


def test_a_real_file_name_is_used_for_the_bundle(bundle):
    bundle(printing(stream(ON_GPU), "sys.stderr.write(sys.argv[0])"))
    assert Path(run_host().stray_output[0]).name == "envsmith.pyz"


def test_what_concerns_several_nodes_is_passed_on():
    words = CheckOptions(require_gpu=True, no_cluster=True, cluster_timeout=5.0).arguments()
    assert words[3:] == ["--require-gpu", "--no-cluster", "--cluster-timeout", "5.0"]
    assert not [word for word in CheckOptions().arguments() if "cluster" in word]


@pytest.mark.parametrize(("status", "expected"), [("pass", 0), ("fail", 5), ("timeout", 5)])
def test_a_rank_that_does_not_report_has_the_status_of_the_whole(bundle, status, expected):
    whole = ClusterReport("slurm", 1, 2, "gpu1:24242", status, "all is told by rank 0")
    follower = replace(report(), cluster=whole)
    bundle(printing(line("snapshot", machine()) + "\n" + line("report", follower) + "\n"))
    run = check_host(sys.executable, CheckOptions(), lambda _: None)
    assert run.report.cluster == whole
    assert exit_status(run, require_gpu=True) == expected
