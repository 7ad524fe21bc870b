"""The compilers of this machine, for what is compiled at run time: a C compiler, Python.h and nvcc, and why not."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sysconfig
from typing import Mapping, Sequence

from envsmith.validator.call import call_forked
from envsmith.validator.warden import Ending

# In the order in which Triton looks for them; `cc` is not among them.
_C_COMPILERS = ("gcc", "clang")
_COMPILE_LIMIT_S = 30.0
_WORDS_LINES = 3
_DEFAULT_TOOLKIT = "/usr/local/cuda"
_RELEASE = re.compile(r"\brelease (\d+\.\d+)")


def why_no_c_extension(environ: Mapping[str, str]) -> str | None:
    """Why a C extension of this Python cannot be compiled here, which Triton does to launch kernels; None if it can."""
    named = environ.get("CC")
    if not any(shutil.which(name, path=environ.get("PATH")) for name in ([named] if named else _C_COMPILERS)):
        return f"CC={named!r} is no program" if named else "there is no C compiler (gcc or clang on PATH, or CC)"
    folders = header_folders(environ)
    if not any(os.path.isfile(os.path.join(folder, "Python.h")) for folder in folders):
        return f"there is no Python.h in {' or '.join(folders)} (package python3-dev or python3-devel)"
    return None


def broken_compiler(environ: Mapping[str, str], scratch: str) -> str | None:
    """What the C compiler prints where it cannot build a library with Python's headers; None if it can, or is none.

    A program named gcc may lack all it needs: the C library's headers, a linker, a C library to link with.
    """
    names = [environ["CC"]] if environ.get("CC") else _C_COMPILERS
    compiler = next(filter(None, (shutil.which(name, path=environ.get("PATH")) for name in names)), None)
    if compiler is None:
        return None
    source = os.path.join(scratch, "envsmith_empty.c")
    with open(source, "w", encoding="ascii") as stream:
        stream.write("#include <Python.h>\nint envsmith_empty(void) { return 0; }\n")
    folders = [f"-I{folder}" for folder in header_folders(environ) if os.path.isdir(folder)]
    ending = run_tool([compiler, "-shared", "-fPIC", *folders, source, "-o", f"{source}.so"], _COMPILE_LIMIT_S, scratch)
    if ending.exit_status == 0:
        return None
    said = " ".join(ending.log_tail[-_WORDS_LINES:]) or ending.signal or "no answer in time"
    return f"{compiler}: {said}"


def header_folders(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where a C compiler finds this Python's headers: Python's own folders, then those that the environment adds.

    Debian's Python names a folder below /usr/local first, in which there is nothing: hence the plain scheme as well.
    """
    own = [sysconfig.get_paths()["include"], sysconfig.get_paths("posix_prefix")["include"]]
    added = [folder for name in ("CPATH", "C_INCLUDE_PATH") for folder in environ.get(name, "").split(":") if folder]
    return tuple(dict.fromkeys([*own, *added]))


def find_nvcc(environ: Mapping[str, str]) -> str | None:
    """Path of the nvcc that builds of PyTorch extensions take: CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda.

    A folder that CUDA_HOME names counts alone, as it does there.
    """
    home = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    if home:
        return shutil.which(os.path.join(home, "bin", "nvcc"))
    return shutil.which("nvcc", path=environ.get("PATH")) or shutil.which(f"{_DEFAULT_TOOLKIT}/bin/nvcc")


def nvcc_release(lines: Sequence[str]) -> str | None:
    """The toolkit's version, "13.0", in what `nvcc --version` prints."""
    found = _RELEASE.search("\n".join(lines))
    return found.group(1) if found else None


def is_noexec(folder: str) -> bool:
    """Whether the folder is on a file system from which no program and no library can be loaded."""
    return bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)


def run_tool(arguments: Sequence[str], limit_s: float, scratch: str) -> Ending:
    """Run a program (a path and its arguments) for at most limit_s seconds; its last lines are kept.

    exit_status 70 with a Python traceback: it could not be started.
    """
    return call_forked(lambda: _become(arguments), limit_s, scratch).ending


def _become(arguments: Sequence[str]) -> None:
    # Python ignores it, and programs inherit that
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execve(arguments[0], list(arguments), {**os.environ, "LC_ALL": "C"})  # noqa: S606 - no shell
