"""Every partitioner by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_neocpu.scheduling.partition.clustering import bounded, clustering, lines
from tvm_neocpu.scheduling.partition.exact import exact
from tvm_neocpu.scheduling.partition.greedy import greedy
from tvm_neocpu.scheduling.partition.no_fusion import elementwise, no_fusion
from tvm_neocpu.scheduling.partition.partition import Partitioner

# "exact" raises SearchCutError on graphs too large for it.
PARTITIONERS: Mapping[str, Partitioner] = MappingProxyType(
    {
        "no-fusion": no_fusion,
        "elementwise": elementwise,
        "bounded-2": bounded(2),
        "bounded-4": bounded(4),
        "greedy": greedy,
        "clustering": clustering,
        "lines": lines,
        "exact": exact,
    }
)
