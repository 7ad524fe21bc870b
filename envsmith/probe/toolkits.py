"""CUDA toolkits on disk, and their nvcc."""

from __future__ import annotations

import os
from typing import Mapping

from envsmith.probe.look import Look, collector
from envsmith.probe.parse import toolkit as parse
from envsmith.wire.facts import ToolkitFacts

LIBRARY_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "targets/aarch64-linux/lib")


@collector("toolkits")
def toolkit_facts(look: Look, environ: Mapping[str, str], limit_s: float = 2.0) -> tuple[ToolkitFacts, ...]:
    """Return each toolkit once, those that the environment names first; `nvcc` gets `limit_s` if it must be asked."""
    found: dict[str, ToolkitFacts] = {}
    for folder in _candidates(look, environ):
        real = look.realpath(folder)
        if real not in found:
            toolkit = _toolkit(look, real, limit_s)
            if toolkit is not None:
                found[real] = toolkit
    return tuple(found.values())


def _candidates(look: Look, environ: Mapping[str, str]) -> list[str]:
    places = [environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    nvcc = which(look, "nvcc", environ)
    if nvcc:
        places.append(os.path.dirname(os.path.dirname(look.realpath(nvcc))))
    places += ["/usr/local/" + name for name in look.names("/usr/local") if name.startswith("cuda")]
    places += ["/opt/cuda", "/usr/lib/nvidia-cuda-toolkit"]
    return [place.rstrip("/") for place in places if place.startswith("/")]


def _toolkit(look: Look, folder: str, limit_s: float) -> ToolkitFacts | None:
    nvcc = folder + "/bin/nvcc" if look.exists(folder + "/bin/nvcc") else None
    version = _written_version(look, folder)
    if version is None and nvcc is not None:
        from envsmith.probe.run import run  # brings subprocess, which most machines do not need here

        output = run([look.path(nvcc), "--version"], limit_s)
        version = parse.nvcc_release(output.text) if output.failure is None else None
        if output.failure is not None:
            look.gap("toolkits.toolkit_cuda", output.failure, output.detail)
    has_cudart = any(
        name.startswith("libcudart.so") for place in LIBRARY_FOLDERS for name in look.names(f"{folder}/{place}")
    )
    if nvcc is None and not has_cudart:
        return None  # a folder that holds cuda-compat or leftovers only
    return ToolkitFacts(folder, version or parse.folder_version(folder), nvcc)


def _written_version(look: Look, folder: str) -> str | None:
    text = look.text_or_none(folder + "/version.json")
    version = parse.version_json(text) if text is not None else None
    if version is None:
        text = look.text_or_none(folder + "/version.txt")
        version = parse.version_txt(text) if text is not None else None
    return version


def which(look: Look, command: str, environ: Mapping[str, str]) -> str | None:
    """The path of a command by PATH, as a path of the machine."""
    for folder in environ.get("PATH", "").split(":"):
        path = f"{folder}/{command}"
        if folder.startswith("/") and look.exists(path) and os.access(look.path(path), os.X_OK):
            return path
    return None
