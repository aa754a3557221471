"""Random quantised CNNs whose floats are exact: every scale is a power of two, sums are small.

ONNX Runtime, which computes them in float32 without its optimisations, and integer kernels must
agree to the last bit then, ties of rounding included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper
from random_onnx import OPSET, Choices, RandomNet, Shape, Sketch, Skip

ZEROS = {"uint8": (128, 0, 128, 127, 0, 1, 255, 3), "int8": (0, -128, 0, 1, 127, -1, 5, -128)}
# Below 2**24, so that what is added before or behind stays exact as well.
LIMIT = 2**23
BITS = {"uint8": (0, 255), "int8": (-128, 127)}


@dataclass(frozen=True)
class Grid:
    """Floats that are whole multiples of ``2**unit``, ``most`` of them at most.

    Usually they are as large as ``size``.
    """

    unit: int
    most: int
    size: float

    def checked(self) -> Grid:
        if self.most >= LIMIT or not -40 < self.unit < 40:
            raise Skip("a sum that may be rounded")
        return self

    def finer(self, unit: int) -> Grid:
        """The same floats in multiples of a smaller unit, too."""
        low = min(unit, self.unit)
        return Grid(low, self.most << (self.unit - low), self.size)

    def plus(self, other: Grid) -> Grid:
        low = min(self.unit, other.unit)
        mine, theirs = self.finer(low), other.finer(low)
        size = math.hypot(self.size, other.size)
        return Grid(low, mine.most + theirs.most, size).checked()

    def times(self, other: Grid, terms: int = 1) -> Grid:
        """Sums of that many products."""
        size = self.size * other.size * math.sqrt(terms)
        return Grid(self.unit + other.unit, self.most * other.most * terms, size).checked()


@dataclass(frozen=True)
class Codes:
    """What the codes of a tensor mean."""

    exponent: int
    zero: int
    dtype: str

    @property
    def grid(self) -> Grid:
        low, high = BITS[self.dtype]
        most = max(high - self.zero, self.zero - low)
        return Grid(self.exponent, most, 2.0**self.exponent * min(60, most))


@dataclass
class QuantizedNet(RandomNet):
    """``maps`` are tensors of codes; ``loose`` are results that may differ by one step."""

    codes: dict[str, Codes] = field(default_factory=dict)
    grids: dict[str, Grid] = field(default_factory=dict)
    loose: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.maps.clear()
        self.maps.append(self._quantized("data", Codes(-5, 128, "uint8")))

    def scalar(self, value: float, dtype: str = "float32") -> str:
        return self.constant(np.asarray(value), dtype)

    def parts(self, name: str) -> list[str]:
        """The tensor, its scale and its zero point, as operators of integers take them."""
        code = self.codes[name]
        return [name, self.scalar(2.0**code.exponent), self.scalar(code.zero, code.dtype)]

    def real(self, name: str) -> str:
        """The floats that a tensor of codes stands for."""
        out = self("DequantizeLinear", *self.parts(name))
        return self.known(out, self.codes[name].grid)

    def known(self, name: str, grid: Grid) -> str:
        self.grids[name] = grid.checked()
        return name

    def like(self, name: str, other: str) -> str:
        """Elements of the other tensor, in other places."""
        return self.known(name, self.grids[other])

    def draw(self, pick: Choices, size: float) -> Codes:
        """Codes for floats of that size."""
        dtype = pick("uint8", "int8")
        exponent = round(math.log2(max(size, 2.0**-30) / 40)) + pick(0, 0, 1, -1, 2)
        return Codes(exponent, pick(*ZEROS[dtype]), dtype)

    def coded(self, pick: Choices, name: str) -> str:
        """The floats as codes, in a scale that suits them."""
        return self._quantized(name, self.draw(pick, self.grids[name].size))

    def _quantized(self, name: str, codes: Codes) -> str:
        scale, zero = self.scalar(2.0**codes.exponent), self.scalar(codes.zero, codes.dtype)
        return self.meant("QuantizeLinear", codes, name, scale, zero)

    def meant(self, kind: str, codes: Codes, *inputs: str, **attributes: object) -> str:
        """A node of ONNX whose result are codes."""
        out = self(kind, *inputs, **attributes)
        self.codes[out] = codes
        return out

    def of_runtime(
        self, kind: str, shape: Shape, dtype: str, *inputs: str, **attributes: object
    ) -> str:
        """A node of ONNX Runtime's own domain, which onnx cannot infer."""
        out = f"t{len(self.nodes)}_0"
        node = helper.make_node(
            kind, list(inputs), [out], f"n{len(self.nodes)}", domain="com.microsoft", **attributes
        )
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.types[out] = helper.make_tensor_type_proto(code, shape)
        self.nodes.append(node)
        return out

    def finished(self, outputs: int) -> onnx.ModelProto:
        """The last maps and all that is loose; outputs of the latter kind are named so."""
        exact = list(dict.fromkeys(reversed(self.maps)))[:outputs]
        results = [helper.make_value_info(name, self.types[name]) for name in exact]
        for name in self.loose:
            self.nodes.append(helper.make_node("Identity", [name], [f"loose_{name}"]))
            results.append(helper.make_value_info(f"loose_{name}", self.types[name]))
        graph = helper.make_graph(
            self.nodes,
            "quantised",
            [helper.make_value_info("data", self.types["data"])],
            results,
            list(self.weights.values()),
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@dataclass(frozen=True)
class Weight:
    """Codes of a weight: whole numbers less a zero point, with a scale for each row or for all."""

    values: NDArray[np.int64]
    exponents: tuple[int, ...]
    zero: int
    dtype: str

    def grid(self) -> Grid:
        """Of a row's sum of absolute values, in the smallest scale of any row."""
        rows = np.abs(self.values - self.zero).reshape(len(self.values), -1)
        low = min(self.exponents)
        steps = [exponent - low for exponent in self.exponents]
        most = max(int(total) << step for total, step in zip(rows.sum(1), steps, strict=True))
        spread = float(np.sqrt(np.square(rows).sum(1)).mean()) * 2.0 ** (low + max(steps) / 2)
        return Grid(low, most, spread)


def weight(net: RandomNet, pick: Choices, shape: Shape, most: int, bits: int = 8) -> Weight:
    """Random codes whose row sums, times ``most``, stay exact."""
    dtype = pick("int8", "int8", "uint8")
    terms = math.prod(shape[1:])
    span = min(2 ** (bits - 1) - 1, LIMIT // 2 // (most * terms))
    if span < 1:
        raise Skip("too many terms")
    low, high = BITS[dtype]
    zero = pick(0, 0, 3, -2) if dtype == "int8" else pick(128, 64, 0, 120)
    if bits < 8:
        zero = pick(0, 2) if dtype == "int8" else pick(64, 60)
        low, high = max(low, -64), min(high, 127 if dtype == "uint8" else 63)
    values = np.clip(net.rng.integers(zero - span, zero + span + 1, shape), low, high)
    each = tuple(int(step) for step in net.rng.integers(-2, 2, shape[0]) - 7)
    exponents = pick((-7,) * shape[0], each)
    return Weight(values, exponents, zero, dtype)


Write = Callable[[QuantizedNet, Choices], str]


def written(sketch: Sketch, kinds: dict[str, Write]) -> onnx.ModelProto:
    """The network; layers that do not fit are left out."""
    net = QuantizedNet(sketch.shape)
    for layer in sketch.layers:
        before, loose = len(net.nodes), len(net.loose)
        try:
            out = kinds[layer.kind](net, Choices(layer.numbers))
            if out:
                net.maps.append(out)
        except Skip:
            del net.nodes[before:], net.loose[loose:]
    return net.finished(sketch.outputs)
