"""Single layers against ONNX Runtime: which are below 0.8 of its speed?

    TVM_NUM_THREADS=1 python benchmarks/layers/single_layers.py --save DIR
    TVM_NUM_THREADS=1 taskset -c 1 python benchmarks/layers/single_layers.py \
        --load DIR [--before OTHER]

The layers are those of `layer_table.py`. `--save` compiles all of them, `--load` times what was
compiled, so that nothing else runs while the machine is kept quiet. `--before` times another
checkout's files too, in turns. `--only TEXT` takes the layers whose names contain the text, and may
be given more than once. A row has the medians in us, the median over rounds of ONNX Runtime's time
over ours (and of the time before over ours), and the ratio of the shortest bursts, which other
processes disturb least. A layer below 0.9 is timed again at once, and the reading that took less
time counts: what disturbed the other one was of the moment. `--json` writes the rows with machine,
versions, threads and commit, after each layer: layers that the file has already are not timed, so
that a run may end at any time and the next one goes on. Each engine has a process of its own, whose
threads sleep while the other is timed.

The exit code is 1 if outputs differ from ONNX Runtime's, or a layer does not build.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from layer_engines import Ours, Theirs
from layer_table import Layer, layers

import tvm_neocpu  # noqa: F401  it provides tvm.relay
from tvm_neocpu import relay
from tvm_neocpu.contrib.peers.compare import SMALLEST_SCALE, TOLERANCE
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.accuracy.largest_error import largest_error
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.runtime.process import host
from tvm_neocpu.runtime.process.threads import thread_count
from tvm_neocpu.tuning.measuring.child_process import ChildProcess

# A layer of a lower ratio is timed again.
DOUBTFUL = 0.9


@dataclass(frozen=True)
class Timed:
    """Microseconds of each round: ONNX Runtime's, ours, and those of the build before."""

    layer: Layer
    theirs: list[float]
    ours: list[float]
    before: list[float]
    error: float

    @property
    def ratio(self) -> float:
        """ONNX Runtime's time over ours."""
        return statistics.median(t / o for t, o in zip(self.theirs, self.ours, strict=True))

    @property
    def total(self) -> float:
        """Microseconds of a run of both engines: what was disturbed took longer."""
        return statistics.median(self.theirs) + statistics.median(self.ours)

    @property
    def gain(self) -> float | None:
        """The time before over ours."""
        if not self.before:
            return None
        return statistics.median(b / o for b, o in zip(self.before, self.ours, strict=True))

    @property
    def shortest(self) -> float:
        """The same of the shortest bursts."""
        return min(self.theirs) / min(self.ours)

    def as_json(self) -> dict[str, Any]:
        return {
            "layer": self.layer.name,
            "ours_us": statistics.median(self.ours),
            "onnxruntime_us": statistics.median(self.theirs),
            "ratio": self.ratio,
            "ratio_of_shortest": self.shortest,
            "gain": self.gain,
            "error": self.error,
        }

    def __str__(self) -> str:
        text = (
            f"{self.layer.name:50} {statistics.median(self.ours):9.1f} "
            f"{statistics.median(self.theirs):9.1f} {self.ratio:6.2f} {self.shortest:6.2f}"
        )
        if self.before:
            text += f" {statistics.median(self.before):9.1f} {self.gain:6.2f}"
        return text + ("" if self.error <= TOLERANCE else f"  differs by {self.error:.1e}")


def timed(layer: Layer, engines: Sequence[ChildProcess], rounds: int) -> Timed:
    """Interleaved: ONNX Runtime, ours, before; each burst takes some milliseconds.

    Of several threads all bursts of an engine follow each other, because its threads take longer
    than a burst to fall asleep.
    """
    expected, found, *_ = [engine.ask("load", layer.name) for engine in engines]
    error = largest_error(found, expected, SMALLEST_SCALE)
    turns, bursts = (rounds, 1) if thread_count() == 1 else (1, rounds)

    def reading() -> Timed:
        taken: list[list[float]] = [[] for _ in engines]
        for _ in range(turns):
            for engine, into in zip(engines, taken, strict=True):
                into += engine.ask("bursts", bursts)
        theirs, ours, *before = taken
        return Timed(layer, theirs, ours, before[0] if before else [], error)

    once = reading()
    return once if once.ratio >= DOUBTFUL else min(once, reading(), key=lambda found: found.total)


def saved(layer: Layer, folder: Path) -> bool:
    """Compile a layer; says why where it cannot."""
    try:
        mod, params = relay.frontend.from_onnx(layer.model())
        library = relay.build(mod, target="llvm", params=params, cache=False)
    except NeoCpuError as error:
        print(f"{layer.name}: {error}", file=sys.stderr)
        return False
    library.export_library(str(folder / layer.file_name))
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, metavar="DIR")
    parser.add_argument("--load", type=Path, metavar="DIR")
    parser.add_argument("--before", type=Path, metavar="DIR")
    parser.add_argument("--only", action="append", metavar="TEXT")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    chosen = [x for x in layers() if any(text in x.name for text in options.only or [""])]
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        return 0 if all([saved(layer, options.save) for layer in chosen]) else 1
    if not options.load:
        parser.error("give --save DIR or --load DIR")
    missing = [x.name for x in chosen if not (options.load / x.file_name).exists()]
    for name in missing:
        print(f"{name}: not in {options.load}", file=sys.stderr)
    chosen = [x for x in chosen if x.name not in missing]
    rows = kept_rows(options.json)
    found: list[Timed] = []
    chosen = [x for x in chosen if x.name not in {row["layer"] for row in rows}]
    print(f"{'layer':50} {'ours, us':>9} {'ORT, us':>9} {'ratio':>6} {'short':>6}")
    folders = [options.load, *([options.before] if options.before else [])]
    with ExitStack() as stack:
        loads = [Theirs, *(partial(Ours, folder) for folder in folders)]
        engines = [stack.enter_context(ChildProcess(load)) for load in loads]
        for layer in chosen:
            found.append(timed(layer, engines, options.rounds))
            if options.json:
                rows.append(found[-1].as_json())
                write_rows(options.json, rows)
    for row in sorted(found, key=lambda row: row.ratio):
        print(row)
    return 1 if missing or any(row.error > TOLERANCE for row in found) else 0


def kept_rows(path: Path | None) -> list[dict[str, Any]]:
    """The rows of a result file; none where there is no such file.

    Raises NeoCpuError for a file of another number of threads or of another CPU.
    """
    if path is None or not path.exists():
        return []
    report = json.loads(path.read_text())
    made_with = report["machine"]["cpu"], report["threads"]
    if made_with != (host.cpu_name(), thread_count()):
        raise NeoCpuError(f"{path} is of {made_with[0]} and {made_with[1]} threads")
    rows: list[dict[str, Any]] = report["layers"]
    return rows


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The result file, the slowest layers first; whole at any time."""
    about = provenance(host.cpu_name(), thread_count(), ("onnxruntime",))
    report = {**about, "layers": sorted(rows, key=lambda row: row["ratio"])}
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(report, indent=1) + "\n")
    beside.replace(path)


if __name__ == "__main__":
    raise SystemExit(main())
