"""What BuildKit really makes of quoted text and of the templates' shell: nothing that was not meant."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from envsmith import quoting
from envsmith.render.dockerfile import render
from tests.docker.conftest import BASE, docker
from tests.unit.render import plans
from tests.unit.test_quoting import HOSTILE

TAG = "envsmith-test/render"
EVERY_CHARACTER = "".join(map(chr, [*range(1, 10), *range(11, 0x180), *range(0x2000, 0x2100), 0xFEFF, 0xFFFD, 0x1F525]))


@pytest.fixture(autouse=True)
def clean_up() -> Iterator[None]:
    yield
    subprocess.run(["docker", "image", "rm", "--force", TAG], capture_output=True, check=False)


def build(folder: Path, dockerfile: str, *options: str) -> None:
    (folder / "Dockerfile").write_text(dockerfile, encoding="utf-8", newline="")
    docker("buildx", "build", "--load", "--provenance=false", "--network=host", "--tag", TAG, *options, str(folder))


def config() -> dict[str, object]:
    answer = json.loads(docker("image", "inspect", TAG))[0]["Config"]
    assert isinstance(answer, dict)
    return answer


def test_strings_come_back_from_a_real_build(tmp_path: Path) -> None:
    texts = [*HOSTILE, *plans.HOSTILE_TEXTS, '\\"', '\\\\"$', EVERY_CHARACTER, *(c for c in "\"\\$'`\t\r#")]
    strings = [quoting.dockerfile_string(text) for text in texts]
    lines = [f"LABEL a{number}={string}\nENV E{number}={string}" for number, string in enumerate(strings)]
    # E0 is "": were a "$E1" in a text expanded, it would not come back
    build(tmp_path, "FROM scratch\n" + "\n".join(lines) + '\nLABEL last="$E1"\n')
    labels, environment = config()["Labels"], config()["Env"]
    assert isinstance(labels, dict)
    assert isinstance(environment, list)
    assert labels.pop("last") == " "
    assert labels == {f"a{number}": text for number, text in enumerate(texts)}
    assert [line for line in environment if line[0] == "E"] == [f"E{n}={text}" for n, text in enumerate(texts)]


def test_run_words_come_back_from_a_real_build(tmp_path: Path) -> None:
    words = [word for word in [*HOSTILE, *plans.HOSTILE_TEXTS, EVERY_CHARACTER] if "\n" not in word]
    quoted = " \\\n    ".join(map(quoting.run_word, words))
    build(tmp_path, f"FROM {BASE}\nRUN printf '%s\\0' {quoted} > /words\n")
    printed = subprocess.run(
        ["docker", "run", "--rm", "--network=none", TAG, "cat", "/words"], capture_output=True, check=True
    ).stdout
    assert printed.decode().split("\0")[:-1] == words


def test_a_hostile_plan_builds_with_its_labels_intact(tmp_path: Path) -> None:
    plan = replace(plans.HOSTILE, blocks=("base", "account", "gpu", "user", "labels"))
    build(tmp_path, render(plan).dockerfile)
    labels = config()["Labels"]
    assert isinstance(labels, dict)
    assert {name: labels[name] for name in plan.labels} == plan.labels
    assert f"NVIDIA_REQUIRE_CUDA={plan.require_cuda}" in json.dumps(config()["Env"]).replace('\\"', '"')
    assert docker("run", "--rm", "--network=none", TAG, "sh", "-c", "ls /pwned 2>&1 || true").startswith("ls: ")


def test_the_account_is_uid_1000_even_where_the_base_has_one(tmp_path: Path) -> None:
    taken = "RUN useradd --create-home ubuntu && test $(id --user ubuntu) = 1000\n"
    account = render(replace(plans.PYPI_RUNTIME, blocks=("account", "user"))).dockerfile
    build(tmp_path, f"FROM {BASE}\n{taken}{account}")
    said = docker(
        "run", "--rm", "--network=none", TAG, "sh", "-c", "id; pwd; touch /workspace/x && ls -A /home; echo $HOME"
    )
    assert said.splitlines() == ["uid=1000(user) gid=1000(user) groups=1000(user)", "/workspace", "user", "/home/user"]
