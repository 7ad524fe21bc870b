"""The command line of a build: arguments only, no secret in it, and an output that suits the store."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from envsmith.engine.buildx import (
    BuildCommand,
    BuildPlace,
    build_command,
    context_archive,
    image_digest,
    output_options,
)
from envsmith.errors import BuildFailedError
from envsmith.model.image import BuildOptions, ContextFile, RenderedContext


def command(options: BuildOptions, environment: dict[str, str] | None = None, **place: object) -> BuildCommand:
    given: dict[str, object] = {"builder": "default", "store": "overlay2", "rawjson": True}
    given |= {"uv": Path("/tmp/uv dir"), "metadata": Path("/tmp/md")} | place
    return build_command(options, BuildPlace(**given), environment or {})  # type: ignore[arg-type]


def after(argv: tuple[str, ...], option: str) -> list[str]:
    return [argv[index + 1] for index, word in enumerate(argv) if word == option]


def test_a_plain_build() -> None:
    argv = command(BuildOptions(tags=("a:1", "b:2"))).argv
    assert argv[:5] == ("docker", "buildx", "build", "--builder", "default")
    assert argv[-1] == "-"
    assert {"--load", "--provenance=false", "--sbom=false", "--tag=a:1", "--tag=b:2"} <= set(argv)
    assert "--build-context=uv=/tmp/uv dir" in argv
    assert after(argv, "--progress") == ["rawjson"]
    assert not {"--pull", "--no-cache", "--platform", "--secret", "--build-arg"} & set(argv)


def test_every_option_is_passed_on() -> None:
    options = BuildOptions(tags=("a:1",), pull=True, no_cache=True, platform="linux/arm64", ca_bundle="/x,y/ca.pem")
    argv = command(options, rawjson=False).argv
    assert {"--pull", "--no-cache"} <= set(argv)
    assert after(argv, "--platform") == ["linux/arm64"]
    assert after(argv, "--progress") == ["plain"]
    assert after(argv, "--secret") == ['id=ca_bundle,"src=/x,y/ca.pem"']


def test_credentials_travel_in_the_environment_only() -> None:
    options = BuildOptions(
        tags=("a:1",),
        index_url="https://user:s3cr%40t@mirror/simple",
        extra_index_urls=("https://token@one/simple", "https://two/simple"),
    )
    built = command(options, {"HTTPS_PROXY": "http://me:pw@proxy:3128", "https_proxy": "", "LANG": "C"})
    assert after(built.argv, "--build-arg") == ["HTTPS_PROXY"]
    assert len(after(built.argv, "--secret")) == 2
    assert built.secrets == ("s3cr%40t", "s3cr@t", "token", "pw")
    assert not [word for word in built.argv for secret in built.secrets if secret in word]
    assert "https://token@one/simple https://two/simple" in built.env.values()
    assert built.env["LANG"] == "C"


def test_the_users_own_builder_and_progress_do_not_interfere() -> None:
    built = command(BuildOptions(tags=("a:1",)), {"BUILDX_BUILDER": "remote", "BUILDKIT_PROGRESS": "tty"})
    assert built.env == {}


def test_the_containerd_store_is_not_left_to_gzip() -> None:
    assert output_options("overlay2") == ["--load"]
    (kind, attributes) = output_options("containerd")
    assert kind == "--output"
    assert "compression=" in attributes


def test_the_archive_is_the_same_for_the_same_context() -> None:
    context = RenderedContext("FROM scratch\n", (ContextFile("run/me.py", b"x = 1\n", 0o755),), "d")
    first = context_archive(context)
    assert first == context_archive(context)
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert [(entry.name, oct(entry.mode), entry.mtime) for entry in archive] == [
            ("Dockerfile", "0o644", 0),
            ("run/me.py", "0o755", 0),
        ]


def test_the_image_is_known_by_what_the_store_knows_it_by() -> None:
    said = b'{"containerimage.config.digest": "sha256:config", "containerimage.digest": "sha256:manifest"}'
    assert image_digest(said) == "sha256:manifest"


@pytest.mark.parametrize("said", [b"", b"[]", b"{}", b'{"containerimage.digest": 3}'])
def test_buildx_that_does_not_tell_what_it_built(said: bytes) -> None:
    with pytest.raises(BuildFailedError, match="does not tell what it built"):
        image_digest(said)
