"""The container that a bundle runs in: it has the least it needs, it ends in time, and it is removed."""

from __future__ import annotations

import json
import time

import pytest

from envsmith.engine import interpreter
from envsmith.engine.docker import DockerEngine
from envsmith.errors import BuildFailedError, UsageError
from tests.docker.conftest import BASE, Built
from tests.docker.pyz import bundle

LOOK = """
import json, os, socket, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
def writable(path):
    try:
        open(os.path.join(path, "x"), "w").close()
    except OSError:
        return False
    return True
shm = os.statvfs("/dev/shm")
exec_ok = [line.split()[3] for line in open("/proc/mounts") if line.split()[1] == "/tmp"][0]
print(json.dumps({
    "argv": sys.argv[1:], "uid": os.getuid(), "caps": status["CapBnd"], "nnp": status["NoNewPrivs"],
    "writable": [path for path in ("/", "/tmp", "/envsmith", "/workspace", "/home/user") if writable(path)],
    "shm": shm.f_blocks * shm.f_frsize, "interfaces": [name for _, name in socket.if_nameindex()],
    "noexec": "noexec" in exec_ok, "env": sorted(os.environ),
}))
print("\\x1b[31mon stderr", file=sys.stderr)
sys.exit(3)
"""


def test_it_has_the_least_it_needs(torch_image: Built, engine: DockerEngine) -> None:
    lines: list[str] = []
    ended = engine.run_bundle(torch_image.reference, bundle(LOOK), ["a", "b c"], None, lines.append, 60.0)
    assert (ended.exit_status, ended.timed_out, ended.log_tail) == (3, False, ("on stderr",))
    (line,) = lines
    seen = json.loads(line)
    assert seen["argv"] == ["a", "b c"]
    assert seen["uid"] == 1000
    assert int(seen["caps"], 16) == 0
    assert seen["nnp"] == "1"
    assert seen["writable"] == ["/tmp"]
    assert seen["shm"] == 1024**3
    assert [name for name in seen["interfaces"] if name != "lo"] == []
    assert not seen["noexec"]
    assert "HOME" in seen["env"]


def test_it_is_stopped_at_its_limit(torch_image: Built, engine: DockerEngine) -> None:
    begun = time.monotonic()
    lines: list[str] = []
    sleeper = bundle("import time; print('up', flush=True); time.sleep(600)")
    ended = engine.run_bundle(torch_image.reference, sleeper, [], None, lines.append, 3.0)
    assert (ended.exit_status, ended.timed_out) == (None, True)
    assert lines == ["up"]
    assert time.monotonic() - begun < 20


def test_long_lines_and_the_last_one_without_an_end_arrive_whole(torch_image: Built, engine: DockerEngine) -> None:
    lines: list[str] = []
    program = bundle("import os; os.write(1, b'a' * 3_000_000 + b'\\nlast')")
    engine.run_bundle(torch_image.reference, program, [], None, lines.append, 60.0)
    assert [len(line) for line in lines] == [3_000_000, 4]


def test_an_image_without_python(engine: DockerEngine) -> None:
    with pytest.raises(UsageError, match="no python3"):
        engine.run_bundle(BASE, b"", [], None, print, 10.0)


def test_an_image_that_is_not_there(engine: DockerEngine) -> None:
    with pytest.raises(UsageError, match="has no image"):
        engine.run_bundle("envsmith-test/none:1", b"", [], None, print, 10.0)


def test_a_gpu_that_the_engine_cannot_give(torch_image: Built, engine: DockerEngine) -> None:
    if engine.info().gpu is None:
        with pytest.raises(BuildFailedError, match="could not give the container the GPUs"):
            engine.run_bundle(torch_image.reference, bundle(""), [], "runtime", print, 10.0)
    else:
        program = bundle("import glob; print(len(glob.glob('/dev/nvidia[0-9]*')))")
        lines: list[str] = []
        engine.run_bundle(torch_image.reference, program, [], engine.info().gpu, lines.append, 60.0)
        assert int(lines[0]) > 0


def test_the_images_own_python_is_found_whatever_path_a_device_brings(torch_image: Built, engine: DockerEngine) -> None:
    # a CDI device's PATH replaces the image's when the container starts: "python3" would be the system's there
    client = engine._client
    path = interpreter.image_path(client.images.get(torch_image.reference).attrs)
    assert interpreter.find_python(client, torch_image.reference, path) == "/opt/venv/bin/python3"
    assert interpreter.find_python(client, torch_image.reference, "relative:/nowhere:/usr/bin") == "/usr/bin/python3"
    with pytest.raises(UsageError, match="no python3"):
        interpreter.find_python(client, BASE, "/usr/bin:/bin")
