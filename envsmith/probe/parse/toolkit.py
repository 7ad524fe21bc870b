"""What a CUDA toolkit says of its version."""

from __future__ import annotations

import json
import re

_VERSION = re.compile(r"\d{1,3}\.\d{1,3}(?:\.\d+)?")


def version_json(text: str) -> str | None:
    """`version.json` of a toolkit (11.1 and later): the version of the entry "cuda"."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    entry = value.get("cuda") if isinstance(value, dict) else None
    version = entry.get("version") if isinstance(entry, dict) else None
    return version if isinstance(version, str) and _VERSION.fullmatch(version) else None


def version_txt(text: str) -> str | None:
    """`version.txt` of a toolkit before 11.1: "CUDA Version 10.2.89"."""
    found = re.search(r"CUDA Version (\d{1,3}\.\d{1,3}(?:\.\d+)?)", text)
    return found.group(1) if found else None


def nvcc_release(text: str) -> str | None:
    """`nvcc --version`: "Cuda compilation tools, release 12.4, V12.4.131"."""
    found = re.search(r"\brelease (\d{1,3}\.\d{1,3})\b", text)
    return found.group(1) if found else None


def folder_version(path: str) -> str | None:
    """The version in a folder name such as /usr/local/cuda-12.4."""
    found = re.search(r"/cuda-(\d{1,3}\.\d{1,3})/?$", path)
    return found.group(1) if found else None


def container_toolkit_version(text: str) -> str | None:
    """`nvidia-ctk --version`: "NVIDIA Container Toolkit CLI version 1.17.8"."""
    found = re.search(r"\bversion:?\s+v?(\d+\.\d+(?:\.\d+)?(?:[-.~+]?[0-9A-Za-z.]+)?)", text)
    return found.group(1) if found else None
