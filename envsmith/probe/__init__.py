"""Looking at a machine: `collect` returns a frozen `Snapshot`.

Standard library only, Python 3.8. One collector a file, each turning its own failure into a `Gap`; parsers of text
are apart, in `parse`. torch is never imported here, except by `torch_runtime`, which `collect` does not call.

Importing this package alone is cheap, so that single modules of it can be used for little.
"""

from __future__ import annotations

from envsmith.wire.facts import Snapshot

__all__ = ["collect"]


def collect(tool: str, *, with_libraries: bool = True) -> Snapshot:
    """Look at this machine and the environment of this interpreter. Never raises and never imports torch.

    tool: name and version of what looks, kept in the snapshot. with_libraries: also look for every copy of a CUDA
    library, which is the part that grows with the number of installed packages.
    """
    from envsmith.probe.snapshot import look_at_this_machine

    return look_at_this_machine(tool, with_libraries)
