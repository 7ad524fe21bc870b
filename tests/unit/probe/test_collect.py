"""The whole snapshot, of this machine and of trees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from envsmith.probe import collect
from envsmith.probe.driver_answers import DriverAnswers
from envsmith.probe.look import Look
from envsmith.probe.snapshot import add_driver, look_around
from envsmith.wire.encode import to_plain
from envsmith.wire.facts import Gap, Snapshot
from tests.unit.probe.trees import BARE_HOST, ld_cache, plant, recorded

ROOT = Path(__file__).parents[3]
GAP_REASONS = {"absent", "denied", "timeout", "failed", "unsupported", "not-looked"}
FULL = {
    **BARE_HOST,
    "/proc/driver/nvidia/version": recorded("nvidia-open-580.159.04.proc-version.txt"),
    "/dev/nvidia0": "",
    "/dev/shm/x": "",
    "/etc/docker/daemon.json": "{}",
    "/etc/ld.so.cache": ld_cache([("libnccl.so.2", "/usr/lib/libnccl.so.2")]),
    "/site/torch/version.py": recorded("torch-2.6.0-cu124.version.py.txt"),
    "/site/numpy-2.0.0.dist-info/METADATA": "",
    "/sys/bus/pci/devices/0000:00:06.0/vendor": "0x10de",
}
FULL_PARTS = (
    "host", "limits", "driver", "device_nodes", "container_toolkit", "env", "python", "packages", "torch",
    "toolkits", "libraries", "nvidia_pci_devices",
)  # fmt: skip
PARTS = {"driver", "gpus", "torch", "torch_runtime", "loaded_libraries", "libraries", "container_toolkit"}


def test_this_machine() -> None:
    snapshot = collect("envsmith-test 1")
    assert snapshot.tool == "envsmith-test 1"
    assert snapshot.host is not None
    assert snapshot.python is not None
    assert snapshot.python.prefix == sys.prefix
    assert snapshot.packages
    assert {gap.reason for gap in snapshot.gaps} <= GAP_REASONS
    # what nobody could look at says so, and what was looked at has no gap for the whole of it
    whole_gaps = {gap.fact for gap in snapshot.gaps if "." not in gap.fact}
    assert {name for name in PARTS if getattr(snapshot, name) is None} >= whole_gaps
    assert {"torch_runtime", "loaded_libraries"} <= whole_gaps


def test_a_snapshot_survives_json() -> None:
    snapshot = collect("x")
    assert msgspec.json.decode(json.dumps(to_plain(snapshot)), type=Snapshot) == snapshot


def test_without_libraries() -> None:
    snapshot = collect("x", with_libraries=False)
    assert snapshot.libraries is None
    assert Gap("libraries", "not-looked", "left out on request") in snapshot.gaps


def test_collecting_is_quick_and_leaves_torch_alone() -> None:
    """Imports and the driver's child included; processor time, the best of three, since machines are busy."""
    program = (
        "import os, sys\n"
        "from envsmith.probe import collect\n"
        "collect('x'); assert 'torch' not in sys.modules\n"
        "print(sum(os.times()[:4]))\n"
    )
    took_s = min(
        float(subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True).stdout)
        for _ in range(3)
    )
    assert took_s < 0.5


def test_no_child_process_is_left() -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if not children.exists():
        pytest.skip("this kernel does not list children")
    before = set(children.read_text(encoding="ascii").split())  # other tests may have left some
    collect("x")
    assert set(children.read_text(encoding="ascii").split()) <= before


def test_no_more_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("envsmith.probe.child.os.fork", fail)
    snapshot = collect("x")
    assert snapshot.host is not None
    assert ("gpus", "failed") in {(gap.fact, gap.reason) for gap in snapshot.gaps}


@pytest.mark.parametrize(
    ("broken", "part"),
    [
        ("host.container_kind", "host"),
        ("limits.resource.getrlimit", "limits"),
        ("driver.other_copies", "driver"),
        ("devices.node_paths", "device_nodes"),
        ("container_toolkit.which", "container_toolkit"),
        ("env.is_listed", "env"),
        ("python._version", "python"),
        ("packages.is_listed", "packages"),
        ("torch.torch_version", "torch"),
        ("toolkits.which", "toolkits"),
        ("libraries.loader_cache", "libraries"),
        ("pci._word", "nvidia_pci_devices"),
    ],
)
def test_one_broken_collector_costs_only_its_own_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, part: str
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("odd machine")

    monkeypatch.setattr(f"envsmith.probe.{broken}", fail)
    look = plant(tmp_path, FULL)
    environ = {"NCCL_DEBUG": "INFO", "PATH": "/usr/bin"}
    snapshot = add_driver(look, look_around(look, "x", environ, ("/site",)), environ, DriverAnswers(nvml_error="x"))
    lost = {name for name in FULL_PARTS if getattr(snapshot, name) is None}
    assert lost == {part}
    assert (part, "failed") in {(gap.fact, gap.reason) for gap in snapshot.gaps}


def test_a_tree_with_hostile_names(tmp_path: Path) -> None:
    name = b"cuda-\xff\x1b[31m".decode("utf-8", "surrogateescape")
    look = plant(tmp_path, {**BARE_HOST, f"/usr/local/{name}/bin/nvcc": "", "/usr/local/cuda-12.4/bin/nvcc": ""})
    environ = {"LD_LIBRARY_PATH": "/a\x1b]0;x\x07\udcff", "CUDA_HOME": f"/usr/local/{name}"}
    snapshot = look_around(look, "x", environ, ())
    snapshot = add_driver(look, snapshot, environ, DriverAnswers())
    text = json.dumps(to_plain(snapshot), ensure_ascii=False)
    text.encode("utf-8")
    assert "\x1b" not in text
    assert "\\u001b" not in text
    assert snapshot.toolkits is not None
    assert len(snapshot.toolkits) == 2


def test_an_empty_machine(tmp_path: Path) -> None:
    look = Look(str(tmp_path))
    snapshot = add_driver(look, look_around(look, "x", {}, ()), {}, DriverAnswers())
    assert snapshot.driver is None
    assert snapshot.torch is None
    assert snapshot.toolkits == ()
    assert snapshot.libraries == ()
    assert snapshot.device_nodes == ()
    assert {"host.os_id", "host.memory_total_bytes"} & {gap.fact for gap in snapshot.gaps}


def test_a_folder_with_too_many_files_is_cut_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envsmith.probe.look.FOLDER_LIMIT_NAMES", 50)
    look = plant(tmp_path, {f"/libs/libfoo{number}.so": "" for number in range(60)})
    assert len(look.names("/libs")) == 50
    look_around(look, "x", {"LD_LIBRARY_PATH": "/libs"}, ())
    assert ("libraries.path", "failed") in {(gap.fact, gap.reason) for gap in look.gaps}
