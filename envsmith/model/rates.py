"""Measured rates: which peak each is held against, its unit, and what a judgement says.

A metric's name ends with its unit, and so does the name of its peak's column; `QUANTITIES` pairs the two, and a
test holds that the units agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GOOD = "good"
LOW = "low"
INCONCLUSIVE = "inconclusive"
NOT_JUDGED = "not judged"

# Peaks that are no column of the matrix.
NVLINK_ONE_WAY = "nvlink_one_way_gb_s"  # half of nvlink_gb_s, which counts both directions
PCIE = "pcie_gb_s"


@dataclass(frozen=True)
class Quantity:
    """One kind of rate. name: the metric, without "cuda0.". peak: a column of GpuProduct, NVLINK_ONE_WAY or PCIE.

    called: what people call it.
    """

    name: str
    peak: str
    called: str


QUANTITIES = (
    Quantity("bfloat16_rate_tflops", "bf16_tflops", "bfloat16 product"),
    Quantity("float16_rate_tflops", "fp16_tflops", "float16 product"),
    Quantity("float8_rate_tflops", "fp8_tflops", "float8 product"),
    Quantity("tfloat32_rate_tflops", "tf32_tflops", "TF32 product"),
    Quantity("float32_rate_tflops", "fp32_tflops", "float32 product"),
    Quantity("memory_bandwidth_gb_s", "memory_bandwidth_gb_s", "copy in GPU memory"),
    Quantity("host_to_device_gb_s", PCIE, "copy to the GPU"),
    Quantity("device_to_host_gb_s", PCIE, "copy from the GPU"),
    Quantity("bus_bandwidth_gb_s", NVLINK_ONE_WAY, "all-reduce bus bandwidth"),
)

# Endings of names, and how people write the unit.
UNITS = {
    "_tflops": "TFLOP/s",
    "_gb_s": "GB/s",
    "_bytes": "bytes",
    "_percent": "%",
    "_mhz": "MHz",
    "_w": "W",
    "_s": "s",
}


@dataclass(frozen=True)
class RateFloor:
    """The least that a healthy machine reaches of a peak. Key: (quantity, of, transport, algorithm).

    A row of the matrix, with the fields that every row has (`model.matrix`).
    quantity: the metric, unit included, "bfloat16_rate_tflops". of: a product, an architecture, or "PCIe 5" by
    generation. transport, algorithm: of a rate between GPUs ("NVLink P2P", "ring"), else None.
    measured_fraction: lowest share of the peak seen on healthy machines, None = nobody measured.
    floor_fraction: below this share of the peak the rate is called low; None = told, and not judged.
    basis: how the floor follows from what is known, for people.
    """

    quantity: str
    of: str
    transport: str | None
    algorithm: str | None
    measured_fraction: float | None
    floor_fraction: float | None
    basis: str
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class RateJudgement:
    """One measured rate held against the peak of its GPU or link.

    device: label, "cuda:0 NVIDIA H200 (9.0)", of several GPUs joined by commas. measured, peak and floor are in `unit`;
    fraction is measured / peak. peak, fraction, floor: None where there is no reference; basis: where the floor
    comes from. status: GOOD, LOW, INCONCLUSIVE or NOT_JUDGED; reason: why, with the values that decided.
    """

    device: str
    check: str
    quantity: str
    measured: float
    unit: str
    peak: float | None
    fraction: float | None
    floor: float | None
    basis: str
    status: str
    reason: str


@dataclass(frozen=True)
class Reference:
    """What a rate is held against, in its unit. floor: None = the rate is told, and not judged.

    most: share of the peak beyond which a rate cannot be true.
    """

    peak: float
    floor: float | None
    basis: str
    most: float = 1.05


def unit_of(name: str) -> str:
    """The unit that a metric's or a column's name ends with: "GB/s" for "host_to_device_gb_s"; "" for none."""
    # the longest ending first: "_gb_s" ends with "_s", too
    endings = sorted(UNITS, key=len, reverse=True)
    return next((UNITS[ending] for ending in endings if name.endswith(ending)), "")


def called(quantity: str) -> str:
    """What people call the quantity of a metric's name."""
    return next((known.called for known in QUANTITIES if known.name == quantity), quantity)


def rate_text(value: float, unit: str) -> str:
    """For people: "705 TFLOP/s", "54.8 GB/s", "4310 GB/s"; three figures, and never an exponent."""
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


# PCI Express Base Specification: transfers a second and lane, and the share of the bits that carries data:
# 8b/10b line code in generations 1 and 2, 128b/130b from 3 to 5, and in 6 the 242 of 256 bytes of a flit that are no
# error correction or checksum. Packet headers take more of it, as they do on every machine: part of the floors.
_PCIE_GT_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
_PCIE_CODE = {1: 8 / 10, 2: 8 / 10, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 242 / 256}
_PCIE_WIDTHS = (1, 2, 4, 8, 12, 16, 32)


def pcie_peak_gb_s(generation: int, width_lanes: int) -> float | None:
    """Peak of a PCI Express link in one direction, in 10^9 bytes/s: 63.0 for generation 5 with 16 lanes.

    None for a generation or a width that there is not.
    """
    if generation not in _PCIE_GT_S or width_lanes not in _PCIE_WIDTHS:
        return None
    return _PCIE_GT_S[generation] * _PCIE_CODE[generation] / 8 * width_lanes


_LABEL = re.compile(r"cuda:(?P<index>\d+) (?P<name>.*) \((?P<capability>[\d.]+)\)")


def device_name(label: str) -> str:
    """The product as the driver names it, out of a label such as "cuda:0 NVIDIA H200 (9.0)"; "" if it is none."""
    match = _LABEL.fullmatch(label)
    return match["name"] if match else ""


def device_index(label: str) -> int | None:
    """The index of a label such as "cuda:0 NVIDIA H200 (9.0)"; None if it is none."""
    match = _LABEL.fullmatch(label)
    return int(match["index"]) if match else None
