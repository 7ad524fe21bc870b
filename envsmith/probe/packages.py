"""Installed distributions that matter to a CUDA stack, from the names of their metadata folders.

Reading names only is what makes this fast: `importlib.metadata` opens a file for each of hundreds of distributions.
"""

from __future__ import annotations

from typing import Sequence

from envsmith.probe.look import Look, collector
from envsmith.probe.parse.metadata import conda_record, dist_info
from envsmith.wire.facts import PackageFacts

_FAMILIES = ("nvidia-", "torch", "pytorch", "libtorch", "cuda", "cupy", "jax", "tensorflow", "triton", "nccl", "cudnn")
_NAMES = frozenset(
    (
        "accelerate", "apex", "bitsandbytes", "causal-conv1d", "ctranslate2", "deepspeed", "exllamav2", "fastai",
        "flash-attn", "flashinfer-python", "lightning", "lmdeploy", "mamba-ssm", "megatron-core", "mkl", "numba",
        "numpy", "onnxruntime-gpu", "pip", "sageattention", "setuptools", "sglang", "transformer-engine",
        "transformers", "unsloth", "vllm", "xformers", "intel-openmp", "gxx-linux-64", "rmm-cu12", "spconv-cu120",
    )
)  # fmt: skip


@collector("packages")
def package_facts(look: Look, search_path: Sequence[str], prefix: str) -> tuple[PackageFacts, ...]:
    """Return the listed distributions on `search_path` in its order, then those of conda's records in `prefix`."""
    found = []
    for folder in dict.fromkeys(search_path):
        for name in look.names(folder, "packages.location") if folder.startswith("/") else ():
            known = dist_info(name)
            if known and is_listed(known[0]):
                found.append(PackageFacts(known[0], known[1], folder))
    records = prefix.rstrip("/") + "/conda-meta"
    for name in look.names(records):
        known = conda_record(name)
        if known and is_listed(known[0]):
            found.append(PackageFacts(known[0], known[1], records))
    return tuple(found)


def is_listed(name: str) -> bool:
    """Whether a distribution (canonical name) belongs to what a snapshot holds."""
    return name in _NAMES or name.startswith(_FAMILIES)
