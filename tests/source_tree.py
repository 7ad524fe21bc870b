"""The package as source text: what the tests of structure (levels, portable set, shape) look at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "envsmith"

# What the one-file bundle carries into containers: standard library only, Python 3.8.
PORTABLE_PARTS = ("__init__", "inside", "wire", "probe", "validator")
# Copied into a build by itself, and run there by the image's own Python.
LONE_MODULES = ("envsmith.render.verify",)


def modules() -> dict[str, Path]:
    """Dotted name -> file, for every module of the package; a package's own name stands for its __init__."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def part_of(module: str) -> str:
    """The first name below `envsmith`: "envsmith.wire.facts" -> "wire"; the package itself -> "__init__"."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


def portable_files() -> dict[str, Path]:
    """The modules that run inside images, under whatever Python is there."""
    return {name: path for name, path in modules().items() if part_of(name) in PORTABLE_PARTS or name in LONE_MODULES}


def imports(source: str, module: str, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import: deferred ones, ones under TYPE_CHECKING, importlib calls by name.

    known: names of the package's modules, by which `from envsmith import wire` is told from `import a name`.
    """
    package = module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, package, known)
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                yield node.lineno, deeper if deeper in known else base
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _absolute(node: ast.ImportFrom, module: str, package: str, known: frozenset[str]) -> str:
    if not node.level:
        return node.module or ""
    is_package = any(name.startswith(module + ".") for name in known)
    start = module if is_package else package
    for _ in range(node.level - 1):
        start = start.rpartition(".")[0]
    return f"{start}.{node.module}" if node.module else start


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
