"""How large a model may be: what is larger is refused before anything of its size is made.

Most limits are far above any CNN. They are here for files that somebody made to exhaust memory or
time: a ConstantOfShape of 100,000 x 100,000, a padding of a billion, functions that double a graph
thirty times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import onnx
from onnx import helper

from tvm_neocpu.core.errors import ModelFileError, ShapeError
from tvm_neocpu.core.types import MAX_ELEMENTS
from tvm_neocpu.frontend.nodes import told

# A build takes milliseconds a node; the largest CNNs have some 5,000.
MAX_NODES = 50_000
# Code reaches the weights of a compiled file by 32-bit offsets.
MAX_WEIGHT_BYTES = 2**31 - 1
# What an importer may compute of weights: dequantise them, transpose them, merge them. A file may
# store none and make them all by ConstantOfShape: onnx's own VGG-19 makes 575 MB.
FREE_BYTES, BYTES_PER_WEIGHT_BYTE = 2**30, 16
# All arrays that folding shapes computes, together: anchors of a detector take some 100,000.
MAX_FOLDED_ELEMENTS = 2**24
# These give other values at every run, of whatever they read.
_RANDOM = ("Random", "Multinomial", "Bernoulli", "Dropout")

# The images that share a limit of elements.
_IMAGES: ContextVar[int] = ContextVar("images", default=1)


@contextmanager
def for_each_image(batch: int) -> Iterator[None]:
    """The limit of elements holds for each image, where ``batch`` stands for any number of them."""
    before = _IMAGES.set(batch)
    try:
        yield
    finally:
        _IMAGES.reset(before)


def check_elements(what: str, shape: Sequence[int]) -> None:
    """Raises ShapeError for a shape with a negative extent, or with too many elements."""
    if any(extent < 0 for extent in shape):
        raise ShapeError(f"{what} would have a negative extent: {list(shape)}")
    if math.prod(shape) > MAX_ELEMENTS * _IMAGES.get():
        raise ShapeError(f"{what} would have more than 2**31 - 1 elements: {list(shape)}")


def check_weight_bytes(what: str, size: int) -> None:
    """Raises ModelFileError for more weights than a compiled file can hold."""
    if size > MAX_WEIGHT_BYTES:
        raise ModelFileError(f"{what} has {size / 2**30:.1f} GiB of weights; 2 GiB are the maximum")


def check_node_count(what: str, count: int) -> None:
    """Raises ModelFileError for a graph of too many nodes."""
    if count > MAX_NODES:
        raise ModelFileError(f"{what} has {count} nodes; {MAX_NODES} are the maximum")


def tensor_bytes(type_: onnx.TypeProto) -> int:
    """Bytes of a tensor of a static type; 0 where it has none or its elements are strings."""
    tensor = type_.tensor_type
    if not tensor.HasField("shape") or tensor.elem_type in (0, onnx.TensorProto.STRING):
        return 0
    size = helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
    return size * math.prod(_extents(type_))


def _extents(type_: onnx.TypeProto) -> list[int]:
    """The shape, 0 for an unknown extent."""
    return [dim.dim_value for dim in type_.tensor_type.shape.dim]


def _check_padding(node: onnx.NodeProto, data: onnx.TypeProto | None) -> None:
    """A window may pad its image by a billion, and stride over all of it."""
    pads = next((list(entry.ints) for entry in node.attribute if entry.name == "pads"), [])
    if not pads or data is None or not data.tensor_type.HasField("shape"):
        return
    extents, half = _extents(data), len(pads) // 2
    if len(pads) % 2 or len(extents) < half:
        return
    around = [before + after for before, after in zip(pads[:half], pads[half:], strict=True)]
    first = len(extents) - half
    padded = [extent + more for extent, more in zip(extents[first:], around, strict=True)]
    what = f"the padded input of {told(node)}"
    check_elements(what, [*extents[:first], *(max(extent, 0) for extent in padded)])


class Budget:
    """What importing one model may still compute and hold; ``weights`` is the model's own bytes."""

    def __init__(self, weights: int) -> None:
        self._bytes = FREE_BYTES + BYTES_PER_WEIGHT_BYTE * weights
        self._elements = MAX_FOLDED_ELEMENTS
        self._constants: set[str] = set()

    def know_constant(self, name: str) -> None:
        """A tensor whose value is known before the network runs."""
        self._constants.add(name)

    def check(
        self,
        node: onnx.NodeProto,
        types: Mapping[str, onnx.TypeProto],
        data: onnx.TypeProto | None = None,
    ) -> None:
        """Check a node's results; ``types`` are those that are known, ``data`` its first input's.

        Raises ShapeError for a result that is too large, and for a window over an image that is too
        large with its padding; ModelFileError where importing would compute too many constants.
        """
        what = f"a result of {told(node)}"
        for type_ in types.values():
            if type_.tensor_type.HasField("shape"):
                check_elements(what, _extents(type_))
        _check_padding(node, data)
        if not self._is_constant(node):
            return
        self._constants.update(node.output)
        self._bytes -= sum(map(tensor_bytes, types.values()))
        if self._bytes < 0:
            raise ModelFileError(f"{what} would be too large for a constant of a model of its size")

    def takes(self, arrays: Iterable[int]) -> bool:
        """Whether arrays of so many elements may be computed; then they count."""
        count = sum(arrays)
        if count > self._elements:
            return False
        self._elements -= count
        return True

    def _is_constant(self, node: onnx.NodeProto) -> bool:
        read = set(node.input) - {""}
        return bool(read) and read <= self._constants and not node.op_type.startswith(_RANDOM)
