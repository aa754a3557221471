"""The rows of both tables, nodes and transforms, as text cells; `table` and `page` draw them."""

from __future__ import annotations

from collections.abc import Callable

from tvm_neocpu.contrib.explain import words
from tvm_neocpu.core.messages.fallback import Fallback, Fixed
from tvm_neocpu.core.network.conv_graph import GraphNode, NodeKind
from tvm_neocpu.global_search.network.explain import Explanation, NodeRow

NODE_NOTE = (
    f"{words.GUESSED} predicted by the cost model, not measured; pools, joins: ms of what runs "
    "beside the kernel in the layout that it writes; whole network: extra ms of the network with "
    "the runner-up, everything else chosen anew"
)
NODE_HEADINGS = (
    "#",
    "node",
    "ONNX node",
    "algorithm",
    "layouts",
    "ms",
    "pools, joins",
    "runner-up",
    "its ms",
    "whole network",
    "schedule",
)
NODE_NUMBERS = ("#", "ms", "pools, joins", "its ms", "whole network")

TRANSFORM_NOTE = "the last two: extra ms of the whole network without this transform"
TRANSFORM_HEADINGS = (
    "of",
    "for",
    "tensor",
    "layouts",
    "ms",
    "if its source wrote the new layout",
    "if its readers read the old layout",
)
TRANSFORM_NUMBERS = TRANSFORM_HEADINGS[-3:]

GROUP_NOTE = "computed by one function, band by band; the last: extra ms of the network without it"
GROUP_HEADINGS = ("layers", "rows of a band", "ms saved", "if apart")
GROUP_NUMBERS = GROUP_HEADINGS[1:]


def deciding(found: Explanation) -> list[NodeRow]:
    """The nodes at which there is something to choose."""
    return [row for row in found.nodes if row.node.kind is not NodeKind.BOUNDARY]


def node_cells(number: int, row: NodeRow, found: Explanation, name: str = "") -> list[str]:
    """One cell for each of ``NODE_HEADINGS``; ``name`` is the ONNX node's."""
    option = row.option
    return [
        str(number),
        row.node.label,
        name,
        words.algorithm(row.node, option) if option.config else "",
        words.layouts(option),
        words.own_ms(row.node, option, found),
        words.beside_ms(option),
        *_runner_up_cells(row, found),
        words.schedule(option.config),
    ]


def fallback_cells(fallback: Fallback) -> list[str]:
    """One cell for each of ``NODE_HEADINGS``, for an operation that the plan does not cover."""
    label = f"{fallback.operator} {fallback.what}"
    return ["-", label, "", words.GENERIC, "", words.NO_TIME, "", "-", "", "", fallback.why]


def fixed_cells(fixed: Fixed) -> list[str]:
    """One cell for each of ``NODE_HEADINGS``, for an operation without a choice."""
    predicted = words.GUESSED + words.ms(fixed.seconds)
    return ["-", str(fixed), "", fixed.algorithm, "", predicted, "", "-", "", "", ""]


def _runner_up_cells(row: NodeRow, found: Explanation) -> list[str]:
    other = row.runner_up
    if other is None:
        return ["-" if row.candidates == 1 else words.UNKNOWN, "", ""]
    return [
        words.choice(row.node, other.option),
        words.own_ms(row.node, other.option, found),
        words.extra_ms(other.network_seconds, found.seconds),
    ]


def transform_rows(found: Explanation) -> list[list[str]]:
    """One cell for each of ``TRANSFORM_HEADINGS``; a node is named by its number and label."""
    name = _numbered(found)
    return [
        [
            name(row.source),
            ", ".join(map(name, row.targets)),
            "x".join(map(str, row.shape)),
            f"{words.block(row.before)} -> {words.block(row.after)}",
            words.ms(row.seconds),
            words.extra_ms(row.if_source, found.seconds),
            words.extra_ms(row.if_targets, found.seconds),
        ]
        for row in found.transforms
    ]


def group_rows(found: Explanation) -> list[list[str]]:
    """One cell for each of ``GROUP_HEADINGS``."""
    name = _numbered(found)
    return [
        [
            " -> ".join(map(name, row.members)) + (" -> pool" if len(row.members) == 1 else ""),
            words.bands(row.rows, row.run),
            words.GUESSED + words.ms(row.gain),
            words.extra_ms(row.if_apart, found.seconds),
        ]
        for row in found.groups
    ]


def _numbered(found: Explanation) -> Callable[[GraphNode], str]:
    """A node's name: its number in the table, if it has one, and its label."""
    numbers = {row.node.id: number for number, row in enumerate(deciding(found), 1)}

    def name(node: GraphNode) -> str:
        return f"{numbers[node.id]}: {node.label}" if node.id in numbers else node.label

    return name
