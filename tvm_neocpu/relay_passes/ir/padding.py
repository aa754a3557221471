"""Reading ``nn.pad`` calls."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import call_of, ints

PAD = "relax.nn.pad"


def filled_with(call: relax.Expr | None) -> float | None:
    """The constant that a pad fills with; ``None`` for a pad that repeats, and anything else."""
    pad = call_of(call, PAD)
    if pad is None or str(pad.attrs.pad_mode) != "constant":
        return None
    return float(pad.attrs.pad_value)


def image_padding(call: relax.Expr | None) -> tuple[int, int, int, int] | None:
    """(top, left, bottom, right) of a pad of NCHW images by a constant; ``None`` for anything else.

    The order is that of a convolution's padding. A pad that crops is none, nor is one of batch or
    channels.
    """
    if filled_with(call) is None:
        return None
    widths = ints(call.attrs.pad_width)
    if len(widths) != 8 or any(widths[:4]) or min(widths) < 0:
        return None
    top, bottom, left, right = widths[4:]
    return top, left, bottom, right
