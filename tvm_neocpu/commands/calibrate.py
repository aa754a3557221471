"""The calibrate command line: checks, measures, shows, writes.

`contrib/kernels/measure_machine.py` measures, `targets/calibration_file.py` keeps the result for
builds, and `tvm_neocpu/calibrate.py` is the door: `python -m tvm_neocpu.calibrate`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tvm_neocpu.commands.shared import cli
from tvm_neocpu.commands.shared.busy_machine import warn_of_others
from tvm_neocpu.contrib.kernels import measure_machine
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.errors import CalibrationError, TargetError
from tvm_neocpu.core.machine.cache_sizes import cache_sizes
from tvm_neocpu.core.machine.cpu import MIB, Cpu
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.runtime.process.busy import load_of_others
from tvm_neocpu.runtime.process.calibration_place import VARIABLE, chosen_path
from tvm_neocpu.targets import CompileTarget, calibration_file, is_host_cpu, parse_target
from tvm_neocpu.targets.calibration_file import Calibration
from tvm_neocpu.targets.families import origin_of

DESCRIPTION = """Measure this machine for the cost model, in some seconds: its clock, FMAs and loads
per cycle, bytes per cycle from each cache and from memory, how much of the L3 it really has, and
what a parallel loop costs. From then on builds for
this machine's own CPU use the result: untuned choices follow the machine, not the table of CPU
families. The result is ~/.cache/tvm_neocpu/calibration.json, whatever TVM_NEOCPU_CACHE and
TVM_NEOCPU_DATA say; TVM_NEOCPU_CALIBRATION=off ignores it, =FILE reads and writes another."""

# What a figure is divided by for people.
_SCALES = {"l3": MIB, "fork_join": 1e-6}
_WORDS = {
    "ghz": "clock, GHz (from the FMA peak)",
    "l2_bytes_per_cycle": "from L2, bytes per cycle and core",
    "l3_bytes_per_cycle": "from L3, bytes per cycle and core",
    "l3": "usable L3, MiB",
    "dram_bytes_per_cycle": "from memory, bytes per cycle, one core",
    "dram_total_bytes_per_cycle": "from memory, bytes per cycle, all cores",
    "fork_join": "fork and join of a parallel region, us",
    "fma_per_cycle": "vector FMAs per cycle",
    "load_per_cycle": "vector loads per cycle",
    "fma_latency": "latency of an FMA, cycles",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_calibrate, argv)


def _calibrate(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    if options.threads:
        threads.use_threads(options.threads)
    # Without earlier measurements: they must not decide what this run measures.
    target = parse_target(cli.target_text(options.target, flags), measured=False)
    _check_is_here(target)
    threads.remark_too_many(target.cpu.cores)
    threads.use_threads(target.cpu.cores)
    path = options.output or chosen_path()
    if path is None:
        raise CalibrationError(f"{VARIABLE}=off: name a file with --output")
    _check_file(path)
    load = load_of_others(target.cpu.cores)
    warn_of_others(load, "bandwidths will come out too low", "calibrate")
    buffers = measure_machine.buffers_of(target.cpu)
    rounds = measure_machine.measure(measure_machine.probes(target, buffers))
    measured = measure_machine.parameters(rounds, buffers, target.cpu)
    disturbed = measure_machine.unsteady(rounds)
    _say_unsteady(disturbed)
    measured = measure_machine.believed(measured, disturbed)
    _say_not_issued(measure_machine.not_issued(rounds, measured))
    about = provenance(target.cpu.name, target.cpu.cores)
    calibration_file.save(path, target.cpu.name, Calibration(measured, about))
    _show(target.cpu, measured, cli.console(width=80))
    print(f"written to {path}")
    if path != chosen_path():
        print(f"builds use it with {VARIABLE}={path}")
    return 0


def _check_is_here(target: CompileTarget) -> None:
    if target.runs_here and is_host_cpu(str(target.target.attrs.get("mcpu", "generic"))):
        return
    here = parse_target(measured=False).cpu.name
    raise TargetError(f"cannot measure a {target.cpu.name} here: this machine is a {here}")


def _check_file(path: Path) -> None:
    """Raise CalibrationError, before the measuring, for a file that is not a calibration file."""
    try:
        calibration_file.load(path)
    except FileNotFoundError:
        _check_folder(path)
    except CalibrationError as error:
        raise CalibrationError(f"{error}; remove it or name another with --output") from error


def _check_folder(path: Path) -> None:
    """Raise CalibrationError, before the measuring, where no new file can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            return
    except OSError as error:
        raise CalibrationError(f"cannot write {path}: {error.strerror}") from error


def _say_unsteady(probes: Sequence[str]) -> None:
    """Say which figures nobody should believe: their probes were never undisturbed."""
    if probes:
        print(
            f"warning: not steady, and not to be believed: {', '.join(probes)}; what memory gives "
            "is not written where it rests on them; calibrate again when the machine is idle",
            file=sys.stderr,
        )


def _say_not_issued(names: Sequence[str]) -> None:
    """Say which of a core's rates stay as they were."""
    if names:
        print(
            f"warning: not measured: {', '.join(_WORDS[name] for name in names)}; something shares "
            "the core, perhaps a neighbour's thread; what was known before stays",
            file=sys.stderr,
        )


def _show(cpu: Cpu, measured: Mapping[str, float], console: Console) -> None:
    table = Table(title=f"{cpu.name}, {plural(cpu.cores, 'thread')}")
    table.add_column("parameter")
    table.add_column("before", justify="right")
    table.add_column("which was")
    table.add_column("measured", justify="right")
    for name, words in _WORDS.items():
        scale = _SCALES.get(name, 1)
        found = f"{measured[name] / scale:.2f}" if name in measured else "-"
        before = f"{getattr(cpu, name) / scale:.2f}"
        table.add_row(words, before, _origin(cpu, name), found)
    console.print(table)


def _origin(cpu: Cpu, figure: str) -> str:
    """Where the figure before comes from; the kernel of the operating system reports the L3."""
    reported = figure == "l3" and 3 in cache_sizes()
    return "reported" if reported else origin_of(cpu.name, figure)


def _parser() -> cli.Parser:
    parser = cli.Parser(prog="python -m tvm_neocpu.calibrate", description=DESCRIPTION)
    parser.add_argument("--target", default="llvm", help="as for tuning (default: this machine)")
    parser.add_argument(
        "--threads", type=cli.thread_count, help="threads of the all-core figures (default: cores)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="F", help="write to this file (default: where builds look)"
    )
    return parser
