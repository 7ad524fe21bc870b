"""The check with nvcc: against a stand-in for it whose programs compute rightly, wrongly or not at all."""

from __future__ import annotations

import array
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator import toolchain
from envsmith.validator.check import CheckContext, CheckFailed
from envsmith.validator.checks import nvcc_kernel as module
from envsmith.validator.devices import Device
from envsmith.validator.verdict import Verdict, run_body

VERSION = "Cuda compilation tools, release 12.4, V12.4.131"

# "Compiles" by writing a program that reads the multiplier from the source.
NVCC = """#!{python}
import re, sys, os
if sys.argv[1] == "--version":
    print("{version}"); sys.exit(0)
refusal = {refusal!r}
if refusal:
    print(refusal, file=sys.stderr); sys.exit(1)
assert sys.argv[1] == "-gencode=arch=compute_90,code=sm_90", sys.argv
multiplier = re.search(r"x\\[i\\] \\* (\\d+)u", open(sys.argv[4]).read()).group(1)
program = '''#!{python}
import array, sys
{before}
data = array.array("I", open(sys.argv[1], "rb").read())
count = len(data) // 2
out = array.array("I", (((data[i] * %s + data[count + i]) & 0xFFFFFFFF) ^ i for i in range(count)))
out.extend(array.array("I", b"\\\\xa5" * 4096))
{after}
open(sys.argv[2], "wb").write(out.tobytes())
''' % multiplier
open(sys.argv[3], "w").write(program)
os.chmod(sys.argv[3], 0o755)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    def run_with(refusal: str = "", before: str = "", after: str = "") -> Verdict:
        nvcc = tmp_path / "toolkit" / "bin" / "nvcc"
        nvcc.parent.mkdir(parents=True)
        text = NVCC.format(python=sys.executable, version=VERSION, refusal=refusal, before=before, after=after)
        nvcc.write_text(text, encoding="utf-8")
        nvcc.chmod(nvcc.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
        return run_body(module.nvcc_kernel, context(tmp_path))

    return run_with


def context(scratch: Path) -> CheckContext:
    return CheckContext((), None, None, str(scratch), device=Device(0, "NVIDIA H200", "9.0"))


def test_right_results_pass(run: Callable[..., Verdict]) -> None:
    verdict = run()
    assert (verdict.status, verdict.message) == ("pass", "nvcc 12.4 for sm_90, every element right")
    metrics = {metric.name: metric.value for metric in verdict.metrics}
    assert metrics["toolkit_cuda"] == "12.4"
    assert metrics["wrong_elements"] == 0


def test_one_wrong_element_is_seen(run: Callable[..., Verdict]) -> None:
    verdict = run(after="out[100] ^= 1")
    assert verdict.status == "fail"
    assert "1 of 100003 elements are wrong, first element 100" in verdict.message


def test_a_write_past_the_end_is_seen(run: Callable[..., Verdict]) -> None:
    assert run(after="out[100003] = 0").message == "the kernel wrote past the end of its result"


def test_a_result_cut_short_is_seen(run: Callable[..., Verdict]) -> None:
    assert run(after="del out[50_000:]").status == "fail"


def test_a_program_that_crashes_is_a_failure(run: Callable[..., Verdict]) -> None:
    verdict = run(before='print("about to die", flush=True)\nimport os; os.abort()')
    assert verdict.status == "fail"
    assert "failed (SIGABRT: about to die" in verdict.message


def test_a_toolkit_that_is_newer_than_the_driver_is_a_skip(run: Callable[..., Verdict]) -> None:
    said = "cudaMalloc: cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
    verdict = run(before=f"print({said!r}); sys.exit(1)")
    assert verdict.status == "skip"
    assert verdict.message.startswith("nvcc 12.4 (")
    assert verdict.message.endswith(f"is newer than the driver allows: {said}")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("nvcc fatal   : Unsupported gpu architecture 'compute_60'", "does not know this GPU"),
        ("nvcc fatal   : Value 'sm_121' is not defined for option 'gpu-architecture'", "does not know this GPU"),
        (
            ("/usr/local/cuda/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions "
            "later than 13 are not supported!"),
            "does not take the host compiler here",
        ),
        (
            "/usr/local/cuda/include/crt/host_config.h:151:2: error: #error -- unsupported clang version!",
            "does not take the host compiler here",
        ),
        ("gcc: No such file or directory", "finds no C++ compiler here"),
        ("gcc: fatal error: cannot execute 'cc1plus': execvp: No such file or directory", "finds no C++ compiler here"),
        ("sh: 1: g++: not found", "finds no C++ compiler here"),
        ("k.cu:2:10: fatal error: cuda_runtime.h: No such file or directory", "lacks headers"),
        ("/usr/bin/ld: cannot find -lcudadevrt: No such file or directory", "lacks libraries"),
        (
            ('/usr/include/bits/mathcalls.h(79): error: exception specification is incompatible with that of previous '
            'function "cospi"'),
            "is too old for glibc here",
        ),
    ],
)  # fmt: skip
def test_a_toolkit_that_does_not_fit_is_a_skip_with_its_reason(
    run: Callable[..., Verdict], said: str, reason: str
) -> None:
    verdict = run(refusal=f"some line\n{said}")
    assert verdict.status == "skip"
    assert reason in verdict.message
    assert " ".join(said.split()) in verdict.message


def test_an_nvcc_that_is_broken_is_a_failure_with_its_last_lines(run: Callable[..., Verdict]) -> None:
    verdict = run(refusal="nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)")
    assert verdict.status == "fail"
    assert "'cicc' died due to signal 11" in verdict.message


def test_no_nvcc_is_a_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "_DEFAULT_TOOLKIT", str(tmp_path))
    verdict = run_body(module.nvcc_kernel, context(tmp_path))
    assert (verdict.status, "no nvcc here" in verdict.message) == ("skip", True)


def test_noexec_is_said(run: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_noexec", lambda _: True)
    verdict = run()
    assert verdict.status == "fail"
    assert "noexec" in verdict.message


def test_an_nvcc_that_hangs_is_a_timeout(run: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RUN_LIMIT_S", 0.5)
    verdict = run(before="import time; time.sleep(600)")
    assert verdict.status == "timeout"


@given(st.lists(st.text(max_size=80), max_size=5))
def test_any_output_is_borne(lines: list[str]) -> None:
    reason = module.why_unfit("nvcc {} 12.4", lines)
    assert reason is None or any(line.strip() in reason for line in lines)


def test_expected_values_are_those_of_32_bit_arithmetic() -> None:
    x, y = array.array("I", [3, 2**32 - 1]), array.array("I", [2**32 - 1, 5])
    assert list(module.expected(x, y, 2654435761)) == [
        (3 * 2654435761 + 2**32 - 1) % 2**32,
        ((2**32 - 1) * 2654435761 + 5) % 2**32 ^ 1,
    ]


def test_compare_wants_the_guard() -> None:
    with pytest.raises(CheckFailed, match="past the end"):
        module.compare(array.array("I", [1]), array.array("I", [1]))


def test_the_source_compiles(tmp_path: Path) -> None:
    """Where a toolkit is at hand: for the newest GPU that its compiler knows."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    source = module.write_source(2654435761, str(tmp_path))
    architecture = toolchain.run_tool((nvcc, "--list-gpu-code"), 60, str(tmp_path)).log_tail[-1]
    target = f"-gencode=arch={architecture.replace('sm', 'compute')},code={architecture}"
    ending = toolchain.run_tool((nvcc, target, "-o", str(tmp_path / "p"), source), 120, str(tmp_path))
    module.judge_build("nvcc", ending)
