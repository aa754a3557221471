"""Layers that one function computes, band of output rows by band: as decided, and as offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload

# What the layers of a group compute, and how, in order.
Members = tuple[tuple[Workload, Config], ...]


class Bands(NamedTuple):
    """How a group goes over an image: bands of ``rows`` output rows of its last layer.

    ``run`` bands follow each other on one core: rows of the inner layers that two of them read are
    kept. Runs share nothing: each computes its first halo itself.
    """

    rows: int
    run: int = 1


# The groups of a network as lowering knows them, by the members.
GroupBands = Mapping[Members, Bands]


@dataclass(frozen=True, order=True)
class LayerGroup:
    """``members`` are :class:`GraphNode` ids, each of which reads the one before."""

    members: tuple[str, ...]
    rows: int
    run: int = 1

    @property
    def bands(self) -> Bands:
        return Bands(self.rows, self.run)


@dataclass(frozen=True)
class GroupCandidate:
    """Members of a group under these configs, ``gain`` seconds faster than one by one.

    A member whose config is ``None`` stays outside: it is computed by itself under any config.
    """

    configs: tuple[Config | None, ...]
    rows: int
    gain: float
    run: int = 1

    def members_of(self, members: Sequence[str]) -> tuple[str, ...]:
        """The members that one function computes."""
        pairs = zip(members, self.configs, strict=True)
        return tuple(member for member, config in pairs if config is not None)


@dataclass(frozen=True)
class GroupNode:
    """Nodes of which all or some may be a group, and in which ways they would be faster."""

    members: tuple[str, ...]
    candidates: tuple[GroupCandidate, ...]
