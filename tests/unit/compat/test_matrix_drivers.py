"""Drivers, toolkits, compilers and what they compile for: the tables against each other.

The expectations are written out by hand from the published tables, not derived from the files.
"""

from __future__ import annotations

from envsmith.compat.load import load_matrix
from envsmith.model.versions import major, minor_of, parse

MATRIX = load_matrix()
CUDA_BUILDS = [build for build in MATRIX.torch_builds if build.variant != "cpu"]
OFFERED = ("stable", "experimental", "legacy")


def in_order(values: list[str]) -> bool:
    return sorted(values, key=parse) == values


def test_native_minimum_of_toolkits_grows_with_cuda() -> None:
    known = [toolkit for toolkit in MATRIX.toolkits if toolkit.native_driver_min]
    assert in_order([toolkit.cuda for toolkit in known])
    assert in_order([str(toolkit.native_driver_min) for toolkit in known])
    assert len(known) >= 55
    for toolkit in known:
        if toolkit.bundled_driver:
            assert parse(str(toolkit.native_driver_min)) <= parse(toolkit.bundled_driver), toolkit.cuda


def test_the_native_minimum_lies_on_a_branch_that_offers_that_cuda() -> None:
    offers = {row.branch: row.driver_cuda for row in MATRIX.driver_branches}
    for toolkit in MATRIX.toolkits:
        if toolkit.native_driver_min:
            offered = offers[major(toolkit.native_driver_min)]
            assert offered is not None, toolkit.cuda
            assert parse(offered) >= parse(minor_of(toolkit.cuda)), toolkit.cuda


def test_driver_branches_offer_more_and_more_cuda() -> None:
    branches = [row.branch for row in MATRIX.driver_branches]
    assert branches == sorted(branches)
    assert in_order([row.driver_cuda for row in MATRIX.driver_branches if row.driver_cuda])
    offers = {row.branch: row.driver_cuda for row in MATRIX.driver_branches}
    assert (offers[470], offers[525], offers[535], offers[565]) == ("11.4", "12.0", "12.2", "12.7")
    assert (offers[580], offers[595], offers[620]) == ("13.0", "13.2", None)


def test_only_branches_whose_end_is_ahead_count_as_supported() -> None:
    for row in MATRIX.driver_branches:
        if row.end_of_life is not None:
            assert (row.status == "supported") == (row.end_of_life > row.checked[:7]), row.branch
    assert {row.branch for row in MATRIX.driver_branches if row.status == "supported"} == {580, 595, 620}


def test_minor_version_floors() -> None:
    floors = {row.cuda_major: row.driver_min for row in MATRIX.minor_version_floors}
    assert floors == {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
    for toolkit in MATRIX.toolkits:
        if toolkit.native_driver_min and minor_of(toolkit.cuda) != "11.0":
            assert parse(toolkit.native_driver_min) >= parse(floors[major(toolkit.cuda)]), toolkit.cuda


def test_forward_compatibility_is_from_branches_that_lack_that_cuda() -> None:
    offers = {row.branch: row.driver_cuda for row in MATRIX.driver_branches}
    for row in MATRIX.forward_compat:
        assert row.package == "cuda-compat-" + row.cuda.replace(".", "-")
        assert list(row.driver_branches) == sorted(row.driver_branches)
        assert row.driver_branches
        assert "tesla" in row.brands
        for branch in row.driver_branches:
            offered = offers.get(branch)  # 418 is older than this table
            assert offered is None or parse(offered) < parse(row.cuda), (row.cuda, branch)
    branches = {row.cuda: row.driver_branches for row in MATRIX.forward_compat}
    assert branches["12.4"] == (470, 525, 535)
    assert 470 not in branches["12.9"]
    wheels = {build.wheel_cuda for build in CUDA_BUILDS if build.status in OFFERED}
    assert wheels <= branches.keys()


def test_compilers_and_capabilities_agree_on_first_and_last_cuda() -> None:
    compiled_by = {row.cuda_minor: row.compute_capabilities for row in MATRIX.toolkit_archs}
    for row in MATRIX.compute_capabilities:
        for cuda, found in compiled_by.items():
            late_enough = row.first_cuda is None or parse(row.first_cuda) <= parse(cuda)
            early_enough = row.last_cuda is None or parse(cuda) <= parse(row.last_cuda)
            assert (row.compute_capability in found) == (late_enough and early_enough), (row.compute_capability, cuda)


def test_last_driver_of_old_architectures() -> None:
    last = {row.compute_capability: row.last_driver_branch for row in MATRIX.compute_capabilities}
    assert (last["3.7"], last["5.2"], last["6.1"], last["7.0"], last["7.5"]) == (470, 580, 580, 580, None)


def test_host_compilers_grow_with_cuda() -> None:
    rows = MATRIX.host_compilers
    assert in_order([row.cuda_minor for row in rows])
    limits = [row.gcc_max for row in rows if row.gcc_max]
    assert limits == sorted(limits)
    assert {row.gcc_min for row in rows} == {6}
    assert {row.cuda_minor: row.gcc_max for row in rows}["12.4"] == 13


def test_cudnn_dropped_volta_after_9_10() -> None:
    for row in MATRIX.cudnn_archs:
        assert ("7.0" in row.compute_capabilities) == (parse(row.cudnn) <= parse("9.10.2.21")), row.cudnn
        assert ("12.0" in row.compute_capabilities) == (parse(row.cudnn) >= parse("9.7") and row.cuda_major >= 12)
        assert ("11.0" in row.compute_capabilities) == (row.cuda_major == 13 and row.platform == "linux/arm64")


def test_builds_on_a_bad_toolkit_are_all_named() -> None:
    for row in MATRIX.known_bad:
        affected = {f"{b.torch}+{b.variant}" for b in CUDA_BUILDS if b.wheel_toolkit in row.versions}
        assert affected == set(row.torch_builds)
        assert row.mended_in in {toolkit.cuda for toolkit in MATRIX.toolkits}
