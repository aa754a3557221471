"""What a convolution or product is known by, whatever its precision: by an ONNX node, too."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

# Dead channels fill a block up; the widest has 64.
MAX_DEAD = 64
_CONV = "conv"


def conv_key(read: Sequence[int], made: Sequence[int], kernel: Sequence[int]) -> Hashable:
    """Of a convolution from one shape to another."""
    return (_CONV, tuple(read), tuple(made), tuple(kernel))


def widens(key: Hashable | None, wider: Hashable | None) -> bool:
    """Whether one key's convolution is the other's with some dead channels."""
    if not isinstance(key, tuple) or not isinstance(wider, tuple):
        return False
    if (key[0], wider[0]) != (_CONV, _CONV) or _without_channels(key) != _without_channels(wider):
        return False
    own, other = ((each[1][1], each[2][1]) for each in (key, wider))
    return all(few <= many < few + MAX_DEAD for few, many in zip(own, other, strict=True))


def count_of_parts(key: Hashable | None, part: Hashable | None) -> int:
    """How many convolutions of ``part``, over a part of the channels each, the other one is; or 0.

    512 of 2048 channels, all else alike: 4.
    """
    if not isinstance(key, tuple) or not isinstance(part, tuple):
        return 0
    if (key[0], part[0]) != (_CONV, _CONV) or _without_channels(key) != _without_channels(part):
        return 0
    (whole, made), (few, makes) = ((each[1][1], each[2][1]) for each in (key, part))
    parts, rest = divmod(whole, few)
    return parts if parts > 1 and rest == 0 and made == makes else 0


def _without_channels(key: tuple[Any, ...]) -> Hashable:
    _, read, made, kernel = key
    return read[:1], read[2:], made[:1], made[2:], kernel


def product_key(rows: int, inner: int, columns: int) -> Hashable:
    """Of a matrix product (rows, inner) x (inner, columns)."""
    return ("product", rows, inner, columns)


def layer_key(workload: Workload | None) -> Hashable | None:
    """Of a workload; ``None`` for what is neither."""
    if isinstance(workload, ConvWorkload):
        return conv_key(workload.in_shape, workload.out_shape, workload.kernel)
    if workload is None or not hasattr(workload, "in_features"):
        return None
    sizes = ("batch", "in_features", "out_features")
    return product_key(*(getattr(workload, name) for name in sizes))


def product_of(workload: Workload | None) -> Hashable | None:
    """The key of the matrix product that a 1x1 convolution is; ``None`` for anything else."""
    if not isinstance(workload, ConvWorkload) or not workload.is_pointwise or workload.groups > 1:
        return None
    pixels = workload.batch * workload.height * workload.width
    return product_key(pixels, workload.in_channels, workload.out_channels)
