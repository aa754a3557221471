"""What a config of the direct template means for a convolution: tiles, padded extents, chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import DotProduct
from tvm_neocpu.core.network.layout import largest_factor
from tvm_neocpu.core.types import FP32, item_bytes
from tvm_neocpu.topi.conv2d.blocks_of_groups import BlocksOfGroups
from tvm_neocpu.topi.conv2d.workload import ConvWorkload, Pair
from tvm_neocpu.topi.conv2d_direct.taps import TapAxis

# A layer of one pixel with weights of so many bytes reads several blocks of channels side by side.
MIN_STREAMED_BYTES = 64 * 1024
MAX_STREAMS = 5
# By how much that may lengthen the slowest core's work, where blocks are dealt out to cores.
UNEVEN = 1.15


@dataclass(frozen=True, order=True)
class ConvConfig:
    """The direct NCHW[x]c template's schedule tuple (NeoCPU, section 3.1.1), extended.

    ``ic_bn``, ``oc_bn``: channels in a block of the input and of the output; ``ic_bn == 0`` reads
    plain NCHW (the first convolution). ``reg_n``: output pixels of a row held in registers.
    ``unroll_ker``: unroll the kernel's width. Ours: ``reg_m`` output rows in the register tile;
    ``oh_bn`` rows of tiles that one parallel chunk covers; ``parallel_oc`` whether chunks are also
    split over the output's channel blocks; ``oc_lanes`` the channels that a block is computed with
    where no vector divides ``oc_bn`` (0: just those), so that 13 or 59 or 126 channels run in whole
    vectors. Of a convolution with groups a block may hold several whole groups, so that neighbours
    with wider blocks need no transform: then ``oc_lanes`` is the channels of one group.
    """

    template: ClassVar[str] = "conv2d_NCHWc"

    ic_bn: int
    oc_bn: int
    reg_n: int
    unroll_ker: bool = True
    reg_m: int = 1
    oh_bn: int = 1
    parallel_oc: bool = False
    oc_lanes: int = 0

    @property
    def tile_channels(self) -> int:
        """Channels of a register tile: ``oc_bn`` and what fills its last vector, or a group's."""
        return self.oc_lanes or self.oc_bn


