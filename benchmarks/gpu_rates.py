"""The rates that `check` measures beside an independent measure of each, in the same run on the same GPU.

    python -m benchmarks.gpu_rates [ROUNDS]

bfloat16 product and copy within the GPU's memory: `triton.testing.do_bench` of the same; copies between pinned memory
and the GPU: a loop of the driver's own cuMemcpy; all-reduce, with two GPUs or more: a bare loop of torch.distributed.
Ours come from the bundle, run by the interpreter that runs this, at level standard. Needs a GPU that has bfloat16,
torch with Triton, and of envsmith's own requirements nvidia-ml-py only. Aim: within 5 % of each other.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from envsmith.portable import write_bundle

AIM = 0.05
CHECKS = "torch-import,cuda-kernel-torch,amp-matmul,rates,copy-bandwidth,nccl-all-reduce,nccl-bandwidth"
RATES = {
    "bfloat16_rate_tflops": ("bfloat16 product", "do_bench", "TFLOP/s"),
    "memory_bandwidth_gb_s": ("copy in GPU memory", "do_bench", "GB/s"),
    "host_to_device_gb_s": ("copy to the GPU", "cuMemcpy", "GB/s"),
    "device_to_host_gb_s": ("copy from the GPU", "cuMemcpy", "GB/s"),
    "bus_bandwidth_gb_s": ("all-reduce, on the bus", "bare loop", "GB/s"),
}


def first_gpu_values(lines: Iterable[str]) -> dict[str, Any]:
    """Values of the first GPU and of the whole run, from the events of `check --format jsonl`: "rates.timed_size".

    Raises RuntimeError for a check that neither passed nor was skipped.
    """
    found: dict[str, Any] = {}
    for event in map(json.loads, lines):
        if event["event"] != "result":
            continue
        result = event["result"]
        if result["status"] not in ("pass", "skip"):
            raise RuntimeError(f"{result['id']}: {result['status']}: {result['message']}")
        for metric in result["metrics"]:
            prefix, _, name = metric["name"].rpartition(".")
            if prefix in ("", "cuda0"):
                found[f"{result['id']}.{name}"] = metric["value"]
    return found


def ours(bundle: Path) -> dict[str, Any]:
    """What the checks measured."""
    command = [sys.executable, str(bundle), "check", "--only", CHECKS, "--format", "jsonl"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    return first_gpu_values(done.stdout.splitlines())


def theirs(measured: Mapping[str, Any]) -> dict[str, float]:
    """The same by other means, at the same sizes."""
    sizes = {
        "product_size": measured["rates.bfloat16_timed_size"],
        "memory_copy_bytes": measured["rates.memory_copy_bytes"],
        "host_copy_bytes": measured["copy-bandwidth.size_bytes"],
        "all_reduce_bytes": measured.get("nccl-bandwidth.size_bytes", 0),
        "ranks": measured.get("nccl-bandwidth.ranks", 1),
    }
    command = [sys.executable, "-m", "benchmarks.independent_rates", json.dumps(sizes)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def comparison(our_rounds: list[dict[str, Any]], their_rounds: list[dict[str, float]]) -> str:
    """Medians of both and their ratio as a Markdown table."""
    lines = ["| what | check | independent | by | ratio | aim |", "|---|---:|---:|---|---:|---|"]
    for name, (what, means, unit) in RATES.items():
        values = [value for found in our_rounds for key, value in found.items() if key.partition(".")[2] == name]
        others = [found[name] for found in their_rounds if name in found]
        if not values or not others:
            continue
        mine, other = statistics.median(values), statistics.median(others)
        ratio = mine / other
        verdict = "met" if abs(ratio - 1) <= AIM else "MISSED"
        lines.append(f"| {what} | {mine:.4g} {unit} | {other:.4g} {unit} | {means} | {ratio:.3f} "
                     f"| within {AIM:.0%}: {verdict} |")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    our_rounds, their_rounds = [], []
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "envsmith.pyz"
        write_bundle(bundle)
        for _ in range(rounds):
            our_rounds.append(ours(bundle))
            their_rounds.append(theirs(our_rounds[-1]))
    beside = ", ".join(
        f"{name} {our_rounds[-1][f'rates.{name}']}"
        for name in ("sm_clock_mhz", "power_cap_w", "throttle_reasons")
        if f"rates.{name}" in our_rounds[-1]
    )
    print(
        f"{machine()} (median of {rounds}{'; ' + beside if beside else ''})\n\n{comparison(our_rounds, their_rounds)}"
    )


if __name__ == "__main__":
    main()
