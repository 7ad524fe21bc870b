"""ENV102 no-code-for-gpu-in-torch."""

from __future__ import annotations

import pytest

from envsmith.wire.facts import TorchRuntimeFacts
from tests.machines import driver, gpu, host, machine, torch
from tests.unit.doctor.rules.judge import advice_in, judge, the_finding

RTX_5090 = (gpu("NVIDIA GeForce RTX 5090", "12.0"),)
GTX_1080_TI = (gpu("NVIDIA GeForce GTX 1080 Ti", "6.1"),)


def runtime(compute_capabilities: tuple[str, ...], ptx: tuple[str, ...] = ()) -> TorchRuntimeFacts:
    return TorchRuntimeFacts("2.6.0+cu124", "12.4", None, None, compute_capabilities, ptx, True, 1, None)


@pytest.mark.parametrize(
    "snapshot",
    [
        machine(),
        machine(gpus=(gpu("NVIDIA GeForce RTX 4090", "8.9"),)),  # code for 8.6 runs on it
        machine(torch=torch("2.6.0+cpu")),
        machine(gpus=()),
        machine(gpus=(gpu(capability=None),)),
        machine(gpus=RTX_5090, torch_runtime=runtime(("9.0",), ptx=("9.0",))),
    ],
)
def test_clean(snapshot):
    assert judge("ENV102", snapshot).status == "clean"


def test_a_gpu_newer_than_the_wheel_names_the_first_release_that_has_it():
    finding = the_finding("ENV102", machine(gpus=RTX_5090))
    assert finding.summary == ("torch 2.6.0+cu124 has no code for NVIDIA GeForce RTX 5090 (compute capability 12.0)")
    assert finding.evidence[0].fact == "gpus[0].compute_capability"
    assert "torch==2.7.1+cu128" in finding.fix.commands[0]


def test_a_gpu_that_a_variant_dropped_keeps_its_release():
    finding = the_finding("ENV102", machine(torch=torch("2.8.0+cu128"), gpus=GTX_1080_TI))
    assert "torch==2.8.0+cu126" in finding.fix.commands[0]
    assert "driver" not in advice_in(finding)


def test_where_this_driver_is_too_old_for_every_build_both_steps_are_one_way():
    finding = the_finding("ENV102", machine(gpus=RTX_5090, driver=driver("470.256.02", "11.4")))
    assert finding.fix.text.startswith("Install NVIDIA driver branch 570 or later")
    assert "torch==2.7.1+cu128" in finding.fix.commands[-1]
    assert finding.fix.needs_reboot


def test_what_torch_said_itself_comes_before_the_matrix():
    assert judge("ENV102", machine(torch_runtime=runtime(("8.0",)))).status == "found"


def test_ptx_needs_a_driver_that_compiles_it():
    # 2.7.1+cu128 has PTX for 12.0 only; by minor-version compatibility a 550 driver runs machine code alone
    finding = the_finding("ENV102", machine(gpus=(gpu("NVIDIA Next", "13.0"),), driver=driver("550.54.15", "12.4")))
    assert finding.fix.text.startswith("Install NVIDIA driver branch 570 or later")


def test_each_kind_of_gpu_is_told_once():
    gpus = (gpu(), *(gpu("NVIDIA GeForce RTX 5090", "12.0", index) for index in (1, 2)))
    assert the_finding("ENV102", machine(gpus=gpus)).evidence[0].fact == "gpus[1].compute_capability"


def test_a_gpu_that_no_build_serves():
    finding = the_finding("ENV102", machine(gpus=(gpu("Tesla K80", "3.7"),)))
    assert finding.fix.text == "No torch build from 2.5.1 on for this platform and Python has code for 3.7."


@pytest.mark.parametrize("version", ["2.6.0a0+gitdeadbee", "2.6.0+nv24.10", "2.4.0+cu124"])
def test_a_build_that_the_matrix_does_not_know_cannot_be_judged(version):
    unknown = machine(torch=torch("2.6.0+cu124"), gpus=RTX_5090)
    outcome = judge("ENV102", machine(torch=type(unknown.torch)(version, "12.4", None, "/", ()), gpus=RTX_5090))
    assert (outcome.status, version in outcome.reason) == ("skipped", True)


def test_where_nobody_looked_for_ptx_only_what_the_toolkit_cannot_make_is_sure():
    wheel = torch("2.9.1+cu130")
    volta, turing = gpu("Tesla V100-SXM2-16GB", "7.0"), gpu("Tesla T4", "7.5")
    assert judge("ENV102", machine(torch=wheel, gpus=(volta,))).status == "found"
    assert judge("ENV102", machine(torch=wheel, gpus=(volta, turing))).status == "found"
    assert "PTX" in judge("ENV102", machine(torch=wheel, gpus=(turing,))).reason
    assert judge("ENV102", machine(torch=wheel)).status == "clean"


def test_another_platform_is_not_judged_by_this_ones_wheels():
    assert judge("ENV102", machine(host=host(machine="aarch64"), gpus=RTX_5090)).status == "skipped"
