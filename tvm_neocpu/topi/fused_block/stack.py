"""Two or three dense convolutions as one group: 3x3 -> 3x3, 1x1 -> 3x3 -> 1x1.

    parallel for each run of bands of an image:
      for each band of ``rows`` output rows of the last layer:
        first layer, the chunks that the band reads and that are not there yet -> ring
        last layer, the band                                                   -> output

Each layer is direct or Winograd, whatever the other one is, with its own epilogue. A band is a
chunk of the last layer's parallel loop, and what is in front of it goes in chunks of about as many
rows. So Winograd transforms its tiles from rows that the core has just written. The rows and the
ring are those of :mod:`.course`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, may_stream
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.fused_block.member import Member, Step, geometry_of, padded_rows, tile_rows

# Layers of a stack at most: a bottleneck has three.
MOST = 3


def is_stack(members: Sequence[Member]) -> bool:
    """Whether layers are a stack and no block around a depthwise layer."""
    return not any(member.workload.is_depthwise for member in members)


def steps_of(members: Sequence[Member], rows: int) -> tuple[Step, ...]:
    """The layers in chunks of rows, the last one of ``rows`` rows; register tiles are the plan's.

    # last layer: 8 rows, stride 2  ->  the one before: 16 rows, or the next smaller factor
    """
    found = [Step(_in_chunks(members[-1], rows), rows)]
    for member, reader in zip(members[-2::-1], members[:0:-1], strict=True):
        wanted = found[-1].rows * reader.workload.stride[0]
        tile, height = tile_rows(member), padded_rows(member)
        fitting = [f for f in factors(height) if f % tile == 0 and f <= max(wanted, tile)]
        found.append(Step(_in_chunks(member, fitting[-1]), fitting[-1]))
    return tuple(found[::-1])


def reasons_against(members: Sequence[Member]) -> Iterator[str]:
    """Why dense layers are no group."""
    if not 1 < len(members) <= MOST:
        yield f"two or three dense layers are a group, not {len(members)}"
    for member in members:
        conv, config = member.workload, member.config
        if conv.groups != 1:
            yield f"{conv} has groups of channels"
        elif not isinstance(config, ConvConfig | WinogradConfig):
            yield f"{conv} is computed by {config.template}, whose chunks are no rows"
        elif may_stream(conv):
            yield f"blocks of channels share register tiles of {conv}"


def _in_chunks(member: Member, rows: int) -> Member:
    """The layer with chunks of so many rows, and of all channels."""
    geometry = geometry_of(member)
    if isinstance(geometry, WinogradGeometry):
        chunk = {"th_bn": rows // geometry.tiled.outputs[0], "oc_chunks": 0}
    else:
        chunk = {"oh_bn": rows // tile_rows(member)}
    return replace(member, config=replace(member.config, parallel_oc=False, **chunk))
