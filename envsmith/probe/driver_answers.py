"""What the driver's own libraries answer. They are asked in a bounded child, beside the other collectors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Sequence

from envsmith.probe.child import BoundedChild, ChildAnswers, Emit, Message
from envsmith.probe.parse.libraries import is_drivers_own
from envsmith.wire.facts import GpuFacts

# Without persistence mode each GPU is woken up first, which takes about a second a GPU
DRIVER_LIMIT_S = 15.0

# how the loaders of glibc and musl say that there is no such library, as against one that is broken
NO_SUCH_FILE = "No such file"
# CUDA_ERROR_STUB_LIBRARY: what every function of a toolkit's stub returns, even the one that names errors
STUB_LIBRARY_CODE = 34


@dataclass(frozen=True)
class DriverAnswers:
    """Answers of libcuda and NVML; what was not asked or not answered is None.

    libcuda_error: why libcuda.so.1 could not be loaded. libcuda_code: what cuDriverGetVersion returned (34: a stub).
    cuda_error: "803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" and the like, if cuInit was tried and failed.
    gpus: those listed; is_list_complete says whether the list came to its end.
    lost_gpus: (index, why it could not be opened).
    refused_nodes: device nodes whose mode allows what opening them did not.
    trouble: why the child ended early, else "".
    """

    libcuda_path: str | None = None
    libcuda_error: str | None = None
    libcuda_code: int | None = None
    libcuda_cuda_version: str | None = None
    nvml_path: str | None = None
    nvml_error: str | None = None
    nvml_absent: bool = False
    nvml_driver_version: str | None = None
    nvml_cuda_version: str | None = None
    cuda_error: str | None = None
    gpus: tuple[GpuFacts, ...] | None = None
    is_list_complete: bool = False
    lost_gpus: tuple[tuple[int, str], ...] = ()
    refused_nodes: tuple[str, ...] = ()
    trouble: str = ""
    timed_out: bool = False


def start(nodes: Sequence[str], limit_s: float = DRIVER_LIMIT_S) -> BoundedChild:
    """Start asking; `read` takes what `BoundedChild.answers` returns."""

    def work(emit: Emit) -> None:
        emit({"part": "nodes", "refused": [node for node in nodes if is_refused(node)]})
        from envsmith.probe import ask_cuda, ask_nvml

        library, path = ask_cuda.ask_libcuda(emit)
        listed = ask_nvml.ask_nvml(emit)
        # cuInit takes a fifth of a second and more, so it is for machines where something is odd already
        if library is not None and (not listed or not is_drivers_own(path)):
            ask_cuda.ask_cuda(library, emit, list_devices=not listed)

    return BoundedChild(work, limit_s)


def read(answers: ChildAnswers) -> DriverAnswers:
    """Put the messages of the child together."""
    parts: dict[str, Message] = {str(message.get("part")): message for message in answers.messages}
    libcuda, nvml, cuda = parts.get("libcuda", {}), parts.get("nvml", {}), parts.get("cuda", {})
    gpus = tuple(GpuFacts(**message["gpu"]) for message in answers.messages if message.get("part") == "gpu")
    lost = tuple((message["index"], message["error"]) for message in answers.messages if message.get("part") == "lost")
    code = cuda.get("code")
    return DriverAnswers(
        libcuda_path=libcuda.get("path"),
        libcuda_error=libcuda.get("error"),
        libcuda_code=libcuda.get("code"),
        libcuda_cuda_version=libcuda.get("cuda_version"),
        nvml_path=nvml.get("path"),
        nvml_error=nvml.get("error"),
        nvml_absent=bool(nvml.get("absent")),
        nvml_driver_version=nvml.get("driver_version"),
        nvml_cuda_version=nvml.get("cuda_version"),
        cuda_error=f"{code} {cuda.get('name', '')}".strip() if code else None,
        gpus=gpus if gpus or "gpus" in parts else None,
        is_list_complete="gpus" in parts,
        lost_gpus=lost,
        refused_nodes=tuple(parts.get("nodes", {}).get("refused", ())),
        trouble=answers.trouble,
        timed_out=answers.timed_out,
    )


def is_refused(node: str) -> bool:
    """Whether a device group forbids a node that its mode allows: then opening it fails with EPERM."""
    if not os.access(node, os.R_OK | os.W_OK):
        return False
    try:
        os.close(os.open(node, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except PermissionError:
        return True
    except OSError:
        return False  # allowed, but there is nothing behind it; the driver's own answers say so
    return False
