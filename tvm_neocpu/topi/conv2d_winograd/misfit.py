"""Which configs of a log no convolution can have: the reason in words."""

from __future__ import annotations

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import FLAT, TILES, WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.matrices import conv_matrices
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import seen_by_tiles


def misfit(conv: ConvWorkload, config: WinogradConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    if config.tile not in TILES:
        return f"there are no tiles of {config.tile}; there are {', '.join(map(str, TILES))}"
    reads, writes = conv.in_channels // conv.groups, conv.out_channels // conv.groups
    sides = (config.ic_bn, reads), (config.oc_bn, writes)
    if conv.groups > 1 and not all(_is_of_groups(block, group) for block, group in sides):
        return f"its blocks {config.ic_bn} and {config.oc_bn} are no whole groups, nor parts of one"
    if config.ic_bn and conv.in_channels % config.ic_bn:
        return f"its ic_bn {config.ic_bn} does not divide {conv.in_channels} channels"
    if config.oc_bn < 1 or conv.out_channels % config.oc_bn:
        return f"its oc_bn {config.oc_bn} does not divide {conv.out_channels} channels"
    if min(config.reg_n, config.th_bn) < 1 or config.reg_m < FLAT:
        return "its register tiles or chunks are empty"
    return _misfit_of_chunks(conv, config) or _misfit_of_points(conv, config)


def _is_of_groups(block: int, group: int) -> bool:
    """Whether a block holds whole groups, or divides one."""
    return block > 0 and (block % group == 0 or group % block == 0)


def _misfit_of_chunks(conv: ConvWorkload, config: WinogradConfig) -> str | None:
    if not config.oc_chunks:
        return None
    if config.parallel_oc or conv.groups > 1 or config.ic_bn == 0:
        return "chunks of channels that transform the input take blocked data of one group"
    if config.oc_chunks < 0 or conv.out_channels % (config.oc_bn * config.oc_chunks):
        return f"its oc_chunks {config.oc_chunks} do not divide its blocks of output channels"
    return None


def _misfit_of_points(conv: ConvWorkload, config: WinogradConfig) -> str | None:
    try:
        conv_matrices(seen_by_tiles(conv, config.ic_bn == 0), config.tile)
    except ValueError as error:
        return str(error)
    return None
