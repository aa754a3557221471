"""Texts for choices, layouts and times: one vocabulary for the table, the page and JSON."""

from __future__ import annotations

import math
from dataclasses import fields

from tvm_neocpu.core.messages.fallback import Coverage, percent
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import GraphNode
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.global_search.network.explain import Explanation
from tvm_neocpu.global_search.network.layout_graph import Option
from tvm_neocpu.topi.table import implementation_of

# The layouts and the algorithm's name tell these knobs already.
_TOLD_ELSEWHERE = ("ic_bn", "oc_bn", "tile")
IMPOSSIBLE = "impossible"
UNKNOWN = "?"
# The time of what the plan does not cover.
NO_TIME = "unknown"
# What computes an operation that no template takes.
GENERIC = "TVM's own"
# Stands before a time that the cost model predicted and nobody measured.
GUESSED = "~"


def algorithm(node: GraphNode, option: Option) -> str:
    """``"direct"``, ``"winograd F(4x4)"``; for a join or boundary its kind."""
    config = option.config
    if config is None:
        return node.kind.value
    if node.workload is None:
        return str(config.template)
    return implementation_of(config).describe(node.workload, config)


def schedule(config: Config | None) -> str:
    """The knobs that differ from their defaults, ``"reg_n=14 th_bn=2 parallel_oc"``.

    Knobs that the layouts or the algorithm's name tell are left out.
    """
    if config is None:
        return ""
    shown = (f for f in fields(config) if f.name not in _TOLD_ELSEWHERE)
    values = {
        f.name: getattr(config, f.name) for f in shown if getattr(config, f.name) != f.default
    }
    return " ".join(name if v is True else f"{name}={v}" for name, v in values.items())


def block(layout: Layout) -> str:
    """The short form of a layout: ``"16c"`` for NCHW16c, ``"NCHW"`` for NCHW."""
    return f"{layout.block}c" if layout.is_blocked else str(layout)


def layouts(option: Option) -> str:
    """The layouts read and written, ``"16c -> 32c"``; ``"16c"`` if a join keeps its layout."""
    if option.config is None and option.reads == option.writes:
        return block(option.reads)
    return f"{block(option.reads)} -> {block(option.writes)}"


def choice(node: GraphNode, option: Option) -> str:
    """Algorithm and layouts: ``"direct 16c -> 32c"``."""
    if option.config is None:
        return layouts(option)
    return f"{algorithm(node, option)} {layouts(option)}"


def ms(seconds: float) -> str:
    """Seconds as milliseconds: ``"0.030"``."""
    return f"{seconds * 1e3:.3f}"


def own_ms(node: GraphNode, option: Option, explanation: Explanation) -> str:
    """An option's own time in milliseconds; empty for a node without a kernel."""
    if option.config is None:
        return ""
    return ("" if explanation.is_measured(node, option) else GUESSED) + ms(option.seconds)


def beside_ms(option: Option) -> str:
    """The time of an option's pools and joins in milliseconds; empty where there are none."""
    return ms(option.sweeps) if option.sweeps else ""


def extra_ms(network_seconds: float | None, total: float) -> str:
    """The extra milliseconds of another network over this one's ``total``: ``"+0.030"``."""
    if network_seconds is None:
        return UNKNOWN
    if math.isinf(network_seconds):
        return IMPOSSIBLE
    # Adding 0.0 turns the "-0.000" of a tie into "+0.000".
    return f"{round((network_seconds - total) * 1e3, 3) + 0.0:+.3f}"


def proof(explanation: Explanation, coverage: Coverage) -> str:
    """How far the choice can be from the optimum; of a part, if the plan covers a part."""
    part = " for this part" if coverage.fallbacks else ""
    if explanation.optimal:
        return f"proven optimal{part}"
    bound = ms(explanation.lower_bound + coverage.fixed_seconds)
    return f"no choice is below {bound} ms{part}, a gap of {explanation.gap:.2%}"


def covered(coverage: Coverage) -> str:
    """What a predicted time is for: ``"90.0% of the multiply-adds"``."""
    share = coverage.share
    return f"{'an unknown share' if share is None else percent(share)} of the multiply-adds"


def greedy_share(explanation: Explanation, coverage: Coverage) -> str:
    """The extra time of the greedy choice as a share of the total: ``"+2.91%"``."""
    total = explanation.seconds + coverage.fixed_seconds
    if explanation.greedy_seconds is None or not total:
        return UNKNOWN
    share = (explanation.greedy_seconds - explanation.seconds) / total
    return f"{round(share, 4) + 0.0:+.2%}"


def bands(rows: int, run: int) -> str:
    """Rows of a band, and how many bands follow each other on one core where they share rows."""
    return str(rows) if run == 1 else f"{rows}, runs of {run}"
