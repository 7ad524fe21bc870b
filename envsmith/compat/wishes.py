"""A request taken apart into wishes, put together again from some of them, and written as a command line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from envsmith.compat.candidates import ANY_BUILD, ANY_PLATFORM, CPU, DEVEL
from envsmith.model.request import BuildRequest
from envsmith.quoting import shell_command

TORCH, CUDA, EXACT, CUDNN, PYTHON = "--torch", "--cuda", "--exact", "--cudnn", "--python"
OS, VARIANT, GPU, DRIVER = "--os", "--variant", "--gpu", "--driver"
PLATFORM, WITH = "--platform", "--with"

_DEFAULT = BuildRequest()


@dataclass(frozen=True)
class Wish:
    """One thing asked for. option: "--gpu"; value: as on the command line, "" for a switch."""

    option: str
    value: str

    def __str__(self) -> str:
        return f"{self.option} {self.value}".strip()


def wishes_of(request: BuildRequest) -> tuple[Wish, ...]:
    """The wishes of a request, those that a person would give up first coming first.

    The platform always counts, even as a default: a CPU architecture is nothing that may be chosen for somebody.
    """
    single = (
        (PLATFORM, request.platform),
        *((WITH, name) for name in request.companions),
        (OS, request.os),
        (CUDNN, request.cudnn),
        (VARIANT, DEVEL if request.variant == DEVEL else None),
        (EXACT, "" if request.exact else None),
        (PYTHON, request.python),
        (DRIVER, request.driver),
        (CUDA, request.cuda),
        *((GPU, gpu.name) for gpu in request.gpus),
        (TORCH, request.torch),
    )
    return tuple(dict.fromkeys(Wish(option, value) for option, value in single if value is not None))


def only(request: BuildRequest, kept: Collection[Wish]) -> BuildRequest:
    """The same request with just these of its wishes."""
    options = {wish.option for wish in kept}
    return replace(
        request,
        torch=request.torch if TORCH in options else None,
        cuda=request.cuda if CUDA in options else ANY_BUILD if request.cuda == CPU else None,
        exact=request.exact and EXACT in options,
        cudnn=request.cudnn if CUDNN in options else None,
        python=request.python if PYTHON in options else None,
        os=request.os if OS in options else None,
        variant=request.variant if VARIANT in options else _DEFAULT.variant,
        driver=request.driver if DRIVER in options else None,
        platform=request.platform if PLATFORM in options else ANY_PLATFORM,
        companions=tuple(name for name in request.companions if Wish(WITH, name) in kept),
        gpus=tuple(gpu for gpu in request.gpus if Wish(GPU, gpu.name) in kept),
    )


def without(request: BuildRequest, wish: Wish) -> BuildRequest:
    """The same request less one wish."""
    return only(request, [kept for kept in wishes_of(request) if kept != wish])


def command_line(request: BuildRequest, *, names_platform: bool = False) -> str:
    """The command that makes this request, ready to paste into a POSIX shell.

    names_platform: name it even where it is the usual one.
    """
    argv = ["envsmith", "build"]
    for option, value in (
        (TORCH, request.torch),
        (CUDA, request.cuda),
        (CUDNN, request.cudnn),
        (PYTHON, request.python),
        (OS, request.os),
        (VARIANT, request.variant if request.variant != _DEFAULT.variant else None),
        *((GPU, gpu.name) for gpu in request.gpus),
        (DRIVER, request.driver if request.driver_source == _DEFAULT.driver_source else None),
        (PLATFORM, request.platform if names_platform or request.platform != _DEFAULT.platform else None),
        (WITH, ",".join(request.companions) or None),
    ):
        if value is not None:
            argv += [option, value]
    return shell_command([*argv, *([EXACT] if request.exact else [])])
