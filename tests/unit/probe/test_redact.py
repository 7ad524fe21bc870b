"""What identifies a machine or a person is replaced, the same thing by the same placeholder."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.probe.redact import redact
from envsmith.probe.strings import texts
from envsmith.wire.facts import EnvVar, Gap, GpuFacts, PackageFacts, PythonFacts, Snapshot

UUID = "23cc2afa-7ea6-db91-1e7e-bb3da2e0dd21"
OTHER = "3b0ae6a3-1111-2222-3333-444455556666"


def gpu(index: int, uuid: str) -> GpuFacts:
    return GpuFacts(index, "NVIDIA H200", uuid, "9.0", 1, 0, False, False, True, 0, 0, "nvml")


SNAPSHOT = Snapshot(
    tool="envsmith 0.1.0",
    collected_at="2026-01-01T00:00:00Z",
    gpus=(gpu(0, f"GPU-{UUID}"), gpu(1, f"GPU-{OTHER}")),
    env=(
        EnvVar("CUDA_VISIBLE_DEVICES", f"GPU-{OTHER},MIG-GPU-{UUID}/1/0"),
        EnvVar("LD_LIBRARY_PATH", "/home/alice/lib:/scratch/alice/lib:/home/bob/lib:/opt/malice"),
        EnvVar("MASTER_ADDR", "node-17.example.org"),
    ),
    python=PythonFacts("/home/alice/.venv/bin/python", "3.11.9", "cpython", "/home/alice/.venv", "venv", False),
    packages=(PackageFacts("nvidia-cublas-cu12", "12.4.5.8", "/home/alice/.venv/lib"),),
    gaps=(Gap("gpus", "failed", "cannot reach node-17.example.org from gpubox7"),),
)


def test_everything_that_tells_is_replaced() -> None:
    clean = redact(SNAPSHOT, names=("gpubox7",))
    assert clean.gpus is not None
    assert [one.uuid for one in clean.gpus] == [
        "GPU-00000000-0000-0000-0000-000000000001",
        "GPU-00000000-0000-0000-0000-000000000002",
    ]
    assert clean.env == (
        EnvVar(
            "CUDA_VISIBLE_DEVICES",
            "GPU-00000000-0000-0000-0000-000000000002,MIG-GPU-00000000-0000-0000-0000-000000000001/1/0",
        ),
        EnvVar("LD_LIBRARY_PATH", "/home/user-1/lib:/scratch/user-1/lib:/home/user-2/lib:/opt/malice"),
        EnvVar("MASTER_ADDR", "host-1"),
    )
    assert clean.python is not None
    assert clean.python.executable == "/home/user-1/.venv/bin/python"
    assert clean.gaps == (Gap("gpus", "failed", "cannot reach host-1 from host-2"),)


def test_versions_and_figures_stay() -> None:
    clean = redact(SNAPSHOT, names=())
    assert clean.packages is not None
    assert clean.packages[0].version == "12.4.5.8"
    assert clean.tool == SNAPSHOT.tool
    assert clean.collected_at == SNAPSHOT.collected_at


def test_twice_is_once() -> None:
    once = redact(SNAPSHOT, names=("gpubox7",))
    assert redact(once, names=("gpubox7",)) == once


@pytest.mark.parametrize("name", ["root", "cuda", "ab", "", "nvidia"])
def test_words_that_tell_nothing_stay(name: str) -> None:
    snapshot = replace(SNAPSHOT, gaps=(Gap("x", "failed", "root cuda ab nvidia"),))
    assert redact(snapshot, names=(name,)).gaps == snapshot.gaps


def test_placeholders_already_there_are_not_given_again() -> None:
    env = (EnvVar("CUDA_VISIBLE_DEVICES", f"GPU-00000000-0000-0000-0000-000000000001,GPU-{UUID}"),)
    clean = redact(replace(SNAPSHOT, gpus=None, env=env), names=())
    assert clean.env is not None
    first, second = clean.env[0].value.split(",")
    assert first == "GPU-00000000-0000-0000-0000-000000000001"
    assert second == "GPU-00000000-0000-0000-0000-000000000002"


def test_this_user_and_host_are_hidden_without_being_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "carol42")
    snapshot = replace(SNAPSHOT, env=(EnvVar("PYTHONPATH", "/data/carol42/x"),))
    assert "carol42" not in str(redact(snapshot))


@given(text=st.text(), name=st.text())
def test_any_text_and_any_name(text: str, name: str) -> None:
    snapshot = replace(SNAPSHOT, gaps=(Gap("x", "failed", text),), env=(EnvVar("MASTER_ADDR", name),))
    clean = redact(snapshot, names=(name,))
    assert UUID not in "".join(texts(clean))
    assert "alice/" not in "".join(texts(replace(clean, gaps=(), env=())))
