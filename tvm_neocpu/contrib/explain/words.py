"""How choices are called: one vocabulary for the table, the page and JSON."""

from __future__ import annotations

import math
from dataclasses import fields

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import GraphNode
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.global_search.network.explain import Explanation
from tvm_neocpu.global_search.network.layout_graph import Option
from tvm_neocpu.topi.table import implementation_of

# Said by the layouts and by the algorithm's name already.
_SAID_ELSEWHERE = ("ic_bn", "oc_bn", "tile")
IMPOSSIBLE = "impossible"
UNKNOWN = "?"
# Before a time that the cost model predicted and nobody measured.
GUESSED = "~"


def algorithm(node: GraphNode, option: Option) -> str:
    """``"direct"``, ``"winograd F(4x4)"``; joins and boundaries by their kind."""
    config = option.config
    if config is None:
        return node.kind.value
    if node.workload is None:
        return str(config.template)
    return implementation_of(config).describe(node.workload, config)


def schedule(config: Config | None) -> str:
    """The knobs that differ from their defaults, without those that follow from the layouts."""
    if config is None:
        return ""
    shown = (f for f in fields(config) if f.name not in _SAID_ELSEWHERE)
    values = {
        f.name: getattr(config, f.name) for f in shown if getattr(config, f.name) != f.default
    }
    return " ".join(name if v is True else f"{name}={v}" for name, v in values.items())


def block(layout: Layout) -> str:
    """``"16c"`` for NCHW16c, which is called in full only where there is room."""
    return f"{layout.block}c" if layout.is_blocked else str(layout)


def layouts(option: Option) -> str:
    """What it reads and writes; once if they are the same and no kernel makes one of the other."""
    if option.config is None and option.reads == option.writes:
        return block(option.reads)
    return f"{block(option.reads)} -> {block(option.writes)}"


def choice(node: GraphNode, option: Option) -> str:
    """Algorithm and layouts in a few words."""
    if option.config is None:
        return layouts(option)
    return f"{algorithm(node, option)} {layouts(option)}"


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def own_ms(node: GraphNode, option: Option, explanation: Explanation) -> str:
    """An option's own time; nothing for what computes nothing."""
    if option.config is None:
        return ""
    return ("" if explanation.is_measured(node, option) else GUESSED) + ms(option.seconds)


def extra_ms(network_seconds: float | None, total: float) -> str:
    """What another network costs more than this one, in milliseconds: ``"+0.030"``."""
    if network_seconds is None:
        return UNKNOWN
    if math.isinf(network_seconds):
        return IMPOSSIBLE
    # Not "-0.000", which rounding makes of a tie.
    return f"{round((network_seconds - total) * 1e3, 3) + 0.0:+.3f}"


def proof(explanation: Explanation) -> str:
    """How far from the best the choice can be."""
    if explanation.optimal:
        return "proven optimal"
    bound = ms(explanation.lower_bound)
    return f"no choice is below {bound} ms, a gap of {explanation.gap:.2%}"


def greedy_share(explanation: Explanation) -> str:
    """What the greedy choice costs more, ``"+2.91%"``."""
    if explanation.greedy_seconds is None or not explanation.seconds:
        return UNKNOWN
    share = explanation.greedy_seconds / explanation.seconds - 1
    return f"{round(share, 4) + 0.0:+.2%}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
