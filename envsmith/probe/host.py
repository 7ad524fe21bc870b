"""The operating system, and what kind of container this is, if any."""

from __future__ import annotations

import os
from typing import Mapping

from envsmith.probe.look import Look, collector
from envsmith.probe.parse.os_release import os_release
from envsmith.probe.parse.proc import memory_total_bytes, mounts
from envsmith.wire.facts import HostFacts

# what the storage folder of a container's root mount says about who started it
_STORAGE = (
    ("/kubelet/", "kubernetes"),
    ("/containerd/", "containerd"),
    ("/docker/", "docker"),
    ("/containers/storage/", "podman"),
    ("/lxc/", "lxc"),
)
# the same for the path of the control group
_GROUP = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
)
_SELF_NAMED = {"docker": "docker", "podman": "podman", "lxc": "lxc", "lxc-libvirt": "lxc", "oci": "other"}


@collector("host")
def host_facts(look: Look, environ: Mapping[str, str]) -> HostFacts:
    """Return what can be seen of the operating system; `environ` is this process's environment."""
    release = _os_release(look)
    system = os.uname()
    meminfo = look.text_or_none("/proc/meminfo", "host.memory_total_bytes")
    memory = memory_total_bytes(meminfo) if meminfo is not None else None
    if memory is None and meminfo is not None:
        look.gap("host.memory_total_bytes", "failed", "/proc/meminfo has no MemTotal")
    return HostFacts(
        os_id=release.get("ID"),
        os_version=release.get("VERSION_ID"),
        os_name=release.get("PRETTY_NAME"),
        kernel=system.release,
        machine=system.machine,
        glibc=_glibc(),
        container=container_kind(look, environ),
        wsl=is_wsl(look),
        cpu_count=_cpu_count(),
        memory_total_bytes=memory,
    )


def container_kind(look: Look, environ: Mapping[str, str]) -> str | None:
    """The kind of container, from the surest sign to the least; None if there is no sign of one."""
    if "KUBERNETES_SERVICE_HOST" in environ or look.exists("/var/run/secrets/kubernetes.io"):
        return "kubernetes"
    if any(name in environ for name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")):
        return "apptainer"
    if look.exists("/.singularity.d"):
        return "apptainer"
    if look.exists("/run/.containerenv"):
        return "podman"
    if look.exists("/.dockerenv"):
        return "docker"
    return _kind_by_storage(look) or _kind_by_group(look) or _kind_by_own_word(environ)


def is_wsl(look: Look) -> bool:
    """Whether the kernel is one of Microsoft's for the Windows Subsystem for Linux (1 or 2)."""
    text = look.text_or_none("/proc/sys/kernel/osrelease") or look.text_or_none("/proc/version") or ""
    return "microsoft" in text.lower()


def _kind_by_storage(look: Look) -> str | None:
    for mount in mounts(look.text_or_none("/proc/self/mountinfo") or ""):
        if mount.point == "/" and mount.filesystem in ("overlay", "fuse.fuse-overlayfs", "btrfs", "zfs"):
            where = mount.options + " " + mount.root
            return next((kind for sign, kind in _STORAGE if sign in where), None)
    return None


def _kind_by_group(look: Look) -> str | None:
    for line in (look.text_or_none("/proc/self/cgroup") or "").splitlines():
        path = line.split(":", 2)[-1]
        for sign, kind in _GROUP:
            # "docker.service" is the daemon itself or something that it did not put into a container
            if any(sign in part and not part.endswith(".service") for part in path.split("/")):
                return kind
    return None


def _kind_by_own_word(environ: Mapping[str, str]) -> str | None:
    """The variable `container` that systemd's container interface asks managers to set."""
    word = environ.get("container", "")
    return _SELF_NAMED.get(word, "other") if word else None


def _os_release(look: Look) -> Mapping[str, str]:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        text = look.text_or_none(path, "host.os_id")
        if text is not None:
            return os_release(text)
    look.gap("host.os_id", "absent", "there is no /etc/os-release")
    return {}


def _glibc() -> str | None:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (OSError, ValueError):  # another C library, such as musl
        return None
    return version if name == "glibc" and version else None


def _cpu_count() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (OSError, AttributeError):  # not everywhere is Linux
        return os.cpu_count() or 1
