"""The portable set runs where there is only a Python 3.8: its grammar and its standard library, nothing newer."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import portable_files

FILES = portable_files()
SOURCES = {module: path.read_text(encoding="utf-8") for module, path in FILES.items()}

# vermin knows functions and keywords by module, but cannot tell the type behind `x.removeprefix(...)`. These are
# the methods of str, int, Path, Random, BaseException and Lock that came after 3.8 and that we could reach for.
NEWER_METHODS = {
    "add_note", "bit_count", "copy_into", "full_match", "hardlink_to", "is_junction", "is_relative_to", "randbytes",
    "removeprefix", "removesuffix", "with_segments", "with_stem",
}  # fmt: skip


def vermin(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Run vermin; its exit status is 0 when nothing needs a Python newer than 3.8."""
    run = "import sys; from vermin.main import main; sys.exit(main())"
    options = ("--target=3.8-", "--violations", "--quiet", "--no-parse-comments")
    command = [sys.executable, "-c", run, *options, *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def newer_methods(source: str) -> list[str]:
    """Attributes of that name, as "line N: name"."""
    return [
        f"line {node.lineno}: {node.attr}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr in NEWER_METHODS
    ]


def is_annotated(tree: ast.Module) -> bool:
    """Whether the module holds any annotation."""
    return any(
        isinstance(node, ast.AnnAssign)
        or (isinstance(node, ast.arg) and node.annotation is not None)
        or (isinstance(node, ast.FunctionDef) and node.returns is not None)
        for node in ast.walk(tree)
    )


def test_grammar_is_python_3_8() -> None:
    for module, source in SOURCES.items():
        ast.parse(source, filename=module, feature_version=(3, 8))


def test_annotations_are_never_evaluated() -> None:
    postponed = "from __future__ import annotations\n"
    guilty = [name for name, source in SOURCES.items() if is_annotated(ast.parse(source)) and postponed not in source]
    assert guilty == []


def test_no_method_is_newer() -> None:
    assert {name: found for name, source in SOURCES.items() if (found := newer_methods(source))} == {}


def test_nothing_needs_a_newer_standard_library() -> None:
    done = vermin(*FILES.values())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import tomllib\n", "tomllib"),
        ("zip([], [], strict=True)\n", "strict"),
        ("a = {1: 2}\nb = a | {3: 4}\n", "dict union"),
        ("import functools\n@functools.cache\ndef f(): ...\n", "functools.cache"),
        ("from dataclasses import dataclass\n@dataclass(slots=True)\nclass A: ...\n", "slots"),
        ("match 1:\n    case 1: pass\n", "pattern matching"),
        # which the parser of Python 3.13 lets through, whatever version it is asked for
        ("with (open('a') as a, open('b') as b):\n    pass\n", "parentheses"),
    ],
)
def test_vermin_catches_what_came_later(tmp_path: Path, source: str, said: str) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(source, encoding="utf-8")
    done = vermin(planted)
    assert done.returncode == 1
    assert said in done.stdout


def test_a_newer_method_is_caught() -> None:
    assert newer_methods("x = y.removeprefix('a')\n") == ["line 1: removeprefix"]


def test_newer_grammar_is_caught() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match 1:\n    case 1: pass\n", feature_version=(3, 8))
