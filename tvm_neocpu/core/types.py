"""Element types: what a workload's tensors consist of, and how many bytes an element takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

# The elements of a tensor at most: TVM's loops count in 32 bits.
MAX_ELEMENTS = 2**31 - 1

_BITS = re.compile(r"[a-z]+([1-9]\d*)")
_MIXED = re.compile(r"(\w+) x (\w+)(?: -> (\w+) -> (\w+))?")
# Accumulator and output of types whose text leaves both out.
_SUMS = "int32"


@dataclass(frozen=True, order=True)
class Types:
    """The element types of a workload, by TVM's names.

    ``accumulator`` is the type that products are summed in; a register tile consists of it.
    """

    data: str
    weight: str
    accumulator: str
    output: str

    @property
    def is_uniform(self) -> bool:
        """Whether all four are the same type."""
        return {self.data, self.weight, self.accumulator, self.output} == {self.data}

    @classmethod
    def parse(cls, text: str) -> Types:
        """The inverse of ``str``; a text may name all four where ``str`` leaves out int32.

        Raises ValueError for any other text, and unknown types.
        """
        if "x" not in text.split():
            found = uniform(text)
        else:
            match = _MIXED.fullmatch(text)
            if match is None:
                raise ValueError(f"{text!r} names no element types")
            found = cls(*match.groups(default=_SUMS))
        for dtype in (found.data, found.weight, found.accumulator, found.output):
            item_bytes(dtype)
        return found

    def __str__(self) -> str:
        """``"float64"``; ``"uint8 x int8 -> int32 -> float32"`` where they differ.

        ``"uint8 x int8"`` where accumulator and output are int32.
        """
        if self.is_uniform:
            return self.data
        operands = f"{self.data} x {self.weight}"
        if self.accumulator == self.output == _SUMS:
            return operands
        return f"{operands} -> {self.accumulator} -> {self.output}"


@cache
def uniform(dtype: str) -> Types:
    """All four of one type: ``uniform("float64")``."""
    return Types(dtype, dtype, dtype, dtype)


# What a workload consists of unless it says otherwise, and what AutoTVM's logs are about.
FP32 = uniform("float32")


# Integer products: uint8 data and int8 weights, or int16 ones where a zero point of the weights
# makes differences that do not fit 8 bits. Sums are exact in int32, and leave as they are.
U8S8 = Types("uint8", "int8", "int32", "int32")
U8S16 = Types("uint8", "int16", "int32", "int32")
INTEGER_PRODUCTS = (U8S8, U8S16)

# Weights are stored in half precision and widened where they are multiplied, in fp32; or a CPU's
# instruction multiplies bf16, to which a template rounds the data.
FP16_WEIGHTS = Types("float32", "float16", "float32", "float32")
BF16_WEIGHTS = Types("float32", "bfloat16", "float32", "float32")
HALF_WEIGHTS = (FP16_WEIGHTS, BF16_WEIGHTS)
# The same products of data that were stored as the instruction takes them.
BF16_MAPS = Types("bfloat16", "bfloat16", "float32", "float32")
BF16_PRODUCTS = (BF16_WEIGHTS, BF16_MAPS)

_MIXTURES = (*INTEGER_PRODUCTS, *HALF_WEIGHTS)


def exact_type(types: Types) -> str:
    """What a reference sums products in: int64 for integers, exactly; else double precision."""
    return "int64" if types in INTEGER_PRODUCTS else "float64"


def product_types(data: str, weight: str, output: str) -> Types | None:
    """The types of an operator of two tensors; ``None`` for a mixture that no template computes."""
    if data == weight == output:
        return uniform(data)
    mixed = (t for t in _MIXTURES if (t.data, t.weight, t.output) == (data, weight, output))
    return next(mixed, None)


# Types whose constants the passes fold and whose operators they rewrite: half precision rounds too
# coarsely for that, and integers divide differently.
FOLDED = ("float32", "float64")


@cache
def item_bytes(dtype: str) -> int:
    """Bytes of one element: ``item_bytes("float32") == 4``; a bool takes one.

    Raises ValueError for a name without a width.
    """
    if dtype == "bool":
        return 1
    match = _BITS.match(dtype)
    if match is None:
        raise ValueError(f"{dtype!r} is no element type: it has no width")
    return (int(match.group(1)) + 7) // 8
