"""`envsmith build` beside a plain `pip install torch` Dockerfile on the same base image: wall time and size.

    python -m benchmarks.image_build [--torch 2.6 --cuda 12.1] [--rounds 1] [--ca-bundle FILE]

Both start cold each time: no layer cache, and envsmith's cache mounts are dropped before its turn. The plain one
is written as people write it when they care for size (--no-install-recommends, --no-cache-dir). The engine's image
store decides how long the export takes, so run it once on each store; the table says which one it was.
Aim: at most 0.7 of the plain one's time, and no larger. Neither side's checks are counted (--no-check).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Row, machine, table

TIME_AIM_RATIO = 0.7
SIZE_AIM_RATIO = 1.0
OURS, PLAIN = "envsmith-benchmark:ours", "envsmith-benchmark:plain"

PLAIN_DOCKERFILE = """\
FROM {base_image}
RUN {secret} apt-get {apt_option} update \\
 && apt-get {apt_option} install -y --no-install-recommends python3 python3-venv \\
 && rm -rf /var/lib/apt/lists/*
RUN {secret} python3 -m venv /opt/venv && {pip_environment} /opt/venv/bin/pip install --no-cache-dir {packages}
ENV PATH=/opt/venv/bin:$PATH
"""


def plain_dockerfile(base_image: str, packages: Sequence[str], with_ca_bundle: bool) -> str:
    """The rival. Behind a proxy that signs for itself it gets the bundle in the same way as ours: as a secret."""
    bundle = "/run/secrets/ca_bundle"
    return PLAIN_DOCKERFILE.format(
        base_image=base_image,
        packages=" ".join(packages),
        secret="--mount=type=secret,id=ca_bundle" if with_ca_bundle else "",
        apt_option=f"-o Acquire::https::CAInfo={bundle}" if with_ca_bundle else "",
        pip_environment=f"PIP_CERT={bundle}" if with_ca_bundle else "",
    )


def output_of(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def timed(command: Sequence[str]) -> float:
    """Wall seconds of a command that must succeed; its own output goes to stderr."""
    print("+", " ".join(command), file=sys.stderr, flush=True)
    started = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    return time.perf_counter() - started


def cache_mounts(disk_usage: str, of: str) -> list[str]:
    """Ids of BuildKit's cache mounts whose description holds `of`, from `docker buildx du --verbose`."""
    found = []
    for record in disk_usage.split("\n\n"):
        fields = {key: value.strip() for key, _, value in (line.partition(":") for line in record.splitlines())}
        if fields.get("Type") == "exec.cachemount" and of in fields.get("Description", ""):
            found.append(fields["ID"].rstrip("*"))
    return found


def build_ours(request: Sequence[str], ca_bundle: str | None) -> float:
    for identity in cache_mounts(output_of(["docker", "buildx", "du", "--verbose"]), of="envsmith"):
        output_of(["docker", "buildx", "prune", "--force", "--filter", f"id={identity}"])
    bundle = ("--ca-bundle", ca_bundle) if ca_bundle else ()
    build = (sys.executable, "-m", "envsmith", "build", *request, "--no-check", "--no-cache", "--progress", "plain")
    return timed([*build, "--tag", OURS, *bundle])


def build_plain(plan: dict[str, object], packages: Sequence[str], ca_bundle: str | None) -> float:
    secret = ("--secret", f"id=ca_bundle,src={ca_bundle}") if ca_bundle else ()
    with tempfile.TemporaryDirectory() as folder:
        text = plain_dockerfile(str(plan["base_image"]), packages, with_ca_bundle=bool(ca_bundle))
        (Path(folder) / "Dockerfile").write_text(text, encoding="utf-8")
        return timed(
            ["docker", "buildx", "build", "--load", "--no-cache", "--progress=plain", "--tag", PLAIN, *secret, folder]
        )


def image_bytes(image: str) -> int:
    return int(output_of(["docker", "image", "inspect", "--format", "{{.Size}}", image]))


def image_store() -> str:
    status = output_of(["docker", "info", "--format", "{{json .DriverStatus}}"])
    return "containerd" if "io.containerd.snapshotter" in status else "overlay2"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default="2.6")
    parser.add_argument("--cuda", default="12.1")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ca-bundle", default=os.environ.get("SSL_CERT_FILE"))
    return parser.parse_args()


def main() -> None:
    options = arguments()
    request = ("--torch", options.torch, "--cuda", options.cuda)
    plan = json.loads(output_of([sys.executable, "-m", "envsmith", "plan", *request, "--format", "json"]))
    packages = [f"{package['name']}=={package['version'].partition('+')[0]}" for package in plan["packages"]]
    ours, plain = [], []
    try:
        for _ in range(options.rounds):
            plain.append(build_plain(plan, packages, options.ca_bundle))
            ours.append(build_ours(request, options.ca_bundle))
        rows = [
            Row(
                f"build, {image_store()} store", statistics.median(ours), statistics.median(plain), "s", TIME_AIM_RATIO
            ),
            Row("image size", image_bytes(OURS) / 1e6, image_bytes(PLAIN) / 1e6, "MB", SIZE_AIM_RATIO),
        ]
    finally:
        subprocess.run(["docker", "image", "rm", "--force", OURS, PLAIN], check=False, stdout=subprocess.DEVNULL)
    print(f"{machine()}, {plan['base_image']}, {' '.join(packages)} (median of {options.rounds})\n")
    print(table(rows, "envsmith build", "plain pip"))


if __name__ == "__main__":
    main()
