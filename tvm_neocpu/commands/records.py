"""The records command line: `python -m tvm_neocpu.records list`. Each subcommand is a line here."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from tvm_neocpu.commands.parts.record_tables import best_rows, network_rows, workload_rows
from tvm_neocpu.commands.parts.records_plot import add_plot_options, plot
from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database import places
from tvm_neocpu.tuning.database.indexed_log import IndexedLog
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning, load_log
from tvm_neocpu.tuning.database.upkeep.classic import TOP, import_hints
from tvm_neocpu.tuning.database.upkeep.merge import merge_logs
from tvm_neocpu.tuning.database.upkeep.prune import REASONS, prune_log

DESCRIPTION = """Look into tuning logs and keep them in order. Without LOG it is this user's log for
the target's CPU, which `tune` writes and every build reads."""

# The exit code of `check` and `merge` for a log with lines that are skipped.
FOUND_BAD_LINES = 1
# Columns of a table that goes into a file or pipe.
_WIDTH = 160

Options = argparse.Namespace


@dataclass(frozen=True)
class Command:
    """A subcommand: its help, what it adds to the parser, what it does. Returns its exit code."""

    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Options, Cpu], int]


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_records, argv)


def _records(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    cpu = parse_target(cli.target_text(options.target, flags)).cpu
    return COMMANDS[options.command].run(options, cpu)


def _list(options: Options, cpu: Cpu) -> int:
    logs = [IndexedLog(path) for path in _paths(options, cpu)]
    networks, workloads = network_rows(logs), workload_rows(logs)
    _show("networks", networks)
    _show("workloads", workloads)
    disk.write_report(options.json, {"networks": networks, "workloads": workloads})
    return 0


def _best(options: Options, cpu: Cpu) -> int:
    logs = [IndexedLog(path) for path in _paths(options, cpu)]
    rows, stale = best_rows(logs, cpu, options.threads)
    _show(f"best records on {cpu.name}", rows)
    if stale:
        print(f"{stale} more workloads have stale or failed records only: no measurements")
    disk.write_report(options.json, {"cpu": cpu.name, "best": rows, "stale_workloads": stale})
    return 0


def _merge(options: Options, cpu: Cpu) -> int:
    found = merge_logs(TuningLog(options.out), options.logs)
    _tell(found.skipped)
    print(f"{options.out}: {found.added} lines added, {found.duplicates} were there already")
    report = {"added": found.added, "duplicates": found.duplicates, "skipped": found.skipped}
    disk.write_report(options.json, report)
    return FOUND_BAD_LINES if found.skipped else 0


def _import(options: Options, cpu: Cpu) -> int:
    path = options.log or places.user_log(cpu.name)
    found = import_hints(TuningLog(path), options.logs, cpu, options.top)
    print(
        f"{path}: {found.added} candidates added for {cpu.name}, {found.known} were there already, "
        f"{found.unfit} do not fit it; {found.skipped} lines hold no record of our templates"
    )
    counts = {"added": found.added, "known": found.known, "unfit": found.unfit}
    disk.write_report(options.json, {"log": str(path), **counts, "skipped": found.skipped})
    return 0


def _check(options: Options, cpu: Cpu) -> int:
    paths = _paths(options, cpu)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningLogWarning)  # each line is told below
        contents = load_log(paths)
    _tell(contents.skipped)
    counts = {name: len(getattr(contents, name)) for name in ("records", "plans", "verdicts")}
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    print(f"{told}; {len(contents.skipped)} lines skipped")
    disk.write_report(options.json, {**counts, "skipped": contents.skipped})
    return FOUND_BAD_LINES if contents.skipped else 0


def _prune(options: Options, cpu: Cpu) -> int:
    report = {}
    for path in _paths(options, cpu):
        found = prune_log(TuningLog(path))
        dropped = ", ".join(f"{found.dropped[reason]} {reason}" for reason in REASONS)
        print(f"{path}: {found.dropped.total()} lines dropped ({dropped}), {found.kept} kept")
        report[str(path)] = {"kept": found.kept, **{each: found.dropped[each] for each in REASONS}}
    disk.write_report(options.json, report)
    return 0


def _plot(options: Options, cpu: Cpu) -> int:
    options.logs += options.log
    return plot(_paths(options, cpu), options, cpu)


def _add_logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG", help="default: the user's log")


def _add_best(parser: argparse.ArgumentParser) -> None:
    _add_logs(parser)
    parser.add_argument("--threads", type=cli.positive, help="only of this thread count")


def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="what it lacks is appended")
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="AutoTVM's or TopHub's")
    parser.add_argument("--log", type=Path, help="append to this log (default: the user's)")
    parser.add_argument(
        "--top", type=cli.positive, default=TOP, help=f"candidates of a workload (default: {TOP})"
    )


COMMANDS = {
    "list": Command("networks, workloads and their counts", _add_logs, _list),
    "best": Command("the best record of each workload", _add_best, _best),
    "merge": Command(
        "several logs into one, without duplicates; exit code 1 for lines that it skips",
        _add_merge,
        _merge,
    ),
    "import": Command("make candidates of AutoTVM's and TopHub's records", _add_import, _import),
    "check": Command("name the lines that builds skip; exit code 1 for any", _add_logs, _check),
    "plot": Command("best so far over time, predicted against measured", add_plot_options, _plot),
    "prune": Command("drop stale, duplicate and failed records", _add_logs, _prune),
}


def _parser() -> cli.Parser:
    parser = cli.Parser(prog="python -m tvm_neocpu.records", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        added = commands.add_parser(name, help=command.help, description=command.help)
        command.add_options(added)
        added.add_argument("--target", default="llvm", help="as for tuning (default: this machine)")
        added.add_argument("--json", type=Path, metavar="F", help="write it to this file")
    return parser


def _paths(options: Options, cpu: Cpu) -> list[Path]:
    """The logs that were named, else the user's, which has to exist. Raises LogError."""
    paths = options.logs or [places.find_user_log(cpu.name)]
    for path in paths:
        if path is None:
            raise LogError(f"the database ({places.DATA_VARIABLE}) is off: name a log")
        if not path.exists():
            raise LogError(f"there is no log {path}: tune writes one")
    return list(paths)


def _tell(skipped: Sequence[tuple[str, str]]) -> None:
    for where, why in skipped:
        print(cli.printable(f"{where}: {why}"))


def _show(title: str, rows: list[dict[str, Any]]) -> None:
    """A table whose columns are the keys of its rows."""
    if not rows:
        print(f"{title}: none")
        return
    table = Table(title=f"{title}: {len(rows)}")
    for name in rows[0]:
        is_number = any(isinstance(row[name], int | float) for row in rows)
        table.add_column(name, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    cli.console(_WIDTH).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else cli.printable(str(value))
