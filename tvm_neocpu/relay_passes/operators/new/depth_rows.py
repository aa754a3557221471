"""The images that a depthwise kernel over a volume reads, their rows one below the other.

    rows[output, c, y * taps + t] = image[the one that tap t reads for the output, c, y]

A kernel of 3 x 3 x 3 is one of 9 x 3 over such an image, three rows a step. In NCHW[x]c channels
keep their blocks. A template computes it as it reads (:mod:`..lowering.read_prologue`).
"""

from __future__ import annotations

from dataclasses import astuple

from tvm import relax, te

from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.operators.new.new_op import NewOp
from tvm_neocpu.topi.image.depth import Depth
from tvm_neocpu.topi.image.depth import depth_rows as computed

DEPTH_ROWS = "relax.neocpu.depth_rows"


def depth_rows(data: relax.Expr, depth: Depth) -> relax.Call:
    """(N * D, C, H, W[, c]) -> (N * outputs, C, H * taps, W[, c])."""
    return _DEPTH_ROWS(data, depth=list(astuple(depth)))


def read_depth_rows(value: relax.Expr | None) -> tuple[relax.Expr, Depth] | None:
    """(the images, which of them are read) of :func:`depth_rows`; ``None`` for anything else."""
    if op_name(value) != DEPTH_ROWS:
        return None
    return value.args[0], _depth(value)


def _depth(call: relax.Call) -> Depth:
    return Depth(*map(int, call.attrs["depth"]))


def _infer(call: relax.Call) -> relax.Type:
    (data,), depth = call.args, _depth(call)
    _, channels, rows, *rest = static_shape(data)
    shape = (depth.batch * depth.outputs, channels, rows * depth.taps, *rest)
    return relax.TensorType(shape, dtype_of(data))


def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    depth = _depth(call)

    def compute(data: te.Tensor) -> te.Tensor:
        return computed(data, depth)

    return builder.call_te(compute, call.args[0], primfunc_name_hint="depth_rows")


_DEPTH_ROWS = NewOp(DEPTH_ROWS, infer=_infer, legalize=_legalize)
