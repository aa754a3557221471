"""`records plot`: what a log's tuning found when, on the terminal and as pictures."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.contrib.tuning_plots.history import History, history_of, rank_correlation
from tvm_neocpu.contrib.tuning_plots.page import render, render_svg
from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.table import implementation_of
from tvm_neocpu.tuning.database.lines.staleness import is_current
from tvm_neocpu.tuning.database.log import load_log

# Columns of the summary in a file or pipe.
_WIDTH = 140


def add_plot_options(parser: argparse.ArgumentParser) -> None:
    """Add LOG, --log, --threads, --html and --svg."""
    parser.add_argument(
        "logs", nargs="*", type=Path, metavar="LOG", help="the logs (default: the user's log)"
    )
    parser.add_argument(
        "--log", action="append", type=Path, default=[], metavar="F", help="one more log"
    )
    parser.add_argument(
        "--threads",
        type=cli.positive,
        help="only records of this thread count (default: what most records ran on)",
    )
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--html", type=Path, metavar="F", help="write one self-contained page")
    files.add_argument("--svg", type=Path, metavar="F", help="write one picture")


def plot(paths: Sequence[Path], options: argparse.Namespace, cpu: Cpu) -> int:
    """Summarise the current records of one CPU and thread count, and draw them.

    Raises LogError where there are none.
    """
    contents = load_log(paths)
    ours = [r for r in contents.records if r.cpu == cpu.name and is_current(r)]
    counts = Counter(record.threads for record in ours)
    if not counts or (options.threads and options.threads not in counts):
        others = Counter((r.cpu, r.threads) for r in contents.records if is_current(r))
        known = (
            ", ".join(f"{name} on {plural(count, 'thread')}" for name, count in others)
            or "none at all"
        )
        raise LogError(f"no current records of {cpu.name} to plot; the logs have {known}")
    threads = options.threads or counts.most_common(1)[0][0]

    def predict(workload: Workload, config: Config) -> float | None:
        fits = implementation_of(config).accepts(workload, cpu)
        return predict_seconds(workload, config, cpu) if fits else None

    history = history_of(
        [record for record in ours if record.threads == threads],
        [v for v in contents.verdicts if v.cpu == cpu.name and v.threads == threads],
        predict,
    )
    title = f"Tuning on {cpu.name}, {plural(threads, 'thread')}"
    _show(title, history)
    report = {
        "cpu": cpu.name,
        "threads": threads,
        "failed": history.failed,
        "workloads": [
            {"workload": c.name, "records": c.records, "ms": c.points[-1][1], "gain": c.gain}
            for c in history.workloads
        ],
        "networks": [
            {"network": name, "ratio": ratio, "low": low, "high": high}
            for name, ratio, low, high in history.networks
        ],
    }
    disk.write_report(options.json, report)
    if options.html:
        disk.write_text(options.html, render(title, history))
    if options.svg:
        disk.write_text(options.svg, render_svg(history))
    return 0


def _show(title: str, history: History) -> None:
    table = Table(title=title)
    for name in ("workload", "records", "first, ms", "best, ms", "gain", "best after, s"):
        table.add_column(name, justify="left" if name == "workload" else "right")
    for curve in history.workloads:
        first, best = curve.points[0][1], curve.points[-1][1]
        found = next(moment for moment, value in curve.points if value == best)
        cells = (f"{first:.4g}", f"{best:.4g}", f"{curve.gain:.2f}x", f"{found:.0f}")
        table.add_row(Text(curve.name), str(curve.records), *cells)
    cli.console(_WIDTH).print(table)
    for name, ratio, low, high in history.networks:
        print(cli.printable(f"{name}: {ratio:.3f}x ({low:.3f}-{high:.3f}), before over after"))
    for name, points in history.scatter.items():
        rho = rank_correlation(points)
        told = "too few to rank" if rho is None else f"rank correlation {rho:.2f}"
        print(f"{name}: predicted against measured, {len(points)} records, {told}")
    if history.failed:
        print(f"{history.failed} candidates failed")
