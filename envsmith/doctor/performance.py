"""Are measured rates those of a healthy machine? Pure functions of a report and the matrix.

A rate is held against the dense peak or bandwidth of its own GPU or link, with a floor from `matrix/rate_floors.json`.
Where there is no reference it is told and not judged. A rate below its floor is "low", unless what was recorded
beside it says that the GPU could not do better then (another user, heat, a power cap below the default, set clocks,
memory errors): then it is "inconclusive". A rate above the peak is never good: a unit or a row must be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from envsmith.model import fit
from envsmith.model.matrix import GpuProduct, Matrix
from envsmith.model.rates import (
    GOOD,
    INCONCLUSIVE,
    LOW,
    NOT_JUDGED,
    NVLINK_ONE_WAY,
    PCIE,
    QUANTITIES,
    Quantity,
    RateFloor,
    RateJudgement,
    Reference,
    called,
    device_index,
    device_name,
    pcie_peak_gb_s,
    rate_text,
    unit_of,
)
from envsmith.wire.results import PASS, STANDARD, STRESS, CheckResult, Metric, ValidationReport

# Cards for desktops and workstations run above the clock that their peak is stated for, as long as they are cool:
# 1.08 times (RTX 4090) to 1.2 times (GTX 1080 Ti). Memory and links do not, nor do data-centre GPUs: `Reference.most`.
_BOOST = 1.25
_BOOSTING = ("consumer", "workstation")
# A desktop that draws a window takes a few per cent of its GPU.
_BUSY_PERCENT = 10
# Below this a ring does not fill NVLink, and what is measured is its latency.
_LINK_FILLING_BYTES = 64 * 1024**2
# Reasons for lower clocks that come from outside. Not among them: sw_power_cap, as at the default cap it is how a
# GPU under full load works, and gpu_idle.
_EXCUSES = {
    "sw_thermal_slowdown": "heat",
    "hw_thermal_slowdown": "heat",
    "hw_slowdown": "a hardware slowdown (heat or power brake)",
    "hw_power_brake_slowdown": "the power brake of the machine",
    "applications_clocks_setting": "clocks that somebody set",
    "display_clock_setting": "clocks that a display needs",
    "sync_boost": "the slowest GPU of a sync-boost group",
}

# Without any of them nobody can say that a slow GPU was free to be fast.
_TELLTALES = ("throttle_reasons", "utilization_before_percent")

_Values = Mapping[str, "float | int | str"]


@dataclass(frozen=True)
class MeasuredRate:
    """One rate, where it was measured, and what was recorded beside it, a mapping for each GPU."""

    check: str
    quantity: Quantity
    value: float
    devices: tuple[str, ...]
    beside: tuple[_Values, ...]


def judge_rates(report: ValidationReport, matrix: Matrix) -> tuple[RateJudgement, ...]:
    """Judge every rate of the report, in the order of the checks. None below level standard: too little was run."""
    if report.level not in (STANDARD, STRESS):
        return ()
    return tuple(
        judge_rate(measured, _reference(measured, matrix))
        for result in report.results
        if result.status == PASS
        for measured in _rates_of(result)
    )


def judge_rate(measured: MeasuredRate, reference: Reference | str) -> RateJudgement:
    """Judge one rate. reference: a str says why there is none."""
    known = reference if isinstance(reference, Reference) else None
    status, reason = _status(measured, reference)
    return RateJudgement(
        device=", ".join(measured.devices),
        check=measured.check,
        quantity=measured.quantity.name,
        measured=measured.value,
        unit=unit_of(measured.quantity.name),
        peak=known.peak if known else None,
        fraction=measured.value / known.peak if known else None,
        floor=known.floor if known else None,
        basis=known.basis if known else "",
        status=status,
        reason=reason,
    )


def _status(measured: MeasuredRate, reference: Reference | str) -> tuple[str, str]:
    """Status and reason of one rate."""
    if isinstance(reference, str):
        return NOT_JUDGED, reference
    unit, value = unit_of(measured.quantity.name), measured.value
    share = f"{value / reference.peak:.0%} of the peak of {rate_text(reference.peak, unit)}"
    if value > reference.most * reference.peak:
        return INCONCLUSIVE, f"more than the peak: {share} (a wrong unit, another link or another GPU than it says?)"
    if reference.floor is None:
        return NOT_JUDGED, f"{share}; no floor is known: {reference.basis}"
    limit = f"{rate_text(reference.floor, unit)} ({reference.floor / reference.peak:.0%})"
    if value >= reference.floor:
        return GOOD, f"{share}, the floor is {limit}"
    text = f"{share}, below the floor of {limit}"
    excuses = tuple(dict.fromkeys(excuse for beside in measured.beside for excuse in _excuses(beside)))
    if excuses:
        return INCONCLUSIVE, f"{text}, because of {'; '.join(excuses)}"
    if not any(name in beside for name in _TELLTALES for beside in measured.beside):
        return INCONCLUSIVE, f"{text}, and it is not known what else the GPU did, or what held it back"
    return LOW, f"{text}, and nothing recorded beside it explains that"


def _excuses(beside: _Values) -> Iterable[str]:
    """What kept this GPU from its rate, with the values that say so."""
    others, busy = _number(beside, "other_processes"), _number(beside, "utilization_before_percent")
    if others:
        yield f"other users of the GPU (other_processes {others:.0f})"
    if busy is not None and busy > _BUSY_PERCENT:
        yield f"a GPU that was busy before (utilization_before_percent {busy:.0f})"
    for word in str(beside.get("throttle_reasons", "")).split(","):
        if word.strip() in _EXCUSES:
            yield f"{_EXCUSES[word.strip()]} (throttle_reasons {word.strip()})"
    cap, default = _number(beside, "power_cap_w"), _number(beside, "power_cap_default_w")
    if cap is not None and default is not None and cap < default - 1:
        yield f"a power cap below the default (power_cap_w {cap:.0f}, power_cap_default_w {default:.0f})"
    errors = _number(beside, "ecc_uncorrected_errors")
    if errors:
        yield f"errors of the GPU's memory (ecc_uncorrected_errors {errors:.0f})"


def _rates_of(result: CheckResult) -> Iterable[MeasuredRate]:
    """The rates of one check, those of a GPU under the label that the check ran on."""
    groups = _by_device(result.metrics)
    for prefix, values in groups.items():
        for quantity in QUANTITIES:
            value = _number(values, quantity.name)
            if value is not None:
                whole = prefix == ""
                devices = tuple(label for label in result.ran_on if whole or f"cuda{device_index(label)}" == prefix)
                # one GPU that could not do better holds all of them back
                beside = tuple(groups.values()) if whole else (values, groups.get("", {}))
                yield MeasuredRate(result.id, quantity, value, devices, beside)


def _by_device(metrics: Iterable[Metric]) -> dict[str, dict[str, float | int | str]]:
    """Values by the name without its prefix, by prefix: "cuda0", or "" for those of the whole run."""
    groups: dict[str, dict[str, float | int | str]] = {}
    for metric in metrics:
        prefix, _, name = metric.name.rpartition(".")
        groups.setdefault(prefix, {})[name] = metric.value
    return groups


def _number(values: _Values, name: str) -> float | None:
    """A value if it is a number that something can have measured, else None."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _reference(measured: MeasuredRate, matrix: Matrix) -> Reference | str:
    """What the rate is held against, or why there is nothing."""
    if not measured.devices:
        return "the check does not say which GPU it ran on"
    names = sorted({device_name(label) for label in measured.devices})
    if len(names) > 1:
        return f"no reference for GPUs that differ ({', '.join(names)})"
    if " MIG " in f" {names[0]} ":
        return "no reference for a MIG slice, which has a share of its GPU"
    if measured.quantity.peak == PCIE:
        return _pcie_reference(measured, matrix)
    product = fit.product_named(matrix, names[0])
    if product is None:
        return f"no reference: the matrix has no GPU {names[0]!r}"
    if product.product_class == "jetson":
        return "no reference for a Jetson, whose clocks depend on its power mode"
    if measured.quantity.peak == NVLINK_ONE_WAY:
        return _link_reference(measured, matrix, product)
    peak: float | None = getattr(product, measured.quantity.peak)
    if peak is None:
        return f"no reference: the matrix has no peak ({measured.quantity.peak}) of {product.product}"
    row = _floor(matrix, measured.quantity.name, (product.product, product.architecture))
    if row is None:
        return f"no reference: no floor for {called(measured.quantity.name)} on {product.product}"
    reference = _of_peak(peak, row)
    boosts = product.product_class in _BOOSTING and unit_of(measured.quantity.name) == "TFLOP/s"
    return replace(reference, most=_BOOST) if boosts else reference


