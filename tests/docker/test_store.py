"""Both image stores of an engine: the image gets in, is known by its id, and can be run."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from typing import Any

import pytest

from envsmith.engine.docker import DockerEngine
from envsmith.model.image import BuildOptions, RenderedContext
from tests.docker.conftest import BASE
from tests.docker.small_engine import SmallEngine, small_engine

DOCKERFILE = f"# block: base\nFROM {BASE}\n# block: torch\nRUN --network=none echo built > /built\nLABEL a=b\n"
TAGS = ("envsmith-test/store:1", "envsmith-test/store:2")


def on(small: SmallEngine, *arguments: str) -> bytes:
    done = subprocess.run(["docker", "--host", small.host, *arguments], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def layer_types(saved: bytes) -> set[str]:
    """Media types of the layers of a saved image."""
    with tarfile.open(fileobj=io.BytesIO(saved)) as archive:

        def read(name: str) -> dict[str, Any]:
            file = archive.extractfile(name)
            assert file is not None
            value: dict[str, Any] = json.load(file)
            return value

        (index, *_) = read("index.json")["manifests"]
        manifest = read("blobs/" + index["digest"].replace(":", "/"))
    return {layer["mediaType"] for layer in manifest["layers"][1:]}


@pytest.mark.parametrize("store", ["overlay2", "containerd"])
def test_an_image_gets_into_the_store(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_engine(BASE, "700m", containerd=store == "containerd") as small:
        monkeypatch.setenv("DOCKER_HOST", small.host)
        with DockerEngine() as engine:
            assert engine.info().store == store
            built = engine.build(RenderedContext(DOCKERFILE, (), ""), BuildOptions(tags=TAGS), lambda _: None)
            again = engine.inspect(TAGS[1])
        assert (built.store, built.labels, built.platform) == (store, {"a": "b"}, engine_platform(small))
        assert built.digest == again.digest
        assert on(small, "run", "--rm", "--network=none", built.digest, "cat", "/built") == b"built\n"
        if store == "containerd":
            assert layer_types(on(small, "save", TAGS[0])) == {"application/vnd.oci.image.layer.v1.tar+zstd"}


def engine_platform(small: SmallEngine) -> str:
    return on(small, "version", "--format", "{{.Server.Os}}/{{.Server.Arch}}").decode().strip()
