"""ENV201 cuda-library-twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envsmith.model.findings import Severity
from tests.machines import library, machine, variables
from tests.unit.doctor.rules.judge import advice_in, judge, the_finding

WHEEL = library("cudnn", "9.1.0", "wheel")
ON_PATH = library("cudnn", "9.5.1", "ld_library_path", "/usr/local/cuda/lib64/libcudnn.so.9.5.1")


def test_the_wheel_beside_a_toolkit_is_clean():
    copies = (WHEEL, library("cudnn", "9.5.1", "toolkit"), library("cudnn", "8.9.7", "system"))
    assert judge("ENV201", machine(libraries=copies)).status == "clean"


def test_two_releases_loaded_are_an_error():
    finding = the_finding("ENV201", machine(loaded_libraries=(WHEEL, library("cudnn", "9.5.1", "system"))))
    assert finding.severity is Severity.ERROR
    assert finding.summary == "Two releases of cudnn loaded into one process: 9.1.0 (wheel) and 9.5.1 (system)"
    assert finding.evidence[1].fact == "loaded_libraries[1]"


def test_two_majors_loaded_are_a_warning():
    loaded = (library("cublas", "12.4.5", "wheel"), library("cublas", "11.11.3", "system"))
    assert the_finding("ENV201", machine(loaded_libraries=loaded)).severity is Severity.WARNING


def test_sublibraries_of_one_release_are_one_release():
    parts = [library("cudnn", "9.1.0", "wheel", f"/wheel/libcudnn_{part}.so.9") for part in ("ops", "cnn", "graph")]
    assert judge("ENV201", machine(loaded_libraries=tuple(parts))).status == "clean"


def test_a_part_of_another_release_is_found():
    part = library("cudnn_engines_tensor_ir", "9.23.0", "system", "/usr/lib/libcudnn_engines_tensor_ir.so.9.23.0")
    finding = the_finding("ENV201", machine(loaded_libraries=(library("cudnn_ops", "9.20.0", "wheel"), part)))
    assert finding.summary.startswith("Two releases of cudnn loaded")
    assert "/usr/lib" in finding.fix.text


def test_a_copy_on_ld_library_path_is_a_warning_with_the_path_without_it():
    env = variables(LD_LIBRARY_PATH="/usr/local/cuda/lib64/:/opt/my libs")
    finding = the_finding("ENV201", machine(libraries=(WHEEL, ON_PATH), env=env))
    assert finding.severity is Severity.WARNING
    assert finding.fix.commands == ("export LD_LIBRARY_PATH='/opt/my libs'",)


def test_an_ld_library_path_with_nothing_else_is_unset():
    env = variables(LD_LIBRARY_PATH="/usr/local/cuda/lib64")
    assert the_finding("ENV201", machine(libraries=(WHEEL, ON_PATH), env=env)).fix.commands == (
        "unset LD_LIBRARY_PATH",
    )


def test_another_major_on_ld_library_path_is_never_taken():
    other = library("cudnn", "8.9.7", "ld_library_path")
    assert judge("ENV201", machine(libraries=(WHEEL, other))).status == "clean"


def test_without_a_copy_in_the_wheel_the_path_is_the_only_one():
    assert judge("ENV201", machine(libraries=(ON_PATH,))).status == "clean"


def test_reinstalling_torch_is_never_the_remedy():
    finding = the_finding("ENV201", machine(libraries=(WHEEL, ON_PATH)))
    assert "torch" not in advice_in(finding)


def test_where_nobody_looked_it_says_so():
    assert judge("ENV201", machine(libraries=None, loaded_libraries=None)).status == "skipped"


@given(st.lists(st.sampled_from(["9", "9.1", "9.1.0", "9.1.0.70", None, "unknown"]), max_size=5))
def test_versions_of_different_precision_are_not_different_releases(texts):
    copies = tuple(library("cudnn", text, "wheel", f"/{number}/libcudnn.so") for number, text in enumerate(texts))
    assert judge("ENV201", machine(loaded_libraries=copies)).status == "clean"


@given(st.permutations(["9.1.0", "9.2.0", "9", None]))
def test_different_releases_are_found_in_any_order(texts):
    copies = tuple(library("cudnn", text, "wheel", f"/{number}/libcudnn.so") for number, text in enumerate(texts))
    assert judge("ENV201", machine(loaded_libraries=copies)).status == "found"
