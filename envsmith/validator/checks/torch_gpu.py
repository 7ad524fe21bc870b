"""What the checks share that run PyTorch on GPUs."""

from __future__ import annotations

from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckSkipped
from envsmith.validator.devices import Device


def require_cuda_build(torch: Any) -> None:
    """Raise CheckSkipped for a torch that has no CUDA in it."""
    if torch.version.cuda is None:
        kind = "a ROCm build" if getattr(torch.version, "hip", None) else "a CPU-only build"
        raise CheckSkipped(f"torch {torch.__version__} is {kind}")


def torch_devices(torch: Any, context: CheckContext) -> tuple[Device, ...]:
    """The devices, when torch can use them all. Raises CheckSkipped for a torch without CUDA, else CheckFailed."""
    require_cuda_build(torch)
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        raise CheckFailed(f"torch cannot use the GPU: {error}") from error
    count = torch.cuda.device_count()
    if count != len(context.devices):
        raise CheckFailed(f"torch sees {count} GPU(s), the driver {len(context.devices)}")
    return context.devices


def only_gpu(torch: Any, context: CheckContext) -> Any:
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
