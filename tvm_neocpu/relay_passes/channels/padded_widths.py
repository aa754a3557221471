"""How many channels a convolution's output is padded to: whole vectors, where these pay."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.core.types import FP32
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.space import MAX_VECTORS, out_blocks
from tvm_neocpu.topi.cost.roofline import tile_step_cycles

# Up to this ratio of padded to real channels the zeros are few.
FEW_ZEROS = 1.15
# What tiles of several vectors must gain over those of one, beside the zeros that they cost.
WIDER_GAIN = 1.02


def padded_channels(channels: int, lanes: int) -> int:
    """The channels of a convolution's output with dead ones: whole vectors, if that pays.

    It pays if full vectors gain at least twice what the zeros cost (58 -> 64), or if the zeros are
    few (72 -> 80 in MobileNet-v3). Channels that fit into one vector are never padded.
    """
    filled = min(channels & -channels, lanes)
    padded = -(-channels // lanes) * lanes
    pays = lanes * channels >= 2 * filled * padded or padded <= FEW_ZEROS * channels
    return padded if channels > lanes and pays else channels


def fills_narrow_tiles(channels: int, unit: VectorUnit) -> bool:
    """Whether blocks of several shorter vectors, which issue at full rate, divide the channels.

    120 channels are 3 blocks of 5 vectors of 8 lanes: no zeros are wanted to make them 128.
    """
    if unit.full_rate_lanes == unit.lanes or channels % unit.lanes == 0:
        return False
    counts = range(2, 2 * MAX_VECTORS)
    return any(channels % (count * unit.full_rate_lanes) == 0 for count in counts)


def wider_tiles(channels: int, cpu: Cpu, unit: VectorUnit) -> int:
    """The channels with one dead vector behind them, if that lets tiles of several vectors pay.

    125 vectors (1000 channels, 8 lanes) divide into tiles of one, which wait for their loads where
    registers are few; 126 into tiles of two. The zeros are computed here and read by the next
    layer. Zen 3: one vector takes 1.09 times as long.
    """
    vectors, rest = divmod(channels, unit.lanes)
    if rest or vectors < 2 or any(vectors % count == 0 for count in range(2, MAX_VECTORS + 1)):
        return channels
    wider = channels + unit.lanes
    single, *several = (_cycles_of_tile(count, cpu, unit) for count in range(1, MAX_VECTORS + 1))
    pays = single >= WIDER_GAIN * min(several) * (wider / channels) ** 2
    return wider if pays else channels


def _cycles_of_tile(vectors: int, cpu: Cpu, unit: VectorUnit) -> float:
    """Cycles that a step of the best register tile takes for a pixel and a vector."""
    return min(
        tile_step_cycles(pixels, vectors, cpu, unit) / (pixels * vectors)
        for pixels in range(1, unit.max_pixels + 1)
        if unit.holds_tile(pixels, vectors)
    )


def lone_vector(channels: int, lanes: int) -> int:
    """Fewer channels than lanes, filled up to a vector for a depthwise layer.

    A dense layer fills its register tile; a depthwise one reads 11 channels one by one, or 16.
    """
    vector = 1 << (channels - 1).bit_length()
    return vector if vector <= lanes else channels


def padded_output(conv: ConvWorkload, cpu: Cpu, by_lanes: bool) -> int:
    """``by_lanes``: whether a depthwise layer reads the channels."""
    unit = cpu.unit(conv.types.accumulator)
    if fills_narrow_tiles(conv.out_channels, unit):
        return conv.out_channels
    padded = padded_channels(conv.out_channels, unit.lanes)
    shorter = padded_channels(conv.out_channels, unit.full_rate_lanes)
    if shorter < padded and fills_narrow_tiles(shorter, unit):
        return shorter
    if by_lanes and padded < unit.lanes:
        return lone_vector(padded, unit.lanes)
    pixels = conv.batch * conv.out_height * conv.out_width
    if conv.kernel != (1, 1) or conv.types != FP32 or pixels < unit.max_pixels:
        return padded
    return wider_tiles(padded, cpu, unit)


def fills_tiles(conv: ConvWorkload, width: int, cpu: Cpu) -> bool:
    """Whether register tiles of a 1x1 layer compute no more channels than ``width``."""
    if conv.kernel != (1, 1):
        return False
    whole = cpu.lanes(conv.types.accumulator)
    tiles = [(block, lanes or block) for block, lanes in out_blocks(conv, cpu)]
    return any(
        lanes % whole == 0 and conv.out_channels // block * lanes <= width for block, lanes in tiles
    )
