"""ENV101 torch-without-cuda."""

from __future__ import annotations

from dataclasses import replace

from envsmith.model.findings import Severity
from envsmith.wire.facts import PackageFacts, PciDevice, PythonFacts
from tests.machines import build, driver, gpu, host, laptop, machine, small_matrix, torch, variables
from tests.unit.doctor.rules.judge import advice_in, judge, the_finding

CPU = torch("2.6.0+cpu")


def test_a_cuda_build_is_clean():
    assert judge("ENV101", machine()).status == "clean"


def test_a_cpu_build_on_a_machine_without_a_gpu_is_right():
    assert judge("ENV101", laptop(nvidia_pci_devices=())).status == "clean"


def test_a_rocm_build_is_not_judged_by_its_cuda():
    assert judge("ENV101", machine(torch=replace(torch("2.6.0+rocm6.2.4"), hip="6.2"))).status == "clean"


def test_a_cpu_build_beside_a_gpu_names_the_same_release():
    finding = the_finding("ENV101", machine(torch=CPU))
    assert finding.severity is Severity.ERROR
    assert finding.fix.commands == (
        (
            "/opt/venv/bin/python -m pip install --force-reinstall torch==2.6.0+cu126 "
            "--index-url https://download.pytorch.org/whl/cu126"
        ),
    )


def test_the_build_fits_the_driver():
    finding = the_finding("ENV101", machine(torch=CPU, driver=driver("470.256.02", "11.4")))
    assert "torch==2.6.0+cu118" in finding.fix.commands[0]


def test_the_build_fits_the_gpu_even_where_that_takes_a_later_release():
    finding = the_finding("ENV101", machine(torch=CPU, gpus=(gpu("NVIDIA GeForce RTX 5090", "12.0"),)))
    assert "torch==2.7.1+cu128" in finding.fix.commands[0]


def test_a_gpu_that_only_the_bus_shows_counts():
    snapshot = laptop(nvidia_pci_devices=(PciDevice("0000:65:00.0", "10de:2335"),))
    assert the_finding("ENV101", snapshot).evidence[0].expected == "a CUDA build, since there is 10de:2335"


def test_the_hosts_bus_says_nothing_of_what_a_container_is_for():
    snapshot = laptop(nvidia_pci_devices=(PciDevice("0000:65:00.0", "10de:2335"),), host=host("docker"))
    assert judge("ENV101", snapshot).status == "clean"


def test_an_image_that_asks_for_gpus_is_warned_of():
    snapshot = laptop(host=host("docker"), env=variables(NVIDIA_VISIBLE_DEVICES="all"))
    assert the_finding("ENV101", snapshot).severity is Severity.WARNING
    assert judge("ENV101", replace(snapshot, env=variables(NVIDIA_VISIBLE_DEVICES="void"))).status == "clean"


def test_an_environment_without_pip_gets_uv():
    finding = the_finding("ENV101", machine(torch=CPU, packages=()))
    assert finding.fix.commands[0].startswith("uv pip install --python /opt/venv/bin/python --force-reinstall ")


def test_partner_packages_move_with_torch():
    row = build("2.6.0", "cu126", ("9.0",), torchvision=("0.21.0",), torchaudio=("2.6.0",))
    packages = (PackageFacts("pip", "24.0", "/"), PackageFacts("torchvision", "0.21.0+cpu", "/"))
    finding = the_finding("ENV101", machine(torch=CPU, packages=packages), replace(small_matrix(), torch_builds=(row,)))
    assert " torch==2.6.0+cu126 torchvision==0.21.0 --index-url " in finding.fix.commands[0]
    assert "torchaudio" not in finding.fix.commands[0]


def test_a_path_with_shell_text_in_it_is_quoted():
    odd = PythonFacts("/tmp/a b;$(x)/bin/python", "3.11.2", "CPython", "/tmp", "venv", False)
    assert (
        the_finding("ENV101", machine(torch=CPU, python=odd)).fix.commands[0].startswith("'/tmp/a b;$(x)/bin/python' ")
    )


def test_a_jetson_is_sent_to_its_own_wheels():
    snapshot = machine(torch=CPU, host=host(machine="aarch64", kernel="5.15.136-tegra"))
    advice = advice_in(the_finding("ENV101", snapshot))
    assert "JetPack" in advice
    assert "--index-url" not in advice
