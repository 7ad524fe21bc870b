"""ENV002 driver-too-old-for-torch."""

from __future__ import annotations

import pytest

from envsmith.wire.facts import LibcudaFacts
from tests.machines import driver, gpu, host, machine, torch
from tests.unit.doctor.rules.judge import advice_in, judge, the_finding

OLD = driver("470.256.02", "11.4")
RTX_3090 = (gpu("NVIDIA GeForce RTX 3090", "8.6"),)


@pytest.mark.parametrize(
    ("wheel", "version", "driver_cuda"),
    [
        ("2.6.0+cu124", "580.95.05", "13.0"),
        ("2.6.0+cu124", "525.60.13", "12.0"),  # by minor-version compatibility
        ("2.6.0+cu118", "470.256.02", "11.4"),
        ("2.6.0+cpu", "470.256.02", "11.4"),
    ],
)
def test_a_driver_that_runs_the_wheel_is_clean(wheel, version, driver_cuda):
    assert judge("ENV002", machine(torch=torch(wheel), driver=driver(version, driver_cuda))).status == "clean"


def test_the_finding_names_both_floors_and_the_driver():
    finding = the_finding("ENV002", machine(driver=OLD))
    assert finding.summary == (
        "Driver 470.256.02, which offers CUDA 11.4, is too old for torch 2.6.0+cu124, built for CUDA 12.4"
    )
    assert finding.evidence[0].expected == "525.60.13 or later; natively 550.54.14 or later"


def test_one_floor_is_told_once():
    snapshot = machine(driver=driver("575.57.08", "12.9"), torch=torch("2.9.1+cu130"))
    assert the_finding("ENV002", snapshot).evidence[0].expected == "580.65.06 or later"


def test_a_driver_is_offered_first_on_a_host():
    finding = the_finding("ENV002", machine(driver=OLD, host=host(os_id="ubuntu"), gpus=RTX_3090))
    assert finding.fix.commands == ("sudo apt-get install -y nvidia-driver-550-open",)
    assert finding.fix.needs_reboot


def test_the_newest_torch_that_the_driver_runs_is_offered_as_a_command():
    (torch_fix,) = the_finding("ENV002", machine(driver=OLD, gpus=RTX_3090)).other_fixes
    assert torch_fix.commands == (
        (
            "/opt/venv/bin/python -m pip install --force-reinstall torch==2.7.1+cu118 "
            "--index-url https://download.pytorch.org/whl/cu118"
        ),
    )


def test_forward_compatibility_is_offered_on_data_centre_gpus_only():
    assert "cuda-compat-12-4" in advice_in(the_finding("ENV002", machine(driver=OLD)))
    assert "forward" not in advice_in(the_finding("ENV002", machine(driver=OLD, gpus=RTX_3090)))
    mixed = machine(driver=OLD, gpus=(gpu(), *RTX_3090))
    assert "forward" not in advice_in(the_finding("ENV002", mixed))


def test_forward_compatibility_is_not_offered_on_a_branch_that_is_not_listed():
    other = machine(driver=driver("510.47.03", "11.6"))
    assert "forward" not in advice_in(the_finding("ENV002", other))


def test_a_compat_library_that_is_loaded_counts():
    compat = LibcudaFacts("/usr/local/cuda/compat/libcuda.so.1", "550.54.15", "compat")
    assert judge("ENV002", machine(driver=driver("470.256.02", "12.4", libcuda=compat))).status == "clean"


def test_a_container_is_never_told_to_install_a_driver_inside():
    finding = the_finding("ENV002", machine(driver=OLD, host=host("docker", os_id="ubuntu"), gpus=RTX_3090))
    assert finding.fix.commands == ("envsmith build --torch 2.7.1 --cuda 11.8 --gpu 8.6",)
    assert "apt" not in advice_in(finding)
    assert "on the host" in advice_in(finding)


def test_the_toolkit_is_never_the_remedy():
    assert "toolkit" not in advice_in(the_finding("ENV002", machine(driver=OLD))).lower()


def test_a_driver_without_a_version_cannot_be_judged():
    unknown = driver(kernel_module_version=None, library_version=None)
    assert judge("ENV002", machine(driver=unknown)).reason == "the driver's version is not known"
