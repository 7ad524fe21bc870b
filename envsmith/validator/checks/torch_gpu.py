"""What the checks share that run PyTorch on GPUs."""

from __future__ import annotations

from typing import Any

from envsmith.validator.check import CheckFailed, CheckSkipped
from envsmith.validator.devices import Device


def require_cuda_build(torch: Any) -> None:
    """Raise CheckSkipped for a torch that has no CUDA in it."""
    if torch.version.cuda is None:
        kind = "a ROCm build" if getattr(torch.version, "hip", None) else "a CPU-only build"
        raise CheckSkipped(f"torch {torch.__version__} is {kind}")


def only_gpu(torch: Any) -> Any:
    """The torch.device of a check that runs once a GPU: cuda:0, the only one that its process sees.

    Raises CheckSkipped for a torch without CUDA, CheckFailed when torch cannot use the GPU.
    """
    require_cuda_build(torch)
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        raise CheckFailed(f"torch cannot use the GPU: {error}") from error
    count = torch.cuda.device_count()
    if count != 1:
        raise CheckFailed(f"torch sees {count} GPU(s) where CUDA_VISIBLE_DEVICES leaves one")
    return torch.device("cuda", 0)


def labels(devices: tuple[Device, ...]) -> tuple[str, ...]:
    """For CheckOutcome.ran_on."""
    return tuple(device.label for device in devices)
