"""NVIDIA Container Toolkit, CDI specifications and Docker's runtimes, as seen from here."""

from __future__ import annotations

import json
from typing import Mapping

from envsmith.probe.look import Look, collector
from envsmith.probe.parse.toolkit import container_toolkit_version
from envsmith.probe.toolkits import which
from envsmith.wire.facts import ContainerToolkitFacts

_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_CDI_LIMIT_BYTES = 64 * 1024  # the kind stands in the first lines, or for JSON anywhere before the devices


@collector("container_toolkit")
def container_toolkit_facts(
    look: Look, environ: Mapping[str, str], limit_s: float = 2.0
) -> ContainerToolkitFacts | None:
    """Return None where there is neither a toolkit nor a CDI specification nor Docker."""
    version = _version(look, environ, limit_s)
    specs = _cdi_specs(look)
    configured = _docker_runtime(look, environ)
    if version is None and not specs and configured is None:
        return None
    return ContainerToolkitFacts(version, specs, configured)


def _version(look: Look, environ: Mapping[str, str], limit_s: float) -> str | None:
    path = which(look, "nvidia-ctk", environ)
    if path is None:
        return None
    from envsmith.probe.run import run  # brings subprocess, which most machines do not need here

    output = run([look.path(path), "--version"], limit_s)
    version = container_toolkit_version(output.text)
    if version is None:
        look.gap("container_toolkit.version", output.failure or "failed", output.detail or "no version in its answer")
    return version


def _cdi_specs(look: Look) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for folder in _CDI_FOLDERS:
        for name in look.names(folder):
            path = f"{folder}/{name}"
            if not name.endswith((".yaml", ".yml", ".json")):
                continue
            try:
                text = look.read_text(path, _CDI_LIMIT_BYTES)
            except OSError as error:
                look.gap_from("container_toolkit.cdi_specs", error)
                continue
            if "nvidia.com/" in text:
                found.setdefault(look.realpath(path), path)
    return tuple(found.values())


def _docker_runtime(look: Look, environ: Mapping[str, str]) -> bool | None:
    """Whether daemon.json names a runtime "nvidia"; None where there is no Docker daemon to configure."""
    text = look.text_or_none("/etc/docker/daemon.json", "container_toolkit.docker_runtime_configured")
    if text is None:
        return False if which(look, "dockerd", environ) else None
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        look.gap("container_toolkit.docker_runtime_configured", "failed", "/etc/docker/daemon.json is not JSON")
        return None
    runtimes = settings.get("runtimes") if isinstance(settings, dict) else None
    return isinstance(runtimes, dict) and "nvidia" in runtimes
