"""Putting a snapshot together from the collectors."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import Mapping, Sequence

from envsmith.probe import driver_answers
from envsmith.probe.child import ChildAnswers
from envsmith.probe.container_toolkit import container_toolkit_facts
from envsmith.probe.devices import device_facts, node_paths
from envsmith.probe.driver import driver_facts
from envsmith.probe.driver_answers import DriverAnswers
from envsmith.probe.env import env_facts
from envsmith.probe.gpus import gpu_facts
from envsmith.probe.host import host_facts
from envsmith.probe.libraries import library_facts
from envsmith.probe.limits import limit_facts
from envsmith.probe.look import NOT_LOOKED, Look
from envsmith.probe.packages import package_facts
from envsmith.probe.pci import pci_facts
from envsmith.probe.python import python_facts
from envsmith.probe.strings import mapped, printable
from envsmith.probe.toolkits import toolkit_facts
from envsmith.probe.torch import torch_facts
from envsmith.wire.facts import LibraryFacts, Snapshot

_NEEDS_TORCH = "needs `import torch`, which a check does in a process of its own"


def look_at_this_machine(tool: str, with_libraries: bool) -> Snapshot:
    """See `envsmith.probe.collect`."""
    look = Look()
    try:
        child = driver_answers.start(node_paths(look))
    except OSError as error:  # no more processes, or no more descriptors
        look.gap_from("driver", error)
        child = None
    snapshot = look_around(look, tool, os.environ, tuple(map(str, sys.path)), with_libraries=with_libraries)
    said = child.answers() if child else ChildAnswers((), "no process could be started for it", False)
    return add_driver(look, snapshot, os.environ, driver_answers.read(said))


def look_around(
    look: Look, tool: str, environ: Mapping[str, str], search_path: Sequence[str], *, with_libraries: bool = True
) -> Snapshot:
    """Everything but the driver and the GPUs."""
    toolkits = toolkit_facts(look, environ)
    libraries: tuple[LibraryFacts, ...] | None = None
    if with_libraries:
        libraries = library_facts(look, environ, search_path, sys.prefix, toolkits or ())
    else:
        look.gap("libraries", NOT_LOOKED, "left out on request")
    return Snapshot(
        tool=tool,
        collected_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        host=host_facts(look, environ),
        limits=limit_facts(look),
        container_toolkit=container_toolkit_facts(look, environ),
        env=env_facts(look, environ),
        python=python_facts(look),
        packages=package_facts(look, search_path, sys.prefix),
        torch=torch_facts(look, search_path),
        toolkits=toolkits,
        libraries=libraries,
        nvidia_pci_devices=pci_facts(look),
    )


def add_driver(look: Look, snapshot: Snapshot, environ: Mapping[str, str], answers: DriverAnswers) -> Snapshot:
    """The snapshot with the driver's part and all gaps, every string of it printable."""
    look.gap("torch_runtime", NOT_LOOKED, _NEEDS_TORCH)
    look.gap("loaded_libraries", NOT_LOOKED, _NEEDS_TORCH)
    full = replace(
        snapshot,
        driver=driver_facts(look, environ, answers),
        device_nodes=device_facts(look, answers.refused_nodes),
        gpus=gpu_facts(look, answers),
    )
    clean: Snapshot = mapped(replace(full, gaps=tuple(look.gaps)), printable)
    return clean
