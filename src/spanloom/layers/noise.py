"""Noise that depends on what it is for, and on nothing else: not on the batch, the order or the device.

Philox is a function of key and counter, so the first rows are the same however many are drawn.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

SEPARATOR = b"\x1f"


def key_of(seed: int, content: bytes) -> int:
    """A number of 64 bits from a seed and a content."""
    digest = blake2b(str(seed).encode() + SEPARATOR + content, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def normals(key: int, number: int, rows: int) -> NDArray[np.float64]:
    """Normal numbers [rows, 2], the `number`th such table of a key."""
    # as a plain list, large keys would pass through float64, and different ones become equal
    words = np.array([key, number], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=words)).standard_normal((rows, 2))
