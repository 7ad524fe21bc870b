"""The cuDNN checks without torch: what is run where, how findings are gathered, and how cuDNN's use is proved."""

from __future__ import annotations

import contextlib
import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from envsmith.validator.check import CheckContext, CheckFailed, CheckSkipped
from envsmith.validator.checks import cudnn_cases, cudnn_convolution, cudnn_layers, cudnn_shared
from envsmith.validator.checks.cudnn_attention import refusal, run_attention
from envsmith.validator.checks.cudnn_cases import PARTS, PLANE, QUICK_CASE, TYPES, VOLUME, Case
from envsmith.validator.checks.cudnn_shared import Findings
from envsmith.validator.checks.numerics import EPSILON
from envsmith.validator.devices import Device
from envsmith.wire.results import QUICK, Metric

LIBRARIES = "/opt/torch/nvidia/cudnn/lib/"
MAPPED = (LIBRARIES + "libcudnn.so.9", LIBRARIES + "libcudnn_cnn.so.9", LIBRARIES + "libcudnn_graph.so.9")


def test_what_came_with_capability_8_is_left_out_before_it() -> None:
    assert cudnn_shared.offered(TYPES, "7.5") == (("float32", "float16"), ("tfloat32", "bfloat16"))
    assert cudnn_shared.offered(TYPES, "8.0") == cudnn_shared.offered(TYPES, "12.1") == (TYPES, ())


def test_every_type_is_run_in_both_dimensions_and_orders() -> None:
    made = cudnn_cases.cases(TYPES)
    assert made[0] == QUICK_CASE
    assert len({case.name for case in made}) == len(made) == 16
    assert {"float32_2d", "tfloat32_3d", "float16_2d_channels_last", "bfloat16_3d_channels_last"} <= {
        case.name for case in made
    }


def test_products_that_are_summed() -> None:
    assert [PLANE.terms(part) for part in PARTS] == [24 * 9, 32 * 9, 4 * 24 * 24]
    assert [VOLUME.terms(part) for part in PARTS] == [16 * 27, 24 * 27, 2 * 8 * 12 * 12]
    assert PLANE.operand_shapes() == ((4, 24, 24, 24), (32, 24, 3, 3), (4, 32, 24, 24))
    assert VOLUME.operand_shapes() == ((2, 16, 8, 12, 12), (24, 16, 3, 3, 3), (2, 24, 8, 12, 12))


@pytest.mark.parametrize("shape", [PLANE, VOLUME])
@pytest.mark.parametrize("part", PARTS)
def test_limits_lie_between_healthy_errors_and_faults(shape: cudnn_cases.Shape, part: str) -> None:
    """The errors were measured by simulation: summed one by one, Winograd F(4x4, 3x3), operands rounded to TF32."""
    float32 = Case("float32", shape).limit(part) / EPSILON["float32"]
    root = math.sqrt(shape.terms(part))
    assert 5 * 0.7 * root < float32 < 2450 / 5
    for dtype in ("tfloat32", "float16", "bfloat16"):
        limit = Case(dtype, shape).limit(part)
        assert 2 * 3.7 * EPSILON[dtype] < limit
        # an element that is wrong is off by about the root mean square of all
        assert cudnn_shared._ELEMENT_FACTOR * limit <= 0.5


def test_of_one_kind_the_error_nearest_to_its_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn_shared, "judge_elements", lambda name, got, *_: Metric(name, got.value, 1.0))
    monkeypatch.setattr(cudnn_shared, "judge_norm", lambda name, got, exact, limit: Metric(name, got.value, limit))
    findings = Findings()
    for full, value, limit in (("a_2d", 0.2, 1.0), ("a_3d", 0.3, 2.0)):
        findings.judge(full, "a", _Number(value), _Number(1.0), limit)
    findings.judge("b_2d", "b", _Number(0.1), _Number(1.0), 1.0)
    assert findings.metrics == (
        Metric("a_error_ratio", 0.3, 1.0), Metric("a_relative_error", 0.2, 1.0),
        Metric("b_error_ratio", 0.1, 1.0), Metric("b_relative_error", 0.1, 1.0),
    )  # fmt: skip


