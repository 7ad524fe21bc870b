"""ENV401 shared-memory-too-small."""

from __future__ import annotations

import pytest

from envsmith.model.findings import Severity
from tests.machines import GIB, host, limits, machine
from tests.unit.doctor.rules.judge import advice_in, judge, the_finding

MIB = 1024**2
DOCKER = host("docker")


@pytest.mark.parametrize("size", [64 * MIB, 65_536_000, 16 * MIB])
def test_the_default_of_a_container_is_too_small(size):
    finding = the_finding("ENV401", machine(host=DOCKER, limits=limits(size)))
    assert finding.severity is Severity.WARNING
    assert "--shm-size=8g" in finding.fix.text
    assert finding.evidence[0].value in finding.summary


@pytest.mark.parametrize("size", [65 * MIB, GIB])
def test_more_than_the_default_is_clean(size):
    assert judge("ENV401", machine(host=DOCKER, limits=limits(size))).status == "clean"


def test_a_full_one_is_told_apart_from_a_small_one():
    finding = the_finding("ENV401", machine(limits=limits(8 * GIB, 10 * MIB)))
    assert finding.summary == "/dev/shm is nearly full: 10 MiB free"
    assert finding.fix.commands == ("ls -lt /dev/shm",)
    assert "disk" not in advice_in(finding)


def test_kubernetes_mounts_a_volume():
    finding = the_finding("ENV401", machine(host=host("kubernetes"), limits=limits(64 * MIB)))
    assert '"emptyDir": {"medium": "Memory"}' in finding.fix.text


def test_it_matters_only_where_torch_is():
    assert judge("ENV401", machine(host=DOCKER, limits=limits(64 * MIB), torch=None)).status == "skipped"


def test_an_unknown_size_cannot_be_judged():
    assert judge("ENV401", machine(limits=limits(None))).status == "skipped"
