"""What an engine is: its version, image store, free space, and how it can give GPUs to a container."""

from __future__ import annotations

import os
import re
import shutil
import socket
from pathlib import Path
from typing import Any

from envsmith.engine.command import capture
from envsmith.engine.endpoint import Endpoint
from envsmith.model.image import EngineInfo

CDI_ALL_GPUS = "nvidia.com/gpu=all"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONTAINERD_ROOT = Path("/var/lib/containerd")
_CLI_LIMIT_S = 20.0


def engine_info(client: Any, endpoint: Endpoint) -> EngineInfo:
    """Ask the engine, and this machine where the engine is on it."""
    info: dict[str, Any] = client.info()
    here = endpoint.local and info.get("Name") == socket.gethostname()
    store = image_store(info)
    free_bytes, why_unknown = _free_bytes(info, store, here)
    gpu, why_none = gpu_way(info, here)
    machine = str(info.get("Architecture", ""))
    return EngineInfo(
        server_version=str(info.get("ServerVersion", "")),
        endpoint=endpoint.host,
        store=store,
        free_bytes=free_bytes,
        free_bytes_why_unknown=why_unknown,
        platform=f"{info.get('OSType', 'linux')}/{_ARCHITECTURES.get(machine, machine)}",
        buildx=buildx_version(),
        gpu=gpu,
        gpu_why_none=why_none,
    )


def image_store(info: dict[str, Any]) -> str:
    """Name of the image store: "containerd", or the classic storage driver such as "overlay2"."""
    status = info.get("DriverStatus") or []
    if any(str(value).startswith("io.containerd.snapshotter") for _, value in status):
        return "containerd"
    return str(info.get("Driver", "unknown"))


def _free_bytes(info: dict[str, Any], store: str, here: bool) -> tuple[int | None, str]:
    """Bytes that an ordinary user may still write where the engine keeps images; else None and why."""
    if not here:
        return None, "the engine is not on this machine, so its free disk space is not known"
    roots = [Path(str(info.get("DockerRootDir", "")))]
    if store == "containerd" and _CONTAINERD_ROOT.is_dir():
        roots.append(_CONTAINERD_ROOT)
    free = []
    for root in roots:
        try:
            disk = os.statvfs(root)
        except OSError as error:
            return None, f"the engine's folder {root} could not be looked at ({error.strerror})"
        free.append(disk.f_bavail * disk.f_frsize)
    return min(free), ""


def gpu_way(info: dict[str, Any], here: bool) -> tuple[str | None, str]:
    """("cdi" or "runtime", ""), or (None, why there is no way to give a container the GPUs)."""
    devices = info.get("DiscoveredDevices") or []  # Docker 28.3 and newer
    if any(device.get("ID") == CDI_ALL_GPUS for device in devices):
        return "cdi", ""
    folders = [Path(folder) for folder in info.get("CDISpecDirs") or []]  # empty where CDI is off
    if here and any(_names_nvidia(spec) for folder in folders for spec in _specs(folder)):
        return "cdi", ""
    if "nvidia" in (info.get("Runtimes") or {}) or (here and shutil.which("nvidia-container-runtime-hook")):
        return "runtime", ""
    if folders and not here and not devices:
        return None, "the engine has no nvidia runtime, and does not tell which CDI devices it knows"
    return None, "the engine has neither the NVIDIA container toolkit's runtime nor a CDI device nvidia.com/gpu"


def _specs(folder: Path) -> list[Path]:
    return [path for pattern in ("*.yaml", "*.yml", "*.json") for path in sorted(folder.glob(pattern))]


def _names_nvidia(spec: Path) -> bool:
    """Whether a CDI specification (YAML or JSON) is of kind nvidia.com/gpu."""
    try:
        text = spec.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(r"[\"']?kind[\"']?\s*:\s*[\"']?nvidia\.com/gpu\b", text) is not None


def buildx_version() -> str | None:
    """Version of the buildx plugin, "0.13.1"; None = no docker command, or no plugin."""
    try:
        told = capture(["docker", "buildx", "version"], _CLI_LIMIT_S)
    except (FileNotFoundError, PermissionError):
        return None
    match = re.search(r"\bv?(\d+\.\d+\.\d+)", told.output) if told.status == 0 else None
    return match[1] if match else None
