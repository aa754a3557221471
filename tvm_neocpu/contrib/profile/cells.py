"""The cells of a profile's tables, for the terminal and the page."""

from __future__ import annotations

from tvm_neocpu.contrib.profile.compare_layers import ComparedLayer
from tvm_neocpu.contrib.profile.profile_network import Profile, ProfileRow

NUMBERS = ("ms", "share", "GFLOP/s", "of peak", "MiB", "of bandwidth")
TEXTS = ("operation", "node", "algorithm", "layouts")
CONFIG = "config"
LAYER_TEXTS = ("node", "operation")


def layer_numbers(peer: str) -> tuple[str, str, str]:
    """The headings of a comparison's figures."""
    return "ms", f"{peer} ms", "its time / ours"


def of_row(row: ProfileRow, profile: Profile) -> tuple[str, ...]:
    """A cell for each of ``TEXTS`` and ``NUMBERS``."""
    known = row.flops > 0
    return (
        row.what,
        row.node,
        row.algorithm,
        row.layouts,
        f"{row.call.seconds * 1e3:.3f}",
        f"{row.call.seconds / profile.wall:.1%}",
        f"{row.gflops:.0f}" if known else "",
        f"{row.share_of_peak:.0%}" if row.share_of_peak else "",
        f"{row.call.moved / 2**20:.2f}",
        f"{row.bandwidth / profile.ceilings.bandwidth:.0%}",
    )


def of_layer(layer: ComparedLayer) -> tuple[str, ...]:
    """A cell for each of ``LAYER_TEXTS`` and of ``layer_numbers``."""
    times = f"{layer.ours * 1e3:.3f}", f"{layer.theirs * 1e3:.3f}", f"{layer.ratio:.2f}"
    return layer.node, layer.what, *times
