"""Named random generators by purpose, so that a new generator changes no other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def named_rng(seed: int, *name: str | int) -> np.random.Generator:
    """Return the random generator of a named purpose."""
    digest = hashlib.sha256("\x1f".join(map(str, name)).encode()).digest()
    # SeedSequence takes 32-bit words as they are; a list it converts slowly, number by
    # number.
    n_bytes = 4 * max(1, -(-seed.bit_length() // 32))
    words = np.frombuffer(seed.to_bytes(n_bytes, "little") + digest, dtype="<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def uniform_from_each(
    rngs: Iterable[np.random.Generator], counts: Iterable[int]
) -> npt.NDArray[np.float64]:
    """Return uniform random numbers (0-1): `counts` of them from each generator."""
    return np.concatenate([rng.random(n) for rng, n in zip(rngs, counts, strict=True)])
