"""Integer operators in place of float ones between dequantising and quantising.

a = conv2d(dequantize(x), dequantize(W))       a = conv2d(x, W)    # uint8 x int8 -> int32
b = relu(add(a, dequantize(bias)))        ->   b = round((a + bias') * (sx * sw / sy))
y = quantize(b)                                y = uint8(clip(b, 0, 255))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.constants import array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, over_variables
from tvm_neocpu.relay_passes.ir.regions import bindings_of, relax_functions
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.relay_passes.operators.new.quantize import (
    DEQUANTIZE,
    QUANTIZE,
    in_arithmetic,
    read_scaling,
)
from tvm_neocpu.relay_passes.quantized.encoding import Encoding, coded_constant, nearest_codes
from tvm_neocpu.relay_passes.quantized.readers import is_dequantized
from tvm_neocpu.relay_passes.quantized.rewriter import Parts, Rewriter, Stored
from tvm_neocpu.relay_passes.quantized.rules import RULES


@dataclass(frozen=True)
class IntegerOperators:
    """Quantise and dequantise calls moved, cancelled, and made part of integer operators.

    Tensors between them are stored as uint8, int8 ones shifted by 128. Weights become int8 (int16
    where zero points ask for it), zero points part of an int32 bias. What the network computes in
    floats stays so. A function of one tensor of codes between two Qs is a table of 256; with
    ``looks_up``, where the CPU does that faster than products, so is one that scales and clips.

    Needs: constants are folded, one spelling for each operator (:class:`Canonicalize`).
    Leaves: no call of either operator; constants that want to be folded again.
    """

    looks_up: bool = False
    name: ClassVar[str] = "integer-operators"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(mod, partial(_rewrite, looks_up=self.looks_up))


def is_quantized(mod: tvm.IRModule) -> bool:
    """Whether a function of the module quantises or dequantises."""
    names = (QUANTIZE, DEQUANTIZE)
    functions = (function for _, function in relax_functions(mod))
    return any(op_name(b.value) in names for function in functions for b in bindings_of(function))


def _rewrite(scope: Scope, looks_up: bool) -> None:
    rewriter = Rewriter(scope, looks_up)
    for binding in scope.region.bindings:
        name = op_name(binding.value)
        if name == QUANTIZE:
            _quantize(rewriter, binding)
        elif name == DEQUANTIZE:
            _dequantize(rewriter, binding)
        elif name in RULES:
            value = RULES[name](rewriter, binding.var, binding.value)
            if value is None:
                rewriter.keep(binding.var, binding.value)
            else:
                rewriter.defer(binding.var, value)
        else:
            _pass_on(rewriter, binding)
    rewriter.finish()


def _quantize(rewriter: Rewriter, binding: relax.VarBinding) -> None:
    call = binding.value
    data, scaling = rewriter.scope.resolve(call.args[0]), read_scaling(call)
    array, dtype = array_of(data), dtype_of(call)
    if array is not None and scaling is not None:
        codes = nearest_codes(array, scaling.scale, scaling.zero, dtype)
        return rewriter.bind(binding.var, constant_of(codes))
    encoding = Encoding.of(scaling, dtype)
    if encoding is None:
        return _in_arithmetic(rewriter, binding)
    codes = rewriter.coded(data, encoding)
    private = rewriter.readers.is_private(data) and rewriter.readers.is_private(binding.var)
    if not private or not _reads_from(rewriter.readers.of(binding.var)[0], encoding.zero, dtype):
        codes = replace(codes, whole=None)
    return rewriter.defer(binding.var, replace(codes, dtype=dtype))


def _reads_from(reader: relax.VarBinding, zero: int, dtype: str) -> bool:
    """Whether a binding dequantises codes less this zero point, as they were made."""
    if not is_dequantized(reader):
        return False
    read = Encoding.of(read_scaling(reader.value), dtype)
    return read is not None and read.zero == zero


def _dequantize(rewriter: Rewriter, binding: relax.VarBinding) -> None:
    call = binding.value
    data, scaling = rewriter.scope.resolve(call.args[0]), read_scaling(call)
    constant = coded_constant(data, scaling)
    if constant is not None:
        return rewriter.defer(binding.var, constant)
    encoding = Encoding.of(scaling, dtype_of(data))
    codes = rewriter.codes(data) if encoding is not None else None
    if encoding is None or codes is None:
        return _in_arithmetic(rewriter, binding)
    return rewriter.defer(binding.var, Stored(codes, encoding))


def _in_arithmetic(rewriter: Rewriter, binding: relax.VarBinding) -> None:
    """Scales along an axis of an activation, or that are computed: what ONNX says, in floats."""
    call = over_variables(binding.value, rewriter.own)
    call = rewriter.scope.normalize(call)
    rewriter.bind(binding.var, in_arithmetic(rewriter.scope.emit, call))


def _pass_on(rewriter: Rewriter, binding: relax.VarBinding) -> None:
    """Another name of a variable, a field of a split, or an operation without a rule."""
    value = binding.value
    if isinstance(value, relax.Var) and rewriter.value(value) is not None:
        return rewriter.defer(binding.var, rewriter.value(value))
    if isinstance(value, relax.TupleGetItem):
        whole = rewriter.value(value.tuple_value)
        if isinstance(whole, Parts):
            return rewriter.defer(binding.var, whole.values[value.index])
    return rewriter.keep(binding.var, value)


__all__ = ["IntegerOperators", "is_quantized"]
