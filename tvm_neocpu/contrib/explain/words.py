"""How choices are called: one vocabulary for the table and the page."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields

from tvm_neocpu.core.config import (
    Config,
    ConvConfig,
    DenseConfig,
    DepthwiseConfig,
    WinogradConfig,
)
from tvm_neocpu.core.conv_graph import GraphNode, NodeKind
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.winograd import KERNEL as WINOGRAD_KERNEL
from tvm_neocpu.global_search.explain import NodeRow
from tvm_neocpu.global_search.layout_graph import Option

# A template without a line here goes by its own name.
_ALGORITHMS: dict[str, str] = {
    ConvConfig.template: "direct",
    DepthwiseConfig.template: "depthwise",
    DenseConfig.template: "dense",
    WinogradConfig.template: "winograd",
}
# Said by the layouts and by the algorithm's name.
_SAID_ELSEWHERE = ("ic_bn", "oc_bn", "tile")
