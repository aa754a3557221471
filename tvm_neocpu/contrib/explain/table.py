"""An explanation as tables; plain ASCII if the output is not a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tvm_neocpu.contrib.explain import cells, words
from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork
from tvm_neocpu.core.messages.plural import plural

# Columns of plain output: every row of the zoo's networks fits on one line.
PLAIN_WIDTH = 240


def show(network: ExplainedNetwork, console: Console) -> None:
    """Print the choices, the transforms and the sum of their times."""
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    console.print(report(network, box.ROUNDED if console.is_terminal else box.ASCII))


def report(network: ExplainedNetwork, lines: box.Box) -> RenderableType:
    """The tables and the summary, for rich to print; ``lines`` are the tables' borders."""
    found = network.explanation
    nodes = _table(
        f"{network.name} on {network.cpu}, {plural(network.threads, 'thread')}",
        cells.NODE_NOTE,
        cells.NODE_HEADINGS,
        cells.NODE_NUMBERS,
        [
            *(
                cells.node_cells(k, row, found, network.names.get(row.node.id, ""))
                for k, row in enumerate(cells.deciding(found), 1)
            ),
            *map(cells.fixed_cells, network.coverage.fixed),
            *map(cells.fallback_cells, network.coverage.fallbacks),
        ],
        lines,
    )
    transforms = _table(
        "transforms kept",
        cells.TRANSFORM_NOTE,
        cells.TRANSFORM_HEADINGS,
        cells.TRANSFORM_NUMBERS,
        cells.transform_rows(found),
        lines,
    )
    groups = _table(
        "groups of layers",
        cells.GROUP_NOTE,
        cells.GROUP_HEADINGS,
        cells.GROUP_NUMBERS,
        cells.group_rows(found),
        lines,
    )
    shown = ((nodes, True), (transforms, found.transforms), (groups, found.groups))
    tables = [table for table, rows in shown if rows]
    return Group(*tables, *map(Text, summary(network)))


def summary(network: ExplainedNetwork) -> Iterator[str]:
    """Lines of text: the total and its parts, the bound, the greedy total, the plan's origin.

    Without any operation in the plan there is no total; the first line says so.
    """
    found = network.explanation
    if network.coverage.fallbacks:
        yield network.coverage.report()
    yield from network.notes
    if not network.is_planned:
        yield f"{network.name}: time {words.NO_TIME}, the plan covers none of its operations"
        return
    kept = plural(len(found.transforms), "transform")
    kernels = found.seconds - found.transform_seconds - found.sweep_seconds
    groups = plural(len(found.groups), "group")
    saved = f" ({words.ms(found.group_gain)} less by {groups})" if found.groups else ""
    beside = f"{words.ms(found.sweep_seconds)} in pools and joins + " if found.sweep_seconds else ""
    fixed = network.coverage.fixed_seconds
    if fixed:
        beside += f"{words.ms(fixed)} in {network.coverage.fixed_kinds} + "
    yield (
        f"{network.name}: {words.ms(network.seconds)} ms predicted for "
        f"{words.covered(network.coverage)} = {words.ms(kernels)} in kernels{saved} + {beside}"
        f"{words.ms(found.transform_seconds)} in {kept}; {words.proof(found, network.coverage)}"
    )
    if found.greedy_seconds is not None:
        greedy = words.ms(found.greedy_seconds + fixed)
        share = words.greedy_share(found, network.coverage)
        yield f"the fastest scheme at every node: {greedy} ms ({share})"
    yield f"chosen by {network.origin}"


def _table(
    title: str,
    note: str,
    headings: Iterable[str],
    numbers: Sequence[str],
    rows: Iterable[list[str]],
    lines: box.Box,
) -> Table:
    table = Table(title=Text(title), caption=note, box=lines)  # Text: no markup in file names
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
