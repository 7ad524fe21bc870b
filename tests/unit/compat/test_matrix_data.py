"""The rows themselves: nothing missing, nothing in a wrong unit, tables that agree with each other.

The expectations are written out by hand from the published tables, not derived from the files.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections import Counter
from typing import Any

import pytest

from envsmith import resources
from envsmith.compat.load import TABLES, load_matrix
from envsmith.model.matrix import TorchBuild
from envsmith.model.versions import major, minor_of, parse

MATRIX = load_matrix()
BUILDS = {(build.torch, build.variant, build.platform): build for build in MATRIX.torch_builds}
CUDA_BUILDS = [build for build in MATRIX.torch_builds if build.variant != "cpu"]
GPUS = {gpu.product: gpu for gpu in MATRIX.gpus}
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
    parsed = [parse(value) for value in values]
    return parsed == sorted(parsed)


def branch_of(driver: str) -> int:
    return major(driver)


# --- every row of every table


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_every_row_says_where_its_figures_are_from(table: Any) -> None:
    for row in getattr(MATRIX, table.field):
        assert len(row.source) >= 8, row
        assert datetime.date(2026, 1, 1) <= datetime.date.fromisoformat(row.checked), row
        text = f"{row.source} {row.note}"
        assert text.isascii(), row
        assert not re.search(r"(^|[\s(])/(work|tmp|home|root|opt)\b|file://|corpus|code index", text), row
        assert len(row.note) < 600, row


def test_the_readme_lists_every_file_with_its_number_of_rows() -> None:
    readme = (resources.data_dir("matrix") / "README.md").read_text("utf-8")
    listed = {stem: int(count) for stem, count in re.findall(r"^\| `(\w+)\.json` \|[^|]*\| (\d+) \|", readme, re.M)}
    assert listed == {table.stem: len(getattr(MATRIX, table.field)) for table in TABLES}


# --- torch


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


# --- drivers and toolkits


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
            offered = offers[branch_of(toolkit.native_driver_min)]
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


# --- GPUs


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("memory_gb", 1, 2000),
        ("memory_bandwidth_gb_s", 10, 20000),
        ("fp32_tflops", 0.2, 200),
        ("tf32_tflops", 50, 3000),
        ("bf16_tflops", 35, 6000),
        ("fp16_tflops", 20, 6000),
        ("fp8_tflops", 200, 12000),
        ("int8_tops", 45, 12000),
        ("fp4_tflops", 900, 30000),
        ("nvlink_gb_s", 50, 4000),
        ("tdp_w", 4, 2000),
    ],
)
def test_gpu_figures_are_in_their_unit(field: str, low: float, high: float) -> None:
    values = {gpu.product: getattr(gpu, field) for gpu in MATRIX.gpus if getattr(gpu, field) is not None}
    assert values
    assert {product: value for product, value in values.items() if not low <= value <= high} == {}


def test_dense_rates_stand_in_the_ratios_of_the_hardware() -> None:
    for gpu in MATRIX.gpus:
        if gpu.bf16_tflops and gpu.fp16_tflops:
            assert gpu.bf16_tflops == gpu.fp16_tflops, gpu.product
        if gpu.bf16_tflops and gpu.tf32_tflops:
            assert gpu.bf16_tflops == pytest.approx(2 * gpu.tf32_tflops, rel=0.02), gpu.product
        if gpu.bf16_tflops and gpu.fp8_tflops:
            assert gpu.fp8_tflops == pytest.approx(2 * gpu.bf16_tflops, rel=0.02), gpu.product
        if parse(gpu.compute_capability) < parse("8.0"):
            assert (gpu.bf16_tflops, gpu.tf32_tflops, gpu.fp8_tflops) == (None, None, None), gpu.product


def test_exact_figures_of_well_known_gpus() -> None:
    h200 = GPUS["H200 SXM"]
    assert (h200.compute_capability, h200.memory_gb, h200.bf16_tflops, h200.memory_bandwidth_gb_s) == (
        "9.0",
        141,
        989,
        4800,
    )
    assert "NVIDIA H200" in h200.aliases
    a100 = GPUS["A100 SXM4 80GB"]
    assert (a100.compute_capability, a100.memory_gb, a100.bf16_tflops, a100.nvlink_gb_s) == ("8.0", 80, 312, 600)
    assert GPUS["GeForce RTX 5090"].compute_capability == "12.0"
    assert GPUS["B200 SXM"].compute_capability == "10.0"
    assert GPUS["Tesla V100 SXM2 32GB"].last_driver_branch == 580
    assert "Tesla V100-SXM2-32GB" in GPUS["Tesla V100 SXM2 32GB"].aliases
    assert "NVIDIA GeForce RTX 5090" in GPUS["GeForce RTX 5090"].aliases
    assert GPUS["Tesla T4"].compute_capability == "7.5"


def test_no_two_gpus_share_a_name() -> None:
    names = Counter(name.casefold() for gpu in MATRIX.gpus for name in (gpu.product, *gpu.aliases))
    assert [name for name, count in names.items() if count > 1] == []
    assert len(MATRIX.gpus) >= 450


def test_forward_compatibility_is_for_data_centre_gpus_and_jetson() -> None:
    expected = {"datacenter": True, "jetson": True, "consumer": False}
    for gpu in MATRIX.gpus:
        assert gpu.forward_compat == expected.get(gpu.product_class), gpu.product
        assert not (gpu.product.startswith("GeForce") and gpu.forward_compat is not False), gpu.product
    assert {gpu.product_class for gpu in MATRIX.gpus} == {
        *("datacenter", "jetson", "consumer", "workstation", "virtual", "mining", "automotive"),
    }


def test_gpus_have_a_known_capability_and_its_last_driver() -> None:
    capabilities = {row.compute_capability: row for row in MATRIX.compute_capabilities}
    for gpu in MATRIX.gpus:
        row = capabilities[gpu.compute_capability]
        assert row.architecture is not None, gpu.product
        assert row.architecture == gpu.architecture, gpu.product
        if gpu.product_class != "jetson":
            assert gpu.last_driver_branch == row.last_driver_branch, gpu.product


# --- images and systems


def test_operating_systems_have_their_own_python_and_glibc() -> None:
    found = {row.os: (row.python, row.glibc) for row in MATRIX.operating_systems}
    assert found == {
        "debian11": ("3.9", "2.31"),
        "debian12": ("3.11", "2.36"),
        "debian13": ("3.13", "2.41"),
        "ubuntu22.04": ("3.10", "2.35"),
        "ubuntu24.04": ("3.12", "2.39"),
    }
    slim = {row.os: f"{row.image}:{row.tag}" for row in MATRIX.base_images if row.flavour == "slim"}
    assert slim["debian12"] == "debian:bookworm-slim"
    assert slim["ubuntu24.04"] == "ubuntu:24.04"
    assert slim.keys() == found.keys()


def test_tags_of_base_images_say_what_their_row_says() -> None:
    systems = {row.os for row in MATRIX.operating_systems}
    toolkits = {row.cuda for row in MATRIX.toolkits}
    for row in MATRIX.base_images:
        assert row.os in systems
        assert set(row.platforms) <= {"linux/amd64", "linux/arm64"}
        assert row.cuda_compat == (row.image == "nvidia/cuda")
        assert (row.cuda is None) == (row.flavour == "slim")
        if row.cuda is not None:
            cudnn = re.fullmatch(rf"{re.escape(row.cuda)}-(cudnn\d?-)?{row.flavour}-{row.os}", row.tag)
            assert cudnn is not None, row.tag
            assert (cudnn[1] is None) == (row.cudnn is None), row.tag
            assert row.cuda in toolkits


def test_every_offered_cuda_has_a_devel_image() -> None:
    devel = {
        minor_of(row.cuda)
        for row in MATRIX.base_images
        if row.flavour == "devel" and row.os == "ubuntu22.04" and row.cuda
    }
    wheels = {build.wheel_cuda for build in CUDA_BUILDS if build.status in OFFERED}
    assert wheels - devel == {"11.6"}  # its images were deleted long ago
    assert "12.1.1-devel-ubuntu22.04" in {row.tag for row in MATRIX.base_images}
