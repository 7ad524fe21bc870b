"""ENV301 container-without-gpu."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envsmith.model.findings import Severity
from tests.machines import NODES, driver, host, laptop, machine, torch, variables
from tests.unit.doctor.rules.judge import advice_in, judge, the_finding

NO_LIBRARIES = driver(libcuda=None, library_version=None, driver_cuda=None)


def without_gpu(container: str = "docker", **changes):
    return machine(**{"host": host(container), "driver": NO_LIBRARIES, "device_nodes": (), "gpus": ()} | changes)


@pytest.mark.parametrize(
    "snapshot",
    [
        machine(),
        machine(host=host("docker")),
        without_gpu(host=host()),  # a host that only lacks its nodes is no container
        laptop(host=host("docker")),  # a host without a driver has no GPU to give
    ],
)
def test_clean(snapshot):
    assert judge("ENV301", snapshot).status == "clean"


def test_docker_is_told_to_start_it_with_a_gpu():
    finding = the_finding("ENV301", without_gpu())
    assert finding.fix.commands == ("docker run --rm --gpus all debian:stable-slim nvidia-smi",)
    assert "sudo nvidia-ctk runtime configure --runtime=docker" in advice_in(finding)


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ("podman", "--device nvidia.com/gpu=all"),
        ("kubernetes", "resources.limits"),
        ("apptainer", "--nv"),
        ("lxc", "CDI"),
    ],
)
def test_each_engine_has_its_own_way(container, text):
    advice = advice_in(the_finding("ENV301", without_gpu(container)))
    assert text in advice
    assert "docker run" not in advice


def test_a_container_that_is_not_meant_for_a_gpu_is_only_told():
    assert the_finding("ENV301", without_gpu()).severity is Severity.ERROR
    for torch_or_none in (torch("2.6.0+cpu"), None):
        for_cpu = without_gpu(torch=torch_or_none)
        assert the_finding("ENV301", for_cpu).severity is Severity.INFO
        asks = replace(for_cpu, env=variables(NVIDIA_VISIBLE_DEVICES="0,1"))
        assert the_finding("ENV301", asks).severity is Severity.ERROR
        hidden = replace(for_cpu, env=variables(NVIDIA_VISIBLE_DEVICES="void"))
        assert the_finding("ENV301", hidden).severity is Severity.INFO


def test_privileged_gives_nodes_without_libraries():
    finding = the_finding("ENV301", without_gpu(device_nodes=NODES))
    assert "--privileged does not ask for a GPU" in finding.summary


def test_a_variable_that_hides_the_gpus_is_evidence():
    finding = the_finding("ENV301", without_gpu(env=variables(NVIDIA_VISIBLE_DEVICES="void")))
    assert finding.evidence[-1].fact == "env.NVIDIA_VISIBLE_DEVICES"


@pytest.mark.parametrize("container", ["docker", "podman", "kubernetes", "apptainer", "other"])
def test_nothing_is_to_be_installed_or_built_in_the_image(container):
    advice = advice_in(the_finding("ENV301", without_gpu(container))).lower()
    assert "image" not in advice
    assert "apt" not in advice.replace("apptainer", "")
