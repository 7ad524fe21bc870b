"""The options that say what is wanted, shared by the commands that plan, and the one place where they become types.

Everything typed is held against a strict pattern here, so that nothing later meets a control character, a shell
metacharacter or a brace in a version. Messages show the input escaped.
"""

from __future__ import annotations

import platform as machine
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from envsmith.errors import UsageError
from envsmith.model.request import COMPANIONS, OPERATING_SYSTEMS, PLATFORMS, VARIANTS, BuildRequest

if TYPE_CHECKING:  # its many fields take time to make, which every start of the command would spend
    from envsmith.model.matrix import Matrix

CPU = "cpu"
_SHOWN = 60
_RELEASE = re.compile(r"\d{1,4}(\.\d{1,4}){0,2}", re.ASCII)
_WITH_VARIANT = re.compile(r"(?P<torch>\d{1,4}\.\d{1,4}\.\d{1,4})\+(?P<variant>cu\d{3}|cpu)", re.ASCII)
_CUDA = re.compile(r"\d{2}\.\d{1,2}(\.\d{1,2})?", re.ASCII)
_VARIANT = re.compile(r"cu(?P<major>\d{2})(?P<minor>\d)", re.ASCII)
_CUDNN = re.compile(r"\d{1,2}(\.\d{1,4}){0,3}", re.ASCII)
_PYTHON = re.compile(r"3\.\d{1,2}t?", re.ASCII)
_DRIVER = re.compile(r"\d{3}(\.\d{1,4}){0,3}", re.ASCII)
_GPU = re.compile(r"[\w .,()/+-]{1,80}", re.ASCII)

_PLANNING = (
    click.option("--torch", metavar="VERSION", help="2.6, 2.6.0 or a specifier such as '>=2.4,<2.6'."),
    click.option("--cuda", metavar="VERSION", help="12.1 or 12.1.1; 'cpu' for a build without CUDA."),
    click.option("--cudnn", metavar="VERSION", help="A prefix: 9 or 9.1."),
    click.option("--python", metavar="VERSION", help="3.12, or 3.13t for free-threaded."),
    click.option(
        "--os",
        metavar="NAME",
        help=f"One of {', '.join(OPERATING_SYSTEMS)}. Default: debian12, for devel images ubuntu22.04.",
    ),
    click.option(
        "--variant",
        metavar="NAME",
        default="runtime",
        show_default=True,
        help="runtime, or devel for an image with nvcc.",
    ),
    click.option(
        "--gpu",
        "gpus",
        metavar="GPU",
        multiple=True,
        help="A GPU that the image must run on: a name ('RTX 4090') or a compute capability (8.9). Repeatable.",
    ),
    click.option(
        "--driver",
        metavar="VERSION",
        help="The driver it must run on: 550.54.15, or a branch, 550. Default: this host's, if it has one.",
    ),
    click.option("--platform", metavar="NAME", help=f"{' or '.join(PLATFORMS)}. Default: this machine's."),
    click.option("--with", "companions", metavar="NAMES", help=f"Also install {','.join(COMPANIONS)}."),
    click.option("--exact", is_flag=True, help="Refuse rather than take another CUDA than the one asked for."),
)
format_option = click.option(
    "--format", "output", metavar="NAME", default="text", show_default=True, help="text or json."
)

_Command = TypeVar("_Command", bound=Callable[..., int])


def planning_options(command: _Command) -> _Command:
    """Give a command the options that say what is wanted: its keyword arguments are then the fields of `Typed`."""
    for option in reversed(_PLANNING):  # decorators apply from the last to the first, and so stands the help
        command = option(command)
    return command


@dataclass(frozen=True)
class Typed:
    """The options as typed. None or an empty tuple: left out. companions: the value of --with."""

    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    python: str | None = None
    os: str | None = None
    variant: str = "runtime"
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    platform: str | None = None
    companions: str | None = None
    exact: bool = False


def build_request(typed: Typed, matrix: Matrix) -> BuildRequest:
    """Turn what was typed into a request.

    Raises UsageError, naming the option, for what is malformed, unknown or contradicts itself.
    """
    from envsmith.compat.gpus import find_gpu

    torch, cuda, exact = _torch_and_cuda(typed)
    request = BuildRequest(
        torch=torch,
        cuda=cuda,
        cudnn=_matching(_CUDNN, "--cudnn", typed.cudnn, "a version or its beginning, such as 9 or 9.1"),
        python=_matching(_PYTHON, "--python", typed.python, "a minor version such as 3.12, or 3.13t"),
        os=_one_of(OPERATING_SYSTEMS, "--os", typed.os),
        variant=_one_of(VARIANTS, "--variant", typed.variant) or "runtime",
        gpus=tuple(dict.fromkeys(find_gpu(matrix, name) for name in map(_gpu_name, typed.gpus))),
        driver=_matching(_DRIVER, "--driver", typed.driver, "a driver version such as 550.54.15, or a branch, 550"),
        platform=_one_of(PLATFORMS, "--platform", typed.platform) or native_platform(),
        companions=_companions(typed.companions),
        exact=exact,
    )
    _refuse_contradictions(request)
    return request


