"""Weights that are packed when their file is written, one after the other.

A network's packed weights take up to twice what the network's own take, and stand beside them.
Where a build ends in a file nobody needs them all at once. Until then a constant of the packed type
holds a key in place of its elements:

    conv2d(x, c)    c: float32[4, 8, 3, 3, 16, 16] of 16 bytes, the key of (weight, packing)
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.ir import GenericConst

Array = npt.NDArray[Any]

# Smaller weights are packed at once.
MIN_BYTES = 1 << 14
_KEY_BYTES = 16
_KEY_TYPE = "int64"
_SOME_BYTES = 4096


@dataclass(frozen=True)
class LateWeight:
    """A packed weight's type, and what makes it."""

    shape: tuple[int, ...]
    dtype: str
    pack: Callable[[], Array]

    @property
    def size(self) -> int:
        """Bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def content(self) -> memoryview:
        """The packed weight. It is computed at each call."""
        packed = np.ascontiguousarray(self.pack(), dtype=self.dtype)
        assert packed.shape == self.shape, f"packed as {packed.shape}, not as {self.shape}"
        return memoryview(packed.reshape(-1).view(np.uint8))


class LateWeights:
    """The late weights of a build, by key."""

    def __init__(self) -> None:
        self._known: dict[bytes, LateWeight] = {}
        # Keys and weights that agree in their packing and in some of their bytes.
        self._alike: dict[Hashable, list[tuple[bytes, Array]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def add(self, weight: Array, packing: Hashable, late: LateWeight) -> GenericConst:
        """A constant in place of ``late``, which packs ``weight`` as ``packing`` names it.

        Equal weights that are packed alike have one key. They are compared: a hash of all their
        bytes took 0.4 s for the 353 MB of NASNet-A large (Zen 4), before its kernels are known.
        """
        content = np.ascontiguousarray(weight).reshape(-1).view(np.uint8)
        about = packing, weight.shape, str(weight.dtype), _some_bytes(content)
        alike = self._alike.setdefault(about, [])
        key = next((key for key, other in alike if np.array_equal(other, content)), None)
        if key is None:
            key = hashlib.blake2b(repr((about, len(alike))).encode()).digest()[:_KEY_BYTES]
            alike.append((key, content))
        self._known[key] = late
        elements = tvm.runtime.tensor(np.frombuffer(key, _KEY_TYPE))
        return GenericConst(elements, relax.TensorType(late.shape, late.dtype))

    def of(self, content: memoryview, dtype: str, shape: Sequence[int]) -> LateWeight | None:
        """What a stored constant of these fields stands for; ``None`` where it is itself."""
        is_key = len(content) == _KEY_BYTES and dtype == _KEY_TYPE and len(shape) == 1
        return self._known.get(bytes(content)) if is_key else None


def _some_bytes(content: Array) -> bytes:
    """A few thousand bytes, spread over the content; all of a small one."""
    return content[:: -(-content.size // _SOME_BYTES) or 1].tobytes()


def is_late(expr: relax.Expr) -> bool:
    """Whether it is a constant that :meth:`LateWeights.add` made."""
    if not isinstance(expr, GenericConst) or not isinstance(expr.value, tvm.runtime.Tensor):
        return False
    return tuple(expr.value.shape) != tuple(map(int, expr.ty.shape.values))


_CURRENT: ContextVar[LateWeights | None] = ContextVar("late_weights", default=None)


@contextlib.contextmanager
def weights_late() -> Iterator[None]:
    """Networks that are built inside, in this thread, run once they are exported."""
    token = _CURRENT.set(LateWeights())
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextlib.contextmanager
def packed_at_once() -> Iterator[None]:
    """Weights are packed as they are met: to be shared by what packs them alike under other keys,
    as the specialisations of a network do.
    """
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def late_weights() -> LateWeights | None:
    """Those of the build that :func:`weights_late` is around, if it is."""
    return _CURRENT.get()
