"""torch.json: which builds exist, and what each holds.

The expectations are written out by hand from the published tables, not derived from the files.
"""

from __future__ import annotations

import itertools
import re

import pytest

from envsmith.compat.load import load_matrix
from envsmith.model.matrix import TorchBuild
from envsmith.model.versions import major, minor_of, parse

MATRIX = load_matrix()
BUILDS = {(build.torch, build.variant, build.platform): build for build in MATRIX.torch_builds}
CUDA_BUILDS = [build for build in MATRIX.torch_builds if build.variant != "cpu"]
OFFERED = ("stable", "experimental", "legacy")
PLATFORMS = ("linux/amd64", "linux/arm64", "windows/amd64")
MB, GB = 10**6, 10**9

RELEASES = [
    *("1.13.0", "1.13.1", "2.0.0", "2.0.1", "2.1.0", "2.1.1", "2.1.2", "2.2.0", "2.2.1", "2.2.2", "2.3.0", "2.3.1"),
    *("2.4.0", "2.4.1", "2.5.0", "2.5.1", "2.6.0", "2.7.0", "2.7.1", "2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.11.0"),
    *("2.12.0", "2.12.1", "2.13.0", "2.14.0", "2.14.1", "2.15.0"),
]
# First and last release whose index offers the variant for Linux on x86-64.
VARIANT_RANGES = {
    "cpu": ("1.13.0", "2.15.0"),
    "cu116": ("1.13.0", "1.13.1"),
    "cu117": ("1.13.0", "2.0.1"),
    "cu118": ("2.0.0", "2.7.1"),
    "cu121": ("2.1.0", "2.5.1"),
    "cu124": ("2.4.0", "2.6.0"),
    "cu126": ("2.6.0", "2.14.1"),
    "cu128": ("2.7.0", "2.11.0"),
    "cu129": ("2.8.0", "2.8.0"),
    "cu130": ("2.9.0", "2.14.1"),
    "cu132": ("2.12.0", "2.15.0"),
}
# First torch minor whose Linux x86-64 wheel on PyPI is the variant.
PYPI_SINCE = (("1.13", "cu117"), ("2.1", "cu121"), ("2.5", "cu124"), ("2.7", "cu126"), ("2.8", "cu128"))
PYPI_SINCE += (("2.11", "cu130"), ("2.15", "cu132"))


def name_of(build: TorchBuild) -> str:
    return f"{build.torch}+{build.variant} {build.platform}"


def in_order(values: list[str]) -> bool:
    return sorted(values, key=parse) == values


def test_all_releases_are_here_with_a_cpu_build_for_each_platform() -> None:
    assert list(dict.fromkeys(build.torch for build in MATRIX.torch_builds)) == RELEASES
    for release, platform in itertools.product(RELEASES, PLATFORMS):
        assert (release, "cpu", platform) in BUILDS


@pytest.mark.parametrize("release", RELEASES)
def test_the_variants_of_a_release_are_those_of_its_index(release: str) -> None:
    expected = {
        variant for variant, (first, last) in VARIANT_RANGES.items() if parse(first) <= parse(release) <= parse(last)
    }
    offered = {
        build.variant
        for build in MATRIX.torch_builds
        if build.torch == release and build.platform == "linux/amd64" and build.status in OFFERED
    }
    assert offered == expected


def test_torch_2_6_has_four_variants_and_never_one_for_cuda_12_1() -> None:
    assert {build.variant for build in MATRIX.torch_builds if build.torch == "2.6.0"} == {
        "cpu",
        "cu118",
        "cu124",
        "cu126",
    }


def test_what_nobody_has_seen_is_never_offered() -> None:
    hidden = {(build.torch, build.variant, build.status) for build in CUDA_BUILDS if build.status not in OFFERED}
    assert {("2.15.0", "cu126", "removed"), ("2.15.0", "cu130", "unverified")} < hidden
    assert {("2.15.0", "cu134", "unverified"), ("2.13.0", "cu129", "unadvertised")} < hidden
    assert {variant for _, variant, _ in hidden} == {"cu126", "cu129", "cu130", "cu134"}


def test_each_release_has_one_pypi_build_for_each_platform() -> None:
    for release, platform in itertools.product(RELEASES, PLATFORMS):
        on_pypi = [
            b.variant for b in MATRIX.torch_builds if (b.torch, b.platform, b.pypi_default) == (release, platform, True)
        ]
        cuda = [variant for since, variant in PYPI_SINCE if parse(since) <= parse(release)][-1]
        arm_has_cuda = parse(release) >= parse("2.11")
        expected = {"linux/amd64": cuda, "linux/arm64": cuda if arm_has_cuda else "cpu", "windows/amd64": "cpu"}
        assert on_pypi == [expected[platform]], (release, platform)


