"""A whole run on real GPUs: side by side, each process on its own GPU, nothing left, whatever ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envsmith.validator.catalogue import ALL
from envsmith.validator.check import Check, CheckContext, CheckOutcome
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.checks.torch_import import torch_import
from envsmith.validator.driver import Driver
from envsmith.validator.proof import proved
from envsmith.validator.selection import choose, of_level
from envsmith.validator.supervise import Supervisor

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("level", ["quick", "standard"])
def test_a_healthy_machine_passes_side_by_side(level: str) -> None:
    checks = choose((), (), level)
    started: list[tuple[str, str | None]] = []
    told: list[str] = []
    with Supervisor(ALL, level=level) as supervisor:
        results = supervisor.run_all(
            checks,
            lambda check, device: started.append((check.id, device.label if device else None)),
            lambda result: told.append(result.id),
        )
        devices = supervisor.devices
    assert [result for result in results if result.status not in ("pass", "skip")] == []
    assert [r for r in results if r.needs_gpu and r.status == "skip" and not r.optional] == []
    assert [result.id for result in results] == [check.id for check in checks]
    assert sorted(told) == sorted(check.id for check in checks)
    capabilities = {device.compute_capability for device in devices}
    assert set(proved(of_level(level), results, devices)) == capabilities
    for check in checks:
        labels = {label for name, label in started if name == check.id}
        assert labels in (set(), {d.label for d in devices} if check.per_gpu else {None})


def test_the_driver_tells_everything_of_a_device() -> None:
    with Supervisor(ALL) as supervisor:
        devices = supervisor.devices
    assert devices
    assert len({device.uuid for device in devices}) == len(devices)
    for index, device in enumerate(devices):
        assert device.index == index
        assert device.uuid is not None
        assert len(device.uuid) == len("GPU-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f")
        assert device.memory_total_bytes is not None
        assert device.memory_total_bytes > 1 << 30


def whose(context: CheckContext) -> CheckOutcome:
    """The UUID of the only GPU that this process sees, by the driver."""
    driver = Driver.start()
    assert driver.device_count() == 1
    return CheckOutcome(str(driver.device_uuid(0)))


@pytest.mark.parametrize("in_host", [False, True], ids=["direct", "host"])
def test_each_process_sees_its_own_gpu_in_any_order(monkeypatch: pytest.MonkeyPatch, in_host: bool) -> None:
    with Supervisor(()) as supervisor:
        known = [device.uuid for device in supervisor.devices]
    reversed_uuids = [str(uuid) for uuid in reversed(known)]
    values = [None, ",".join(map(str, reversed(range(len(known))))), ",".join(reversed_uuids)]
    check = Check("whose", "whose", whose, 60.0, needs_gpu=True, per_gpu=True, needs_torch=in_host)
    for value in values:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if value is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        with Supervisor((torch_import, check)) as supervisor:
            result = supervisor.run(check)
        assert result.status == "pass", result
        expected = [str(uuid) for uuid in known] if value is None else reversed_uuids
        said = [word for word in result.message.replace(";", " ").split() if word.startswith("GPU-")]
        assert said == expected


def test_torch_in_such_a_process_sees_that_gpu_and_can_use_it() -> None:
    def body(context: CheckContext) -> CheckOutcome:
        import torch

        place = only_gpu(torch)
        assert float(torch.full((10,), 2.0, device=place).sum()) == 20.0
        return CheckOutcome(torch.cuda.get_device_name(place))

    check = Check("torch", "torch", body, 60.0, needs_gpu=True, per_gpu=True, needs_torch=True)
    with Supervisor((torch_import, check)) as supervisor:
        result = supervisor.run(check)
        assert len(result.ran_on) == len(supervisor.devices)
    assert result.status == "pass", result


def test_a_gpu_can_be_chosen_by_a_prefix_of_its_uuid() -> None:
    check = Check("whose", "whose", whose, 60.0, needs_gpu=True, per_gpu=True)
    with Supervisor((check,)) as supervisor:
        wanted = str(supervisor.devices[-1].uuid)
        supervisor.choose_devices([wanted[:-4]])
        result = supervisor.run(check)
    assert (result.status, result.message, len(result.ran_on)) == ("pass", wanted, 1)


def test_one_that_takes_all_memory_and_one_that_never_ends_do_no_harm_to_those_beside_them() -> None:
    def hog(context: CheckContext) -> CheckOutcome:
        import torch

        place = only_gpu(torch)
        held = []
        while True:
            held.append(torch.empty(1 << 34, dtype=torch.uint8, device=place))

    def endless(context: CheckContext) -> CheckOutcome:
        import torch

        place = only_gpu(torch)
        data = torch.randn(4096, 4096, device=place)
        while True:
            data = (data @ data).clamp(-1, 1)

    traits = {"needs_gpu": True, "per_gpu": True, "needs_torch": True}
    kernel = next(check for check in ALL if check.id == "cuda-kernel-driver")
    bad = (Check("hog", "hog", hog, 60.0, **traits), Check("endless", "endless", endless, 8.0, **traits))  # type: ignore[arg-type]
    with Supervisor((torch_import, *bad)) as supervisor:
        results = {result.id: result for result in supervisor.run_all(bad)}
        after = supervisor.run(kernel)
    assert results["hog"].status == "fail"
    assert "out of memory" in results["hog"].message
    assert results["endless"].status == "timeout", results["endless"]
    assert after.status == "pass", after


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_in_the_middle_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    marker = f"ENVSMITH_TEST_MARKER={tmp_path}"
    environment = {**os.environ, "ENVSMITH_TEST_MARKER": str(tmp_path), "TMPDIR": str(tmp_path)}
    code = "import sys; from envsmith.inside import main; sys.exit(main(['check', '--format', 'jsonl']))"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:  # until something runs on a GPU by way of torch
            event = json.loads(line)
            if event["event"] == "start" and event["id"] == "cudnn-convolution":
                break
        process.send_signal(number)
        process.stdout.read()
    deadline = time.monotonic() + 60
    while with_marker(marker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert with_marker(marker) == []
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert list(tmp_path.iterdir()) == []


def with_marker(marker: str) -> list[int]:
    """Processes, zombies aside, that have the marker in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if marker.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def test_a_gpu_that_is_not_there_is_refused_with_what_there_is() -> None:
    code = "import sys; from envsmith.inside import main; sys.exit(main(['check', '--gpus', '99']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("envsmith: error: --gpus: there is no GPU '99' here: this run sees 0 (")
