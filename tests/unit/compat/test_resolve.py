"""The resolver on the requests that people make, over the real matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envsmith.compat.gpus import find_gpu
from envsmith.compat.load import load_matrix
from envsmith.compat.resolve import resolve
from envsmith.model.matrix import Matrix
from envsmith.model.plan import Plan, Refusal
from envsmith.model.request import BuildRequest

MATRIX = load_matrix()


def request(**wishes: Any) -> BuildRequest:
    gpus = tuple(find_gpu(MATRIX, name) for name in wishes.pop("gpus", ()))
    return BuildRequest(**wishes, gpus=gpus)


def planned(**wishes: Any) -> Plan:
    answer = resolve(request(**wishes), MATRIX)
    assert isinstance(answer, Plan), answer
    return answer


def refused(**wishes: Any) -> Refusal:
    answer = resolve(request(**wishes), MATRIX)
    assert isinstance(answer, Refusal), answer
    return answer


def subjects(refusal: Refusal) -> set[str]:
    return {conflict.subject for conflict in refusal.conflicts}


def reason(refusal: Refusal, subject: str) -> str:
    return next(conflict.reason for conflict in refusal.conflicts if conflict.subject == subject)


def commands(answer: Plan | Refusal) -> list[str]:
    return [alternative.command for alternative in answer.alternatives]


def codes(plan: Plan) -> set[str]:
    return {note.code for note in plan.notes}


# -- the example that everybody types ----------------------------------------------------------------------------------

OTHERS = [
    "envsmith build --torch 2.5.1 --cuda 12.1",
    "envsmith build --torch 2.6 --cuda 12.4",
    "envsmith build --torch 2.6 --cuda 12.6",
    "envsmith build --torch 2.6 --cuda 11.8",
]


def test_torch_2_6_with_cuda_12_1_takes_the_nearest_wheel_and_says_so() -> None:
    plan = planned(torch="2.6", cuda="12.1")
    assert (plan.wheel, plan.index, plan.packages[0].version) == ("2.6.0+cu124", "pypi", "2.6.0")
    assert (plan.requested_cuda, plan.wheel_cuda, plan.toolkit_cuda) == ("12.1", "12.4", None)
    assert (plan.python, plan.python_from, plan.os, plan.base_image) == (
        "3.11",
        "os",
        "debian12",
        "debian:bookworm-slim",
    )
    assert [(s.what, s.requested, s.used) for s in plan.substitutions] == [("wheel_cuda", "12.1", "12.4")]
    assert plan.labels["io.envsmith.substitutions"] == "wheel_cuda 12.1 -> 12.4"
    assert plan.driver_floor is not None
    assert (plan.driver_floor.version, plan.driver_floor.how) == ("525.60.13", "minor-version")
    assert commands(plan) == OTHERS


def test_exact_refuses_with_the_same_list() -> None:
    refusal = refused(torch="2.6", cuda="12.1", exact=True)
    assert subjects(refusal) == {"--torch", "--cuda", "--exact"}
    assert commands(refusal) == OTHERS


def test_a_devel_image_has_the_toolkit_that_was_asked_for() -> None:
    plan = planned(torch="2.6", cuda="12.1", variant="devel")
    assert plan.base_image == "nvidia/cuda:12.1.1-devel-ubuntu22.04"
    assert (plan.wheel_cuda, plan.toolkit_cuda, plan.python, plan.os) == ("12.4", "12.1.1", "3.10", "ubuntu22.04")
    assert "toolkit-differs" in codes(plan)


def test_a_devel_image_on_debian_is_refused_with_what_exists() -> None:
    refusal = refused(torch="2.6", variant="devel", os="debian12")
    assert subjects(refusal) == {"--variant", "--os"}
    assert "ubuntu22.04, ubuntu24.04" in reason(refusal, "--os")
    assert commands(refusal)[0] == "envsmith build --torch 2.6 --os ubuntu22.04 --variant devel"


def test_a_devel_image_of_a_cuda_that_nvidia_never_published() -> None:
    refusal = refused(torch="2.6", cuda="12.7", variant="devel")
    assert subjects(refusal) == {"--variant", "--cuda"}
    assert "11.7 to" in reason(refusal, "--variant")
    assert commands(refusal)[0] == "envsmith build --torch 2.6 --cuda 12.6 --variant devel"


def test_a_devel_image_may_bring_a_second_cudnn_only_if_there_is_no_other() -> None:
    assert "second-cudnn" not in codes(planned(variant="devel"))
    assert "second-cudnn" in codes(planned(torch="2.15", cuda="13.2", variant="devel", os="ubuntu22.04"))


@pytest.mark.parametrize(
    ("torch", "cuda", "wheel", "replaced"),
    [
        ("2.6", "12.4", "2.6.0+cu124", False),
        ("2.6", "12.6", "2.6.0+cu126", False),
        ("2.6", "12.4.0", "2.6.0+cu124", True),  # built with 12.4.1
        ("2.6", "12.4.1", "2.6.0+cu124", False),
        ("2.6", "12.5", "2.6.0+cu124", True),  # as near as 12.6, and stable
        ("2.6", "12.9", "2.6.0+cu126", True),
        ("2.6", "11.1", "2.6.0+cu118", True),
        (None, "12.1", "2.5.1+cu121", False),  # torch left open: the newest that has it
        (None, "12.7", "2.14.1+cu126", True),  # never was a toolkit, but drivers report it
        ("2.9.0", "12.9", "2.9.0+cu129", False),  # not advertised, but named exactly
        ("2.9", "12.9", "2.9.1+cu128", True),  # not named exactly
        (">=2.4,<2.6", None, "2.5.1+cu124", False),
        ("2.3", None, "2.3.1+cu121", False),  # PyPI's own build
    ],
)
def test_cuda_asked_for(torch: str | None, cuda: str | None, wheel: str, replaced: bool) -> None:
    plan = planned(torch=torch, cuda=cuda)
    assert plan.wheel == wheel
    assert bool(plan.substitutions) is replaced


def test_another_cuda_major_never_stands_in() -> None:
    refusal = refused(torch="2.6", cuda="13.0")
    assert subjects(refusal) == {"--torch", "--cuda"}
    assert "11.8, 12.4, 12.6" in reason(refusal, "--cuda")


def test_a_doubtful_build_is_noted_even_when_named() -> None:
    assert "status-unadvertised" in codes(planned(torch="2.9.0", cuda="12.9"))


def test_an_experimental_build_is_taken_only_where_nothing_else_fits() -> None:
    assert planned(torch="2.6").variant == "cu124"
    assert planned(torch="2.7", gpus=["RTX 5090"]).variant == "cu128"
    assert "status-experimental" in codes(planned(torch="2.7", gpus=["RTX 5090"]))


# -- GPUs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", ["RTX 5090", "B200"])
def test_torch_2_6_has_nothing_for_blackwell(gpu: str) -> None:
    refusal = refused(torch="2.6", gpus=[gpu])
    assert subjects(refusal) == {"--torch", "--gpu"}
    first = refusal.alternatives[0]
    assert (first.torch, first.wheel_cuda) == ("2.7.0", "12.8")
    assert "no PTX" in reason(refusal, "--gpu")


@pytest.mark.parametrize(
    ("gpu", "wishes", "wheel"),
    [
        ("V100", {}, "2.14.1+cu126"),
        ("V100", {"torch": "2.11", "cuda": "12.8"}, "2.11.0+cu126"),  # cu128 lost Volta in 2.11
        ("V100", {"torch": "2.10", "cuda": "12.8"}, "2.10.0+cu128"),
        ("P100", {"torch": "2.8"}, "2.8.0+cu126"),
        ("T4", {}, "2.15.0+cu132"),
        ("RTX 4090", {"torch": "2.6"}, "2.6.0+cu124"),  # 8.9 runs the code for 8.6
    ],
)
def test_old_gpus_get_wheels_with_code_for_them(gpu: str, wishes: dict[str, str], wheel: str) -> None:
    assert planned(gpus=[gpu], **wishes).wheel == wheel


def test_an_old_gpu_has_no_place_on_cuda_13() -> None:
    refusal = refused(cuda="13.0", gpus=["P100"])
    assert subjects(refusal) == {"--cuda", "--gpu"}
    assert commands(refusal)[0] == "envsmith build --cuda 12.6 --gpu P100"


def test_two_gpus_need_one_wheel_with_code_for_both() -> None:
    plan = planned(gpus=["V100", "RTX 5090"])
    assert plan.wheel == "2.10.0+cu128"
    assert [(c.gpu, c.how, c.by) for c in plan.coverage] == [
        ("V100", "machine code", "7.0"),
        ("RTX 5090", "machine code", "12.0"),
    ]


def test_a_gpu_may_need_a_later_driver_than_the_wheel() -> None:
    floor = planned(torch="2.8", gpus=["RTX 5090"]).driver_floor
    assert floor is not None
    assert floor.version == "570.26"
    assert planned(torch="2.8", gpus=["RTX 5090"]).require_cuda == "cuda>=12.8 driver>=570.26"


# -- drivers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "gpu", "torch", "wheel", "how"),
    [
        ("550.54.15", "A100", "2.6", "2.6.0+cu124", "native"),
        ("535.104.05", "A100", "2.6", "2.6.0+cu124", "minor-version"),
        ("525.60.13", "RTX 3090", "2.6", "2.6.0+cu124", "minor-version"),
        ("525.53", "RTX 3090", "2.6", "2.6.0+cu118", "native"),  # just below the floor of CUDA 12
        ("550", "A100", "2.6", "2.6.0+cu124", "native"),
        ("470.256.02", "A100", "2.8", "2.8.0+cu128", "forward"),
        ("470.256.02", "RTX 3090", None, "2.7.1+cu118", "minor-version"),
        ("470.256.02", "A100", None, "2.7.1+cu118", "minor-version"),
        ("570.26", "H200", None, "2.14.1+cu126", "native"),
        ("580.65.06", "H200", None, "2.15.0+cu132", "minor-version"),
        ("620", "H200", None, "2.15.0+cu132", "native"),
    ],
)
def test_mechanism(driver: str, gpu: str, torch: str | None, wheel: str, how: str) -> None:
    plan = planned(driver=driver, gpus=[gpu], torch=torch)
    assert plan.driver_floor is not None
    assert (plan.wheel, plan.driver_floor.how) == (wheel, how)


def test_forward_compatibility_needs_an_image_that_carries_it() -> None:
    plan = planned(driver="470.256.02", gpus=["A100"], torch="2.6", cuda="12.1")
    assert (plan.base_image, plan.forward_compat_package) == ("nvidia/cuda:12.4.1-base-ubuntu22.04", "cuda-compat-12-4")
    assert "brand=tesla,driver>=470,driver<471" in plan.require_cuda.split(" ")
    assert "geforce" not in plan.require_cuda
    assert "forward-compat" in plan.blocks


def test_forward_compatibility_is_not_for_geforce() -> None:
    refusal = refused(driver="470.256.02", gpus=["RTX 3090"], torch="2.6", cuda="12.1")
    assert subjects(refusal) == {"--driver", "--gpu", "--cuda"}
    assert "data-centre GPUs" in reason(refusal, "--gpu")
    assert "525.60.13" in reason(refusal, "--driver")


def test_forward_compatibility_that_is_not_known_is_not_counted_on() -> None:
    refusal = refused(driver="470.256.02", gpus=["RTX A6000"], torch="2.8")
    assert "not known to be one of them" in reason(refusal, "--gpu")


def test_forward_compatibility_is_offered_where_an_older_torch_runs_without() -> None:
    offered = planned(driver="470.256.02", gpus=["A100"]).alternatives[0]
    assert offered.change == "torch 2.14.1 on CUDA 12.6, by forward compatibility"
    assert offered.command == "envsmith build --torch 2.14.1 --cuda 12.6 --gpu A100 --driver 470.256.02"
    pinned = planned(driver="470.256.02", gpus=["A100"], torch="2.6")
    assert (pinned.wheel, pinned.alternatives[0].wheel_cuda) == ("2.6.0+cu118", "12.4")
    assert pinned.alternatives[0].change == "torch 2.6.0 on CUDA 12.4, by forward compatibility"
    assert not any("forward" in a.change for a in planned(driver="470.256.02", gpus=["RTX 3090"]).alternatives)


def test_without_a_gpu_forward_compatibility_comes_with_a_warning() -> None:
    assert planned(driver="470.256.02").alternatives[0].change.endswith("data-centre GPUs only")
    assert "forward-needs-data-centre-gpu" in codes(planned(driver="470.256.02", torch="2.8"))


def test_forward_compatibility_needs_ubuntu() -> None:
    refusal = refused(driver="470.256.02", gpus=["A100"], torch="2.8", os="debian12")
    assert "--os" in subjects(refusal)


def test_a_driver_that_dropped_the_gpu() -> None:
    refusal = refused(driver="595.58.03", gpus=["V100"])
    assert subjects(refusal) == {"--driver", "--gpu"}
    assert commands(refusal) == ["envsmith build --gpu V100 --driver 580"]


@pytest.mark.parametrize(
    ("driver", "gpu", "first"),
    [
        ("535.104.05", "RTX 5090", "12.8"),
        ("470.256.02", "RTX 4090", "11.8"),  # of RTX 30's major capability, and two years younger
        ("570.124.06", "B300", "12.9"),
    ],
)
def test_a_driver_older_than_the_gpu(driver: str, gpu: str, first: str) -> None:
    refusal = refused(driver=driver, gpus=[gpu])
    assert subjects(refusal) == {"--driver", "--gpu"}
    assert f"know from CUDA {first}" in reason(refusal, "--gpu")


def test_what_the_matrix_cannot_tell_about_a_driver_is_said() -> None:
    assert "driver-cuda-unknown" in codes(planned(driver="620.10", gpus=["H100"]))
    assert "driver-end-of-life" in codes(planned(driver="535.104.05", gpus=["H100"]))


@pytest.mark.parametrize(
    ("wishes", "expression"),
    [
        ({"torch": "2.6"}, "cuda>=12.4 driver>=525.60.13"),
        ({"torch": "2.6", "cuda": "11.8"}, "cuda>=11.8 driver>=450.80.2"),  # no leading zero: not a semantic version
        ({"torch": "2.9.0", "cuda": "12.9"}, "cuda>=12.9"),  # machine code not known: native only
        ({"cuda": "cpu"}, ""),
    ],
)
def test_require_cuda(wishes: dict[str, str], expression: str) -> None:
    assert planned(**wishes).require_cuda == expression


def with_code(torch: str, variant: str, **changes: Any) -> Matrix:
    """The real matrix with other code in one wheel."""
    builds = tuple(
        replace(row, **changes) if (row.torch, row.variant, row.platform) == (torch, variant, "linux/amd64") else row
        for row in MATRIX.torch_builds
    )
    return replace(MATRIX, torch_builds=builds, digest="sha256:changed")


def test_ptx_is_no_code_under_minor_version_compatibility() -> None:
    matrix = with_code("2.10.0", "cu128", compute_capabilities=("7.5",), ptx=("7.5",))
    wish = request(torch="2.10.0", cuda="12.8", gpus=["RTX 3090"], exact=True)
    on_570 = resolve(replace(wish, driver="570.26"), matrix)
    assert isinstance(on_570, Plan)
    assert [(c.how, c.by) for c in on_570.coverage] == [("ptx", "7.5")]
    assert on_570.require_cuda == "cuda>=12.8"
    assert on_570.driver_floor is not None
    assert (on_570.driver_floor.version, on_570.driver_floor.how) == ("570.26", "native")
    assert "ptx-coverage" in codes(on_570)
    assert isinstance(resolve(replace(wish, driver="550.54.15"), matrix), Refusal)
    # by forward compatibility the newer driver libraries do compile it
    on_a100 = resolve(replace(wish, gpus=request(gpus=["A100"]).gpus, driver="550.54.15"), matrix)
    assert isinstance(on_a100, Plan)
    assert on_a100.driver_floor is not None
    assert on_a100.driver_floor.how == "forward"


def test_ptx_of_a_newer_wheel_cannot_stand_in_for_an_older_cuda() -> None:
    matrix = with_code("2.10.0", "cu126", compute_capabilities=("7.5",), ptx=("7.5",))
    wish = request(torch="2.10.0", cuda="12.4", gpus=["RTX 3090"])
    answer = resolve(wish, matrix)
    assert isinstance(answer, Plan)
    assert answer.variant == "cu128", "12.6 is nearer, but not every driver that runs 12.4 compiles its PTX"


def test_code_that_is_not_known_is_never_counted_on() -> None:
    matrix = with_code("2.10.0", "cu128", compute_capabilities=None, ptx=None)
    wish = request(torch="2.10.0", cuda="12.8", exact=True)
    assert isinstance(resolve(replace(wish, gpus=request(gpus=["H100"]).gpus), matrix), Refusal)
    bare = resolve(wish, matrix)
    assert isinstance(bare, Plan)
    assert "coverage-unknown" in codes(bare)
    assert bare.driver_floor is not None
    assert (bare.driver_floor.version, bare.require_cuda) == ("570.26", "cuda>=12.8")


def test_a_cudnn_without_code_for_the_gpu_is_as_bad_as_a_wheel_without() -> None:
    matrix = with_code("2.10.0", "cu128", cudnn="9.11.0.98")
    wish = request(torch="2.10.0", cuda="12.8", exact=True)
    assert isinstance(resolve(replace(wish, gpus=request(gpus=["V100"]).gpus), matrix), Refusal)
    assert isinstance(resolve(replace(wish, gpus=request(gpus=["T4"]).gpus), matrix), Plan)


def test_a_cudnn_between_two_that_agree_is_judged_by_them() -> None:
    between = with_code("2.10.0", "cu128", cudnn="9.11.5.1")
    before_all = with_code("2.10.0", "cu128", cudnn="8.0.0.1")
    wish = request(torch="2.10.0", cuda="12.8", exact=True, gpus=["V100"])
    assert isinstance(resolve(wish, between), Refusal)
    answer = resolve(wish, before_all)
    assert isinstance(answer, Plan)
    assert "cudnn-coverage-unknown" in codes(answer)


# -- Python, platform, companions --------------------------------------------------------------------------------------


def test_python_3_14_with_torch_2_6_is_refused_naming_what_exists() -> None:
    refusal = refused(torch="2.6", python="3.14")
    assert subjects(refusal) == {"--torch", "--python"}
    assert "3.9 to 3.13" in reason(refusal, "--python")
    assert commands(refusal)[:2] == [
        "envsmith build --torch 2.6 --python 3.13",
        "envsmith build --torch 2.9.0 --python 3.14",
    ]


@pytest.mark.parametrize(
    ("wishes", "python", "origin"),
    [
        ({"torch": "2.6"}, "3.11", "os"),
        ({"torch": "2.6", "os": "ubuntu22.04"}, "3.10", "os"),
        ({"torch": "2.6", "python": "3.12"}, "3.12", "uv"),
        ({"torch": "2.6", "python": "3.11"}, "3.11", "os"),
        ({"torch": "2.2", "os": "debian13"}, "3.12", "uv"),  # no wheel for its 3.13
        ({"torch": "2.8", "python": "3.13t"}, "3.13t", "uv"),
        ({"torch": "2.15", "os": "debian11"}, "3.15", "uv"),
    ],
)
def test_python(wishes: dict[str, str], python: str, origin: str) -> None:
    plan = planned(**wishes)
    assert (plan.python, plan.python_from) == (python, origin)


def test_arm64_before_it_had_cuda_wheels_is_refused() -> None:
    refusal = refused(torch="2.3", platform="linux/arm64")
    assert subjects(refusal) == {"--torch", "--platform"}
    assert refusal.alternatives[0].torch == "2.4.0"
    assert commands(refusal)[-1] == "envsmith build --torch 2.3 --cuda cpu --platform linux/arm64"
    assert any("--platform linux/amd64" in command for command in commands(refusal)), "named, though it is the default"


def test_a_cpu_build_only_when_asked_for() -> None:
    plan = planned(torch="2.6", cuda="cpu")
    assert (plan.wheel, plan.wheel_cuda, plan.driver_floor) == ("2.6.0+cpu", None, None)
    assert "gpu" not in plan.blocks


def test_a_conflict_with_a_cpu_build_does_not_blame_its_lack_of_cuda() -> None:
    refusal = refused(torch="1.13", cuda="cpu", python="3.11", platform="linux/arm64")
    assert subjects(refusal) == {"--torch", "--python", "--platform"}


def test_companions_come_from_the_same_index_and_variant() -> None:
    plan = planned(torch="2.6", cuda="12.6", companions=("torchvision", "torchaudio"))
    assert [(p.name, p.version, p.index) for p in plan.packages] == [
        ("torch", "2.6.0+cu126", "/whl/cu126"),
        ("torchvision", "0.21.0+cu126", "/whl/cu126"),
        ("torchaudio", "2.6.0+cu126", "/whl/cu126"),
    ]


def test_torchvision_brings_a_numpy_that_an_old_torch_accepts() -> None:
    packages = {p.name: p.version for p in planned(torch="2.2", companions=("torchvision",)).packages}
    assert packages["numpy"] == "1.26.4"
    assert "numpy-1-only" in codes(planned(torch="2.2"))
    assert "numpy" not in {p.name for p in planned(torch="2.6", companions=("torchvision",)).packages}


@pytest.mark.parametrize(
    ("torch", "missing", "chosen"), [("1.13", "3.11", "3.10"), ("2.5", "3.13", "3.12")], ids=["1.13", "2.5"]
)
@pytest.mark.parametrize("companion", ["torchvision", "torchaudio"])
def test_a_python_that_has_torch_but_no_companion_is_not_taken(
    torch: str, missing: str, chosen: str, companion: str
) -> None:
    wishes = {"torch": torch, "os": "debian12" if missing == "3.11" else "debian13"}
    assert planned(**wishes).python == missing
    plan = planned(**wishes, companions=(companion,))
    assert (plan.python, plan.python_from) == (chosen, "uv")
    refusal = refused(torch=torch, python=missing, companions=(companion,))
    assert subjects(refusal) == {"--torch", "--python", "--with"}
    assert reason(refusal, "--with").endswith(f"would do, but without {companion} for Python {missing}")
    assert f"envsmith build --torch {torch} --python {chosen} --with {companion}" in commands(refusal)
    assert f"envsmith build --torch {torch} --python {missing}" in commands(refusal)


def test_companions_in_wheels_for_any_python_serve_the_newest() -> None:
    plan = planned(torch="2.15", python="3.15", companions=("torchvision", "torchaudio"))
    assert [package.version for package in plan.packages] == ["2.15.0", "0.29.2", "2.11.1"]


@pytest.mark.parametrize(("torch", "below"), [("2.3", "3.12"), ("2.4", "3.13"), ("2.5", "3.13")])
def test_triton_only_where_torch_asks_for_it(torch: str, below: str) -> None:
    older = f"3.{int(below[2:]) - 1}"
    assert planned(torch=torch, python=older).triton is not None
    assert "no-triton" not in codes(planned(torch=torch, python=older))
    if torch != "2.4":  # has no wheel for 3.13
        plan = planned(torch=torch, python=below)
        assert plan.triton is None
        assert "no-triton" in codes(plan)


def test_a_substitution_never_denies_a_build_that_exists() -> None:
    plan = planned(torch="2.7", cuda="12.8", gpus=("V100",))
    assert plan.wheel == "2.7.1+cu126"
    assert plan.substitutions[0].reason.startswith("2.7.1+cu128 has no code for V100; 2.7.1+cu126 is the nearest")
    plan = planned(torch="2.9", cuda="12.9")
    assert plan.substitutions[0].reason.startswith("2.9.1+cu129 is not among the builds that upstream stands by; ")


@pytest.mark.parametrize(
    ("gpus", "last"), [(("V100",), 580), (("RTX 5090", "V100"), 580), (("Tesla K80", "V100"), 470), (("H100",), None)]
)
def test_the_last_driver_branch_of_an_old_gpu_is_told(gpus: tuple[str, ...], last: int | None) -> None:
    floor = planned(gpus=gpus).driver_floor
    assert floor is not None
    assert floor.last_branch == last


def test_gpus_that_no_driver_serves_together_are_refused() -> None:
    refusal = refused(gpus=("Tesla K80", "H100"))
    assert [conflict.subject for conflict in refusal.conflicts] == ["--gpu", "--gpu"]
    told = {conflict.wanted: conflict.reason for conflict in refusal.conflicts}
    assert told["Tesla K80"].endswith("; 470 is the last driver branch that supports it")
    assert told["H100"].endswith("; drivers know it from CUDA 11.8 on")
    assert planned(gpus=("Tesla K80", "A100")).driver_floor is not None


@pytest.mark.parametrize("gpu", ["GB200", "GH200", "GB10", "DGX Spark", "Jetson AGX Orin", "12.1", "8.7", "11.0"])
def test_a_gpu_that_is_one_with_an_arm64_cpu_gets_no_image_for_another(gpu: str) -> None:
    refusal = refused(gpus=(gpu,))
    assert subjects(refusal) == {"--gpu", "--platform"}
    assert reason(refusal, "--gpu").endswith(", and is in linux/arm64 machines only")
    assert any(command.endswith("--platform linux/arm64") for command in commands(refusal))
    assert planned(gpus=(gpu,), platform="linux/arm64").platform == "linux/arm64"
    assert planned(gpus=("B200", "10.3")).platform == "linux/amd64"


def test_cudnn_asked_for() -> None:
    assert planned(cudnn="9.5").cudnn == "9.5.1.17"
    refusal = refused(torch="2.6", cudnn="8.9")
    assert subjects(refusal) == {"--torch", "--cudnn"}
    assert refusal.alternatives[0].torch == "2.3.1"


# -- conflicts and ways out --------------------------------------------------------------------------------------------


def test_a_torch_that_does_not_exist() -> None:
    refusal = refused(torch="9.9", gpus=["H100"])
    assert subjects(refusal) == {"--torch"}
    assert "1.13.0 to 2.15.0" in reason(refusal, "--torch")


def test_two_conflicts_at_once_still_have_ways_out() -> None:
    refusal = refused(torch="2.6", cuda="12.1", exact=True, python="3.14")
    assert len(refusal.conflicts) == 2
    assert commands(refusal)[0] == "envsmith build --torch 2.5.1 --cuda 12.1 --python 3.13"


def test_a_conflict_stays_minimal_where_fewer_wishes_offer_less() -> None:
    """2.15.0+cu134 is for those who name it exactly, so giving --torch up takes it away from the other wishes."""
    refusal = refused(torch="2.15.0", cuda="13.4", exact=True, cudnn="9.26")
    assert subjects(refusal) == {"--cuda", "--exact"}


def test_ways_out_are_ready_to_paste() -> None:
    assert commands(refused(torch="2.6", gpus=["RTX 5090"]))[0] == "envsmith build --torch 2.7.0 --gpu 'RTX 5090'"


def test_one_gpu_of_several_may_be_given_up_but_never_the_only_one() -> None:
    assert not any("without" in a.change for a in refused(torch="2.6", gpus=["B200"]).alternatives)
    assert any(a.change == "without B200" for a in refused(torch="2.6", gpus=["A100", "B200"]).alternatives)


def test_a_host_driver_is_not_written_into_commands() -> None:
    answer = resolve(replace(request(torch="2.6", cuda="12.1", driver="550.54.15"), driver_source="host"), MATRIX)
    assert not any("--driver" in command for command in commands(answer))


def test_known_bad_versions_are_warned_of() -> None:
    assert "known-bad" in codes(planned(torch="2.13", cuda="13.2"))


def test_an_empty_matrix_is_a_refusal_and_not_a_crash() -> None:
    tables = {name: () for name in Matrix.__dataclass_fields__ if name != "digest"}
    refusal = resolve(BuildRequest(torch="2.6"), Matrix(**tables, digest="sha256:0"))  # type: ignore[arg-type]
    assert isinstance(refusal, Refusal)
    assert refusal.alternatives == ()