def test_a_pypi_build_is_stable_and_was_read_from_the_wheel() -> None:
    for build in MATRIX.torch_builds:
        if build.pypi_default:
            assert (build.status, build.confidence) == ("stable", "measured"), name_of(build)
            assert build.wheel_size_bytes is not None, name_of(build)
            assert build.source.startswith(f"PyPI wheel torch-{build.torch}-cp3"), name_of(build)


def test_variant_toolkit_and_index_name_the_same_cuda() -> None:
    toolkits = {toolkit.cuda for toolkit in MATRIX.toolkits}
    floors = {floor.cuda_major for floor in MATRIX.minor_version_floors}
    for build in MATRIX.torch_builds:
        assert build.index_path == f"/whl/{build.variant}"
        if build.variant == "cpu":
            assert (build.wheel_cuda, build.wheel_toolkit, build.cudnn, build.nccl, build.triton) == (None,) * 5
            continue
        assert build.wheel_cuda is not None
        assert build.variant == "cu" + build.wheel_cuda.replace(".", "")
        assert major(build.wheel_cuda) in floors
        if build.wheel_toolkit is not None:
            assert build.wheel_toolkit in toolkits, name_of(build)
            assert minor_of(build.wheel_toolkit) == build.wheel_cuda, name_of(build)
        else:
            assert build.status in ("unverified", "removed"), name_of(build)


def test_cuda_wheels_for_arm_exist_only_where_they_were_published() -> None:
    arm = {(b.torch, b.variant) for b in CUDA_BUILDS if b.platform == "linux/arm64" and b.status in OFFERED}
    assert min(parse(torch) for torch, _ in arm) == parse("2.4.0")
    assert {variant for torch, variant in arm if torch == "2.6.0"} == {"cu126"}
    assert {variant for torch, variant in arm if torch == "2.7.1"} == {"cu128"}
    assert {variant for torch, variant in arm if torch == "2.8.0"} == {"cu129"}


def test_machine_code_is_what_the_toolkit_can_compile() -> None:
    compiled_by = {row.cuda_minor: set(row.compute_capabilities) for row in MATRIX.toolkit_archs}
    for build in CUDA_BUILDS:
        found = list(build.compute_capabilities or ())
        assert in_order(found), name_of(build)
        assert set(found) | set(build.ptx or ()) <= compiled_by[str(build.wheel_cuda)], name_of(build)
        assert build.compute_capabilities != (), name_of(build)
        if build.status in OFFERED and build.platform != "windows/amd64":
            assert build.compute_capabilities, name_of(build)


def test_which_releases_have_code_for_which_gpu() -> None:
    def with_code(capability: str) -> set[str]:
        return {
            f"{build.torch}+{build.variant}"
            for build in CUDA_BUILDS
            if build.platform == "linux/amd64" and build.status in OFFERED
            if capability in (build.compute_capabilities or ())
        }

    blackwell = with_code("12.0")
    assert blackwell == with_code("10.0")
    assert min(blackwell, key=lambda text: parse(text).release) == "2.7.0+cu128"
    assert not any(text.startswith("2.6") for text in blackwell)
    newest_cuda_of_volta = {"2.7.1+cu126", "2.8.0+cu128", "2.10.0+cu128", "2.14.1+cu126"}
    assert newest_cuda_of_volta < with_code("7.0")
    assert not {text for text in with_code("7.0") if re.search(r"\+cu1(29|3\d)", text)}
    assert "2.11.0+cu128" not in with_code("7.0")
    assert not {text for text in with_code("6.0") if re.search(r"\+cu1(28|29|3\d)", text)}
    assert "2.0.1+cu117" not in with_code("9.0")
    assert "2.0.1+cu118" in with_code("9.0")


def test_ptx_is_in_torch_2_7_for_cuda_12_8_and_in_no_pypi_wheel() -> None:
    with_ptx = {(b.torch, b.variant) for b in CUDA_BUILDS if b.ptx and b.platform == "linux/amd64"}
    assert with_ptx == {("2.7.0", "cu128"), ("2.7.1", "cu128")}
    assert {b.ptx for b in MATRIX.torch_builds if b.pypi_default} == {()}


def test_old_gpus_have_a_cudnn_with_code_for_them() -> None:
    for build in CUDA_BUILDS:
        if "7.0" in (build.compute_capabilities or ()) and build.status in OFFERED:
            assert build.cudnn is not None, name_of(build)
            assert parse(build.cudnn) <= parse("9.10.2.21"), name_of(build)


def test_glibc_and_abi_follow_the_wheel_tags() -> None:
    for build in MATRIX.torch_builds:
        found = (build.glibc_floor, build.cxx11_abi)
        new = parse(build.torch) >= parse("2.7") or (build.torch, build.variant) == ("2.6.0", "cu126")
        if build.platform == "linux/amd64":
            assert found == (("2.28", 1) if new else ("2.17", 0)), name_of(build)
        elif build.platform == "windows/amd64":
            assert found == (None, None), name_of(build)
        elif build.variant == "cpu" or build.status in OFFERED:
            expected = ("2.28", 1) if parse(build.torch) >= parse("2.6") else ("2.17", 0)
            assert found in (expected, (None, None)), name_of(build)


