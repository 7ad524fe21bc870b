"""Levels: a part of envsmith imports only parts of lower levels, so every part can be read without those above."""

from __future__ import annotations

import sys

import pytest

from tests.source_tree import LONE_MODULES, PORTABLE_PARTS, imports, modules, part_of

# Parts of one level never import each other, except at level 0.
LEVELS = {
    0: {"__init__", "errors", "files", "resources", "quoting"},
    1: {"wire"},
    2: {"model", "probe", "validator"},
    3: {"compat", "doctor", "render", "engine", "certify", "portable", "inside"},
    4: {"app"},
    5: {"report"},
    6: {"cli"},
    7: {"__main__"},
}
LEVEL_OF = {part: level for level, parts in LEVELS.items() for part in parts}

# Third-party modules, and the only places that may import them; all else is the standard library. Each
# outside thing has one home, so that replacing it, or a breaking release of it, touches one part.
LIBRARY_PLACES = {
    "click": ("envsmith.cli.",),
    "docker": ("envsmith.engine.",),
    "jinja2": ("envsmith.render.",),
    "msgspec": ("envsmith.model.", "envsmith.compat.", "envsmith.certify"),
    "packaging": ("envsmith.model.", "envsmith.compat.", "envsmith.cli.request"),
    "pynvml": ("envsmith.probe.", "envsmith.portable", "envsmith.validator."),
    "requests": ("envsmith.engine.",),
    "rich": ("envsmith.report.",),
    "torch": ("envsmith.validator.", "envsmith.probe.torch_runtime", "envsmith.render.verify"),
    "torchaudio": ("envsmith.validator.",),
    "torchvision": ("envsmith.validator.",),
    "triton": ("envsmith.validator.",),
    "urllib3": ("envsmith.engine.",),  # its errors come through where requests streams
    "uv": ("envsmith.engine.",),
}

MODULES = modules()
KNOWN = frozenset(MODULES)


def allowed(importer: str, imported: str) -> bool:
    """Whether the level table lets `importer` import `imported`; both are dotted module names of envsmith."""
    if importer in LONE_MODULES:
        return False
    mine, other = part_of(importer), part_of(imported)
    if mine in PORTABLE_PARTS and other not in PORTABLE_PARTS:
        return False
    if mine == other or LEVEL_OF[mine] == LEVEL_OF[other] == 0:
        return True
    return LEVEL_OF[other] < LEVEL_OF[mine]


def library_allowed(importer: str, library: str) -> bool:
    """Whether the module may import that library from outside envsmith."""
    if library in sys.stdlib_module_names:
        return True
    return importer.startswith(LIBRARY_PLACES.get(library, ()))


def violations(module: str, source: str) -> list[str]:
    """Every import of the source that the table forbids, as "line N: what"."""
    bad = []
    for line, imported in imports(source, module, KNOWN):
        top = imported.partition(".")[0]
        fine = allowed(module, imported) if top == "envsmith" else library_allowed(module, top)
        if not fine:
            bad.append(f"line {line}: {module} must not import {imported}")
    return bad


def test_every_part_has_a_level() -> None:
    assert {part_of(module) for module in MODULES} <= set(LEVEL_OF)


def test_imports_go_down_only() -> None:
    sources = {module: path.read_text(encoding="utf-8") for module, path in MODULES.items()}
    assert [bad for module, source in sources.items() for bad in violations(module, source)] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("envsmith.model.plan", "from envsmith.compat import load"),
        ("envsmith.model.plan", "import envsmith.probe"),
        ("envsmith.probe.host", "from envsmith.validator import check"),
        ("envsmith.validator.check", "def f():\n    from envsmith import probe"),
        ("envsmith.compat.resolve", "from envsmith.doctor.run import diagnose"),
        ("envsmith.inside", "from envsmith.portable import bundle"),
        ("envsmith.portable", "import envsmith.inside"),
        ("envsmith.app.plan", "from envsmith.report.documents import print_json"),
        ("envsmith.wire.facts", "from envsmith.errors import EnvsmithError"),
        ("envsmith.wire.facts", "from ..errors import EnvsmithError"),
        ("envsmith.wire.facts", "import importlib\nimportlib.import_module('envsmith.model.plan')"),
        ("envsmith.errors", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from envsmith.wire import facts"),
        ("envsmith.wire.facts", "import msgspec"),
        ("envsmith.probe.host", "def f():\n    import torch"),
        ("envsmith.doctor.run", "import torch"),
        ("envsmith.engine.docker", "import pynvml"),
        ("envsmith.compat.load", "import yaml"),
        ("envsmith.render.verify", "from envsmith.errors import EnvsmithError"),
    ],
)
def test_a_planted_violation_is_caught(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("envsmith.inside", "from envsmith.probe import collect\nfrom envsmith import validator, __version__"),
        ("envsmith.validator.checks.amp", "def f():\n    import torch.nn.functional"),
        ("envsmith.cli.main", "from envsmith.report.documents import print_json\nimport click"),
        ("envsmith.resources", "from envsmith.errors import DataError"),
        ("envsmith.probe", "from .parse import versions"),
    ],
)
def test_what_the_table_allows_passes(module: str, source: str) -> None:
    assert violations(module, source) == []
