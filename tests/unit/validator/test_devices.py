"""Devices of a run: what the driver and NVML say of them, and how one names some of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator import devices
from envsmith.validator.devices import Device, DeviceChoiceError, choose, list_devices, visible_together
from envsmith.validator.driver import COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR, COMPUTE_MODE
from envsmith.validator.mig import Part, parts_where_sliced

FIRST = Device(0, "NVIDIA H200", "9.0", "0", "GPU-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f")
SECOND = replace(FIRST, index=1, visible_as="1", uuid="GPU-0a1bffff-0a1b-0a1b-0a1b-0a1b2c3d4e5f")
SLICE = Device(2, "NVIDIA H200 MIG 1g.18gb", "9.0", "MIG-5e1f", "MIG-5e1f")
ALL = (FIRST, SECOND, SLICE)


@pytest.mark.parametrize(
    ("words", "uuids"),
    [
        (["0"], [FIRST.uuid]),
        (["1", "0"], [SECOND.uuid, FIRST.uuid]),
        ([SECOND.uuid], [SECOND.uuid]),
        (["GPU-0a1bf"], [SECOND.uuid]),
        (["gpu-0A1B2", "MIG-5"], [FIRST.uuid, SLICE.uuid]),
    ],
)
def test_devices_are_named_by_index_or_uuid(words: list[str], uuids: list[str]) -> None:
    chosen = choose(ALL, words)
    assert [device.uuid for device in chosen] == uuids
    assert [device.index for device in chosen] == list(range(len(uuids)))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["3"], "there is no GPU '3' here"),
        (["-1"], "there is no GPU '-1' here"),
        (["GPU-9"], "there is no GPU 'GPU-9' here"),
        (["MIG-"], "there is no GPU 'MIG-' here"),
        (["GPU-0a1b"], "'GPU-0a1b' names 2 GPUs"),
        (["0", "0"], "'0' names a GPU that is named already"),
        (["0", "GPU-0a1b2"], "'GPU-0a1b2' names a GPU that is named already"),
        (["\u0662"], "there is no GPU '\u0662' here"),
    ],
)
def test_a_device_that_is_not_there_or_not_clear_is_refused_with_what_there_is(words: list[str], message: str) -> None:
    with pytest.raises(DeviceChoiceError) as caught:
        choose(ALL, words)
    assert message in str(caught.value)
    assert f"this run sees 0 (NVIDIA H200, {FIRST.uuid}), 1 (NVIDIA H200, " in str(caught.value)


@given(st.lists(st.text(), max_size=4))
def test_any_words_are_taken_or_refused(words: list[str]) -> None:
    try:
        assert len(choose(ALL, words)) == len(words)
    except DeviceChoiceError:
        pass


def test_of_slices_one_is_visible_at_a_time() -> None:
    assert visible_together(ALL) == (FIRST, SECOND)
    assert visible_together((SLICE, replace(SLICE, index=1))) == (SLICE,)
    assert visible_together(()) == ()


class FakeDriver:
    """The answers of a driver with two H200, the second in exclusive mode."""

    def device_count(self) -> int:
        return 2

    def attribute(self, index: int, attribute: int) -> int:
        return {COMPUTE_CAPABILITY_MAJOR: 9, COMPUTE_CAPABILITY_MINOR: 0, COMPUTE_MODE: 3 * index}[attribute]

    def device_name(self, index: int) -> str:
        return "NVIDIA H200"

    def device_uuid(self, index: int) -> str:
        return f"GPU-{index}"

    def memory_total_bytes(self, index: int) -> int:
        return 150 << 30


@pytest.mark.parametrize(
    ("value", "seen"),
    [(None, ["0", "1"]), ("1,0", ["1", "0"]), (" GPU-b , GPU-a,-1,0", ["GPU-b", "GPU-a"]), ("5", ["5", "1"])],
)
def test_each_device_is_visible_as_the_variable_names_it(
    monkeypatch: pytest.MonkeyPatch, value: str | None, seen: list[str]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    found = list_devices(FakeDriver())  # type: ignore[arg-type]
    assert [device.visible_as for device in found] == seen
    assert [device.exclusive for device in found] == [False, True]
    assert (found[1].uuid, found[1].memory_total_bytes) == ("GPU-1", 150 << 30)


class NVMLError(Exception):
    pass


def fake_nvml(*gpus: dict[str, object]) -> ModuleType:
    """Answers as NVML gives them: of an A100 with MIG on, its slices stand at places 0 and 2 of 7."""
    module = ModuleType("pynvml")

    def slice_at(gpu: dict[str, object], place: int) -> object:
        slices: dict[int, object] = gpu["slices"]  # type: ignore[assignment]
        if place not in slices:
            raise NVMLError("Not Found")
        return slices[place]

    def capability(gpu: dict[str, object]) -> tuple[int, int]:
        if "lost" in gpu:
            raise NVMLError("GPU is lost")
        return (8, 0)

    def mode(gpu: dict[str, object]) -> list[int]:
        if "mig" not in gpu:
            raise NVMLError("Not Supported")
        return [int(bool(gpu["mig"])), 1]

    module.NVMLError = NVMLError  # type: ignore[attr-defined]
    module.nvmlInit = lambda: None  # type: ignore[attr-defined]
    module.nvmlDeviceGetCount = lambda: len(gpus)  # type: ignore[attr-defined]
    module.nvmlDeviceGetHandleByIndex = lambda index: gpus[index]  # type: ignore[attr-defined]
    module.nvmlDeviceGetCudaComputeCapability = capability  # type: ignore[attr-defined]
    module.nvmlDeviceGetMigMode = mode  # type: ignore[attr-defined]
    module.nvmlDeviceGetMaxMigDeviceCount = lambda gpu: 7  # type: ignore[attr-defined]
    module.nvmlDeviceGetMigDeviceHandleByIndex = slice_at  # type: ignore[attr-defined]
    module.nvmlDeviceGetUUID = lambda thing: thing["uuid"]  # type: ignore[attr-defined]
    module.nvmlDeviceGetName = lambda thing: thing["name"]  # type: ignore[attr-defined]
    module.nvmlDeviceGetMemoryInfo = lambda thing: SimpleNamespace(total=thing["bytes"])  # type: ignore[attr-defined]
    return module


SMALL = {"uuid": b"MIG-aaaa", "name": b"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "bytes": 5 << 30}
LARGE = {"uuid": "MIG-bbbb", "name": "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "bytes": 20 << 30}
SLICED = {"uuid": "GPU-cccc", "name": "NVIDIA A100-SXM4-40GB", "bytes": 40 << 30, "mig": True,
          "slices": {0: SMALL, 2: LARGE}}  # fmt: skip
WHOLE = {"uuid": "GPU-dddd", "name": "NVIDIA A100-SXM4-40GB", "bytes": 40 << 30, "mig": False}
OLD = {"uuid": "GPU-eeee", "name": "NVIDIA A10", "bytes": 24 << 30}

A = Part("MIG-aaaa", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0", 5 << 30)
B = Part("MIG-bbbb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "8.0", 20 << 30)
D = Part("GPU-dddd", "NVIDIA A100-SXM4-40GB", "8.0", 40 << 30)


@pytest.mark.parametrize(
    ("gpus", "words", "parts"),
    [
        ((SLICED,), (), (A, B)),
        ((SLICED, WHOLE), (), (A, B, D)),
        ((WHOLE, SLICED), ("MIG-bbbb", "MIG-aaaa"), (B, A)),
        ((WHOLE, SLICED), ("MIG-b",), (B,)),
        ((WHOLE, SLICED), ("0",), ()),
        ((WHOLE, OLD), (), ()),
        (({**SLICED, "slices": {}},), (), ()),
        (({**SLICED, "lost": True}, WHOLE), (), ()),
        ((), (), ()),
    ],
)
def test_slices_are_listed_where_mig_is_on(
    monkeypatch: pytest.MonkeyPatch, gpus: tuple[dict[str, object], ...], words: tuple[str, ...], parts: object
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(*gpus))
    assert parts_where_sliced(words) == parts


def test_without_nvml_there_are_no_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert parts_where_sliced(()) == ()


def test_the_devices_of_a_sliced_gpu_are_its_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA lists one device, the first slice under the name of its GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(SLICED, WHOLE))
    monkeypatch.setattr(devices.Driver, "start", FakeDriver)
    assert devices._look()["devices"] == (
        Device(0, A.name, "8.0", "MIG-aaaa", "MIG-aaaa", 5 << 30),
        Device(1, B.name, "8.0", "MIG-bbbb", "MIG-bbbb", 20 << 30),
        Device(2, D.name, "8.0", "GPU-dddd", "GPU-dddd", 40 << 30),
    )
