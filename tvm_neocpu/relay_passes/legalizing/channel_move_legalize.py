"""Moves of whole channels as gathers, which the general rule schedules."""

from __future__ import annotations

from tvm import relax, te

from tvm_neocpu.relay_passes.layouts.channel_moves import Interleave, read_channel_move
from tvm_neocpu.relay_passes.legalizing.tvms_own import as_tvm_does
from tvm_neocpu.relay_passes.operators.call_form import INJECTIVE
from tvm_neocpu.topi.image import channel_moves


def legalize_channel_move(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """A legalisation of ``relax.layout_transform``; other moves of elements go TVM's own way."""
    move = read_channel_move(call)
    if move is None:
        return as_tvm_does(builder, call)

    def compute(x: te.Tensor) -> te.Tensor:
        if isinstance(move, Interleave):
            return channel_moves.interleave(x, move.rows, move.columns)
        return channel_moves.shuffle(x, move.groups)

    hint, attrs = type(move).__name__.lower(), {"op_pattern": INJECTIVE}
    return builder.call_te(compute, call.args[0], primfunc_name_hint=hint, primfunc_attrs=attrs)
