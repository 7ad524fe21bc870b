"""When the Triton and torch.compile checks are skipped, and when a broken compiler is a failure."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from envsmith.validator.check import CheckFailed, CheckSkipped
from envsmith.validator.checks import torch_compile, triton_kernel
from envsmith.validator.devices import Device

H200, P100 = Device(0, "NVIDIA H200", "9.0"), Device(0, "Tesla P100", "6.0")
ERROR = RuntimeError("Command '['/usr/bin/gcc', ...]' returned non-zero exit status 1.")


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Triton to be found: a package whose text the test may write."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "triton.py"
    path.write_text("__version__ = '3.6.0'\n", encoding="utf-8")
    importlib.invalidate_caches()
    yield path
    sys.modules.pop("triton", None)


def test_a_triton_that_imports_is_enough(triton: Path) -> None:
    triton_kernel.require_triton(H200)


def test_an_old_gpu_is_a_skip(triton: Path) -> None:
    with pytest.raises(CheckSkipped, match=r"needs compute capability 7\.0, this GPU has 6\.0"):
        triton_kernel.require_triton(P100)


def test_no_triton_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(CheckSkipped, match="not installed"):
        triton_kernel.require_triton(H200)


def test_a_triton_that_does_not_import_is_a_failure(triton: Path) -> None:
    triton.write_text("raise ImportError('libtriton.so: cannot open shared object file')\n", encoding="utf-8")
    with pytest.raises(CheckFailed, match=r"import triton: ImportError: libtriton\.so"):
        triton_kernel.require_triton(H200)


def test_an_interpreted_triton_is_a_skip(triton: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(CheckSkipped, match="TRITON_INTERPRET"):
        triton_kernel.require_triton(H200)


def explain(
    monkeypatch: pytest.MonkeyPatch, missing: str | None, noexec: bool = False, broken: str | None = None
) -> Exception:
    monkeypatch.setattr(triton_kernel, "why_no_c_extension", lambda _: missing)
    monkeypatch.setattr(triton_kernel, "broken_compiler", lambda *_: broken)
    monkeypatch.setattr(triton_kernel, "is_noexec", lambda _: noexec)
    return triton_kernel.explain(ERROR, "Triton", "/tmp/here")


def test_without_a_compiler_it_is_a_skip_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = explain(monkeypatch, "there is no C compiler")
    assert isinstance(outcome, CheckSkipped)
    assert str(outcome) == "there is no C compiler, without which Triton ended in RuntimeError"


def test_a_compiler_that_breaks_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = explain(monkeypatch, None)
    assert isinstance(outcome, CheckFailed)
    assert outcome.message == f"Triton failed: RuntimeError: {ERROR}"


def test_a_compiler_that_can_build_nothing_is_named_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = explain(monkeypatch, None, broken="/usr/bin/gcc: ld: cannot find libc.so.6")
    assert isinstance(outcome, CheckFailed)
    assert outcome.message == (
        "Triton failed, as the C compiler cannot build even an empty library: /usr/bin/gcc: ld: cannot find libc.so.6"
    )


def test_noexec_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = explain(monkeypatch, None, noexec=True)
    assert isinstance(outcome, CheckFailed)
    assert outcome.message.startswith("/tmp/here is mounted noexec")


def test_the_kernels_come_from_a_file_with_the_constant_in_it(triton: Path, tmp_path: Path) -> None:
    triton.unlink()
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("def jit(function): return function\n", encoding="utf-8")
    (tmp_path / "triton" / "language.py").write_text("constexpr = int\n", encoding="utf-8")
    importlib.invalidate_caches()
    try:
        module = triton_kernel.load_kernels(str(tmp_path), 1.25)
        assert callable(module.mix)
        assert callable(module.product)
        assert "* 1.25 +" in Path(module.__file__).read_text(encoding="utf-8")
    finally:
        for name in ("triton.language", module.__name__):
            sys.modules.pop(name, None)


def test_a_kernel_without_machine_code_is_a_failure() -> None:
    triton_kernel._require_machine_code(SimpleNamespace(asm={"ptx": "", "cubin": b""}))
    for compiled in (None, SimpleNamespace(asm={"ptx": ""})):
        with pytest.raises(CheckFailed, match="no machine code"):
            triton_kernel._require_machine_code(compiled)


@pytest.mark.parametrize("variable", ["TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_a_torch_compile_that_is_switched_off_is_a_skip(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(CheckSkipped, match=f"{variable}=1"):
        torch_compile._require_compiler(SimpleNamespace(__version__="2.11.0"))


def test_a_package_that_an_old_release_needs_and_does_not_require_is_a_skip() -> None:
    outcome = triton_kernel.missing_module(ModuleNotFoundError("No module", name="setuptools.command"), "Triton")
    assert isinstance(outcome, CheckSkipped)
    assert str(outcome) == "Triton needs the module setuptools, which is not installed"
    for own in ("triton._C.libtriton", "torch._C", None):
        assert isinstance(triton_kernel.missing_module(ModuleNotFoundError("No", name=own), "Triton"), CheckFailed)


def test_a_dynamo_that_lacks_a_module_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lacking:
        def find_spec(self, name: str, *_: object) -> None:
            if name.partition(".")[0] == "torch":
                raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(sys, "meta_path", [Lacking(), *sys.meta_path])
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(CheckSkipped, match="needs the module numpy"):
        torch_compile._require_compiler(SimpleNamespace(__version__="2.0.1"))