def _pcie_reference(measured: MeasuredRate, matrix: Matrix) -> Reference | str:
    """The link between host and GPU, as NVML told it during the check."""
    generation, width = (
        next((value for beside in measured.beside if (value := _number(beside, name)) is not None), None)
        for name in ("pcie_generation", "pcie_width_lanes")
    )
    if generation is None or width is None:
        return "no reference: generation and width of the PCIe link are not known"
    peak = pcie_peak_gb_s(int(generation), int(width))
    row = _floor(matrix, measured.quantity.name, (f"PCIe {generation:.0f}",))
    if peak is None or row is None:
        return f"no reference for PCIe {generation:.0f} with {width:.0f} lanes"
    return _of_peak(peak, row)


def _link_reference(measured: MeasuredRate, matrix: Matrix, product: GpuProduct) -> Reference | str:
    """The link between GPUs, for the very transport and algorithm that NCCL took: one says nothing of another."""
    values = {name: value for beside in measured.beside for name, value in beside.items()}
    transport, algorithm = str(values.get("transport", "")), str(values.get("algorithm", ""))
    untold = [said or "not recorded" for said in (transport, algorithm) if not said or said.startswith("unknown")]
    if untold:
        return f"no reference: of transport and algorithm, {untold[0]}"
    size = _number(values, "size_bytes")
    if size is not None and size < _LINK_FILLING_BYTES:
        return f"no reference for {size / 1024**2:.0f} MiB, which does not fill the links"
    row = _floor(matrix, measured.quantity.name, (product.product, product.architecture), (transport, algorithm))
    if row is None or product.nvlink_gb_s is None:
        return f"no reference for {algorithm} over {transport} between {product.product}"
    return _of_peak(product.nvlink_gb_s / 2, row)


def _floor(
    matrix: Matrix, quantity: str, names: tuple[str, ...], how: tuple[str | None, str | None] = (None, None)
) -> RateFloor | None:
    """The row of the first of these names that has one."""
    rows = {(row.quantity, row.of, row.transport, row.algorithm): row for row in matrix.rate_floors}
    return next((rows[key] for name in names if (key := (quantity, name, *how)) in rows), None)


def _of_peak(peak: float, row: RateFloor) -> Reference:
    floor = None if row.floor_fraction is None else row.floor_fraction * peak
    return Reference(peak, floor, f"{row.of}: {row.basis}")
