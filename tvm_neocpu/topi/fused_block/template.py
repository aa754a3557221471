"""A group of layers as one function: the layers' own chunks in one loop (:mod:`.geometry`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import For, ForKind, SeqStmt, Stmt

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layer_group import Members
from tvm_neocpu.topi.fused_block.chunks import Chunk, Window, cut_chunk
from tvm_neocpu.topi.fused_block.geometry import FusedBlock
from tvm_neocpu.topi.tir.order import LAST_MEMBER_REWRITES, MEMBER_REWRITES

# Marks a group's function, which is scheduled already: what it computes, and its operations.
LAYERS, FLOPS, MEMBERS = "neocpu.layers", "neocpu.flops", "neocpu.members"
INDEX = "int64"


@dataclass(frozen=True)
class Layers:
    """The functions of both layers as their templates computed them: epilogues, no schedule.

    ``reads`` is the position of the 1x1 layer's parameter that the depthwise layer writes. The last
    parameter of a function is its output.
    """

    depthwise: tirx.PrimFunc
    project: tirx.PrimFunc
    reads: int


def fused_function(block: FusedBlock, layers: Layers, cpu: Cpu) -> tirx.PrimFunc | None:
    """The scheduled function of the operands of both layers, in order, and of the last output.

    ``None`` where a layer's schedule has more than one loop nest, as one with a prologue has.
    """
    conv, (depthwise, project) = block.conv, block.chunked
    over_blocks, over_rows = (conv.batch, block.blocks, block.groups), (conv.batch, block.groups)
    first = cut_chunk(layers.depthwise, depthwise.config, over_blocks, MEMBER_REWRITES, cpu)
    last = cut_chunk(layers.project, project.config, over_rows, LAST_MEMBER_REWRITES, cpu)
    if first is None or last is None:
        return None
    operands = [param for at, param in enumerate(last.params) if at != layers.reads]
    func = tirx.PrimFunc([*first.params[:-1], *operands], _loops(block, first, last, layers.reads))
    workloads = (conv, project.workload)
    members = (block.depthwise, block.project)
    notes = {
        LAYERS: " -> ".join(map(str, workloads)),
        FLOPS: sum(workload.flops for workload in workloads),
        MEMBERS: key_of(tuple((each.workload, each.config) for each in members)),
    }
    return func.with_attrs({**dict(layers.project.attrs or {}), **notes})


def layers_of(func: tirx.PrimFunc) -> tuple[str, int] | None:
    """(its layers, its operations) of a group's function; ``None`` for any other function."""
    if not func.attrs or LAYERS not in func.attrs:
        return None
    return str(func.attrs[LAYERS]), int(func.attrs[FLOPS])


def members_key(func: tirx.PrimFunc) -> str | None:
    """The :func:`key_of` what a group's function computes; ``None`` for any other function."""
    return str(func.attrs[MEMBERS]) if func.attrs and MEMBERS in func.attrs else None


def key_of(members: Members) -> str:
    """Layers and configs as a text that tells groups apart."""
    return repr(members)


def _loops(block: FusedBlock, first: Chunk, last: Chunk, reads: int) -> SBlockRealize:
    """# parallel for chunk: (for channels: depthwise -> between); 1x1 of between -> output.

    Each pass allocates ``between`` for itself: a core finds its lines in its own cache, where a
    workspace in the network's arena would have been written by another core last.
    """
    chunk, channels = tirx.Var("chunk", INDEX), tirx.Var("channels", INDEX)
    image, group = tirx.floordiv(chunk, block.groups), tirx.floormod(chunk, block.groups)
    window = _between(block, group)
    depthwise = first.at((image, channels, group), {first.params[-1]: window})
    project = last.at((image, group), {last.params[reads]: window})
    rows = SeqStmt([_loop(channels, block.blocks, depthwise), project])
    kind = ForKind.PARALLEL if block.chunks > 1 else ForKind.SERIAL
    return _block(
        "root", _loop(chunk, block.chunks, _block("rows", rows, [window.buffer]), kind), []
    )


def _between(block: FusedBlock, group: Expr) -> Window:
    """The rows of a group in a flat buffer."""
    blocks, rows, width, lanes = block.between_shape

    def place(index: Sequence[Expr]) -> Sequence[Expr]:
        _, at, row, column, lane = (axis.astype(INDEX) for axis in index)
        line = at * rows + (row - group * rows)
        return [(line * width + column) * lanes + lane]

    size = blocks * rows * width * lanes
    return Window(tirx.decl_buffer([size], block.conv.types.output, name="between"), place)


def _loop(var: tirx.Var, count: int, body: Stmt, kind: int = ForKind.SERIAL) -> For:
    return For(var, tirx.const(0, INDEX), tirx.const(count, INDEX), kind, body)


def _block(name: str, body: Stmt, buffers: Sequence[tirx.Buffer]) -> SBlockRealize:
    return SBlockRealize([], True, SBlock([], [], [], name, body, None, list(buffers)))
