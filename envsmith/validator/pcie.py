"""The PCIe link of a GPU, by NVML."""

from __future__ import annotations

from dataclasses import dataclass

from envsmith.validator.nvml import NvmlGpu
from envsmith.wire.results import Metric

# 10^9 bytes/s that one lane carries each way after line coding, by generation (PCI Express Base Specification 6.0):
# 2.5 and 5 GT/s in 8b/10b, 8 to 32 GT/s in 128b/130b, 64 GT/s in 236 of 256 bytes of a flit.
_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.375}
_QUESTIONS = (("Curr", "Generation"), ("Curr", "Width"), ("Max", "Generation"), ("Max", "Width"))


@dataclass(frozen=True)
class PcieLink:
    """What a link runs at, and the most that both of its ends can.

    An idle GPU lowers its link to generation 1, so it says something only if it was read while data was moving.
    """

    generation: int
    width_lanes: int
    generation_max: int
    width_max_lanes: int

    @property
    def is_full(self) -> bool:
        """Whether it runs at its best."""
        return self.generation >= self.generation_max and self.width_lanes >= self.width_max_lanes

    def __str__(self) -> str:
        best = "" if self.is_full else f" (of {self.generation_max} x{self.width_max_lanes})"
        return f"PCIe {self.generation} x{self.width_lanes}{best}"

    def carries(self, rate_gb_s: float) -> bool:
        """Whether a rate in one direction, in 10^9 bytes/s, can have come through the link.

        If not, the data took another way: that of Grace is NVLink-C2C, of an integrated GPU the memory itself.
        """
        return rate_gb_s <= _LANE_GB_S.get(self.generation, float("inf")) * self.width_lanes

    def metrics(self) -> tuple[Metric, ...]:
        """What it ran at, and its best."""
        return (
            Metric("pcie_generation", self.generation),
            Metric("pcie_width_lanes", self.width_lanes),
            Metric("pcie_generation_max", self.generation_max),
            Metric("pcie_width_max_lanes", self.width_max_lanes),
        )


def read_pcie_link(gpu: NvmlGpu) -> PcieLink | None:
    """Ask NVML, which takes about a millisecond; None where it does not tell, as of integrated GPUs and under WSL."""
    values = [gpu.of_gpu(f"nvmlDeviceGet{which}PcieLink{what}") for which, what in _QUESTIONS]
    if any(not isinstance(value, int) or value < 1 for value in values):
        return None
    return PcieLink(*values)
