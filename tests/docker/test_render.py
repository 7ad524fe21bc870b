"""What BuildKit really makes of quoted text and of the templates' shell: nothing that was not meant."""

from __future__ import annotations

import base64
import http.server
import io
import json
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from envsmith import quoting
from envsmith.engine.uv_folder import uv_folder
from envsmith.model.plan import Package
from envsmith.render.dockerfile import render
from tests.docker.conftest import BASE, docker
from tests.unit.render import plans
from tests.unit.test_quoting import HOSTILE

# what Debian's own image has in a user's home
BASE_FILES = {"/root/.bashrc", "/root/.profile"}
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


class Index(http.server.BaseHTTPRequestHandler):
    """A package index, for those who know the password, with one package per folder."""

    wheels: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        name = self.path.strip("/").split("/")[-1]
        known = self.headers.get("Authorization") == "Basic " + base64.b64encode(b"me:s3cret").decode()
        links = "".join(f'<a href="{wheel}">{wheel}</a>' for wheel in self.wheels if wheel.startswith(f"{name}-"))
        body = self.wheels.get(name) or links.encode()
        self.send_response(404 if known and not body else 200 if known else 401)
        if not known:
            self.send_header("WWW-Authenticate", "Basic")
        self.send_header("Content-Type", "application/octet-stream" if name in self.wheels else "text/html")
        self.send_header("Content-Length", str(len(body) if known else 0))
        self.end_headers()
        if known and self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


def wheel(name: str, version: str) -> bytes:
    buffer, info = io.BytesIO(), f"{name}-{version}.dist-info"
    contents = {
        f"{name}.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return buffer.getvalue()


@pytest.fixture
def index() -> Iterator[str]:
    packages = (("torch", "0.0.1+fake"), ("pip", "99.0"), ("setuptools", "99.0"), ("wheel", "99.0"))
    Index.wheels = {f"{name}-{version}-py3-none-any.whl": wheel(name, version) for name, version in packages}
    Index.asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:s3cret@127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


def test_a_given_index_is_the_only_one_asked_and_its_password_stays_out(index: str, tmp_path: Path) -> None:
    # a version that nobody else builds: a step is cached by its text, not by its secrets
    fake = (Package("torch", "0.0.1+fake", "/whl/fake"),)
    plan = replace(plans.INDEX_RUNTIME, blocks=("base", "apt", "account", "torch", "user"), packages=fake)
    secret = tmp_path / "index_url"
    secret.write_text(index, encoding="utf-8")
    with uv_folder("linux/amd64") as uv:
        build(
            tmp_path,
            render(plan).dockerfile,
            "--no-cache",
            f"--build-context=uv={uv}",
            f"--secret=id=index_url,src={secret}",
        )
    said = docker("run", "--rm", "--network=none", TAG, "python", "-c", "import torch, pip; print(torch.__version__)")
    assert said == "0.0.1+fake\n"
    assert any("torch" in path for path in Index.asked)
    assert "s3cret" not in docker("image", "inspect", TAG) + docker("history", "--no-trunc", TAG)
    look = "grep -rl s3cret /opt /etc /home /root /tmp /var; find /root /tmp /var/lib/apt/lists /var/cache/apt -type f"
    found = docker("run", "--rm", "--network=none", "--user=0", TAG, "sh", "-c", f"{look}; true")
    assert [line for line in found.splitlines() if line not in BASE_FILES] == []
