"""Every order by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph
from tvm_neocpu.scheduling.orders.backtracking import backtracking
from tvm_neocpu.scheduling.orders.best import best
from tvm_neocpu.scheduling.orders.exact import exact
from tvm_neocpu.scheduling.orders.file_order import file_order
from tvm_neocpu.scheduling.orders.walks import breadth_first, depth_first

# A graph to its nodes in execution order; "exact" raises SearchCutError on graphs too large for it.
ORDERS: Mapping[str, Callable[[ScheduleGraph], tuple[int, ...]]] = MappingProxyType(
    {
        "file": file_order,
        "depth-first": depth_first,
        "breadth-first": breadth_first,
        "backtracking": backtracking,
        "best": best,
        "exact": exact,
    }
)
