"""An explanation as tables; plain text where nobody watches."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tvm_neocpu.contrib.explain import words
from tvm_neocpu.contrib.explain.network import ExplainedNetwork
from tvm_neocpu.core.conv_graph import GraphNode, NodeKind
from tvm_neocpu.global_search.explain import Explanation, NodeRow, TransformRow
from tvm_neocpu.global_search.layout_graph import Option

# Wide enough that no cell of the zoo's networks is cut where the output is no terminal.
PLAIN_WIDTH = 200
GUESSED = "~"


def show(network: ExplainedNetwork, console: Console | None = None) -> None:
    """Print the choices, the transforms and the sum of both."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=PLAIN_WIDTH)
    console.print(report(network, box.ROUNDED if console.is_terminal else box.ASCII))


def report(network: ExplainedNetwork, lines: box.Box) -> RenderableType:
    """All of it as something that rich can print."""
    found = network.explanation
    parts: list[RenderableType] = [_nodes_table(network, lines)]
    if found.transforms:
        parts.append(_transforms_table(found, lines))
    parts += [Text(line) for line in summary(network)]
    return Group(*parts)


def summary(network: ExplainedNetwork) -> Iterator[str]:
    """The sum, what it is made of, and how good it is."""
    found = network.explanation
    kept = words.plural(len(found.transforms), "transform")
    kernels = found.seconds - found.transform_seconds
    yield (
        f"{network.name}: {words.ms(found.seconds)} ms predicted = {words.ms(kernels)} in kernels"
        f" + {words.ms(found.transform_seconds)} in {kept}; {words.proof(found)}"
    )
    if found.greedy_seconds is not None:
        more = found.greedy_seconds / found.seconds - 1 if found.seconds else 0.0
        yield (
            f"the fastest scheme at every node would cost {words.ms(found.greedy_seconds)} ms"
            f" ({more:+.2%})"
        )
    yield f"chosen by {network.origin}"


def _nodes_table(network: ExplainedNetwork, lines: box.Box) -> Table:
    found = network.explanation
    table = Table(
        title=f"{network.name} on {network.cpu}, {words.plural(network.threads, 'thread')}",
        caption=f"{GUESSED} predicted by the cost model, not measured; whole network: what it costs"
        " more with the runner-up, all else chosen anew",
        box=lines,
    )
    table.add_column("#", justify="right")
    table.add_column("node")
    table.add_column("algorithm", no_wrap=True)
    table.add_column("schedule")
    table.add_column("layouts", no_wrap=True)
    table.add_column("ms", justify="right", no_wrap=True)
    table.add_column("runner-up")
    table.add_column("its ms", justify="right", no_wrap=True)
    table.add_column("whole network", justify="right", no_wrap=True)
    deciding = [row for row in found.nodes if row.node.kind is not NodeKind.BOUNDARY]
    for number, row in enumerate(deciding, 1):
        table.add_row(str(number), *_node_cells(row, found))
    return table


def _node_cells(row: NodeRow, found: Explanation) -> list[str | Text]:
    option, other = row.option, row.runner_up
    cells: list[str | Text] = [
        Text(row.node.label),
        words.algorithm(row.node, option) if option.config else "",
        words.schedule(option.config),
        words.layouts(option),
        _own_ms(row.node, option, found),
    ]
    if other is None:
        return [*cells, "-" if row.candidates == 1 else words.UNKNOWN, "", ""]
    price = words.extra_ms(other.network_seconds, found.seconds)
    return [
        *cells,
        words.choice(row.node, other.option),
        _own_ms(row.node, other.option, found),
        price,
    ]


def _own_ms(node: GraphNode, option: Option, found: Explanation) -> str:
    if option.config is None:
        return ""
    return ("" if found.is_measured(node, option) else GUESSED) + words.ms(option.seconds)


def _transforms_table(found: Explanation, lines: box.Box) -> Table:
    table = Table(
        title="transforms kept",
        caption="and what the whole network would cost more without each",
        box=lines,
    )
    for heading in ("of", "for", "tensor", "layouts"):
        table.add_column(heading)
    for heading in ("ms", "if its source wrote the other", "if its readers read the other"):
        table.add_column(heading, justify="right")
    for row in found.transforms:
        table.add_row(*_transform_cells(row, found.seconds))
    return table


def _transform_cells(row: TransformRow, total: float) -> list[str | Text]:
    return [
        Text(row.source.label),
        Text(", ".join(target.label for target in row.targets)),
        "x".join(map(str, row.shape)),
        f"{words.block(row.before)} -> {words.block(row.after)}",
        words.ms(row.seconds),
        words.extra_ms(row.if_source, total),
        words.extra_ms(row.if_targets, total),
    ]
