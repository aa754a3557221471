"""A convolution and the pool that alone reads it as one group, some rows at a time.

    parallel for each band of ``rows`` rows of the pool's output:
      for each chunk of the convolution that the band reads:
        convolution, this chunk             -> ring       stays in the core's L2
        pool, the rows that are complete    -> output

Chunks are those of the convolution's own parallel loop. A ring keeps the rows of the last chunks
that a window still needs, so that a band computes none twice. Two bands both compute the chunk that
both read: one band a core has long runs between such halos, many bands balance better. The pool
runs over finished sums only (Zheng et al., section 5.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import RowWindow
from tvm_neocpu.core.types import FP32, item_bytes
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.cost.roofline import L2_SHARE
from tvm_neocpu.topi.fused_block.member import (
    Member,
    geometry_of,
    packed_bytes,
    padded_rows,
    row_chunks,
    scratch_bytes,
)


@dataclass(frozen=True)
class PooledConv:
    """The convolution under the plan's config, the pool's ``window`` of rows and its output rows
    (``height``), and the ``rows`` of these that are a band."""

    layer: Member
    window: RowWindow
    height: int
    rows: int

    @property
    def bands(self) -> int:
        """Bands of an image."""
        return math.ceil(self.height / self.rows)

    @property
    def trips(self) -> int:
        """Trip count of the parallel loop."""
        return self.layer.workload.batch * self.bands

    @cached_property
    def step(self) -> int:
        """Rows that a chunk of the convolution computes; the last one may overhang the image."""
        return math.ceil(padded_rows(self.layer) / self.chunks)

    @property
    def chunks(self) -> int:
        """Chunks of an image in the convolution's own loop."""
        return row_chunks(self.layer)

    def ready(self, chunks: int) -> int:
        """Rows of the pool that are complete after the first ``chunks`` chunks of an image."""
        rows, window = chunks * self.step, self.window
        if rows >= self.layer.workload.out_height:
            return self.height
        return max(0, (rows + window.before - window.taps) // window.stride + 1)

    def first_chunk(self, band: int) -> int:
        """The chunk that has the first row which a band reads."""
        first = band * self.rows * self.window.stride - self.window.before
        return max(0, first) // self.step

    def last_chunk(self, band: int) -> int:
        """The chunk that has the last row which a band reads."""
        last = min((band + 1) * self.rows, self.height) - 1
        read = last * self.window.stride - self.window.before + self.window.taps - 1
        return min(read, self.layer.workload.out_height - 1) // self.step

    @cached_property
    def slots(self) -> int:
        """Chunks that the ring holds: the newest one and those that a window reaches back to."""
        back = (
            at - max(0, self.ready(at) * self.window.stride - self.window.before) // self.step
            for at in range(self.chunks)
            if self.ready(at) < self.ready(at + 1)
        )
        return 1 + max(0, *back, 0)

    @property
    def ring_shape(self) -> tuple[int, int, int, int]:
        """The ring: (blocks, rows, OW, oc_bn)."""
        conv, oc_bn = self.layer.workload, int(self.layer.config.oc_bn)
        return conv.out_channels // oc_bn, self.slots * self.step, conv.out_width, oc_bn

    @property
    def ring_bytes(self) -> int:
        return math.prod(self.ring_shape) * item_bytes(self.layer.workload.types.output)

    @property
    def working_bytes(self) -> int:
        """What the chunks of a band read again and again: the ring, the weights, scratch."""
        return self.ring_bytes + packed_bytes(self.layer) + scratch_bytes(self.layer)

    def chunks_of(self, band: int) -> int:
        """Chunks that a band computes."""
        return self.last_chunk(band) - self.first_chunk(band) + 1


def bands_of(layer: Member, window: RowWindow, height: int, cpu: Cpu) -> tuple[PooledConv, ...]:
    """The groups of a layer: one band a core, or as many as there are chunks.

    Empty where layer and pool are no group, and where L2 does not hold the ring beside what a chunk
    reads anyway (Zen 3, 512 KiB: SqueezeNet's stem reads 416 KiB, and with a ring of 327 KiB the
    network is 1 % slower than without the group). Chunks stay those of the config: smaller ones
    would fit more often, and cost more than a pool gains (Zen 3, 128x112x112->128 3x3: 11.2 ms with
    its pool, 11.7 as a group of chunks of half the rows).
    """
    whole = PooledConv(layer, window, height, height)
    if misfit(layer) or whole.working_bytes > L2_SHARE * cpu.l2:
        return ()
    cores = math.ceil(cpu.cores / math.gcd(cpu.cores, layer.workload.batch))
    counts = {min(cores, height), min(whole.chunks, height)}
    rows = sorted({math.ceil(height / count) for count in counts}, reverse=True)
    return tuple(replace(whole, rows=each) for each in rows)


def misfit(layer: Member) -> str | None:
    """Why a layer has no such group, whatever the pool; ``None`` where it has."""
    conv, config = layer.workload, layer.config
    if conv.types != FP32:
        return "only fp32 layers are fused"
    if not isinstance(config, ConvConfig | WinogradConfig):
        return f"{conv} is computed by {config.template}, whose chunks are no rows"
    if config.oc_bn > conv.out_channels // conv.groups:
        return f"blocks of {conv} hold several groups"
    if config.parallel_oc or (isinstance(config, WinogradConfig) and config.oc_chunks):
        return f"chunks of {conv} are no rows, but blocks of channels"
    geometry = geometry_of(layer)
    if isinstance(geometry, WinogradGeometry) and geometry.images > 1:
        return f"chunks of {conv} are no rows, but several images"
    return None
