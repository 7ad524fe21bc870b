"""The NCCL variables of the environment: the user's, which stay as they are, and those that make NCCL talk."""

from __future__ import annotations

import re
from typing import Mapping, Sequence

# What is to be read stands in these parts of NCCL's output.
_SUBSYSTEMS = ("INIT", "ENV", "GRAPH", "TUNING")
_LEVELS_THAT_TELL = ("INFO", "TRACE", "ABORT")
# Variables that say nothing of how NCCL works: NVIDIA's images name the version of their packages in one.
_NOT_SETTINGS = ("NCCL_DEBUG", "NCCL_VERSION", "NCCL_CONF_FILE")
# Whether NVLink multicast is used is the user's business alone: no probe may change it.
NEVER_CHANGED = ("NCCL_NVLS_ENABLE",)


def debug_settings(environment: Mapping[str, str], file: str) -> dict[str, str]:
    """Variables with which NCCL writes what it does into the file; none that the user has set."""
    wanted = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": ",".join(_SUBSYSTEMS), "NCCL_DEBUG_FILE": file}
    return {name: value for name, value in wanted.items() if name not in environment}


def hidden_by(environment: Mapping[str, str]) -> str | None:
    """Which of the user's settings keeps NCCL from telling its transport here, "NCCL_DEBUG=WARN"; None if none does."""
    level = environment.get("NCCL_DEBUG")
    if level is not None and level.upper() not in _LEVELS_THAT_TELL:
        return f"NCCL_DEBUG={level}"
    if "NCCL_DEBUG_FILE" in environment:
        return f"NCCL_DEBUG_FILE={environment['NCCL_DEBUG_FILE']}"
    subsystems = environment.get("NCCL_DEBUG_SUBSYS")
    if subsystems is not None and not _all_in(subsystems):
        return f"NCCL_DEBUG_SUBSYS={subsystems}"
    return None


def _all_in(subsystems: str) -> bool:
    """Whether the value of NCCL_DEBUG_SUBSYS ("INIT,NET", "^COLL", "ALL") leaves all in that is to be read."""
    names = subsystems.upper().lstrip("^").split(",")
    if subsystems.startswith("^"):
        return not {*_SUBSYSTEMS, "ALL"} & set(names)
    return "ALL" in names or set(_SUBSYSTEMS) <= set(names)


def user_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The NCCL variables that change what NCCL does and that a probe may do without."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith("NCCL_") and not name.startswith(_NOT_SETTINGS) and name not in NEVER_CHANGED
    }


def interface_problem(value: str | None, interfaces: Sequence[str]) -> str | None:
    """Why NCCL_SOCKET_IFNAME with this value leaves no network interface, or None if it leaves one.

    NCCL's reading of it: names begin with one of the words, "=" wants them whole, "^" excludes (src/misc/socket.cc).
    """
    if not value:
        return None
    exclude, exact, words = re.match(r"(\^?)(=?)(.*)", value, re.DOTALL).groups()  # type: ignore[union-attr]
    wanted = [word.split(":")[0] for word in words.split(",") if word]
    named = [name for name in interfaces if any(name == word if exact else name.startswith(word) for word in wanted)]
    left = [name for name in interfaces if name not in named] if exclude else named
    if left:
        return None
    return f"NCCL_SOCKET_IFNAME={value} leaves no network interface here: there are {', '.join(interfaces) or 'none'}"
