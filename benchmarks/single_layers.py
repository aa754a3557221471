"""Single layers against ONNX Runtime: which are below 0.8 of its speed?

    TVM_NUM_THREADS=1 python benchmarks/single_layers.py --save DIR
    TVM_NUM_THREADS=1 taskset -c 1 python benchmarks/single_layers.py --load DIR [--before OTHER]

The layers are those of `layer_table.py`. `--save` compiles all of them, `--load` times what was
compiled, so that nothing else runs while the machine is kept quiet. `--before` times another
checkout's files too, in turns. `--only TEXT` takes the layers whose names contain the text, and may
be given more than once. A row has the medians in us, the median over rounds of ONNX Runtime's time
over ours (and of the time before over ours), and the ratio of the shortest bursts, which other
processes disturb least. `--json` writes the rows with machine, versions, threads and commit. With
several threads each engine waits until the other's threads sleep.

The exit code is 1 if outputs differ from ONNX Runtime's, or a layer does not build.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from layer_table import Layer, layers

import tvm_neocpu  # noqa: F401  it provides tvm.relay
from tvm_neocpu import relay
from tvm_neocpu.contrib.peers.compare import SMALLEST_SCALE, TOLERANCE
from tvm_neocpu.contrib.peers.onnx_runtime import OnnxRuntimeRunner
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.core.largest_error import largest_error
from tvm_neocpu.runtime import host
from tvm_neocpu.runtime.built_module import load
from tvm_neocpu.runtime.threads import thread_count
from tvm_neocpu.runtime.timing import time_calls
from tvm_neocpu.tuning.in_network.resting import rest

# Least milliseconds of a timed burst.
BURST_MS = 3.0


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


def timed(layer: Layer, folder: Path, before: Path | None, rounds: int) -> Timed:
    """Interleaved: ONNX Runtime, ours, before; each burst takes some milliseconds.

    Of several threads all bursts of an engine follow each other, because each wait for the other's
    threads takes longer than a burst.
    """
    shapes = {f"x{place}": shape for place, shape in enumerate(layer.inputs)}
    network = Network(layer.name, layer.model(), shapes, thread_count())
    theirs, expected = their_timer(network)
    ours, found = our_timer(folder / layer.file_name, network)
    timers = [theirs, ours]
    if before is not None:
        timers.append(our_timer(before / layer.file_name, network)[0])
    numbers = [max(1, round(BURST_MS * 1e-3 / timer(2))) for timer in timers]
    seconds: list[list[float]] = [[] for _ in timers]
    turns, bursts = (rounds, 1) if network.threads == 1 else (1, rounds)
    with caller_on_one_core():
        for _ in range(turns):
            for timer, number, into in zip(timers, numbers, seconds, strict=True):
                if network.threads > 1:
                    rest()
                into += [1e6 * timer(number) for _ in range(bursts)]
    return Timed(
        layer,
        seconds[0],
        seconds[1],
        seconds[2] if before else [],
        largest_error(found, expected, SMALLEST_SCALE),
    )


@contextmanager
def caller_on_one_core() -> Iterator[None]:
    """This thread on the first core it may use, for as long as engines are timed.

    TVM's threads have a core each, but for the caller, which Linux may leave on the core of one of
    them: 256x14x14->1024 took 935 us on two threads, as on one, in place of 490. Threads of the
    engines were created before and keep all cores.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


# Mean seconds of so many runs, after one that is not counted.
Timer = Callable[[int], float]


def their_timer(network: Network) -> tuple[Timer, Sequence[np.ndarray]]:
    """ONNX Runtime's, and its outputs."""
    runner = OnnxRuntimeRunner(network)
    runner.run()
    return lambda number: time_calls(runner.run, number, 1).min, runner.outputs()


def our_timer(library: Path, network: Network) -> tuple[Timer, Sequence[np.ndarray]]:
    """Ours by the module's timer, which takes the lock once a burst, and its outputs.

    ONNX Runtime's runs take no lock: their inputs are bound.
    """
    module = load(library)["default"](tvm.cpu())
    module.set_input(**network.inputs)
    module.run()
    outputs = [module.get_output(k).numpy() for k in range(module.get_num_outputs())]
    return lambda number: module.time_evaluator("run", number=number, repeat=1)().min, outputs


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
    print(f"{'layer':50} {'ours, us':>9} {'ORT, us':>9} {'ratio':>6} {'short':>6}")
    found = [timed(layer, options.load, options.before, options.rounds) for layer in chosen]
    found.sort(key=lambda row: row.ratio)
    for row in found:
        print(row)
    if options.json:
        about = provenance(host.cpu_name(), thread_count(), ("onnxruntime",))
        report = {**about, "layers": [row.as_json() for row in found]}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(row.error > TOLERANCE for row in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
