"""Our profile beside a peer's: the layers that both have, by their ONNX nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from tvm_neocpu.contrib.profile.peer_layers import PeerLayer
from tvm_neocpu.contrib.profile.profile_network import Profile, ProfileRow
from tvm_neocpu.frontend.reading.onnx_nodes import OnnxNodes


@dataclass(frozen=True)
class ComparedLayer:
    """A node that both engines time; what each fused into it is in its seconds."""

    node: str
    what: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """How often as long the peer takes."""
        return self.theirs / self.ours if self.ours else float("inf")


@dataclass(frozen=True)
class Comparison:
    """``ours_elsewhere`` and ``theirs_elsewhere``: seconds of all layers that have no partner."""

    peer: str
    layers: tuple[ComparedLayer, ...]
    ours_elsewhere: float
    theirs_elsewhere: float


def compare_layers(
    profile: Profile, peer: str, layers: Iterable[PeerLayer], nodes: OnnxNodes
) -> Comparison:
    """The profile's named rows beside the peer's layers of the same names.

    Several rows of a name are parts of one layer.
    """
    theirs: dict[str, float] = defaultdict(float)
    elsewhere = 0.0
    ours: dict[str, list[ProfileRow]] = defaultdict(list)
    for row in profile.rows:
        if row.node:
            ours[row.node].append(row)
    for layer in layers:
        name = nodes.heavy_behind(layer.names) if layer.computes else ""
        if name in ours:
            theirs[name] += layer.seconds
        else:
            elsewhere += layer.seconds
    both = tuple(
        ComparedLayer(name, rows[0].what, sum(row.call.seconds for row in rows), theirs[name])
        for name, rows in ours.items()
        if name in theirs
    )
    alone = sum(row.call.seconds for row in profile.rows if row.node not in theirs)
    return Comparison(peer, both, alone, elsewhere)


def means(turns: Sequence[Sequence[PeerLayer]]) -> list[PeerLayer]:
    """The layers of the first turn, each with the mean of its seconds over all turns.

    A layer is known by its names and kind, and where it stands among those of the same.
    """
    seconds: dict[Hashable, list[float]] = defaultdict(list)
    for turn in turns:
        for key, layer in _with_keys(turn):
            seconds[key].append(layer.seconds)
    return [replace(layer, seconds=fmean(seconds[key])) for key, layer in _with_keys(turns[0])]


def _with_keys(layers: Iterable[PeerLayer]) -> Iterator[tuple[Hashable, PeerLayer]]:
    before: Counter[Hashable] = Counter()
    for layer in layers:
        same = layer.names, layer.kind
        yield (*same, before[same]), layer
        before[same] += 1


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Everything, in milliseconds."""
    return {
        "peer": comparison.peer,
        "layers": [
            {
                "node": layer.node,
                "what": layer.what,
                "ms": layer.ours * 1e3,
                "peer_ms": layer.theirs * 1e3,
            }
            for layer in comparison.layers
        ],
        "elsewhere_ms": comparison.ours_elsewhere * 1e3,
        "peer_elsewhere_ms": comparison.theirs_elsewhere * 1e3,
    }
