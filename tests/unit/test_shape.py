"""The shape of the code: short functions, small files, and each dangerous thing done in one place only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.source_tree import PACKAGE, ROOT, modules

FUNCTION_LINES_MAX = 40
FILE_LINES_MAX = 300
PARAMETERS_MAX = 6

# Exceptions to the above, each with its present size. A number may only shrink; a line that is no longer
# needed must go (a test below says so).
LONG_FUNCTIONS: dict[str, int] = {}
LONG_FILES: dict[str, int] = {}
MANY_PARAMETERS: dict[str, int] = {}

# Only these may start programs: they bound the time, the output and the environment.
PROCESS_STARTERS = {
    "envsmith.engine.command",
    "envsmith.probe.child",
    "envsmith.probe.run",
    "envsmith.validator.toolchain",
    "envsmith.validator.warden",
}
# Only these may write to the standard streams.
PRINTERS = ("envsmith.report.", "envsmith.cli.", "envsmith.inside")

MODULES = modules()
SOURCES = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
TREES = {name: ast.parse(source) for name, source in SOURCES.items()}
TEXT_SUFFIXES = {".cfg", ".j2", ".json", ".md", ".py", ".toml", ".yaml", ".yml", ""}
SKIPPED_FOLDERS = {".git", ".venv", "build", "dist", ".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__"}


def functions(tree: ast.Module, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function and method, nested ones too, with its dotted name."""
    stack: list[tuple[str, ast.AST]] = [(prefix, tree)]
    while stack:
        name, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}.{child.name}", child
            deeper = getattr(child, "name", None) if isinstance(child, ast.stmt) else None
            stack.append((f"{name}.{deeper}" if deeper else name, child))


FUNCTIONS = {name: node for module, tree in TREES.items() for name, node in functions(tree, module)}


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without the docstring; the signature is bounded by its parameters."""
    first = node.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    start = (first.end_lineno or 0) + 1 if has_docstring else first.lineno
    return (node.end_lineno or 0) - start + 1


def parameter_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Parameters without self and cls."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in arguments)


def over(sizes: dict[str, int], limit: int, exceptions: dict[str, int]) -> list[str]:
    """What is larger than its limit, and exceptions that are no longer needed or could be smaller."""
    grown = [f"{name}: {size} > {exceptions.get(name, limit)}" for name, size in sizes.items()
             if size > exceptions.get(name, limit)]  # fmt: skip
    stale = [f"{name}: exception {allowed}, now {sizes.get(name, 0)}" for name, allowed in exceptions.items()
             if sizes.get(name, 0) < allowed]  # fmt: skip
    return sorted(grown + stale)


def test_functions_are_short() -> None:
    assert over({name: body_lines(node) for name, node in FUNCTIONS.items()}, FUNCTION_LINES_MAX, LONG_FUNCTIONS) == []


def test_files_are_small() -> None:
    sizes = {name: len(source.splitlines()) for name, source in SOURCES.items()}
    assert over(sizes, FILE_LINES_MAX, LONG_FILES) == []


def test_parameters_are_few() -> None:
    # click gives a command its options as its parameters, so a command has as many as it has options.
    sizes = {name: parameter_count(node) for name, node in FUNCTIONS.items() if not name.startswith("envsmith.cli.")}
    assert over(sizes, PARAMETERS_MAX, MANY_PARAMETERS) == []


def test_a_long_thing_and_a_stale_exception_are_both_caught() -> None:
    assert over({"a": 41, "b": 10, "c": 50}, 40, {"b": 45, "c": 50}) == ["a: 41 > 40", "b: exception 45, now 10"]


def starts_programs(module: str) -> list[str]:
    """Imports and calls of the module that could start a program."""
    tree = TREES[module]
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    calls = re.findall(
        r"\bos\.(?:fork|forkpty|system|popen|posix_spawnp?|exec[lv]p?e?|spawn[lv]p?e?)\(", SOURCES[module]
    )
    return sorted(imported & {"subprocess", "multiprocessing", "pty"}) + calls


def printing_lines(module: str) -> list[int]:
    return [node.lineno for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name) and node.func.id == "print"]  # fmt: skip


def test_only_the_runners_start_programs() -> None:
    others = sorted(set(MODULES) - PROCESS_STARTERS)
    assert {module: found for module in others if (found := starts_programs(module))} == {}
    assert all(starts_programs(module) for module in PROCESS_STARTERS)


def test_only_the_top_prints() -> None:
    others = [module for module in MODULES if not module.startswith(PRINTERS)]
    assert {module: lines for module in others if (lines := printing_lines(module))} == {}
    assert printing_lines("envsmith.inside")


def test_only_resources_knows_where_the_data_is() -> None:
    path_of_data = re.compile(r"_data\b['\"/]|importlib.resources|__file__.*(?:matrix|templates)")
    assert [module for module, source in SOURCES.items() if path_of_data.search(source)] == ["envsmith.resources"]


def text_files() -> list[Path]:
    """Every text file of the checkout that people or machines read."""
    return [
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file()
        and path.suffix in TEXT_SUFFIXES
        and not SKIPPED_FOLDERS & set(path.relative_to(ROOT).parts)
        and path != Path(__file__).resolve()
    ]


def test_nobody_is_told_to_install_somebody_elses_package() -> None:
    """`envsmith` on the package index is an unrelated project; ours is the distribution `envsmith-gpu`."""
    told = re.compile(r"(?:pip3?|uv|pipx|uv tool)\s+(?:install|run|add)\s+(?:-\S+\s+)*['\"]?envsmith(?![-\w./])")
    guilty = [path.relative_to(ROOT).as_posix() for path in text_files() if told.search(_text(path))]
    assert guilty == []
    assert told.search("pip install -q " + "envsmith")
    assert not told.search("pip install envsmith-gpu")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def test_the_package_is_where_this_file_thinks() -> None:
    assert (PACKAGE / "cli" / "main.py").is_file()
    assert "envsmith.cli.main.run" in FUNCTIONS
