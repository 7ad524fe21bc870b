"""ENV001 no-nvidia-driver."""

from __future__ import annotations

from dataclasses import replace

from envsmith.model.findings import Severity
from envsmith.wire.facts import Gap, LibcudaFacts, PciDevice
from tests.machines import driver, host, laptop, machine, torch, variables
from tests.unit.doctor.rules.judge import advice_in, judge, the_finding

H200 = (PciDevice("0000:65:00.0", "10de:2335"),)
NO_LIBRARIES = driver(libcuda=None, library_version=None, driver_cuda=None)
NO_MODULE = driver(kernel_module_version=None, kernel_module_flavour=None)


def test_a_machine_with_both_halves_is_clean():
    assert judge("ENV001", machine()).status == "clean"


def test_a_machine_without_nvidia_is_told_and_not_blamed():
    finding = the_finding("ENV001", laptop(nvidia_pci_devices=()))
    assert (finding.severity, finding.fix) == (Severity.INFO, None)
    assert "no NVIDIA GPU here" in finding.summary


def test_where_nobody_could_look_at_the_bus_it_claims_less():
    assert "no sign of an NVIDIA GPU" in the_finding("ENV001", laptop()).summary


def test_a_gpu_without_a_driver_is_an_error():
    finding = the_finding("ENV001", laptop(nvidia_pci_devices=H200, host=host(os_id="ubuntu")))
    assert finding.severity is Severity.ERROR
    assert finding.fix.commands == ("sudo ubuntu-drivers install",)
    assert (finding.fix.needs_root, finding.fix.needs_reboot) == (True, True)
    assert any(evidence.value == "10de:2335" for evidence in finding.evidence)


def test_libraries_without_a_module_point_to_the_kernel():
    finding = the_finding("ENV001", machine(driver=NO_MODULE, nvidia_pci_devices=H200))
    assert finding.fix.commands[0] == "sudo modprobe nvidia"


def test_a_module_without_libraries():
    finding = the_finding("ENV001", machine(driver=NO_LIBRARIES))
    assert finding.summary == "The driver's libcuda.so.1 is missing, though its module 580.95.05 is loaded"


def test_a_stub_is_no_driver_library():
    stub = LibcudaFacts("/usr/local/cuda/lib64/stubs/libcuda.so.1", None, "stub")
    assert judge("ENV001", machine(driver=driver(libcuda=stub))).status == "found"


def test_in_a_container_nothing_is_to_be_installed_inside():
    bare = replace(machine(driver=None, nvidia_pci_devices=H200), host=host("docker", os_id="ubuntu"))
    for snapshot in (bare, replace(bare, driver=NO_LIBRARIES)):
        finding = the_finding("ENV001", snapshot)
        assert finding.severity is Severity.ERROR
        assert finding.fix.commands == ()
        assert "container" in finding.fix.text


def test_a_container_that_is_not_meant_for_a_gpu_is_only_told():
    for_cpu = machine(host=host("docker"), driver=NO_LIBRARIES, torch=torch("2.6.0+cpu"))
    assert the_finding("ENV001", for_cpu).severity is Severity.INFO
    asks = replace(for_cpu, env=variables(NVIDIA_VISIBLE_DEVICES="all"))
    assert the_finding("ENV001", asks).severity is Severity.ERROR


def test_wsl_takes_the_driver_of_windows():
    wsl = host(wsl=True, kernel="5.15.153.1-microsoft-standard-WSL2")
    assert judge("ENV001", machine(host=wsl, driver=NO_MODULE)).status == "clean"
    finding = the_finding("ENV001", laptop(host=wsl))
    assert finding.severity is Severity.INFO
    assert "Windows" in advice_in(finding)


def test_a_jetson_is_not_judged():
    assert judge("ENV001", laptop(host=host(kernel="5.15.136-tegra"))).status == "skipped"


def test_a_driver_that_could_not_be_looked_at_is_not_missing():
    outcome = judge("ENV001", replace(laptop(), gaps=(Gap("driver", "denied"),)))
    assert (outcome.status, outcome.reason) == ("skipped", "driver: denied")
