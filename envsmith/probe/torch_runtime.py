"""What torch says of itself once it is imported. Call it in a process that is thrown away afterwards.

Asking whether CUDA is available initialises the driver, and a process that has done so must not be forked for CUDA.
"""

from __future__ import annotations

import warnings
from typing import Any

from envsmith.probe.parse.torch_arch import architectures, cudnn_version, nccl_version
from envsmith.wire.facts import TorchRuntimeFacts

_REASON_LIMIT_CHARS = 1000


def torch_runtime() -> TorchRuntimeFacts:
    """Import torch and ask it. Raises whatever `import torch` raises (ImportError, OSError for a missing library)."""
    import torch

    code, ptx = _architectures(torch)
    available, count, reason = _availability(torch)
    return TorchRuntimeFacts(
        version=str(torch.__version__),
        wheel_cuda=torch.version.cuda,
        cudnn=_cudnn(torch),
        nccl=_nccl(torch),
        compute_capabilities=code,
        ptx=ptx,
        cuda_available=available,
        device_count=count,
        unavailable_reason=reason,
    )


def _architectures(torch: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # torch.cuda.get_arch_list() answers [] without a GPU; the flags behind it are compiled in
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    return architectures(flags() or "") if flags is not None else ((), ())


def _availability(torch: Any) -> tuple[bool, int, str | None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
        count = int(torch.cuda.device_count()) if available else 0
        if available:
            return True, count, None
        try:
            torch.cuda.init()
        except Exception as error:  # noqa: BLE001  (its text is the answer)
            return False, 0, _shortened(str(error))
    return False, 0, _shortened(str(caught[0].message)) if caught else "torch sees no GPU"


def _cudnn(torch: Any) -> str | None:
    try:
        number = torch.backends.cudnn.version()
    except RuntimeError:  # a cuDNN of another version than torch was built with; a check tells more
        return None
    return cudnn_version(number) if isinstance(number, int) else None


def _nccl(torch: Any) -> str | None:
    try:
        version = torch.cuda.nccl.version()
    except (AttributeError, ImportError, RuntimeError):  # a build without NCCL
        return None
    if isinstance(version, int):
        return nccl_version(version)
    return ".".join(str(part) for part in version if isinstance(part, int))


def _shortened(text: str) -> str:
    return " ".join(text.split())[:_REASON_LIMIT_CHARS]
