"""The configuration space of convolutions to few channels."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_to_few.geometry import FewConfig

# More outputs fill vectors of their own well enough.
MOST_OUTPUTS = 8
# Vectors of a block of the input; more have no advantage.
MAX_VECTORS = 4
# Sums over fewer channels are a few numbers each.
MIN_CHANNELS = 8


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """One group, few outputs, and inputs that some vector divides."""
    few = conv.out_channels <= min(MOST_OUTPUTS, cpu.lanes(conv.types.accumulator) // 2)
    pays = few and conv.in_channels >= MIN_CHANNELS
    return pays and conv.groups == 1 and bool(_blocks(conv, cpu))


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[FewConfig, ...]:
    """Blocks of the input, tiles of pixels, rows of a chunk."""
    unit = cpu.unit(conv.types.accumulator)
    return tuple(
        FewConfig(ic_bn, conv.out_channels, reg_n, _lanes(ic_bn, unit), oh_bn)
        for ic_bn in _blocks(conv, cpu)
        for reg_n in _widths(conv, unit)
        for oh_bn in _heights(conv, cpu)
    )


def _blocks(conv: ConvWorkload, cpu: Cpu) -> list[int]:
    """Factors of the channels that are whole vectors, or whole halves of them."""
    unit = cpu.unit(conv.types.accumulator)
    fitting = [f for f in factors(conv.in_channels) if f <= MAX_VECTORS * unit.lanes]
    return [f for f in fitting if _lanes(f, unit) >= unit.half_lanes]


def _lanes(block: int, unit: VectorUnit) -> int:
    return min(block & -block, unit.lanes)


def _widths(conv: ConvWorkload, unit: VectorUnit) -> list[int]:
    """Pixels of a tile whose accumulators fit the registers beside weights and a pixel."""
    wanted = {*factors(conv.out_width), 2, 4, 6, 8, 12, 14}
    found = [n for n in wanted if n <= conv.out_width and unit.holds_tile(n, conv.out_channels)]
    return sorted(found) or [1]


def _heights(conv: ConvWorkload, cpu: Cpu) -> list[int]:
    """Rows of a chunk: one, as many as L2 holds the copy of, or all that leave no core idle."""
    rows = [f for f in factors(conv.out_height) if conv.batch * conv.out_height // f >= cpu.cores]
    row_bytes = conv.in_bytes / conv.batch / conv.height * conv.stride[0]
    near = [f for f in rows if (f + conv.kernel[0] - 1) * row_bytes <= cpu.l2 / 2]
    return sorted({1, *near[-1:], *rows[-1:]})
