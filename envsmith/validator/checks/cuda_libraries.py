"""Every CUDA library of the wheel loads, and their versions agree.

What it proves: each library file of torch and its nvidia packages can be loaded; the copy in use is of the version
of the installed package; CUDA runtime and NVRTC are of the major version that torch was built for.
"""

from __future__ import annotations

from pathlib import Path

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.torch_gpu import require_cuda_build
from envsmith.validator.cuda_libraries import LIBRARIES, Library, LibraryError, copies, load, version_of, wheel_files
from envsmith.validator.mapped import mapped_files
from envsmith.validator.pins import installed_version, stem, torch_pins
from envsmith.validator.versions import agree
from envsmith.wire.results import Metric

# These two are of the toolkit that torch was compiled with; the others have numbers of their own.
_OF_THE_TOOLKIT = ("cudart", "nvrtc")


@check(
    id="cuda-libraries", title="The wheel's CUDA libraries load and agree", limit_s=120, needs_torch=True,
    requires=("torch-import",),
)  # fmt: skip
def cuda_libraries(context: CheckContext) -> CheckOutcome:
    """Load them all, compare the versions that they tell."""
    del context
    import torch

    require_cuda_build(torch)
    mapped, shipped = mapped_files(), wheel_files(Path(torch.__file__).resolve().parent)
    packages = {stem(name): installed_version(name) for name in torch_pins()}
    metrics, problems, silent = [], [], 0
    for library in LIBRARIES:
        # what torch's import has mapped is in use; the wheel's own files come after
        paths = copies(library, (*mapped, *shipped))
        if not paths:
            continue
        try:
            version = version_of(library, paths[0])
            for path in paths[1:]:
                load(path)
        except LibraryError as error:
            problems.append(str(error))
            continue
        if not version:
            silent += 1
            continue
        metrics.append(Metric(library.name, version))
        problems += disagreements(library, version, paths[0], packages.get(library.package), torch.version.cuda)
    if problems:
        raise CheckFailed("; ".join(problems), tuple(metrics))
    return CheckOutcome(
        f"{len(metrics) + silent} libraries load and agree with CUDA {torch.version.cuda}", tuple(metrics)
    )


def disagreements(library: Library, version: str, path: str, package_version: str | None, wheel_cuda: str) -> list[str]:
    """What is wrong with the version that a library tells."""
    if package_version is not None:
        said = version if library.exact else ".".join(version.split(".")[:2])
        if not agree(said, package_version):
            return [f"{library.name} in use is {version} ({path}), the installed package is {package_version}"]
    elif library.name in _OF_THE_TOOLKIT and version.partition(".")[0] != wheel_cuda.partition(".")[0]:
        # without a package to compare with (conda, a system build), any minor version may serve
        return [f"{library.name} in use is {version} ({path}), torch was built for CUDA {wheel_cuda}"]
    return []
