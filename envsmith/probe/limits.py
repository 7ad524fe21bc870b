"""Limits that bite PyTorch: control groups, shared memory, locked memory, open files."""

from __future__ import annotations

import os
import resource

from envsmith.probe.look import Look, collector
from envsmith.probe.parse import cgroup
from envsmith.probe.parse.proc import Mount, mounts
from envsmith.wire.facts import LimitFacts


@collector("limits")
def limit_facts(look: Look) -> LimitFacts:
    """Return the limits of this process; for control groups the tightest one from its own group upwards."""
    version, cores, memory = _group_limits(look)
    shm_size, shm_free = _shared_memory(look)
    return LimitFacts(
        cgroup_version=version,
        cpu_limit_cores=cores,
        memory_limit_bytes=memory,
        shm_size_bytes=shm_size,
        shm_free_bytes=shm_free,
        memlock_limit_bytes=_resource_limit(resource.RLIMIT_MEMLOCK),
        open_files_limit=_resource_limit(resource.RLIMIT_NOFILE),
    )


def _resource_limit(which: int) -> int | None:
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft


def _shared_memory(look: Look) -> tuple[int | None, int | None]:
    try:
        status = os.statvfs(look.path("/dev/shm"))  # noqa: S108  (looked at, not written to)
    except OSError as error:
        look.gap_from("limits.shm_size_bytes", error)
        look.gap_from("limits.shm_free_bytes", error)
        return None, None
    return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize


def _group_limits(look: Look) -> tuple[int | None, float | None, int | None]:
    """(version, cores, bytes). The version is that of the hierarchy which holds the memory controller."""
    try:
        groups = cgroup.own_groups(look.read_text("/proc/self/cgroup"))
        mounted = mounts(look.read_text("/proc/self/mountinfo", limit_bytes=4 * 1024 * 1024))
    except OSError as error:
        for name in ("cgroup_version", "cpu_limit_cores", "memory_limit_bytes"):
            look.gap_from("limits." + name, error)
        return None, None, None
    if "memory" in groups or "cpu" in groups:
        cores = _tightest_cores_v1(look, _folders(look, mounted, groups.get("cpu", "/"), "cpu"))
        memory = _tightest_memory(look, _folders(look, mounted, groups.get("memory", "/"), "memory"), "limit_in_bytes")
        return 1, cores, memory
    if "" not in groups:
        return None, None, None
    folders = _folders(look, mounted, groups[""], None)
    if not folders:
        look.gap("limits.memory_limit_bytes", "absent", "the cgroup filesystem is not mounted")
        look.gap("limits.cpu_limit_cores", "absent", "the cgroup filesystem is not mounted")
    return 2, _tightest_cores_v2(look, folders), _tightest_memory(look, folders, "max")


def _folders(look: Look, mounted: tuple[Mount, ...], own: str, controller: str | None) -> tuple[str, ...]:
    """The folders of the own group and of its parents as far as they are mounted. controller None: version 2."""
    for mount in mounted:
        if controller is None and mount.filesystem != "cgroup2":
            continue
        if controller is not None and not (mount.filesystem == "cgroup" and controller in mount.options.split(",")):
            continue
        return _upwards(look, mount, own)
    return ()


def _upwards(look: Look, mount: Mount, own: str) -> tuple[str, ...]:
    # without a cgroup namespace, a container has only its own group mounted, and `own` starts with that root
    root = mount.root.rstrip("/")
    inside = own[len(root) :] if own == root or own.startswith(root + "/") else own
    parts = [part for part in inside.split("/") if part and part != ".."]
    found = [mount.point]
    for part in parts:
        deeper = found[-1].rstrip("/") + "/" + part
        if not look.exists(deeper):
            break
        found.append(deeper)
    return tuple(found)


def _tightest_memory(look: Look, folders: tuple[str, ...], ending: str) -> int | None:
    limits = []
    for folder in folders:
        text = look.text_or_none(f"{folder}/memory.{ending}", "limits.memory_limit_bytes")
        limit = cgroup.memory_limit_bytes(text) if text is not None else None
        if limit is not None:
            limits.append(limit)
    return min(limits) if limits else None


def _tightest_cores_v2(look: Look, folders: tuple[str, ...]) -> float | None:
    limits: list[float] = []
    for folder in folders:
        text = look.text_or_none(folder + "/cpu.max", "limits.cpu_limit_cores")
        cores = cgroup.cpu_max_cores(text) if text is not None else None
        if cores is not None:
            limits.append(cores)
    return min(limits) if limits else None


def _tightest_cores_v1(look: Look, folders: tuple[str, ...]) -> float | None:
    limits: list[float] = []
    for folder in folders:
        quota = look.text_or_none(folder + "/cpu.cfs_quota_us", "limits.cpu_limit_cores")
        period = look.text_or_none(folder + "/cpu.cfs_period_us", "limits.cpu_limit_cores")
        cores = cgroup.quota_cores(quota, period) if quota is not None and period is not None else None
        if cores is not None:
            limits.append(cores)
    return min(limits) if limits else None
