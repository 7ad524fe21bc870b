"""torch/version.py, read as text: its assignments of plain values, never executed."""

from __future__ import annotations

import ast
import warnings


def torch_version(source: str) -> dict[str, str | None]:
    """Return the module's assignments of strings and None, such as {"__version__": "2.6.0+cu124", "cuda": "12.4"}."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the text, which is not ours
            module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    values: dict[str, str | None] = {}
    for node in module.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target: ast.expr = node.targets[0]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target = node.target
        else:
            continue
        if not isinstance(target, ast.Name) or not isinstance(node.value, ast.Constant):
            continue
        if node.value.value is None or isinstance(node.value.value, str):
            values[target.id] = node.value.value
    return values
