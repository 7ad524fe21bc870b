"""torch's own words after import, with modules that stand for its builds."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from envsmith.probe.torch_runtime import torch_runtime

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    def put(**changes: Any) -> None:
        def fail_init() -> None:
            raise RuntimeError("Found no NVIDIA driver\non your system.")

        values: dict[str, Any] = {
            "version": "2.6.0+cu124",
            "cuda": "12.4",
            "flags": lambda: "sm_50 sm_80 sm_90 compute_90",
            "cudnn": lambda: 90100,
            "nccl": lambda: (2, 21, 5),
            "available": lambda: False,
            "init": fail_init,
            **changes,
        }
        torch = SimpleNamespace(
            __version__=values["version"],
            version=SimpleNamespace(cuda=values["cuda"]),
            _C=SimpleNamespace(_cuda_getArchFlags=values["flags"]),
            cuda=SimpleNamespace(
                is_available=values["available"],
                device_count=lambda: 8,
                init=values["init"],
                nccl=SimpleNamespace(version=values["nccl"]),
            ),
            backends=SimpleNamespace(cudnn=SimpleNamespace(version=values["cudnn"])),
        )
        monkeypatch.setitem(sys.modules, "torch", torch)

    return put


def test_a_cuda_build_without_a_gpu(install: Install) -> None:
    install()
    facts = torch_runtime()
    assert (facts.version, facts.wheel_cuda, facts.cudnn, facts.nccl) == ("2.6.0+cu124", "12.4", "9.1.0", "2.21.5")
    assert facts.compute_capabilities == ("5.0", "8.0", "9.0")
    assert facts.ptx == ("9.0",)
    assert (facts.cuda_available, facts.device_count) == (False, 0)
    assert facts.unavailable_reason == "Found no NVIDIA driver on your system."


def test_a_build_with_gpus(install: Install) -> None:
    install(available=lambda: True)
    facts = torch_runtime()
    assert (facts.cuda_available, facts.device_count, facts.unavailable_reason) == (True, 8, None)


def test_a_cpu_build(install: Install) -> None:
    def no_nccl() -> None:
        raise AttributeError("module 'torch._C' has no attribute '_nccl_version'")

    install(version="2.6.0+cpu", cuda=None, flags=lambda: None, cudnn=lambda: None, nccl=no_nccl)
    facts = torch_runtime()
    assert (facts.wheel_cuda, facts.cudnn, facts.nccl, facts.compute_capabilities) == (None, None, None, ())


def test_the_reason_may_come_as_a_warning(install: Install) -> None:
    def warn() -> bool:
        warnings.warn("CUDA initialization: Error 803: system has unsupported display driver", stacklevel=1)
        return False

    install(available=warn, init=lambda: None)
    assert torch_runtime().unavailable_reason == (
        "CUDA initialization: Error 803: system has unsupported display driver"
    )
    install(init=lambda: None)
    assert torch_runtime().unavailable_reason == "torch sees no GPU"


def test_a_cudnn_that_does_not_fit_is_no_crash(install: Install) -> None:
    def misfit() -> None:
        raise RuntimeError("cuDNN version incompatibility")

    install(cudnn=misfit)
    assert torch_runtime().cudnn is None


def test_an_old_nccl_number(install: Install) -> None:
    install(nccl=lambda: 2708)
    assert torch_runtime().nccl == "2.7.8"


def test_torch_that_does_not_import_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError):
        torch_runtime()
