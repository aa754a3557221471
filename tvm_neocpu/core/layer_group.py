"""Layers that one function computes, band of output rows by band: as decided, and as offered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.workload import Workload

# What the layers of a group compute, and how, in order.
Members = tuple[tuple[Workload, Config], ...]
# The groups of a network as lowering knows them: the output rows of a band by the members.
GroupRows = Mapping[Members, int]


@dataclass(frozen=True, order=True)
class LayerGroup:
    """``members`` are :class:`GraphNode` ids, each of which reads the one before; a band of the
    last one has ``rows`` output rows."""

    members: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class GroupCandidate:
    """The members of a group under these configs, ``gain`` seconds faster than one by one."""

    configs: tuple[Config, ...]
    rows: int
    gain: float


@dataclass(frozen=True)
class GroupNode:
    """Nodes that may become a group, and in which ways they would be faster."""

    members: tuple[str, ...]
    candidates: tuple[GroupCandidate, ...]
