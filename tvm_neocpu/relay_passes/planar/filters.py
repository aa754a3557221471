"""The constant weight of a convolution over volumes: floats, or codes and what they stand for."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from tvm_neocpu.relay_passes.ir.constants import Array, array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import call_of, dtype_of
from tvm_neocpu.relay_passes.operators.new.quantize import DEQUANTIZE, dequantize
from tvm_neocpu.relay_passes.planar.view import Views


@dataclass(frozen=True)
class Filters:
    """The weight as it is stored, filters first; ``coded`` is the call that makes floats of it."""

    array: Array
    dtype: str
    coded: relax.Call | None = None

    def weight(self, views: Views, array: Array) -> relax.Expr:
        """A weight of these elements, filters first, with the file's scales."""
        if self.coded is None:
            return constant_of(array, self.dtype)
        _, scale, zero = self.coded.args
        codes = constant_of(array, self.dtype)
        return views.scope.emit(dequantize(codes, scale, zero, 0))


def read_filters(views: Views, weight: relax.Expr) -> Filters | None:
    """The filters of a weight; ``None`` if it is computed, or scaled along another axis."""
    array = array_of(weight)
    if array is not None:
        return Filters(array, dtype_of(weight))
    coded = call_of(views.scope.definition(weight), DEQUANTIZE)
    if coded is None or (array := array_of(coded.args[0])) is None:
        return None
    is_uniform = all(int(each.ty.ndim) == 0 for each in coded.args[1:])
    by_filter = int(coded.attrs["axis"]) == 0
    return Filters(array, dtype_of(coded.args[0]), coded) if is_uniform or by_filter else None
