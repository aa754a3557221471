"""An experiment as rows of text, for the terminal and for the page."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tvm_neocpu.contrib.schedule.experiment import BASELINE, Experiment, Row
from tvm_neocpu.scheduling.memory.table import ALLOCATORS

HEADINGS = (
    "partition",
    "order",
    "groups",
    "Mcycles",
    "to no fusion",
    "DRAM MB",
    "to no fusion",
    "peak KiB",
    "to no fusion",
    "use",
)
MEMORY_HEADINGS = ("order", "largest live set", *ALLOCATORS)
MEMORY_NOTE = "every tensor in fast memory, MB"


def show(found: Experiment, console: Console) -> None:
    """Print both tables, and what must be said of single operations."""
    console.print(headline(found))
    for line in note_lines(found):
        console.print(line)
    for headings, rows in ((HEADINGS, rows_of(found)), (MEMORY_HEADINGS, memory_rows(found))):
        drawn = Table(box=None, pad_edge=False)
        for at, heading in enumerate(headings):
            is_text = heading in ("partition", "order")
            drawn.add_column(heading, justify="left" if is_text and at < 2 else "right")
        for row in rows:
            drawn.add_row(*row)
        console.print(drawn)
        console.print()


def headline(found: Experiment) -> str:
    best, base = found.best, found.baseline
    saved = 1 - best.cycles / base.cycles if base.cycles else 0.0
    return (
        f"{found.network} on {found.machine}: {len(found.graph)} nodes; best {best.partitioner}, "
        f"{best.order}: {saved:.1%} fewer cycles than no fusion"
    )


def note_lines(found: Experiment) -> list[str]:
    """The operations that end groups, and why."""
    unknown = [
        f"boundary: {count} x {name}, which no profiler knows; nothing fuses across it"
        for name, count in found.boundaries.items()
    ]
    wide = [
        f"in pieces: {count} x {name}, of which no row fits the buffer; it passes in pieces"
        for name, count in found.in_pieces.items()
    ]
    return unknown + wide


def rows_of(found: Experiment) -> list[list[str]]:
    """One row a partition and order; an order that changes nothing is not repeated."""
    rows: list[list[str]] = []
    for row in found.rows:
        first = found.row(row.partitioner, BASELINE[1])
        if row is first or _figures(row) != _figures(first):
            rows.append(_cells(found, row))
    return rows


def memory_rows(found: Experiment) -> list[list[str]]:
    return [
        [each.order, _mb(max(each.alive, default=0)), *map(_mb, each.sizes.values())]
        for each in found.memory
    ]


def _figures(row: Row) -> tuple[float, float, float]:
    return row.cycles, row.dram_bytes, row.peak_bytes


def _cells(found: Experiment, row: Row) -> list[str]:
    base = found.baseline
    return [
        row.partitioner,
        row.order,
        str(len(row.groups)),
        f"{row.cycles / 1e6:.3f}",
        _ratio(row.cycles, base.cycles),
        _mb(row.dram_bytes),
        _ratio(row.dram_bytes, base.dram_bytes),
        f"{row.peak_bytes / 1024:.0f}",
        _ratio(row.peak_bytes, base.peak_bytes),
        f"{found.utilisation(row):.0%}",
    ]


def _mb(size: float) -> str:
    """Megabytes; below one, to a tenth of a kilobyte."""
    return f"{size / 1e6:.2f}" if size >= 1e6 or not size else f"{size / 1e6:.4f}"


def _ratio(value: float, base: float) -> str:
    return f"{value / base:.3f}" if base else "-"
