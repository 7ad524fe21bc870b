"""What the cuDNN checks share: how results are judged and gathered, and the proof that cuDNN computed them."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, Iterator, Sequence

from envsmith.validator.check import CheckFailed, CheckSkipped
from envsmith.validator.checks.numerics import judge_elements, judge_norm, poison
from envsmith.validator.cuda_libraries import LIBRARIES, LibraryError, copies, version_of
from envsmith.validator.mapped import mapped_libraries
from envsmith.validator.versions import cudnn_version
from envsmith.wire.results import Metric

# Types that the tensor cores of capability 8.0 brought; before, there is no TF32, and torch takes bfloat16 elsewhere.
_SINCE_8_0 = ("tfloat32", "bfloat16")

# An element may be off by what the whole may be off by, relative to itself, and by this many times as much relative
# to the root mean square. Errors are not evenly spread: of 73,728 elements the worst is off by 5 times the average
# error after plain rounding, and by up to 22 times after a Winograd F(4x4, 3x3) transform.
_ELEMENT_FACTOR = 8.0


class Findings:
    """What a check has run and left out, and of the errors of one kind the one that came nearest to its limit."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.left_out: list[str] = []
        self._worst: dict[str, Metric] = {}

    def judge(self, full: str, kind: str, got: Any, exact: Any, limit: float) -> None:
        """Judge a result (tensors of the same shape; float64 on the CPU to compare with) as a whole and by element.

        limit: for |got - exact| / |exact| in Euclidean norms. full names the result in a failure, kind in the
        metrics. Raises CheckFailed.
        """
        got = got.detach().cpu().double()
        bound = limit * (exact.abs() + _ELEMENT_FACTOR * exact.square().mean().sqrt())
        self._keep(f"{kind}_error_ratio", judge_elements(full, got, exact, bound))
        self._keep(f"{kind}_relative_error", judge_norm(full, got, exact, limit))

    def done(self, name: str, instead: str | None = None) -> None:
        """Note that `name` is dealt with. instead: what torch takes for it, where that is not cuDNN."""
        if instead is None:
            self.ran.append(name)
        else:
            self.left_out.append(f"{name} (torch takes {instead} for it)")

    def _keep(self, name: str, metric: Metric) -> None:
        kept = self._worst.get(name)
        if kept is None or _nearness(metric) > _nearness(kept):
            self._worst[name] = replace(metric, name=name)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Of each kind the worst, in the order in which the kinds were first judged."""
        return tuple(self._worst.values())

    def message(self, version: str) -> str:
        """For example "float32, float16 right with cuDNN 9.1.0; left out: bfloat16 (...)"."""
        rest = f"; left out: {', '.join(self.left_out)}" if self.left_out else ""
        return f"{', '.join(dict.fromkeys(self.ran))} right with cuDNN {version}{rest}"


def _nearness(metric: Metric) -> float:
    assert isinstance(metric.value, float)
    assert isinstance(metric.limit, float)
    return metric.value / metric.limit


def offered(types: Sequence[str], compute_capability: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split types into those that a GPU of this compute capability has, and those that it lacks."""
    lacks = () if int(compute_capability.partition(".")[0]) >= 8 else _SINCE_8_0
    return tuple(t for t in types if t not in lacks), tuple(t for t in types if t in lacks)


def torch_dtype(torch: Any, name: str) -> Any:
    """Return torch's type for one of ours: TF32 is float32, computed otherwise."""
    return torch.float32 if name == "tfloat32" else getattr(torch, name)


@contextlib.contextmanager
def cudnn_on(torch: Any, what: str, tf32: bool = False) -> Iterator[None]:
    """Switch cuDNN on, with algorithms of its own choice, and TF32 as said; errors become CheckFailed about `what`."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=False, allow_tf32=tf32):
        try:
            yield
        except RuntimeError as error:
            raise CheckFailed(f"{what}: {error}") from error


def gradients(torch: Any, out: Any, inputs: Sequence[Any], gradient: Any) -> tuple[Any, ...]:
    """The gradients of the inputs, when `gradient` comes back to `out`.

    A number is differentiated, sum(out * gradient), which gives `out` exactly that gradient. To hand it to torch
    directly would make torch import its symbolic shapes, and sympy with them: seconds on a slow processor.
    """
    found: tuple[Any, ...] = torch.autograd.grad((out * gradient).sum(), tuple(inputs))
    return found


def computed_by_cudnn(result: Any) -> bool:
    """Whether the function that made this result is one of cuDNN's, by the name under which torch differentiates it.

    For example "CudnnRnnBackward0"; torch's own batch norm is "NativeBatchNormBackward0".
    """
    return result.grad_fn is not None and "Cudnn" in result.grad_fn.name()


def poison_results(torch: Any, place: Any, dtype: Any, like: Sequence[Any]) -> None:
    """Fill with NaN the memory that torch's allocator may hand to the next results of these shapes.

    It may hold the right results of an earlier case, which a kernel that writes nothing could pass off as its own.
    """
    for shape in {tuple(tensor.shape) for tensor in like}:
        poison(torch, shape, place, dtype)


def require_cudnn(torch: Any) -> str:
    """The version of cuDNN that torch reports. Raises CheckSkipped for a build without, CheckFailed if it is unfit."""
    if not torch.backends.cudnn.is_available():
        raise CheckSkipped("this torch was built without cuDNN")
    try:
        return cudnn_version(int(torch.backends.cudnn.version()))
    except RuntimeError as error:  # torch compares what it was built for with what was loaded
        raise CheckFailed(f"torch cannot use its cuDNN: {error}") from error


def prove_use(what: str, reported: str, parts: Sequence[str]) -> tuple[Metric, Metric]:
    """The version that the mapped libcudnn itself tells, and its path.

    what ran, in words; reported: the version according to torch. cuDNN's main library only forwards: the parts
    that compute (libcudnn_cnn, libcudnn_engines_precompiled; in 8: libcudnn_cnn_infer) are mapped when one is
    needed, and one of `parts` must be. Where no file of cuDNN is mapped it is linked into torch itself, as in some
    builds from source and of conda: the path is then that of torch's library. Raises CheckFailed.
    """
    mapped = mapped_libraries("libcudnn")
    holders = mapped_libraries("libtorch_cuda.so") or mapped_libraries("libtorch.so")
    if not mapped and holders:
        return Metric("cudnn", reported), Metric("cudnn_path", f"linked into {holders[0]}")
    library = next(library for library in LIBRARIES if library.name == "cudnn")
    main = copies(library, mapped)
    if not main:
        raise CheckFailed(f"{what} ran, but no libcudnn is mapped in the process")
    if not any(part in path for path in mapped for part in parts):
        raise CheckFailed(f"{what} ran, but only {', '.join(mapped)} is mapped: cuDNN did not compute it")
    try:
        versions = {path: version_of(library, path) for path in main}
    except LibraryError as error:
        raise CheckFailed(str(error)) from error
    if set(versions.values()) != {reported}:
        told = ", ".join(f"{path} ({version})" for path, version in versions.items())
        raise CheckFailed(f"torch reports cuDNN {reported}, mapped is {told}")
    return Metric("cudnn", reported), Metric("cudnn_path", main[0])
