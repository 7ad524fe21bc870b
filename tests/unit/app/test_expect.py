"""What labels and plans promise."""

from __future__ import annotations

from envsmith.app import expect
from envsmith.wire.results import Expectation

LABELS = {
    "io.envsmith.wheel": "2.6.0+cu124",
    "io.envsmith.wheel-cuda": "12.4",
    "io.envsmith.cudnn": "9.1.0.70",
    "io.envsmith.nccl": "2.21.5",
    "io.envsmith.compute-capabilities": "5.0 9.0",
    "maintainer": "somebody",
}


def test_labels_become_an_expectation():
    assert expect.from_labels(LABELS) == Expectation(
        "2.6.0+cu124", "12.4", "9.1.0.70", "2.21.5", ("5.0", "9.0"), "labels"
    )


def test_a_cpu_image_is_expected_to_have_no_cuda():
    cpu = expect.from_labels({"io.envsmith.wheel": "2.6.0+cpu"})
    assert (cpu.wheel_cuda, cpu.cudnn, cpu.compute_capabilities) == ("", None, None)


def test_an_image_of_somebody_else_promises_nothing():
    assert expect.from_labels({"maintainer": "somebody", "io.envsmith.torch": "2.6.0"}) is None
