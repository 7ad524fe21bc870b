"""Two releases of one CUDA library meet in one process.

## What it checks

The libraries that were really mapped after `import torch`: the same library, of the same major, in two releases is
an error; in two majors, which can live side by side, a warning. Then the copies that could be loaded: one on
`LD_LIBRARY_PATH` that differs from the wheel's own is a warning. The wheel's copy beside a toolkit that is not on
the path is no finding, since nothing makes one process load both.

## Why it matters

cuDNN, cuBLAS and NCCL are split into libraries that load each other by name. If the loader takes some from the
wheel and some from elsewhere, calls fail with "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", an undefined symbol, or
wrong results. `LD_LIBRARY_PATH` comes before the wheel's own folders.

## How to fix

Take the folder out of `LD_LIBRARY_PATH` for programs that use torch: the wheel brings every CUDA library that it
needs. Reinstalling torch does not change which copy is found first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from envsmith import quoting
from envsmith.doctor.rule import CannotTell, Problem, rule
from envsmith.model import versions
from envsmith.model.findings import Evidence, Fix, Severity
from envsmith.wire.facts import EnvVar, LibraryFacts


@rule(id="ENV201", name="cuda-library-twice", severity=Severity.ERROR, since="0.1")
def cuda_library_twice(
    loaded_libraries: tuple[LibraryFacts, ...] | None = None,
    libraries: tuple[LibraryFacts, ...] | None = None,
    env: tuple[EnvVar, ...] | None = None,
) -> Iterator[Problem]:
    """Yield one problem for each library that is there twice and matters."""
    if loaded_libraries is None and libraries is None:
        raise CannotTell("libraries: not looked at")
    loaded = tuple(loaded_libraries or ())
    for library in sorted({_library(copy) for copy in loaded}):
        pair = _differing([copy for copy in loaded if _library(copy) == library])
        if pair:
            severity = Severity.ERROR if _same_major(pair) else Severity.WARNING
            yield _problem("loaded into one process", _evidence("loaded_libraries", loaded, pair), pair, env, severity)
    for copy in libraries or ():
        own = [wheel for wheel in libraries or () if wheel.name == copy.name and wheel.origin == "wheel"]
        pair = _differing([*own[:1], copy]) if copy.origin == "ld_library_path" else None
        if pair and _same_major(pair) and not any(_library(seen) == copy.name for seen in loaded):
            evidence = _evidence("libraries", libraries or (), pair)
            yield _problem("that one process could load", evidence, pair, env, Severity.WARNING)


Pair = tuple[LibraryFacts, LibraryFacts]


def _library(copy: LibraryFacts) -> str:
    """The library that a part belongs to: "cudnn" for "cudnn_ops"."""
    return copy.name.partition("_")[0]


def _differing(copies: list[LibraryFacts]) -> Pair | None:
    """The first two copies whose versions cannot be the same release: "9" and "9.1.0" can, "9.1.0" and "9.2" not."""
    known = [copy for copy in copies if copy.version and versions.is_version(copy.version)]
    for index, first in enumerate(known):
        for second in known[index + 1 :]:
            short = sorted(
                (first.version or "", second.version or ""), key=lambda text: len(versions.parse(text).release)
            )
            if first.path != second.path and not versions.has_prefix(short[1], short[0]):
                return first, second
    return None


def _same_major(pair: Pair) -> bool:
    return versions.major(pair[0].version or "") == versions.major(pair[1].version or "")


def _evidence(fact: str, copies: tuple[LibraryFacts, ...], pair: Pair) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"{fact}[{copies.index(copy)}]", f"{copy.name} {copy.version}: {copy.path}", "one release")
        for copy in pair
    )


def _problem(
    what: str, evidence: tuple[Evidence, ...], pair: Pair, env: tuple[EnvVar, ...] | None, severity: Severity
) -> Problem:
    releases = " and ".join(f"{copy.version} ({copy.origin})" for copy in pair)
    return Problem(
        f"Two releases of {_library(pair[0])} {what}: {releases}",
        evidence,
        (_without_folders(pair, env),),
        severity,
    )


def _without_folders(pair: Pair, env: tuple[EnvVar, ...] | None) -> Fix:
    """Take the foreign copies' folders out of LD_LIBRARY_PATH, if they are in it."""
    path = next((variable.value for variable in env or () if variable.name == "LD_LIBRARY_PATH"), "")
    foreign = {str(PurePosixPath(copy.path).parent) for copy in pair if copy.origin != "wheel"}
    folders = [folder for folder in path.split(":") if folder]
    kept = [folder for folder in folders if str(PurePosixPath(folder)) not in foreign]
    if kept == folders:
        where = ", ".join(sorted(foreign)) or "one of the two"
        return Fix(f"Use one release only: remove {where} from where the loader looks, or uninstall that copy.")
    command = f"export LD_LIBRARY_PATH={quoting.shell_word(':'.join(kept))}" if kept else "unset LD_LIBRARY_PATH"
    return Fix("Take the folder out of LD_LIBRARY_PATH; the wheel brings its own copy.", (command,))
