"""Is a plan right? Written from the rules and the data files alone; imports nothing of `envsmith.compat`.

Each rule stands here a second time, in other words, so that a mistake in the resolver has to be made twice to pass.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envsmith.model.plan import Plan
from envsmith.model.request import BuildRequest, GpuWish

Row = dict[str, Any]
_MATRIX = Path(__file__).resolve().parents[3] / "matrix"
TABLES: dict[str, list[Row]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["rows"] for path in sorted(_MATRIX.glob("*.json"))
}
# fmt: off
DRIVER_SAMPLES = [
    "418.226.00", "450.36.06", "450.80.02", "460.106.00", "470.42.01", "470.256.02", "495.29.05", "510.108.03",
    "515.105.01", "520.61.05", "525.60.13", "525.147.05", "530.30.02", "535.54.03", "535.288.01", "545.29.06",
    "550.54.14", "550.163.01", "555.58.02", "560.35.05", "565.77", "570.26", "570.211.01", "575.64.05", "580.65.06",
    "580.126.20", "590.48.01", "595.45.04", "595.71.05", "610.43.02", "615.36",
]
# fmt: on


@cache
def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def minor(cuda: str) -> tuple[int, ...]:
    return numbers(cuda)[:2]


# -- facts about drivers and GPUs --------------------------------------------------------------------------------------


def driver_numbers(driver: str) -> tuple[int, ...]:
    return numbers(driver) if "." in driver else (int(driver), 10**6)


@cache
def branch_cuda(driver: str) -> tuple[int, ...] | None:
    branch = driver_numbers(driver)[0]
    known = {row["branch"]: numbers(row["driver_cuda"]) for row in TABLES["driver_branches"] if row["driver_cuda"]}
    return max((cuda for key, cuda in known.items() if key <= branch), default=None)


@cache
def is_native(wheel_cuda: str, driver: str) -> bool:
    offered = branch_cuda(driver)
    if offered is not None and offered >= numbers(wheel_cuda):
        return True
    floors = [
        numbers(row["native_driver_min"])
        for row in TABLES["toolkits"]
        if row["native_driver_min"] and minor(row["cuda"]) == minor(wheel_cuda)
    ]
    return any(driver_numbers(driver) >= floor for floor in floors)


@cache
def meets_minor_floor(wheel_cuda: str, driver: str) -> bool:
    return any(
        row["cuda_major"] == numbers(wheel_cuda)[0] and driver_numbers(driver) >= numbers(row["driver_min"])
        for row in TABLES["minor_version_floors"]
    )


@cache
def forward_branches(wheel_cuda: str) -> set[int]:
    rows = [row for row in TABLES["forward_compat"] if minor(row["cuda"]) == minor(wheel_cuda)]
    return {branch for row in rows for branch in row["driver_branches"]}


def code(capability: str, machine_code: list[str], ptx: list[str]) -> str | None:
    """sm_XY runs on X.Y and later minors of X; PTX of X.Y is compiled by the driver for anything later."""
    gpu = numbers(capability)
    if any(numbers(sm)[0] == gpu[0] and numbers(sm)[1] <= gpu[1] for sm in machine_code):
        return "machine code"
    if any(numbers(virtual) <= gpu for virtual in ptx):
        return "ptx"
    return None


def last_branch(gpu: GpuWish) -> int | None:
    product = next((row for row in TABLES["gpus"] if row["product"] == gpu.product), None)
    if product and product["last_driver_branch"]:
        return int(product["last_driver_branch"])
    rows = [row for row in TABLES["compute_capabilities"] if row["compute_capability"] == gpu.compute_capability]
    return rows[0]["last_driver_branch"] if rows else None


def first_cuda(gpu: GpuWish) -> tuple[int, ...] | None:
    found = {row["compute_capability"]: row["first_cuda"] for row in TABLES["compute_capabilities"]}
    first = found.get(gpu.compute_capability)
    return numbers(first) if first else None


# -- NVIDIA_REQUIRE_CUDA as libnvidia-container evaluates it -----------------------------------------------------------


def lets_in(expression: str, *, cuda: tuple[int, ...], driver: str, brand: str) -> bool:
    return any(
        all(_holds(condition, cuda, driver, brand) for condition in clause.split(","))
        for clause in expression.split(" ")
    )


def _holds(condition: str, cuda: tuple[int, ...], driver: str, brand: str) -> bool:
    for sign in (">=", "<", "="):
        name, found, value = condition.partition(sign)
        if found:
            break
    if name == "brand":
        return value == brand
    left = cuda if name == "cuda" else driver_numbers(driver)
    right = numbers(value)
    width = max(len(left), len(right))
    a, b = (side + (0,) * (width - len(side)) for side in (left, right))
    return a >= b if sign == ">=" else a < b


# -- the plan ----------------------------------------------------------------------------------------------------------


def problems(plan: Plan, request: BuildRequest) -> list[str]:
    """Everything that is wrong with a plan as an answer to a request."""
    rows = [
        r
        for r in TABLES["torch"]
        if (r["torch"], r["variant"], r["platform"]) == (plan.torch, plan.variant, plan.platform)
    ]
    if len(rows) != 1:
        return [f"{len(rows)} rows for {plan.wheel} on {plan.platform}"]
    row = rows[0]
    found: dict[str, bool] = {}
    found |= _copied(plan, row)
    found |= _as_asked(plan, request, row)
    found |= _image(plan, request, row)
    found |= _installed(plan, request, row)
    if plan.wheel_cuda is not None:
        found |= _gpus(plan, request, row)
        found |= _driver(plan, request, row)
        found |= _container_runtime(plan, request)
    return [what for what, right in found.items() if not right]


def _copied(plan: Plan, row: Row) -> dict[str, bool]:
    same = ("wheel_cuda", "cudnn", "nccl", "download_size_bytes", "installed_size_bytes")
    below = row["triton_below_python"]
    asks_for_triton = below is None or numbers(plan.python.rstrip("t")) < numbers(below)
    return {f"{name} is not the row's": getattr(plan, name) == row[name] for name in same} | {
        "triton is not what torch asks for": plan.triton == (row["triton"] if asks_for_triton else None),
        "compute capabilities are not the row's": list(plan.compute_capabilities)
        == (row["compute_capabilities"] or []),
        "ptx is not the row's": plan.ptx == (None if row["ptx"] is None else tuple(row["ptx"])),
        "wheel is not torch+variant": plan.wheel == f"{row['torch']}+{row['variant']}",
    }


def _as_asked(plan: Plan, request: BuildRequest, row: Row) -> dict[str, bool]:
    asked, wheel = request.cuda, plan.wheel_cuda
    exact = asked in (None, "cpu") or (wheel is not None and minor(asked) == numbers(wheel))
    same_patch = asked in (None, "cpu") or numbers(row["wheel_toolkit"])[: len(numbers(asked))] == numbers(asked)
    named = request.torch == plan.torch and asked is not None and exact
    return {
        "torch is not the one asked for": request.torch is None or _is_torch(plan.torch, request.torch),
        "a CPU build that nobody asked for": (wheel is None) == (asked == "cpu"),
        "another CUDA major": asked in (None, "cpu") or numbers(str(wheel))[0] == numbers(asked)[0],
        "a newer CUDA stands in that needs its own driver": exact
        or numbers(str(wheel)) < minor(str(asked))
        or not needs_native(plan),
        "a silent or needless substitution": bool(plan.substitutions) == (not same_patch),
        "a substitution in spite of --exact": not (request.exact and plan.substitutions),
        "requested_cuda is not what was typed": plan.requested_cuda == asked,
        "cuDNN is not the one asked for": request.cudnn is None
        or numbers(row["cudnn"])[: len(numbers(request.cudnn))] == numbers(request.cudnn),
        "platform is not the one asked for": plan.platform == request.platform,
        "a build that is not offered": row["status"] in ("stable", "experimental", "legacy") or named,
        "a doubtful build without a note": row["status"] == "stable"
        or f"status-{row['status']}" in {note.code for note in plan.notes},
    }


def _is_torch(torch: str, wish: str) -> bool:
    if wish[0].isdigit():
        return numbers(torch)[: len(numbers(wish))] == numbers(wish)
    return Version(torch) in SpecifierSet(wish)


def _image(plan: Plan, request: BuildRequest, row: Row) -> dict[str, bool]:
    name, _, tag = plan.base_image.partition(":")
    image = next((r for r in TABLES["base_images"] if (r["image"], r["tag"]) == (name, tag)), None)
    if image is None:
        return {f"{plan.base_image} is not in the matrix": False}
    system = next(r for r in TABLES["operating_systems"] if r["os"] == plan.os)
    forward = plan.forward_compat_package is not None
    flavour = "devel" if request.variant == "devel" else "base" if forward else "slim"
    toolkit = plan.toolkit_cuda
    return {
        "the image is of another system": image["os"] == plan.os,
        "the system is not the one asked for": request.os in (None, plan.os),
        "not the default system, without need": request.os is not None
        or plan.os == "debian12"
        or forward
        or request.variant == "devel",
        "the image does not exist for the platform": plan.platform in image["platforms"],
        f"the image is not {flavour}": image["flavour"] == flavour,
        "a second copy of CUDA": flavour != "slim" or image["cuda"] is None,
        "toolkit_cuda is not nvcc's": toolkit == (image["cuda"] if flavour == "devel" else None),
        "nvcc is not the one asked for": toolkit is None
        or request.cuda is None
        or numbers(toolkit)[: len(numbers(request.cuda))] == numbers(request.cuda),
        "nvcc is of another CUDA major": toolkit is None or numbers(toolkit)[0] == numbers(str(plan.wheel_cuda))[0],
        "the image lacks cuda-compat of the wheel's CUDA": not forward
        or (image["cuda_compat"] and minor(image["cuda"]) == numbers(str(plan.wheel_cuda))),
        "glibc is too old": row["glibc_floor"] is None or numbers(system["glibc"]) >= numbers(row["glibc_floor"]),
    } | _python(plan, request, row, system)


def _python(plan: Plan, request: BuildRequest, row: Row, system: Row) -> dict[str, bool]:
    tags = row["companion_python_tags" if request.companions else "python_tags"]
    own = system["python"]
    has_own = f"cp{own.replace('.', '')}" in tags
    return {
        "no wheel for this Python": f"cp{plan.python.replace('.', '')}" in tags,
        "Python is not the one asked for": request.python in (None, plan.python),
        "the system's own Python would do": request.python is not None or plan.python == own or not has_own,
        "python_from is wrong": (plan.python_from == "os") == (plan.python == own),
    }


def _installed(plan: Plan, request: BuildRequest, row: Row) -> dict[str, bool]:
    by_name = {package.name: package for package in plan.packages}
    from_pypi = row["pypi_default"]
    labels = plan.labels
    return {
        "torch is not first": plan.packages[0].name == "torch",
        "PyPI's wheel is another build": (plan.packages[0].index == "pypi") == from_pypi,
        "the pin does not name the build": plan.packages[0].version == (plan.torch if from_pypi else plan.wheel),
        "the index is not the variant's": plan.index == ("pypi" if from_pypi else row["index_path"]),
        "not the companions asked for": set(by_name) - {"torch", "numpy"} == set(request.companions),
        "a companion of another torch": all(
            by_name[name].version.partition("+")[0] == row[name][-1] for name in request.companions
        ),
        "numpy 2 with a torch that cannot": not (row["numpy_majors"] == [1] and "torchvision" in by_name)
        or by_name["numpy"].version.startswith("1."),
        "labels do not say what is in the image": labels["io.envsmith.wheel"] == plan.wheel
        and labels["io.envsmith.python"] == plan.python
        and labels.get("io.envsmith.wheel-cuda") == plan.wheel_cuda
        and labels.get("io.envsmith.requested-cuda") == plan.requested_cuda
        and labels.get("io.envsmith.toolkit-cuda") == plan.toolkit_cuda,
        "the substitution is not in the labels": bool(plan.substitutions) == ("io.envsmith.substitutions" in labels),
        "blocks are out of order": plan.blocks[0] == "base" and plan.blocks[-1] == "labels",
        "a block for nothing": ("python" in plan.blocks) == (plan.python_from == "uv")
        and ("forward-compat" in plan.blocks) == (plan.forward_compat_package is not None),
    }


def _gpus(plan: Plan, request: BuildRequest, row: Row) -> dict[str, bool]:
    found = {}
    for gpu, coverage in zip(request.gpus, plan.coverage, strict=True):
        has = code(gpu.compute_capability, row["compute_capabilities"] or [], row["ptx"] or [])
        found[f"no code for {gpu.name}"] = has is not None
        products = [r for r in TABLES["gpus"] if r["compute_capability"] == gpu.compute_capability]
        named = [r for r in products if gpu.product in (None, r["product"])]
        found[f"{gpu.name} is in no such machine"] = not named or any(plan.platform in r["platforms"] for r in named)
        found[f"wrong kind of code for {gpu.name}"] = coverage.how == has
        for cudnn in TABLES["cudnn_archs"]:
            key = (cudnn["cudnn"], cudnn["cuda_major"], cudnn["platform"])
            if key == (row["cudnn"], numbers(row["wheel_cuda"])[0], row["platform"]):
                has_cudnn = code(gpu.compute_capability, cudnn["compute_capabilities"], cudnn["ptx"])
                found[f"cuDNN has no code for {gpu.name}"] = has_cudnn is not None
    return found


def needs_native(plan: Plan) -> bool:
    return not plan.compute_capabilities or any(coverage.how == "ptx" for coverage in plan.coverage)


def _driver(plan: Plan, request: BuildRequest, row: Row) -> dict[str, bool]:
    wheel, floor = str(plan.wheel_cuda), plan.driver_floor
    if floor is None:
        return {"no driver floor": False}
    found = {
        "floor above native": floor.native is None
        or numbers(floor.version) <= numbers(floor.native)
        or _raised(request)
    }
    if request.driver is None:
        return found | {
            "forward compatibility for no driver": floor.how != "forward" and not plan.forward_compat_package
        }
    driver = request.driver
    how = _best_mechanism(plan, wheel, driver)
    found[f"runs {how}, not {floor.how}"] = floor.how == how
    found["floor above the driver"] = driver_numbers(driver) >= numbers(floor.version)
    if how == "forward":
        found["forward compatibility on a branch that is not listed"] = driver_numbers(driver)[0] in forward_branches(
            wheel
        )
        found["forward compatibility for a GPU that it is not for"] = all(
            g.forward_compat is True for g in request.gpus
        )
    for gpu in request.gpus:
        last, first, offered = last_branch(gpu), first_cuda(gpu), branch_cuda(driver)
        found[f"the driver dropped {gpu.name}"] = last is None or driver_numbers(driver)[0] <= last
        found[f"the driver is older than {gpu.name}"] = first is None or offered is None or offered >= first
    return found


def _raised(request: BuildRequest) -> bool:
    """Whether a GPU may need a later driver than the wheel does."""
    return any(first_cuda(gpu) is not None for gpu in request.gpus)


def _best_mechanism(plan: Plan, wheel_cuda: str, driver: str) -> str:
    if is_native(wheel_cuda, driver):
        return "native"
    if meets_minor_floor(wheel_cuda, driver) and not needs_native(plan) and not _cudnn_needs_ptx(plan):
        return "minor-version"
    return "forward"


def _cudnn_needs_ptx(plan: Plan) -> bool:
    key = (plan.cudnn, numbers(str(plan.wheel_cuda))[0], plan.platform)
    rows = [row for row in TABLES["cudnn_archs"] if (row["cudnn"], row["cuda_major"], row["platform"]) == key]
    capabilities = [coverage.compute_capability for coverage in plan.coverage]
    return any(code(c, row["compute_capabilities"], row["ptx"]) == "ptx" for row in rows for c in capabilities)


def _container_runtime(plan: Plan, request: BuildRequest) -> dict[str, bool]:
    """NVIDIA_REQUIRE_CUDA lets exactly those drivers in that run the wheel and know the GPUs."""
    wheel = str(plan.wheel_cuda)
    firsts = [first for gpu in request.gpus if (first := first_cuda(gpu)) is not None]
    minor_counts = not needs_native(plan) and not _cudnn_needs_ptx(plan)
    found = {}
    for driver in DRIVER_SAMPLES:
        offered = branch_cuda(driver) or (10, 0)
        if offered >= (13, 4):
            continue  # the matrix has no native minimum for what these offer
        known = all(offered >= first for first in firsts)
        runs = is_native(wheel, driver) or (minor_counts and meets_minor_floor(wheel, driver) and known)
        for brand in ("geforce", "tesla"):
            data_centre = brand == "tesla" and plan.forward_compat_package is not None
            good = runs or (data_centre and driver_numbers(driver)[0] in forward_branches(wheel))
            let = lets_in(plan.require_cuda, cuda=offered, driver=driver, brand=brand)
            found[f"{plan.require_cuda!r} {'lets' if let else 'does not let'} {brand} {driver} in"] = let == good
    return found
