"""Control groups, versions 1 and 2: where this process is, and what limit files say."""

from __future__ import annotations

# a version 1 hierarchy without a limit reports the largest page-aligned signed 64-bit number
_UNLIMITED_BYTES = 1 << 60


def own_groups(text: str) -> dict[str, str]:
    """/proc/self/cgroup as controller -> path. The version 2 hierarchy has the controller name ""."""
    groups = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[0].isdigit() and parts[2].startswith("/"):
            for controller in parts[1].split(","):
                groups[controller] = parts[2]
    return groups


def memory_limit_bytes(text: str) -> int | None:
    """`memory.max` or `memory.limit_in_bytes`; None if there is no limit."""
    value = text.strip()
    if not _is_number(value):
        return None
    limit = int(value)
    return limit if limit < _UNLIMITED_BYTES else None


def cpu_max_cores(text: str) -> float | None:
    """`cpu.max` of version 2: quota and period in microseconds; None if there is no limit."""
    fields = text.split()
    if len(fields) != 2:
        return None
    return quota_cores(fields[0], fields[1])


def quota_cores(quota: str, period: str) -> float | None:
    """Cores from a quota and a period in microseconds; None if there is no limit ("max" or -1)."""
    quota, period = quota.strip(), period.strip()
    if not _is_number(quota) or not _is_number(period) or int(period) == 0 or int(quota) == 0:
        return None
    return round(int(quota) / int(period), 3)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20
