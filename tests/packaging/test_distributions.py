"""What people install is what is in the checkout: sdist, wheel through the sdist, installed and editable."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.source_tree import ROOT

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]

DATA_FOLDERS = ("matrix", "templates")
Digests = dict[str, str]


def run(*command: str | Path, cwd: Path | str = "/") -> str:
    """Run a command away from the checkout, return its stdout; its stderr is in the failure."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=outside, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy_of_checkout(folder: Path) -> Path:
    """A copy without what git ignores, so that a test may edit it."""
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "build", "dist", "*.egg-info")
    return shutil.copytree(ROOT, folder / "checkout", ignore=ignored)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def checkout_data() -> Digests:
    """Data files of the checkout: path such as "matrix/torch.json" -> digest."""
    files = [path for folder in DATA_FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {path.relative_to(ROOT).as_posix(): digest(path.read_bytes()) for path in files}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from that sdist."""
    folder = tmp_path_factory.mktemp("distributions")
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", copy_of_checkout(folder))
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    return next(distributions.glob("envsmith_gpu-*.whl"))


@pytest.fixture(scope="module")
def sdist(distributions: Path) -> Path:
    return next(distributions.glob("envsmith_gpu-*.tar.gz"))


def fresh_venv(folder: Path, *install: str | Path) -> Path:
    """Make a virtual environment, install into it, and return its folder of programs."""
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *install)
    return folder / "bin"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fresh_venv(tmp_path_factory.mktemp("installed") / "venv", wheel)


def test_the_wheel_holds_the_data_of_the_checkout(wheel: Path) -> None:
    prefix = "envsmith/_data/"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        held = {name[len(prefix) :]: digest(archive.read(name)) for name in names if name.startswith(prefix)}
    assert held == checkout_data()
    assert len(names) == len(set(names))


def test_the_sdist_holds_the_data_of_the_checkout(sdist: Path) -> None:
    held = {}
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            name = member.name.partition("/")[2]
            content = archive.extractfile(member)
            if content is not None and name.startswith(tuple(f"{folder}/" for folder in DATA_FOLDERS)):
                held[name] = digest(content.read())
    assert held == checkout_data()


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"envsmith"}
    assert "envsmith/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "envsmith").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules


def test_an_installed_wheel_plans_from_the_root_folder(installed: Path) -> None:
    plan = json.loads(run(installed / "envsmith", "plan", "--torch", "2.6", "--cuda", "12.1", "--format", "json"))
    assert (plan["kind"], plan["wheel"], plan["requested_cuda"]) == ("plan", "2.6.0+cu124", "12.1")


def test_an_installed_wheel_reads_its_own_data(installed: Path) -> None:
    code = "from envsmith.resources import data_dir; print(data_dir('matrix'), data_dir('templates'))"
    for folder in run(installed / "python", "-c", code).split():
        assert Path(folder).is_relative_to(installed.parent)


def test_an_installed_wheel_writes_the_bundle_that_runs_alone(installed: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "envsmith.pyz"
    run(installed / "envsmith", "portable", bundle)
    snapshot = json.loads(run(sys.executable, "-I", bundle, "facts", "--format", "json"))
    assert snapshot["kind"] == "snapshot"


def test_an_editable_install_sees_edits_at_once(tmp_path: Path) -> None:
    checkout = copy_of_checkout(tmp_path)
    programs = fresh_venv(tmp_path / "venv", "--editable", checkout)
    before = json.loads(run(programs / "envsmith", "plan", "--torch", "2.6", "--format", "json"))

    matrix = checkout / "matrix" / "known_bad.json"
    rows = json.loads(matrix.read_text(encoding="utf-8"))
    rows["rows"][0]["note"] += " (edited)"
    matrix.write_text(json.dumps(rows), encoding="utf-8")
    template = checkout / "templates" / "Dockerfile.j2"
    template.write_text(template.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    version = checkout / "envsmith" / "__init__.py"
    version.write_text('__version__ = "9.9.9"\n', encoding="utf-8")

    after = json.loads(run(programs / "envsmith", "plan", "--torch", "2.6", "--format", "json"))
    assert after["matrix_digest"] != before["matrix_digest"]
    assert "# edited" in run(programs / "envsmith", "render", "--torch", "2.6")
    assert "9.9.9" in run(programs / "envsmith", "--version")
