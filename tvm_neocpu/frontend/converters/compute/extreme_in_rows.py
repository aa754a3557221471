"""Where the largest or the smallest element of short rows is: classes that lie side by side.

    for a block of 64 rows:
        turned = block transposed, in L1
        walk it as the columns of :mod:`extreme_across`: a step compares 64 rows in vectors

Exports of TensorFlow end
so: 21 classes behind each of 512 x 512 pixels.
"""

from __future__ import annotations

import math

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.frontend.converters.compute.extreme_across import Better, Found, walk
from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.node import Node

# Rows that are compared together, and blocks of them to a piece, which one core takes.
BLOCK, BLOCKS = 64, 16


def place_in_rows(node: Node, better: Better, keeps: bool) -> relax.Expr:
    """int64 places along the last axis, which becomes 1 if ``keeps``, else vanishes.

    ``better(new, best)``: whether a later element takes the place of an earlier one. All extents
    are known.
    """
    *outer, length = (int(node.extent(place)) for place in range(node.rank))
    rows = math.prod(outer)
    pieces = math.ceil(rows / (BLOCK * BLOCKS))

    def body(data, result, turned, best, place) -> None:  # type: ignore[no-untyped-def]
        with T.parallel(0, tirx.const(pieces, "int64")) as piece:
            own, at = piece * (BLOCK * length), piece * BLOCK
            with T.serial(0, BLOCKS) as number:
                first = (piece * BLOCKS + number) * BLOCK
                count = tirx.max(0, tirx.min(BLOCK, rows - first))
                with T.serial(0, count) as j, T.serial(0, length) as k:
                    turned[own + k * BLOCK + j] = data[(first + j) * length + k]
                # Behind the last row are elements of an earlier block, whose places nobody reads.
                found = Found(best, place, at)
                walk(found, length, BLOCK, lambda k, j: turned[own + k * BLOCK + j], better)
                with T.serial(0, count) as j:
                    result[first + j] = tirx.Cast("int64", place[at + j])

    scratch = [((pieces * BLOCK * size,), node.dtype) for size in (length, 1)]
    outputs = [([*outer, *([1] if keeps else [])], "int64"), *scratch]
    outputs.append(((pieces * BLOCK,), "int32"))
    return emit_loops(node, node.op_type.lower(), [node.data], outputs, body)[0]