def output_format(name: str, *others: str) -> str:
    """Return "text", "json" or one of the others that a command knows. Raises UsageError for another."""
    return _one_of(("text", "json", *others), "--format", name) or "text"


def native_platform() -> str:
    """The platform of images that this machine runs without emulation."""
    return "linux/arm64" if machine.machine() in ("aarch64", "arm64") else "linux/amd64"


def _torch_and_cuda(typed: Typed) -> tuple[str | None, str | None, bool]:
    """The torch and the CUDA asked for; "2.6.0+cu124" asks for both, exactly."""
    cuda = _cuda(typed.cuda)
    named = _WITH_VARIANT.fullmatch(typed.torch) if typed.torch is not None else None
    if named is None:
        return _torch(typed.torch), cuda, typed.exact
    from_variant = _cuda(named["variant"])
    if cuda is not None and cuda != from_variant:
        raise UsageError(
            f"--torch {_shown(typed.torch)} and --cuda {_shown(typed.cuda)} contradict each other",
            f"leave one out: --torch {named['torch']} --cuda {cuda}",
        )
    return named["torch"], from_variant, True


def _torch(text: str | None) -> str | None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if text is None or _RELEASE.fullmatch(text):
        return text
    try:
        _printable("--torch", text)
        if any(sign in text for sign in "<>=!~"):
            return str(SpecifierSet(text))
    except InvalidSpecifier:
        pass
    raise UsageError(
        f"--torch {_shown(text)} is not a version of torch",
        "expected a version or its beginning (2.6, 2.6.0), a build (2.6.0+cu124) or a specifier ('>=2.4,<2.6')",
    )


def _cuda(text: str | None) -> str | None:
    if text is None or text == CPU or _CUDA.fullmatch(text):
        return text
    variant = _VARIANT.fullmatch(text)
    if variant:
        return f"{variant['major']}.{variant['minor']}"
    raise UsageError(
        f"--cuda {_shown(text)} is not a CUDA version", "expected a version such as 12.1 or 12.1.1, or cpu"
    )


def _gpu_name(text: str) -> str:
    if not _GPU.fullmatch(text) or not text.strip():
        raise UsageError(f"--gpu {_shown(text)} is not the name of a GPU", "expected a name such as 'RTX 4090', or 8.9")
    return text.strip()


def _companions(text: str | None) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")] if text is not None else []
    for name in names:
        if name not in COMPANIONS:
            raise UsageError(f"--with {_shown(name)} is not known", f"expected {','.join(COMPANIONS)}, or one of them")
    return tuple(dict.fromkeys(names))


def _matching(pattern: re.Pattern[str], option: str, text: str | None, expected: str) -> str | None:
    if text is None or pattern.fullmatch(text):
        return text
    raise UsageError(f"{option} {_shown(text)} is not valid", f"expected {expected}")


def _one_of(choices: tuple[str, ...], option: str, text: str | None) -> str | None:
    if text is None or text in choices:
        return text
    raise UsageError(f"{option} {_shown(text)} is not known", f"expected one of {', '.join(choices)}")


def _refuse_contradictions(request: BuildRequest) -> None:
    if request.cuda != CPU:
        return
    needless = {
        "--gpu": bool(request.gpus),
        "--driver": request.driver is not None,
        "--cudnn": request.cudnn is not None,
        "--variant devel": request.variant == "devel",
    }
    for option, given in needless.items():
        if given:
            raise UsageError(
                f"--cuda cpu and {option} contradict each other", f"leave {option} out, or name a CUDA version"
            )


def _printable(option: str, text: str) -> None:
    if not (text.isascii() and text.isprintable()):
        raise UsageError(f"{option} {_shown(text)} holds characters that no version has", "type it in plain ASCII")


def _shown(text: str | None) -> str:
    """The input in quotes, escaped and cut short."""
    whole = text or ""
    return ascii(whole if len(whole) <= _SHOWN else whole[:_SHOWN] + "...")