def test_python_tags_are_those_of_the_release() -> None:
    for build in MATRIX.torch_builds:
        assert len(build.python_tags) >= 4, name_of(build)
        for tag in build.python_tags:
            if tag.endswith("t"):
                assert tag[:-1] in build.python_tags, name_of(build)
    tags = {platform: BUILDS["2.6.0", "cpu", platform].python_tags for platform in PLATFORMS}
    assert set(tags.values()) == {("cp39", "cp310", "cp311", "cp312", "cp313")}
    assert BUILDS["2.5.1", "cu124", "linux/amd64"].python_tags[-1] == "cp313"
    assert BUILDS["2.5.1", "cu124", "linux/arm64"].python_tags[-1] == "cp312"
    assert BUILDS["2.5.1", "cu124", "windows/amd64"].python_tags[-1] == "cp312"
    assert "cp313t" in BUILDS["2.12.0", "cu130", "linux/amd64"].python_tags
    assert "cp313t" not in BUILDS["2.12.1", "cu130", "linux/amd64"].python_tags
    newest = ("cp311", "cp312", "cp313", "cp314", "cp314t", "cp315", "cp315t")
    assert BUILDS["2.15.0", "cu132", "linux/amd64"].python_tags == newest


def test_numpy_two_is_accepted_from_2_3_on_linux_and_2_4_1_on_windows() -> None:
    for build in MATRIX.torch_builds:
        first = "2.4.1" if build.platform == "windows/amd64" else "2.3.0"
        assert build.numpy_majors == ((1, 2) if parse(build.torch) >= parse(first) else (1,)), name_of(build)


def test_sizes_are_bytes_and_agree_with_each_other() -> None:
    for build in MATRIX.torch_builds:
        wheel, download, installed = build.wheel_size_bytes, build.download_size_bytes, build.installed_size_bytes
        assert (download is None) == (installed is None), name_of(build)
        if wheel is not None:
            assert 50 * MB <= wheel <= 2 * GB, name_of(build)
            assert download is not None, name_of(build)
            assert wheel < download, name_of(build)
        if download is not None and installed is not None:
            assert 50 * MB <= download < installed <= 20 * GB, name_of(build)
            assert installed <= 7 * download, name_of(build)
            if build.variant != "cpu":
                assert download >= 1.5 * GB, name_of(build)
        if build.status in OFFERED and build.variant != "cpu" and build.platform == "linux/amd64":
            assert download is not None, name_of(build)


def test_windows_builds_have_no_nccl_and_no_triton() -> None:
    windows = [build for build in MATRIX.torch_builds if build.platform == "windows/amd64"]
    assert {(build.nccl, build.triton) for build in windows} == {(None, None)}


def test_releases_came_in_order_with_newer_companions() -> None:
    rows = [BUILDS[release, "cpu", "linux/amd64"] for release in RELEASES]
    assert [row.release_date for row in rows] == sorted(row.release_date for row in rows)
    assert in_order([row.torchvision[-1] for row in rows])
    assert in_order([row.torchaudio[-1] for row in rows])
    for build in MATRIX.torch_builds:
        assert in_order(list(build.torchvision)), name_of(build)
        assert in_order(list(build.torchaudio)), name_of(build)


def test_pythons_of_the_companions() -> None:
    """File names on PyPI. torchvision 0.29.2 and torchaudio 2.11.1 are py3-none wheels: for any Python."""
    without = {}
    for build in MATRIX.torch_builds:
        assert set(build.companion_python_tags) <= set(build.python_tags), name_of(build)
        missing = set(build.python_tags) - set(build.companion_python_tags)
        if missing:
            without.setdefault(build.torch, set()).update(missing)
            assert build.platform == "linux/amd64", name_of(build)
    assert without == {"1.13.0": {"cp311"}, "1.13.1": {"cp311"}, "2.5.0": {"cp313"}, "2.5.1": {"cp313"}}


def test_the_exact_row_of_torch_2_6_on_pypi() -> None:
    build = BUILDS["2.6.0", "cu124", "linux/amd64"]
    assert (build.wheel_cuda, build.wheel_toolkit) == ("12.4", "12.4.1")
    assert (build.cudnn, build.nccl, build.triton) == ("9.1.0.70", "2.21.5", "3.2.0")
    assert build.compute_capabilities == ("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0")
    assert build.ptx == ()
    assert (build.torchvision, build.torchaudio) == (("0.21.0",), ("2.6.0",))
    assert (build.wheel_size_bytes, build.release_date) == (766685561, "2025-01-29")
    assert build.download_size_bytes == pytest.approx(3.06 * GB, rel=0.01)
    assert build.installed_size_bytes == pytest.approx(5.39 * GB, rel=0.01)
