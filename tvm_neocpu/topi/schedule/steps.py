"""Named schedule steps that templates share; each shows the loop before and after.

Blocks found here are the ones that ``FuseTIR`` leaves: an anchor, what feeds it, what follows it.
Every template ends in a *store* stage, an identity copy from its accumulator to the output, so
that an elementwise epilogue can be inlined into the store, whatever the accumulator looks like.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.tir.loops.affine import names_values

REDUCE_AXIS = 2  # tirx.IterVar.CommReduce
# Registers that one vector statement may take: as many as a row of any register tile has.
MAX_VECTORS = 8
# Axes of a map in blocks of channels: image, block, row, column, channel.
BLOCKED_RANK = 5
# The scope of what a kernel holds in registers.
LOCAL = "local"


def loop_extent(sch: Schedule, loop: LoopRV) -> int:
    """The constant trip count of a loop."""
    return int(sch.get(loop).extent)


def static_extent(sch: Schedule, loop: LoopRV) -> int | None:
    """The trip count of a loop; ``None`` if it is known at run time only."""
    extent = sch.get(loop).extent
    return int(extent) if isinstance(extent, tirx.IntImm) else None


def block_name(sch: Schedule, block: SBlockRV) -> str:
    return str(sch.get(block).name_hint)


def find_block(sch: Schedule, name: str) -> SBlockRV | None:
    """The block of that name; ``FuseTIR`` keeps a template's own names. ``None`` if absent."""
    return next((b for b in child_blocks(sch) if block_name(sch, b) == name), None)


def output_shape(sch: Schedule, block: SBlockRV) -> tuple[int, ...]:
    """The shape of the buffer that a block writes."""
    return tuple(int(extent) for extent in sch.get(block).writes[0].source.shape)


def unit_of(sch: Schedule, block: SBlockRV, cpu: Cpu) -> VectorUnit:
    """The vector registers for elements of what a block writes."""
    return cpu.unit(str(sch.get(block).writes[0].source.dtype))


def is_allocated(sch: Schedule, buffer: tirx.Buffer) -> bool:
    """Whether the function allocates the buffer itself; parameters are not."""
    root = sch.get(sch.get_sblock("root"))
    return any(buffer.same_as(own) for own in root.alloc_buffers)


def is_reduction(sch: Schedule, block: SBlockRV) -> bool:
    return any(int(axis.iter_type) == REDUCE_AXIS for axis in sch.get(block).iter_vars)


def inline_epilogue(sch: Schedule, store: SBlockRV) -> SBlockRV:
    """Inline ``store`` and the elementwise operations after it into their last one; return that.

    # store = acc; add = store + b; relu = max(add, 0)  ->  relu = max(acc + b, 0)

    Operations on another domain (a squeeze-excite gate's broadcast product) stay where they are.
    """
    domain = output_shape(sch, store)
    tail = store
    while (meeting := _where_readers_meet(sch, tail, domain)) is not None:
        tail = meeting
    before_store = names_upstream(sch, store)
    before_tail = names_upstream(sch, tail)
    for block in child_blocks(sch):
        if block_name(sch, block) in before_tail - before_store:
            sch.compute_inline(block)
    return tail


def _where_readers_meet(sch: Schedule, block: SBlockRV, domain: tuple[int, ...]) -> SBlockRV | None:
    """The nearest elementwise block that all that reads ``block`` leads to: x * clip(x) for x.

    ``None`` where a reader is not elementwise over ``domain``, or is an output before they meet.
    """
    order = [block_name(sch, each) for each in child_blocks(sch)]
    readers = {block_name(sch, reader): reader for reader in sch.get_consumers(block)}
    while readers:
        nearest = readers.pop(min(readers, key=order.index))
        if output_shape(sch, nearest) != domain or is_reduction(sch, nearest):
            return None
        if not readers:
            return nearest
        further = sch.get_consumers(nearest)
        if not further:
            return None
        readers |= {block_name(sch, reader): reader for reader in further}
    return None


def names_upstream(sch: Schedule, block: SBlockRV) -> set[str]:
    """The names of all blocks that ``block`` depends on."""
    names: set[str] = set()
    for producer in sch.get_producers(block):
        names |= {block_name(sch, producer)} | names_upstream(sch, producer)
    return names


def split_off(sch: Schedule, loop: LoopRV, inner: int) -> tuple[LoopRV, LoopRV]:
    """# for x in range(56)  ->  for x_outer in range(4): for x_inner in range(14)."""
    outer, inner_loop = sch.split(loop, [None, inner], preserve_unit_iters=True)
    return outer, inner_loop


def unroll_all(sch: Schedule, *loops: LoopRV) -> None:
    """# for i in range(4): f(i)  ->  f(0); f(1); f(2); f(3)."""
    for loop in loops:
        if loop_extent(sch, loop) > 1:
            sch.unroll(loop)


