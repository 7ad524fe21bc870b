"""matrix/*.json -> one frozen `Matrix`. Nothing else in envsmith reads those files.

A file is `{"schema": 1, "kind": "<its name>", "rows": [...]}`; the fields of a row are exactly those of
its dataclass in `model.matrix`. Everything is checked here, so that no other module meets a row that is
incomplete, doubled or misspelt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from envsmith import resources
from envsmith.errors import DataError
from envsmith.model import matrix as rows
from envsmith.model.matrix import CONFIDENCES, Matrix
from envsmith.model.rates import RateFloor

SCHEMA = 1
STATUSES = ("stable", "experimental", "legacy", "unadvertised", "unverified", "removed")
PLATFORMS = ("linux/amd64", "linux/arm64", "windows/amd64")
FLAVOURS = ("slim", "base", "runtime", "devel")
SUPPORT_STATES = ("supported", "eol", "unknown")

_HINT = "the data of this installation is damaged: reinstall envsmith-gpu, or undo the edit if you made one"

_Rule = Callable[[str], object]


def _matches(pattern: str) -> _Rule:
    return re.compile(pattern, re.ASCII).fullmatch


def _one_of(words: Iterable[str]) -> _Rule:
    return frozenset(words).__contains__


_VERSION = _matches(r"\d+(\.\d+)*")
_MINOR = _matches(r"\d+\.\d+")
_TEXT_RULES: dict[str, tuple[_Rule, str]] = {
    "confidence": (_one_of(CONFIDENCES), f"one of {', '.join(CONFIDENCES)}"),
    "checked": (_matches(r"20\d\d-[01]\d-[0-3]\d"), "a date such as 2026-11-30"),
    "release_date": (_matches(r"20\d\d-[01]\d-[0-3]\d"), "a date such as 2026-11-30"),
    "source": (_matches(r"[ -~]+"), "the name of a public source"),
    "platform": (_one_of(PLATFORMS), f"one of {', '.join(PLATFORMS)}"),
    "platforms": (_one_of(PLATFORMS), f"one of {', '.join(PLATFORMS)}"),
    "flavour": (_one_of(FLAVOURS), f"one of {', '.join(FLAVOURS)}"),
    "variant": (_matches(r"cpu|cu\d{3}"), '"cpu" or a name such as "cu124"'),
    "python_tags": (_matches(r"cp3\d+t?"), 'a tag such as "cp311" or "cp314t"'),
    "companion_python_tags": (_matches(r"cp3\d+t?"), 'a tag such as "cp311" or "cp314t"'),
    "triton_below_python": (_matches(r"3\.\d+"), 'a Python such as "3.13"'),
    "compute_capability": (_MINOR, 'a capability such as "9.0"'),
    "compute_capabilities": (_MINOR, 'a capability such as "9.0"'),
    "ptx": (_MINOR, 'a capability such as "9.0"'),
    "cuda_minor": (_MINOR, 'a CUDA version such as "12.4"'),
    "driver_cuda": (_MINOR, 'a CUDA version such as "12.4"'),
    "wheel_cuda": (_MINOR, 'a CUDA version such as "12.4"'),
}
_VERSION_FIELDS = frozenset(
    (
        *("torch", "wheel_toolkit", "cudnn", "nccl", "triton", "torchvision", "torchaudio", "cuda", "python", "glibc"),
        *("glibc_floor", "native_driver_min", "bundled_driver", "driver_min", "first_cuda", "last_cuda"),
        *("versions", "mended_in"),
    )
)


class Table(NamedTuple):
    """One file of the matrix. `field`: its place in `Matrix`; `key`: the fields that no two rows share."""

    stem: str
    field: str
    row: type
    key: tuple[str, ...]
    statuses: tuple[str, ...] = STATUSES


TABLES = (
    Table("torch", "torch_builds", rows.TorchBuild, ("torch", "variant", "platform")),
    Table("toolkits", "toolkits", rows.Toolkit, ("cuda",)),
    Table("minor_version_floors", "minor_version_floors", rows.MinorVersionFloor, ("cuda_major",)),
    Table("forward_compat", "forward_compat", rows.ForwardCompat, ("cuda",)),
    Table("driver_branches", "driver_branches", rows.DriverBranch, ("branch",), SUPPORT_STATES),
    Table("gpus", "gpus", rows.GpuProduct, ("product",)),
    Table("compute_capabilities", "compute_capabilities", rows.ComputeCapability, ("compute_capability",)),
    Table("toolkit_archs", "toolkit_archs", rows.ToolkitArch, ("cuda_minor",)),
    Table("cudnn_archs", "cudnn_archs", rows.CudnnArch, ("cudnn", "cuda_major", "platform")),
    Table("base_images", "base_images", rows.BaseImage, ("image", "tag")),
    Table("operating_systems", "operating_systems", rows.OperatingSystem, ("os",)),
    Table("host_compilers", "host_compilers", rows.HostCompiler, ("cuda_minor",)),
    Table("known_bad", "known_bad", rows.KnownBad, ("component", "versions")),
    Table("rate_floors", "rate_floors", RateFloor, ("quantity", "of", "transport", "algorithm")),
)


def load_matrix(folder: Path | None = None) -> Matrix:
    """Read every table of `folder` (None: the data that envsmith came with) and check it.

    Raises DataError, naming file and row, when a file is missing, unreadable, not JSON, of another schema or
    kind, when a row has unknown or missing fields or a value that its field cannot hold, or when two rows have the
    same key.
    """
    folder = resources.data_dir("matrix") if folder is None else folder
    plain: dict[str, list[Any]] = {}
    tables: dict[str, tuple[Any, ...]] = {}
    for table in TABLES:
        found = read_rows(folder / f"{table.stem}.json", table)
        plain[table.stem] = found
        tables[table.field] = check_rows(found, table)
    return Matrix(**tables, digest=_digest(plain))


def read_rows(path: Path, table: Table) -> list[Any]:
    """Return the undecoded rows of one file; raises DataError when its envelope is not as agreed."""
    try:
        document = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise DataError(f"matrix file {path} cannot be read: {error.strerror}", _HINT) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"matrix file {path} is not JSON: {error}", _HINT) from error
    if not isinstance(document, dict) or document.keys() != {"schema", "kind", "rows"}:
        raise DataError(f"matrix file {path}: expected one object with schema, kind and rows", _HINT)
    if document["schema"] != SCHEMA:
        raise DataError(f"matrix file {path}: schema {document['schema']!r} is unknown, expected {SCHEMA}", _HINT)
    if document["kind"] != table.stem:
        raise DataError(f"matrix file {path}: kind {document['kind']!r}, expected {table.stem!r}", _HINT)
    if not isinstance(document["rows"], list) or not document["rows"]:
        raise DataError(f"matrix file {path}: rows must be a list with at least one row", _HINT)
    return document["rows"]


class _RowError(Exception):
    """What is wrong with one row; `number` counts from 1, as a reader does."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def check_rows(found: list[Any], table: Table) -> tuple[Any, ...]:
    """Decode the rows of one table; raises DataError naming the first row that is not as agreed."""
    try:
        _check_keys(found, table.row)
        decoded = _decode(found, table.row)
        _check_text(decoded, table)
        _check_unique(decoded, table.key)
    except _RowError as error:
        raise DataError(f"matrix file {table.stem}.json, row {error.number}: {error}", _HINT) from error
    return decoded


