"""Operators that Relax lacks, as calls that every pass can see.

DEFORM_CONV2D = NewOp("relax.neocpu.deform_conv2d", infer=..., legalize=...)
call = DEFORM_CONV2D(data, offset, weight, mask, strides=[1, 1], data_layout="NCHW")
call.attrs["strides"]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
from tvm import relax

# What a pure Relax operator of Python needs; TVM asks for the type under either name.
_TYPE_KEYS = ("FInferType", "FInferStructInfo")


@dataclass(frozen=True)
class NewOp:
    """An operator by its name, ``"relax.neocpu.<name>"``; TVM gets to know it with its first call.

    ``infer(call)`` is the type of the result; it raises ValueError for arguments that do not fit.
    ``legalize(builder, call)`` computes it where no template takes the call: what a Relax operator
    of TVM has as its ``FLegalize``.
    """

    name: str
    infer: Callable[[relax.Call], relax.Type]
    legalize: Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

    def __call__(self, *args: relax.Expr, **attrs: Any) -> relax.Call:
        """A call; attributes are numbers, texts and lists of them."""
        self.define()
        return relax.Call(
            tvm.ir.Op.get(self.name), list(args), tvm.ir.make_node("ir.DictAttrs", **attrs)
        )

    def define(self) -> str:
        """The name, for passes of TVM that refuse one that it does not know yet."""
        _define(self)
        return self.name


@cache
def _define(new: NewOp) -> None:
    for key in _TYPE_KEYS:
        tvm.ir.register_op_attr(new.name, key, lambda call, _: new.infer(call))
    tvm.ir.register_op_attr(new.name, "FPurity", True)
    tvm.ir.register_op_attr(new.name, "FLegalize", new.legalize)
