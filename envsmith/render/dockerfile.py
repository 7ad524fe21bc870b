"""Plan -> Dockerfile and build context. Pure: the same plan gives the same bytes."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

import jinja2

from envsmith.errors import DataError
from envsmith.model.image import ContextFile, RenderedContext
from envsmith.model.plan import PLAN_DIGEST_LABEL, Plan
from envsmith.render.environment import environment
from envsmith.render.expect import expectation
from envsmith.wire.encode import digest

# The official home of torch builds that are not PyPI's; a plan's index paths ("/whl/cu126") are below it.
TORCH_INDEX_HOST = "https://download.pytorch.org"
PYPI = "pypi"


def render(plan: Plan) -> RenderedContext:
    """Render the build context of a plan.

    The build needs BuildKit, the named context `uv` (a folder with the program `uv`), and takes the optional
    secrets `ca_bundle` (PEM), `index_url` (one URL) and `extra_index_url` (URLs, a space between two).

    Raises UsageError if the plan holds text that cannot be written into a Dockerfile, and DataError if it
    names a block that does not exist.
    """
    try:
        dockerfile = environment().get_template("Dockerfile.j2").render(_values(plan))
    except jinja2.TemplateNotFound as missing:
        raise DataError(f"there is no template {missing.name!r}", "the plan comes from another envsmith") from None
    files = (
        ContextFile("expect.json", (json.dumps(expectation(plan), indent=2) + "\n").encode()),
        ContextFile("verify.py", _verify_program()),
    )
    return RenderedContext(dockerfile, files, _context_digest(dockerfile, files))


def _values(plan: Plan) -> dict[str, object]:
    """Return what the blocks need, all of it still unquoted."""
    from_uv = plan.python_from == "uv"
    return {
        "blocks": plan.blocks,
        "base_image": plan.base_image,
        "forward_compat_package": plan.forward_compat_package,
        "apt_packages": _apt_packages(plan),
        "python": plan.python,
        "python_preference": "only-managed" if from_uv else "only-system",
        "packages": [f"{package.name}=={package.version}" for package in plan.packages],
        "torch_indexes": _torch_indexes(plan),
        "require_cuda": plan.require_cuda,
        "labels": sorted({**plan.labels, PLAN_DIGEST_LABEL: digest(plan)}.items()),
    }


def _apt_packages(plan: Plan) -> list[str]:
    """Return what apt installs. The certificates are for programs in the image; uv and pip bring their own."""
    packages = ["ca-certificates"]
    if plan.python_from == "os":
        packages.append("python3")
        if plan.flavour == "devel":
            packages.append("python3-dev")
    return packages


def _torch_indexes(plan: Plan) -> str:
    """Return the URLs of the indexes beside PyPI, as uv reads them from UV_INDEX: a space between two."""
    paths = dict.fromkeys(package.index for package in plan.packages if package.index != PYPI)
    return " ".join(TORCH_INDEX_HOST + path for path in paths)


def _verify_program() -> bytes:
    """Return the source of `verify.py`, which runs in the image and not here."""
    spec = find_spec("envsmith.render.verify")
    if spec is None or spec.origin is None:
        raise DataError("envsmith.render.verify is missing", "reinstall envsmith-gpu")
    return Path(spec.origin).read_bytes()


def _context_digest(dockerfile: str, files: tuple[ContextFile, ...]) -> str:
    """Return "sha256:<hex>" over names, modes and contents."""
    everything = (ContextFile("Dockerfile", dockerfile.encode()), *files)
    return digest([(file.path, file.mode, hashlib.sha256(file.content).hexdigest()) for file in everything])
