"""A plan or a refusal for people: what was replaced first, then what was chosen, then the ways out."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from envsmith.model.plan import Alternative, Coverage, Plan, Refusal

_PYPI = "pypi"
_PYTHON_NOTES = ("python-from-os", "python-from-uv")  # told in the line about Python
_WIDEST = 120  # longer lines are hard to read, however wide the terminal


@dataclass(frozen=True)
class _Line:
    """A line before it is wrapped: continuations are indented as far as the text. style: a style of rich.

    whole: never wrapped, so that it can be pasted.
    """

    lead: str = ""
    text: str = ""
    lead_style: str = ""
    style: str = ""
    whole: bool = False


def print_answer(answer: Plan | Refusal, stream: TextIO | None = None) -> None:
    """Print a plan or a refusal. Colour and wrapping only on a terminal; NO_COLOR is honoured."""
    stream = stream or sys.stdout
    lines = _plan(answer) if isinstance(answer, Plan) else _refusal(answer)
    if stream.isatty():
        _print_on_terminal(lines, stream)
    else:
        stream.writelines(f"{line.lead}{line.text}".rstrip() + "\n" for line in lines)


def _print_on_terminal(lines: Iterable[_Line], stream: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    columns = min(shutil.get_terminal_size().columns, _WIDEST)
    for line in lines:
        room = max(columns - len(line.lead), 20)
        rows = [line.text] if line.whole else textwrap.wrap(line.text, room, break_on_hyphens=False) or [""]
        for number, row in enumerate(rows):
            lead = line.lead if number == 0 else " " * len(line.lead)
            console.print(Text(lead, style=line.lead_style) + Text(row, style=line.style))


def _plan(plan: Plan) -> Iterator[_Line]:
    yield _Line(f"torch {plan.wheel}", f"  {_headline(plan)}", lead_style="bold")
    for substitution in plan.substitutions:
        told = f"CUDA {substitution.requested} was asked for; the wheel is for CUDA {substitution.used}"
        yield _Line()
        yield _Line("! ", told, lead_style="bold yellow", style="bold yellow")
        yield _Line("  ", substitution.reason)
    yield _Line()
    yield from _table(_fields(plan))
    notes = [note for note in plan.notes if note.code not in _PYTHON_NOTES]
    if notes:
        yield from _heading("notes")
        yield from (_Line("  - ", note.text) for note in notes)
    yield from _alternatives("alternatives", plan.alternatives)


def _refusal(refusal: Refusal) -> Iterator[_Line]:
    yield _Line("no solution: ", refusal.summary, lead_style="bold red")
    yield _Line()
    yield from _table((f"{clash.subject} {clash.wanted}".strip(), clash.reason) for clash in refusal.conflicts)
    if not refusal.alternatives:
        yield _Line()
        yield _Line(text="no way out was found by changing a few of these wishes")
    yield from _alternatives("nearest ways out", refusal.alternatives)


def _headline(plan: Plan) -> str:
    cuda = f"CUDA {plan.wheel_cuda}" if plan.wheel_cuda else "CPU only"
    return ", ".join((cuda, f"Python {plan.python}", plan.os, plan.flavour, plan.platform))


def _heading(title: str) -> Iterator[_Line]:
    yield _Line()
    yield _Line(title, lead_style="bold")


def _table(fields: Iterable[tuple[str, str]]) -> Iterator[_Line]:
    rows = list(fields)
    width = max(len(name) for name, _ in rows)
    yield from (_Line(f"  {name:{width}}  ", value, lead_style="bold") for name, value in rows)


def _alternatives(title: str, alternatives: Sequence[Alternative]) -> Iterator[_Line]:
    if not alternatives:
        return
    yield from _heading(title)
    for number, alternative in enumerate(alternatives, start=1):
        yield _Line(f"  {number}. ", alternative.change + _outcome(alternative))
        yield _Line("     ", alternative.command, style="cyan", whole=True)


def _outcome(alternative: Alternative) -> str:
    """The torch and the CUDA of an alternative, as far as its own words do not tell them."""
    cuda = f"CUDA {alternative.wheel_cuda}" if alternative.wheel_cuda else "CPU"
    told = [what for what in (f"torch {alternative.torch}", cuda) if what not in alternative.change]
    return f"  ({', '.join(told)})" if told else ""


def _fields(plan: Plan) -> Iterator[tuple[str, str]]:
    where = "PyPI" if plan.index == _PYPI else f"the PyTorch index {plan.index}"
    yield "wheel", f"{plan.wheel} from {where}"
    others = [f"{package.name} {package.version}" for package in plan.packages[1:]]
    if others:
        yield "with", ", ".join(others)
    if plan.wheel_cuda is not None:
        yield "CUDA", _cudas(plan)
        yield "driver", _driver(plan)
        yield "GPUs", _gpus(plan)
        yield from (("", _coverage(coverage)) for coverage in plan.coverage)
        yield "libraries", _libraries(plan)
    yield "Python", next((n.text for n in plan.notes if n.code in _PYTHON_NOTES), plan.python)
    yield "base", plan.base_image
    yield "size", _sizes(plan)


def _libraries(plan: Plan) -> str:
    triton = "no Triton" if any(note.code == "no-triton" for note in plan.notes) else f"Triton {_known(plan.triton)}"
    return f"cuDNN {_known(plan.cudnn)}, NCCL {_known(plan.nccl)}, {triton}"


def _cudas(plan: Plan) -> str:
    numbers = (
        ("wheel", plan.wheel_cuda),
        ("requested", plan.requested_cuda),
        ("toolkit", plan.toolkit_cuda),
        ("driver", plan.driver_cuda),
    )
    return ", ".join(f"{name} {cuda}" for name, cuda in numbers if cuda is not None)


def _driver(plan: Plan) -> str:
    floor = plan.driver_floor
    if floor is None:
        return "any"
    mechanism = {
        "native": "natively",
        "minor-version": "by minor-version compatibility",
        "forward": f"by forward compatibility, with {plan.forward_compat_package} in the image",
    }[floor.how]
    native = f", natively from {floor.native}" if floor.native not in (None, floor.version) else ""
    if plan.driver is None:
        newest = f", up to branch {floor.last_branch}, the last for these GPUs" if floor.last_branch else ""
        return f"{floor.version} or newer{newest} ({mechanism}{native})"
    last = f", last branch: {floor.last_branch}" if floor.last_branch else ""
    return f"{plan.driver} runs it {mechanism} (lowest: {floor.version}{native}{last})"


def _gpus(plan: Plan) -> str:
    if not plan.compute_capabilities:
        return "which GPUs the wheel has code for is not known"
    ptx = "PTX not known" if plan.ptx is None else f"PTX for {' '.join(plan.ptx)}" if plan.ptx else "no PTX"
    return f"machine code for {' '.join(plan.compute_capabilities)}; {ptx}"


def _coverage(coverage: Coverage) -> str:
    code = coverage.how.replace("ptx", "PTX")
    known = coverage.gpu == coverage.compute_capability  # a capability was asked for, not a product
    gpu = f"compute capability {coverage.gpu}" if known else f"{coverage.gpu} ({coverage.compute_capability})"
    return f"{gpu} runs the {code} for {coverage.by}"


def _sizes(plan: Plan) -> str:
    download, installed = _gigabytes(plan.download_size_bytes), _gigabytes(plan.installed_size_bytes)
    return f"download {download}, installed {installed} (predicted, torch and what it needs, without the base image)"


def _gigabytes(size: int | None) -> str:
    return "not known" if size is None else f"{size / 1e9:.1f} GB"


def _known(version: str | None) -> str:
    return version or "not known"
