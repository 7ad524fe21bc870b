"""Rates by other means than ours, printed as JSON: what `benchmarks.gpu_rates` compares with.

    python -m benchmarks.independent_rates SIZES

SIZES: JSON with "product_size", "memory_copy_bytes", "host_copy_bytes", "all_reduce_bytes" and "ranks". Each is
measured after some 0.3 s of the same work, so that clocks are those of a GPU under load. Uses the first GPU, and all
of the ranks for the all-reduce; nothing of envsmith.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

WARM_UP_MS, MEASURED_MS = 300, 300
LOOP_WARM_UP, LOOP_TIMES = 20, 40


def do_bench_seconds(call: Callable[[], object]) -> float:
    """Median of triton.testing.do_bench, which empties the L2 cache before each call."""
    do_bench = import_module("triton.testing").do_bench
    return float(do_bench(call, warmup=WARM_UP_MS, rep=MEASURED_MS, return_mode="median")) / 1000


def product_tflops(torch: Any, size: int) -> float:
    """A square product in bfloat16."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / do_bench_seconds(lambda: a @ b) / 1e12


def memory_gb_s(torch: Any, size_bytes: int) -> float:
    """A copy within the GPU's memory, bytes read and written."""
    source = torch.empty(size_bytes // 8, device="cuda", dtype=torch.int64).random_()
    target = torch.empty_like(source)
    return 2 * size_bytes / do_bench_seconds(lambda: target.copy_(source)) / 1e9


def host_copies_gb_s(torch: Any, size_bytes: int) -> dict[str, float]:
    """The driver's own cuMemcpy between pinned memory and the GPU, each call timed by the wall clock."""
    pinned = torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True).random_()
    on_gpu = torch.empty(size_bytes, dtype=torch.uint8, device="cuda")
    host, device, size = (
        ctypes.c_void_p(pinned.data_ptr()),
        ctypes.c_uint64(on_gpu.data_ptr()),
        ctypes.c_size_t(size_bytes),
    )
    cuda = ctypes.CDLL("libcuda.so.1")
    calls = {
        "host_to_device_gb_s": lambda: cuda.cuMemcpyHtoD_v2(device, host, size),
        "device_to_host_gb_s": lambda: cuda.cuMemcpyDtoH_v2(host, device, size),
    }
    torch.cuda.synchronize()
    return {name: size_bytes / loop_seconds(call) / 1e9 for name, call in calls.items()}


def loop_seconds(call: Callable[[], int]) -> float:
    """Mean of a loop of calls that return 0 when they are done."""
    for _ in range(LOOP_WARM_UP):
        call()
    started = time.perf_counter()
    statuses = {call() for _ in range(LOOP_TIMES)}
    seconds = (time.perf_counter() - started) / LOOP_TIMES
    if statuses != {0}:
        raise RuntimeError(f"cuMemcpy returned {statuses}")
    return seconds


def all_reduce_rank(rank: int, ranks: int, size_bytes: int, meeting: str) -> None:
    """One rank of a bare loop of all-reduces; rank 0 writes the slowest rank's bus bandwidth beside `meeting`."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    tensor = torch.zeros(size_bytes // 4, device="cuda")
    for _ in range(LOOP_WARM_UP):
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(LOOP_TIMES):
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    seconds = torch.tensor([(time.perf_counter() - started) / LOOP_TIMES], device="cuda")
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    if rank == 0:
        bandwidth = size_bytes / float(seconds) / 1e9 * 2 * (ranks - 1) / ranks
        Path(f"{meeting}.json").write_text(json.dumps(bandwidth), encoding="utf-8")
    dist.destroy_process_group()


def all_reduce_gb_s(torch: Any, ranks: int, size_bytes: int) -> float:
    """The bus bandwidth, as nccl-tests defines it."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"{folder}/meeting"
        torch.multiprocessing.spawn(all_reduce_rank, (ranks, size_bytes, meeting), nprocs=ranks)
        return float(json.loads(Path(f"{meeting}.json").read_text(encoding="utf-8")))


def main() -> None:
    import torch

    sizes = json.loads(sys.argv[1])
    torch.cuda.init()
    rates = {
        "bfloat16_rate_tflops": product_tflops(torch, sizes["product_size"]),
        "memory_bandwidth_gb_s": memory_gb_s(torch, sizes["memory_copy_bytes"]),
        **host_copies_gb_s(torch, sizes["host_copy_bytes"]),
    }
    if sizes["ranks"] > 1:
        rates["bus_bandwidth_gb_s"] = all_reduce_gb_s(torch, sizes["ranks"], sizes["all_reduce_bytes"])
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
