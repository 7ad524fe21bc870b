"""From what a person calls a GPU to its compute capability, and what NVIDIA's drivers know about it."""

from __future__ import annotations

import re
from functools import lru_cache

from envsmith.errors import UsageError
from envsmith.model import fit, versions
from envsmith.model.matrix import ComputeCapability, GpuProduct, Matrix
from envsmith.model.request import PLATFORMS, GpuWish

_CAPABILITY = re.compile(r"(?:sm_?|compute_)?(\d{1,2})\.?(\d)[af]?", re.IGNORECASE | re.ASCII)
_NOISE = re.compile(r"\b(nvidia|geforce|tesla|quadro|graphics|gpu)\b")
_NAME_LIMIT = 80
_SUGGESTIONS = 5


def find_gpu(matrix: Matrix, text: str) -> GpuWish:
    """Return the GPU meant by a product name ("RTX 5090", "h200") or a compute capability ("9.0", "sm_90").

    A name may leave out the maker and the series, and name a memory size or form factor only where that
    changes the product. Raises UsageError, with the nearest names, for what the matrix does not know.
    """
    capability = _CAPABILITY.fullmatch(text.strip())
    if capability:
        return _of_capability(matrix, text, f"{int(capability[1])}.{capability[2]}")
    product = fit.product_named(matrix, text) or _unambiguous(matrix, text)
    return GpuWish(text.strip(), product.compute_capability, product.product, product.forward_compat)


def capability_row(matrix: Matrix, compute_capability: str) -> ComputeCapability | None:
    """The matrix row of one compute capability."""
    rows = (row for row in matrix.compute_capabilities if row.compute_capability == compute_capability)
    return next(rows, None)


@lru_cache(maxsize=512)
def last_driver_branch(matrix: Matrix, gpu: GpuWish) -> int | None:
    """The last driver branch that supports the GPU; None = still supported, or unknown."""
    product = next((row for row in matrix.gpus if row.product == gpu.product), None)
    if product is not None and product.last_driver_branch is not None:
        return product.last_driver_branch
    row = capability_row(matrix, gpu.compute_capability)
    return row.last_driver_branch if row else None


@lru_cache(maxsize=512)
def platforms(matrix: Matrix, gpu: GpuWish) -> frozenset[str]:
    """The platforms of machines that have the GPU; of a bare capability, of any product with it. All, if not known."""
    rows = [row for row in matrix.gpus if row.compute_capability == gpu.compute_capability]
    found = [row for row in rows if gpu.product in (None, row.product)]
    return frozenset(platform for row in found for platform in row.platforms) or frozenset(PLATFORMS)


def first_cuda(matrix: Matrix, compute_capability: str) -> str | None:
    """The first CUDA that compiles for this capability; None = not in the matrix.

    A driver that offers less than that is older than such GPUs, and does not know them. (Inferred: the matrix has
    no table of the first driver for each GPU. RTX 40 came with CUDA 11.8 and R520, RTX 30 with 11.1 and R455.)
    """
    rows = (row for row in matrix.compute_capabilities if row.compute_capability == compute_capability)
    return next((row.first_cuda for row in rows), None)


def _of_capability(matrix: Matrix, text: str, capability: str) -> GpuWish:
    known = {row.compute_capability for row in matrix.compute_capabilities} | {
        row.compute_capability for row in matrix.gpus
    }
    if capability not in known:
        listed = ", ".join(sorted(known, key=versions.parse))
        raise UsageError(f"--gpu {text!r}: no GPU has compute capability {capability}", f"known: {listed}")
    answers = {row.forward_compat for row in matrix.gpus if row.compute_capability == capability}
    # a capability alone names no product: eligible only if every product of it is, or is not
    forward_compat = answers.pop() if len(answers) == 1 else None
    return GpuWish(text.strip(), capability, None, forward_compat)


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    spaced = re.sub(r"[^a-z0-9]+", " ", name.lower())
    # "rtx5090" and "5090 ti" are "rtx 5090" and "5090ti" to people
    spaced = re.sub(r"\b(rtx|gtx)(?=\d)", r"\1 ", spaced)
    spaced = re.sub(r"(\d) (ti|super)\b", r"\1 \2", re.sub(r"(\d)(ti|super)\b", r"\1 \2", spaced))
    return tuple(_NOISE.sub(" ", spaced).split())


def _names(product: GpuProduct) -> list[tuple[str, ...]]:
    return [_words(name) for name in (product.product, *product.aliases)]


def _unambiguous(matrix: Matrix, text: str) -> GpuProduct:
    """The product whose name holds all the words typed. Several are one if nothing that matters differs."""
    wanted = _words(text)
    exact = [row for row in matrix.gpus if wanted in _names(row)]
    partial = [row for row in matrix.gpus if wanted and any(set(wanted) <= set(name) for name in _names(row))]
    for found in (exact, partial):
        meanings = {(row.compute_capability, row.forward_compat, row.last_driver_branch) for row in found}
        if len(meanings) == 1:
            return min(found, key=lambda row: (len(row.product), row.product))
    if partial:
        names = ", ".join(sorted(row.product for row in partial)[:_SUGGESTIONS])
        raise UsageError(f"--gpu {text[:_NAME_LIMIT]!r} could be several GPUs: {names}", "name one of them in full")
    raise UsageError(
        f"--gpu {text[:_NAME_LIMIT]!r} is not a GPU that the matrix knows",
        f"nearest: {', '.join(_nearest(matrix, wanted))}; or give its compute capability, as in --gpu 9.0",
    )


def _nearest(matrix: Matrix, wanted: tuple[str, ...]) -> list[str]:
    import difflib  # only for a message

    by_name = {" ".join(words): row.product for row in matrix.gpus for words in _names(row)}
    close = difflib.get_close_matches(" ".join(wanted)[:_NAME_LIMIT], by_name, n=_SUGGESTIONS, cutoff=0.3)
    return list(dict.fromkeys(by_name[name] for name in close)) or ["H100", "A100", "RTX 4090"]