def _check_keys(found: list[Any], row_type: type) -> None:
    names = {field.name for field in fields(row_type)}
    for number, row in enumerate(found, 1):
        if not isinstance(row, dict):
            raise _RowError(number, "expected an object")
        if row.keys() != names:
            unknown, missing = sorted(row.keys() - names), sorted(names - row.keys())
            raise _RowError(number, f"unknown keys {unknown}, missing keys {missing}")


def _decode(found: list[Any], row_type: type) -> tuple[Any, ...]:
    try:
        return msgspec.convert(found, type=tuple[row_type, ...])  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        place = re.search(r"\[(\d+)\]", str(error))  # "... - at `$[12].cudnn`"
        raise _RowError(int(place[1]) + 1 if place else 1, str(error)) from error


def _rules(table: Table) -> list[tuple[str, _Rule, str]]:
    found = []
    for name in (field.name for field in fields(table.row)):
        if name == "status":
            found.append((name, _one_of(table.statuses), f"one of {', '.join(table.statuses)}"))
        elif name in _TEXT_RULES:
            found.append((name, *_TEXT_RULES[name]))
        elif name in _VERSION_FIELDS:
            found.append((name, _VERSION, "a version such as 12.4.1"))
    return found


def _check_text(decoded: tuple[Any, ...], table: Table) -> None:
    for name, accepts, expected in _rules(table):
        value_of = attrgetter(name)
        for value in set(map(value_of, decoded)):  # few distinct values stand in many rows
            words = (value,) if isinstance(value, str) else value or ()
            wrong = next((word for word in words if not accepts(word)), None)
            if wrong is not None:
                number = 1 + next(i for i, row in enumerate(decoded) if value_of(row) == value)
                raise _RowError(number, f"{name} is {wrong!r}, expected {expected}")


def _check_unique(decoded: tuple[Any, ...], key: tuple[str, ...]) -> None:
    seen: dict[Any, int] = {}
    for number, value in enumerate(map(attrgetter(*key), decoded), 1):
        if value in seen:
            raise _RowError(number, f"{' and '.join(key)} are those of row {seen[value]}: {value}")
        seen[value] = number


def _digest(plain: dict[str, list[Any]]) -> str:
    """Digest of the contents: white space, the order of keys and of files do not matter, values do."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()
