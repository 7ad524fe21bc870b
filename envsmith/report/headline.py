"""The one number of a check that tells most, with its unit as people write it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from envsmith.model.rates import QUANTITIES, UNITS, unit_of
from envsmith.report.console import clean
from envsmith.wire.results import CheckResult, Metric

RATE_UNITS = ("TFLOP/s", "GB/s")


def headline(result: CheckResult) -> str:
    """For example "bfloat16 705 TFLOP/s", of several GPUs "bfloat16 698 to 705 TFLOP/s"; "" for no number.

    A rate if there is one, with what it went over; else the error that came nearest to its limit, as a share of it.
    """
    judged = [quantity.name for quantity in QUANTITIES]
    others = [_bare(metric) for metric in result.metrics if unit_of(metric.name) in RATE_UNITS]
    for name in (*judged, *others):
        values = [metric.value for metric in result.metrics if _bare(metric) == name]
        if values:
            return _rate(name, values) + _way(result.metrics)
    return _worst_error(result.metrics)


def _bare(metric: Metric) -> str:
    """The name without the GPU that it is about."""
    return metric.name.rpartition(".")[2]


def _rate(name: str, values: Sequence[float | int | str]) -> str:
    ending = next(ending for ending in sorted(UNITS, key=len, reverse=True) if name.endswith(ending))
    words = clean(name.removesuffix(ending).removesuffix("_rate").replace("_", " "))
    numbers = sorted((value for value in values if _is_number(value)), key=float)
    texts = dict.fromkeys(number(value) for value in (*numbers[:1], *numbers[-1:]) or values[:1])
    return f"{words} {' to '.join(texts)} {unit_of(name)}"


def _way(metrics: Iterable[Metric]) -> str:
    """Of a rate between GPUs: " (NVLink P2P, ring)"."""
    said = {_bare(metric): clean(str(metric.value)) for metric in metrics}
    way = [said[name] for name in ("transport", "algorithm") if said.get(name) and not said[name].startswith("unknown")]
    return f" ({', '.join(way)})" if way else ""


def _worst_error(metrics: Iterable[Metric]) -> str:
    """The largest share of its limit that an error took: "worst error 49% of its limit"."""
    shares = [
        metric.value / metric.limit
        for metric in metrics
        if "error" in _bare(metric) and _is_number(metric.value) and _is_number(metric.limit) and metric.limit
    ]
    return f"worst error {number(100 * max(shares))}% of its limit" if shares else ""


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: float | str) -> str:
    """Three figures, never an exponent for what people read as a rate: "705", "54.8", "0.00125"."""
    if not _is_number(value):
        return clean(str(value))
    return f"{value:.0f}" if abs(float(value)) >= 100 else f"{float(value):.3g}"
