"""Files under /dev that the NVIDIA driver needs."""

from __future__ import annotations

import os
import re
from typing import Collection

from envsmith.probe.look import Look, collector
from envsmith.wire.facts import DeviceNode

# desktop and data centre; capabilities (MIG, fabric); WSL 2; Jetson
_NODE = re.compile(
    r"nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset|-nvswitch\w*|-fs\d*)|dxg|nvmap|nvgpu|nvhost-(?:ctrl|gpu)\w*"
)


def node_paths(look: Look) -> tuple[str, ...]:
    """The device files there are, as paths of the machine."""
    found = ["/dev/" + name for name in look.names("/dev", "device_nodes.path") if _NODE.fullmatch(name)]
    found += ["/dev/nvidia-caps/" + name for name in look.names("/dev/nvidia-caps")]
    return tuple(found)


@collector("device_nodes")
def device_facts(look: Look, refused: Collection[str] = ()) -> tuple[DeviceNode, ...]:
    """Return each node with this user's access to it.

    refused: nodes that could not be opened although their mode allows it, which is how a container without
    permission for a device looks.
    """
    return tuple(
        DeviceNode(
            path,
            readable=path not in refused and os.access(look.path(path), os.R_OK),
            writable=path not in refused and os.access(look.path(path), os.W_OK),
        )
        for path in node_paths(look)
    )
