"""Tensors compared bit for bit across processes."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any


def digest(tensor: Any) -> str:
    """A digest of a tensor's type, shape and bits. numpy, which torch may be without, is not needed."""
    held = tensor.detach().cpu().contiguous()
    data = ctypes.string_at(held.data_ptr(), held.numel() * held.element_size())
    return hashlib.sha256(f"{held.dtype} {tuple(held.shape)} ".encode() + data).hexdigest()