@dataclass(frozen=True)
class DirectGeometry(BlocksOfGroups):
    """The extents that template, space and cost share."""

    conv: ConvWorkload
    config: ConvConfig

    @property
    def in_channels(self) -> int:
        """Input channels of a group."""
        return self.conv.in_channels // self.conv.groups

    @property
    def inner_steps(self) -> int:
        """Steps of the reduction's innermost loop: those over the channels of an input block."""
        return self.ic_bn

    @property
    def kernel(self) -> Pair:
        """Rows and columns of the kernel over which the reduction loops."""
        return self.conv.kernel

    @property
    def loop_steps(self) -> int:
        """Steps over which what a loop costs besides them is spread."""
        return self.inner_steps

    @property
    def steps(self) -> int:
        """Steps of the whole reduction; each multiplies a row of weights with every pixel."""
        return math.prod(self.kernel) * self.in_blocks * self.inner_steps

    @property
    def skips_padding(self) -> bool:
        """Whether tiles leave out taps that read padding only, whose products are zero."""
        return True

    @property
    def tap_axes(self) -> tuple[TapAxis, ...]:
        """Which taps of the kernel's rows and columns tiles need; empty if they take all."""
        conv, config = self.conv, self.config
        if not self.skips_padding or not any(conv.padding):
            return ()
        pixels, image = (config.reg_m, config.reg_n), (conv.height, conv.width)
        return tuple(
            TapAxis(
                self.tiles[at],
                pixels[at],
                self.kernel[at],
                self.stride[at],
                conv.dilation[at],
                conv.padding[at],
                conv.padding[at] + image[at],
            )
            for at in (0, 1)
        )

    @cached_property
    def share_of_taps(self) -> float:
        """The part of the reduction's steps that a tile multiplies, in the mean."""
        return math.prod((axis.share for axis in self.tap_axes), start=1.0)

    @property
    def row_bytes(self) -> int:
        """Bytes of packed weights that a step reads."""
        return item_bytes(self.conv.types.weight) * self.config.tile_channels

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights, without what fills vectors."""
        return self.conv.weight_bytes

    @property
    def image_bytes(self) -> int:
        """Bytes of the image, in the type in which the reduction reads it."""
        return self.conv.in_bytes

    def dot(self, cpu: Cpu) -> DotProduct | None:
        """What multiplies where a multiply-add does not."""
        return None

    @property
    def in_blocks(self) -> int:
        """Input blocks that one output value reads: those of its group."""
        return self.in_channels // self.ic_bn

    @property
    def out_blocks(self) -> int:
        """Blocks of output channels that register tiles compute."""
        return self.conv.out_channels // self.oc_bn

    @cached_property
    def tiles(self) -> tuple[int, int]:
        """Register tiles down and across the output; the last ones may overhang it."""
        down = math.ceil(self.conv.out_height / self.config.reg_m)
        return down, math.ceil(self.conv.out_width / self.config.reg_n)

    @property
    def rows(self) -> int:
        """Output rows computed: those of whole tiles."""
        return self.tiles[0] * self.config.reg_m

    @cached_property
    def columns(self) -> int:
        """Output columns computed."""
        return computed_columns(self.conv.out_width, self.config.reg_n)

    @property
    def stride(self) -> Pair:
        """Rows and columns from one output's pixel to the next, in the image that is read."""
        return self.conv.stride

    @property
    def padded_extent(self) -> Pair:
        """Input rows and columns that the computed outputs read, padding included."""
        (down, across), reach = self.stride, self.conv.reach
        return (self.rows - 1) * down + reach[0], (self.columns - 1) * across + reach[1]

    @cached_property
    def is_padded(self) -> bool:
        """Whether the template reads a copy of its input: padded, or of a group's channels."""
        computed = self.rows, self.columns
        wanted = self.conv.out_height, self.conv.out_width
        return any(self.conv.padding) or computed != wanted or self.groups_read > 1

    @property
    def readers(self) -> int:
        """Blocks of output channels that read the same input: those of a group."""
        return self.out_blocks // self.conv.groups

    @property
    def pads_by_block(self) -> bool:
        """Whether each block of output channels pads what it reads, and no other block reads it."""
        return self.conv.groups > 1 and self.readers == 1

    @property
    def reads_rows_once(self) -> bool:
        """Whether each row of tiles reads rows of the input that no other one reads.

        So it is with a kernel of one row whose output channels are one block.
        """
        return self.conv.kernel[0] == 1 and self.out_blocks == 1

    @property
    def copies_apart(self) -> bool:
        """Whether what is computed of the input as it is read is a pass of its own before the
        chunks, where the input itself would be read in place.
        """
        in_chunks = self.pads_by_block or self.reads_rows_once or not self.config.parallel_oc
        return not (self.is_padded or in_chunks)

    @cached_property
    def chunk_rows(self) -> int:
        """Rows of tiles that a chunk covers: at most ``oh_bn``, and a factor of all."""
        return largest_factor(self.tiles[0], self.config.oh_bn)

    @property
    def row_chunks(self) -> int:
        """Chunks of an image, for one pass over the output's channels."""
        return self.tiles[0] // self.chunk_rows

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        splits = self.out_blocks if self.config.parallel_oc else 1
        return self.conv.batch * self.row_chunks * splits

    def streams(self, cpu: Cpu) -> int:
        """Blocks of output channels that share a register tile, so that weights come in streams.

        A layer of one pixel (a squeeze-excite gate) reads each weight once and waits for memory,
        which one stream leaves unused (``topi/dense``). 1 for every other layer.
        """
        conv, config = self.conv, self.config
        overhangs = config.oc_lanes or config.reg_m * config.reg_n > 1
        if not may_stream(conv) or overhangs or config.ic_bn == 0:
            return 1
        unit, cores = cpu.unit(conv.types.accumulator), cpu.cores if config.parallel_oc else 1
        most = UNEVEN * math.ceil(self.out_blocks / cores)
        counts = (
            count
            for count in range(2, MAX_STREAMS + 1)
            if self.out_blocks % count == 0
            if unit.holds_tile(1, unit.registers_of(config.oc_bn) * count)
            if math.ceil(self.out_blocks / count / cores) * count <= most
        )
        return max(counts, default=1)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight: (K/oc_bn, C/groups/ic_bn, R, S, ic_bn, tile_channels)."""
        blocks = self.out_blocks, self.in_blocks
        return (*blocks, *self.conv.kernel, self.ic_bn, self.config.tile_channels)


def may_stream(conv: ConvWorkload) -> bool:
    """Whether blocks of channels may share a register tile: of a 1x1 layer of one pixel, in fp32.

    Its weights meet that pixel only, so that it waits for memory.
    """
    pixels = conv.batch * conv.out_height * conv.out_width
    alone = pixels == 1 and conv.kernel == (1, 1) and conv.groups == 1
    return alone and conv.types == FP32 and conv.weight_bytes >= MIN_STREAMED_BYTES


def computed_columns(width: int, reg_n: int) -> int:
    """Columns computed for an output row of ``width``.

    Just the output's where tiles divide it or are a pair (9 and 8 of 17), else whole tiles'.
    """
    across = math.ceil(width / reg_n)
    return width if across == 2 else across * reg_n


def misfit(conv: ConvWorkload, config: ConvConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    reads, writes = conv.in_channels // conv.groups, conv.out_channels // conv.groups
    of_group = config
    if _holds_groups(config.ic_bn, reads, conv.in_channels):
        of_group = replace(of_group, ic_bn=reads)
    if config.oc_lanes == writes and _holds_groups(config.oc_bn, writes, conv.out_channels):
        of_group = replace(of_group, oc_bn=writes)
    return misfit_in_groups(conv, of_group)


def misfit_in_groups(conv: ConvWorkload, config: ConvConfig) -> str | None:
    """The same where no block may hold several groups: copies in words read one."""
    if config.ic_bn == 0 and conv.groups > 1:
        return "it reads plain NCHW, which no grouped convolution does"
    if min(config.reg_n, config.reg_m, config.oh_bn) < 1:
        return "its tiles are empty"
    return misfit_of_blocks(conv, config.ic_bn, config.oc_bn, config.oc_lanes)


def _holds_groups(block: int, group: int, channels: int) -> bool:
    """Whether a block holds several whole groups, and blocks all channels."""
    return block > group and block % group == 0 and channels % block == 0


def misfit_of_blocks(conv: ConvWorkload, ic_bn: int, oc_bn: int, oc_lanes: int) -> str | None:
    """The same of blocks: they divide a group's channels, and no lane is left without register."""
    in_channels, out_channels = conv.in_channels // conv.groups, conv.out_channels // conv.groups
    if ic_bn and in_channels % ic_bn:
        return f"its ic_bn {ic_bn} does not divide {in_channels} channels"
    if oc_bn < 1 or out_channels % oc_bn:
        return f"its oc_bn {oc_bn} does not divide {out_channels} channels"
    return f"its {oc_lanes} lanes are fewer than oc_bn" if 0 < oc_lanes < oc_bn else None
