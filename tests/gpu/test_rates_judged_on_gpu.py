"""Rates of a healthy machine, judged: none is low, and those of a GPU that was measured have a floor and are good."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import pytest

from envsmith import certify
from envsmith.app.check import CheckOptions, check_host
from envsmith.model.check_run import CheckRun
from envsmith.model.rates import GOOD, LOW
from envsmith.model.verdict import describe_rate
from envsmith.report.junit import junit
from envsmith.report.markdown import markdown

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

MEASURED_ON = "NVIDIA H200 "
ALWAYS_KNOWN = {"bfloat16_rate_tflops", "float16_rate_tflops", "memory_bandwidth_gb_s", "host_to_device_gb_s"}


@pytest.fixture(scope="module")
def run() -> CheckRun:
    return check_host(sys.executable, CheckOptions(), lambda _: None)


def test_no_rate_of_a_healthy_machine_is_low(run: CheckRun) -> None:
    assert run.rates
    assert [describe_rate(rate) for rate in run.rates if rate.status == LOW] == []
    assert [describe_rate(rate) for rate in run.rates if rate.fraction is not None and rate.fraction > 1.0] == []


def test_rates_of_a_gpu_that_was_measured_are_good(run: CheckRun) -> None:
    known = [rate for rate in run.rates if MEASURED_ON in rate.device and rate.quantity in ALWAYS_KNOWN]
    if any(MEASURED_ON in label for label in run.report.gpus):
        assert {rate.quantity for rate in known} == ALWAYS_KNOWN
    assert [describe_rate(rate) for rate in known if rate.status != GOOD] == []


def test_every_gpu_has_its_rates(run: CheckRun) -> None:
    products = {rate.device for rate in run.rates if rate.quantity == "float16_rate_tflops"}
    assert products == set(run.report.gpus)


def test_the_certificate_holds_level_coverage_and_rates(run: CheckRun) -> None:
    predicate = certify.issue(run).predicate
    assert (predicate.level, predicate.rates) == ("standard", run.rates)
    assert predicate.coverage is not None
    assert predicate.coverage.left_out == ()
    assert predicate.coverage.gpus_run == run.report.gpus


def test_reports_tell_the_rates(run: CheckRun) -> None:
    names = [case.attrib["name"] for case in ElementTree.fromstring(junit(run).encode()).iter("testcase")]
    assert len([name for name in names if name.startswith("float16_rate_tflops ")]) == len(run.report.gpus)
    assert "### Rates" in markdown(run)