class _Number:
    """As much of a tensor as is asked for on the way to the judge."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        return lambda: self

    def __add__(self, _: object) -> _Number:
        return self

    __mul__ = __rmul__ = __add__


def test_the_message_says_what_was_left_out_and_names_each_type_once() -> None:
    findings = Findings()
    for name in ("float32", "float32", "float16"):
        findings.done(name)
    assert findings.message("9.1.0") == "float32, float16 right with cuDNN 9.1.0"
    findings.done("float16_3d", "Slow3d")
    assert findings.message("9.1.0").endswith("9.1.0; left out: float16_3d (torch takes Slow3d for it)")


def libraries(monkeypatch: pytest.MonkeyPatch, mapped: tuple[str, ...], **versions: str) -> None:
    """cuDNN files that are said to be mapped; versions: by their folder."""
    monkeypatch.setattr(cudnn_shared, "mapped_libraries", lambda _: mapped)
    monkeypatch.setattr(cudnn_shared, "version_of", lambda _, path: versions[path.split("/")[1]])


def test_the_file_that_is_mapped_tells_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries(monkeypatch, MAPPED, opt="9.19.0")
    proof = cudnn_shared.prove_use("a convolution", "9.19.0", ("_cnn", "_engines"))
    assert proof == (Metric("cudnn", "9.19.0"), Metric("cudnn_path", MAPPED[0]))
    libraries(monkeypatch, ("/lib/libcudnn.so.8", "/lib/libcudnn_cnn_infer.so.8"), lib="8.9.2")
    assert cudnn_shared.prove_use("a convolution", "8.9.2", ("_cnn", "_engines"))[1].value == "/lib/libcudnn.so.8"


@pytest.mark.parametrize(
    ("mapped", "reported", "message"),
    [
        ((), "9.19.0", "a convolution ran, but no libcudnn is mapped"),
        (MAPPED[:1], "9.19.0", "cuDNN did not compute it"),
        (MAPPED, "9.10.2", r"torch reports cuDNN 9\.10\.2, mapped is /opt/.*libcudnn\.so\.9 \(9\.19\.0\)"),
        ((*MAPPED, "/usr/lib/libcudnn.so.9"), "9.19.0", r"\.so\.9 \(9\.19\.0\), /usr/lib/libcudnn\.so\.9 \(9\.1\.0\)"),
    ],
)
def test_a_cudnn_that_did_not_compute_is_seen(
    monkeypatch: pytest.MonkeyPatch, mapped: tuple[str, ...], reported: str, message: str
) -> None:
    libraries(monkeypatch, mapped, opt="9.19.0", usr="9.1.0")
    with pytest.raises(CheckFailed, match=message):
        cudnn_shared.prove_use("a convolution", reported, ("_cnn", "_engines"))


def test_a_cudnn_that_is_linked_into_torch_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"libtorch_cuda.so": ("/opt/conda/lib/libtorch_cuda.so",)}
    monkeypatch.setattr(cudnn_shared, "mapped_libraries", lambda prefix: files.get(prefix, ()))
    version, path = cudnn_shared.prove_use("a convolution", "8.9.2", ("_cnn",))
    assert (version.value, path.value) == ("8.9.2", "linked into /opt/conda/lib/libtorch_cuda.so")


def test_a_second_file_of_the_same_version_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries(monkeypatch, (*MAPPED, "/usr/lib/libcudnn.so.9"), opt="9.19.0", usr="9.19.0")
    assert cudnn_shared.prove_use("a convolution", "9.19.0", ("_cnn",))[0].value == "9.19.0"


def cudnn(available: bool, version: object) -> Any:
    def tell() -> object:
        if isinstance(version, Exception):
            raise version
        return version

    module = SimpleNamespace(is_available=lambda: available, version=tell, flags=lambda **_: contextlib.nullcontext())
    return SimpleNamespace(backends=SimpleNamespace(cudnn=module))


def test_a_build_without_cudnn_is_a_skip_and_a_cudnn_that_torch_refuses_a_failure() -> None:
    assert cudnn_shared.require_cudnn(cudnn(True, 91900)) == "9.19.0"
    with pytest.raises(CheckSkipped, match="built without cuDNN"):
        cudnn_shared.require_cudnn(cudnn(False, None))
    with pytest.raises(CheckFailed, match=r"torch cannot use its cuDNN: cuDNN version incompatibility"):
        cudnn_shared.require_cudnn(cudnn(True, RuntimeError("cuDNN version incompatibility: compiled against ...")))


def test_an_error_of_cudnn_is_told_with_the_case_that_it_befell() -> None:
    failure = pytest.raises(CheckFailed, match=r"float16_3d: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED")
    with failure, cudnn_shared.cudnn_on(cudnn(True, 91900), "float16_3d"):
        raise RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED")


class _References:
    def of(self, case: Case) -> tuple[list[Any], dict[str, Any]]:
        return [], {}


def test_where_torch_takes_another_library_only_the_first_case_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn_convolution, "placed", lambda *_: [])
    monkeypatch.setattr(cudnn_convolution, "chosen_backend", lambda *_: "Slow3d")
    findings, references, torch = Findings(), _References(), cudnn(True, 91900)
    cudnn_convolution.run_case(torch, Case("float16", VOLUME), references, "cuda:0", findings)  # type: ignore[arg-type]
    assert (findings.ran, findings.left_out) == ([], ["float16_3d (torch takes Slow3d for it)"])
    with pytest.raises(CheckFailed, match=r"torch does not take cuDNN for .* on cuda:0, but Slow3d"):
        cudnn_convolution.run_case(torch, QUICK_CASE, references, "cuda:0", findings)  # type: ignore[arg-type]


def test_torch_is_asked_what_it_would_take() -> None:
    x, weight = (SimpleNamespace(dim=lambda: 5, shape=(2, 16, 3, 3, 3)) for _ in range(2))
    asked: list[tuple[Any, ...]] = []

    def select(*arguments: Any) -> Any:
        asked.append(arguments)
        return SimpleNamespace(name="Cudnn")

    torch: Any = SimpleNamespace(_C=SimpleNamespace(_select_conv_backend=select))
    assert cudnn_convolution.chosen_backend(torch, [x, weight, x]) == "Cudnn"
    assert asked == [(x, weight, None, [1, 1, 1], [1, 1, 1], [1, 1, 1], False, [0, 0, 0], 1)]
    torch = cudnn(True, 91900)
    torch._C = SimpleNamespace()
    torch.backends.cudnn.is_acceptable = lambda tensor: tensor is not x
    assert cudnn_convolution.chosen_backend(torch, [weight, weight, x]) == "Cudnn"
    assert cudnn_convolution.chosen_backend(torch, [x, weight, x]) == "its own kernels"


def layers(monkeypatch: pytest.MonkeyPatch, capability: str, through_cudnn: bool) -> Any:
    """Run the check of layers with the layers themselves left out."""

    def run(_torch: Any, _place: Any, *rest: Any) -> None:
        *names, findings = rest
        findings.done("_".join(names), None if through_cudnn else "kernels of its own")

    torch = cudnn(True, 91900)
    torch.seed = lambda: None
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(cudnn_layers, "only_gpu", lambda *_: "cuda:0")
    for name in ("run_batch_norm", "run_rnn", "run_attention"):
        monkeypatch.setattr(cudnn_layers, name, run)
    libraries(monkeypatch, MAPPED, opt="9.19.0")
    device = Device(0, "a GPU", capability)
    return cudnn_layers.cudnn_layers.body(CheckContext((device,), None, None, "", device, level=QUICK))


def test_layers_on_a_gpu_without_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = layers(monkeypatch, "7.5", through_cudnn=True)
    assert outcome.message == (
        "float32, float16, LSTM_float32, LSTM_float16, GRU_float32 right with cuDNN 9.19.0; "
        "left out: attention (needs compute capability 8.0)"
    )
    assert "left out" not in layers(monkeypatch, "9.0", through_cudnn=True).message


def test_layers_that_cudnn_computed_none_of_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckFailed, match=r"torch takes cuDNN for nothing: float32 \(torch takes kernels of its own"):
        layers(monkeypatch, "9.0", through_cudnn=False)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CudnnRnnBackward0", True),
        ("ScaledDotProductCudnnAttentionBackward0", True),
        ("NativeBatchNormBackward0", False),
    ],
)
def test_who_computed_is_told_by_the_function_to_differentiate(name: str, expected: bool) -> None:
    result = SimpleNamespace(grad_fn=SimpleNamespace(name=lambda: name))
    assert cudnn_shared.computed_by_cudnn(result) is expected
    assert not cudnn_shared.computed_by_cudnn(SimpleNamespace(grad_fn=None))


WHY = "cuDNN MHA only supports gpu architectures in the range [sm80, sm121]. Attempting to run on a sm 7.5 gpu."
# As torch 2.11 says it on a GPU of capability 7.5.
SAID = [
    "Memory efficient kernel not used because: (Triggered internally at sdp_utils.cpp:941.)",
    "Memory Efficient attention has been runtime disabled. (Triggered internally at sdp_utils_cpp.h:550.)",
    "cuDNN attention kernel not used because: (Triggered internally at sdp_utils.cpp:945.)",
    f"{WHY} (Triggered internally at sdp_utils.cpp:522.)",
]


def test_attention_that_is_not_offered_is_told_from_attention_that_fails() -> None:
    no_kernel = "No available kernel. Aborting execution."
    assert refusal(no_kernel, SAID) == WHY
    assert refusal(no_kernel, SAID[:3]) == refusal(no_kernel, []) == no_kernel
    assert refusal("cuDNN Frontend error: No valid execution plans built.\nException raised from", []) == (
        "cuDNN Frontend error: No valid execution plans built."
    )
    unsupported = "cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph."
    assert refusal(unsupported, []) == unsupported
    assert refusal("CUDA error: an illegal memory access was encountered", SAID) is None


def test_attention_of_an_old_torch_is_left_out_without_its_own_comparison_of_versions() -> None:
    findings = Findings()
    # before 2.2 torch.torch_version imports pkg_resources, which need not be there
    run_attention(SimpleNamespace(__version__="2.1.2+cu121"), None, "bfloat16", findings)
    assert findings.left_out == ["attention_bfloat16 (needs torch 2.5)"]