def vectorize_lanes(
    sch: Schedule, loop: LoopRV, unit: VectorUnit, registers: int = MAX_VECTORS
) -> None:
    """# for c in range(48): f(c)  ->  for v in unrolled(3): f(v * 16 + ramp(0, 1, 16)).

    A statement takes at most so many ``registers``. LLVM lowers a vector whose length is no power
    of two element by element (60 times slower). What is more than a register tile stays a loop: a
    row of 21841 outputs took minutes to compile.
    """
    extent = loop_extent(sch, loop)
    lanes = min(extent & -extent, registers * unit.lanes)
    if lanes < extent:
        vectors, loop = sch.split(loop, [None, lanes])
        if extent // lanes <= unit.registers:
            sch.unroll(vectors)
    if lanes > 1:
        sch.vectorize(loop)


def parallel_fused(sch: Schedule, *loops: LoopRV) -> LoopRV:
    """# for n: for y:  ->  parallel for n_y: even, static chunks over the cores (3.1.2)."""
    loop = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    if static_extent(sch, loop) != 1:
        sch.parallel(loop)
    return loop


def rows_outside(sch: Schedule, block: SBlockRV, loops: Sequence[LoopRV], cpu: Cpu) -> list[LoopRV]:
    """# for n, o, y  ->  for n, y, o: a core that gets a part of them has rows of all channels.

    Layer after layer it has the same rows, so that cores share few lines. ``loops`` are the outer
    ones of a ``block`` that writes blocks of channels (n, o, y, x, c); any others stay as they are.
    So do those of one core, which goes through memory as it lies.
    """
    if cpu.cores == 1 or len(loops) != 3 or len(output_shape(sch, block)) != BLOCKED_RANK:
        return list(loops)
    image, channels, row = loops
    sch.reorder(row, channels)
    return [image, row, channels]


def spread_over_sets(sch: Schedule, block: SBlockRV, axis: int, unit: VectorUnit) -> None:
    """Pad an axis of the buffer that a block writes: neighbours lie an odd count of lines apart.

    Elements that lie a power of two apart share a few sets of the cache. The 36 elements of a
    Winograd tile evicted each other (Zen 5: 256x14x14 425 -> 367 us, 64x224x224 6320 -> 5690).
    """
    sch.storage_align(block, 0, axis, factor=2 * unit.line, offset=unit.line)


def hold_tile_in_registers(
    sch: Schedule,
    acc: SBlockRV,
    first_reduction: LoopRV,
    unit: VectorUnit,
    registers: int = MAX_VECTORS,
) -> None:
    """Zero the tile before the reduction, unroll its pixels, vectorise its channels.

    # for k, yi, xi, c: acc += ..  ->  acc[*] = 0; for k: acc[0,0,:] += ..; acc[0,1,:] += ..; ..

    LLVM promotes a ``local`` tile to vector registers once all its indices are constants, and what
    reads it has vectors of the same width: else it stores the tile once more, and loads it. A
    statement of the reduction takes at most so many ``registers``.
    """
    sch.set_scope(acc, 0, LOCAL)
    *_, yi, xi, lanes = sch.get_loops(acc)
    unroll_all(sch, yi, xi)
    vectorize_lanes(sch, lanes, unit, registers)
    zero = sch.decompose_reduction(acc, first_reduction)
    unroll_and_vectorize(sch, zero, unit, pixels=2)


def unroll_and_vectorize(sch: Schedule, block: SBlockRV, unit: VectorUnit, pixels: int) -> None:
    """Unroll the ``pixels`` loops outside a block's innermost one and vectorise that one.

    An epilogue of many steps (SiLU's polynomial) stays a loop over pixels: LLVM would interleave
    all of them and spill.
    """
    *_, lanes = loops = sch.get_loops(block)
    if not is_long(sch, block):
        unroll_all(sch, *loops[-1 - pixels : -1])
    vectorize_lanes(sch, lanes, unit)


def is_long(sch: Schedule, block: SBlockRV) -> bool:
    """Whether a block's value names intermediate results, as approximated functions do."""
    return names_values(sch.get(block).body)


def parallel_and_vectorize(sch: Schedule, block: SBlockRV, unit: VectorUnit) -> LoopRV | None:
    """The schedule of an elementwise or data-moving stage over a blocked layout.

    Returns the outer loop; ``None`` where vectors are the only one.

    # for n, o, y, x, c  ->  parallel for n_o_y: for x: vectorised c
    """
    loops = sch.get_loops(block)
    if len(loops) == 1:
        vectorize_lanes(sch, loops[0], unit)
        return None
    inner = 2 if len(loops) > 3 else 1
    vectorize_lanes(sch, loops[-1], unit)
    return parallel_fused(sch, *loops[:-inner])
