"""The run command line: `python -m tvm_neocpu run resnet50.so --input data=image.npy`.

Takes what `compile` wrote, an ONNX file or a network of the zoo. Inputs are files of NumPy's, or
random. Prints the time of a run and what came out; `--output F.npz` keeps it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.commands.shared import cli, disk, networks
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.runtime.calls.timing import time_calls
from tvm_neocpu.runtime.session import HINTS, CompiledSession


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_run, argv)


def _run(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    parser = _parser()
    options = parser.parse_args(words)
    disk.check_apart(options.json, options.output)
    disk.check_writable(options.json)
    disk.check_writable(options.output, is_report=False)
    library = networks.library_of(options.models[0], options, flags)
    inputs = networks.inputs_for(library.info.inputs, options.input, options.seed)
    with CompiledSession(library, options.threads, options.hint) as session:
        outputs = session.run(inputs)
        seconds = time_calls(lambda: session.run(inputs), 1, options.runs).results
        threads, streams = session.threads, session.streams
    print(
        f"{options.models[0]}: {networks.milliseconds(median(seconds))} a run (median of "
        f"{len(seconds)}, {plural(threads, 'thread')} in {plural(streams, 'stream')})"
    )
    for name, array in outputs.items():
        kind = f"{array.dtype}{list(array.shape)}"
        print(f"output {cli.printable(name)} {kind}: {_summary(array)}")
    if options.output:
        networks.write_arrays(options.output, outputs)
    report = {
        "model": options.models[0],
        "threads": threads,
        "streams": streams,
        "median_ms": median(seconds) * 1e3,
        "runs_ms": [value * 1e3 for value in seconds],
    }
    disk.write_report(options.json, report)
    return 0


def _summary(array: NDArray[Any]) -> str:
    """Where a class wins: which and by what; else the range."""
    if not array.size:
        return "empty"
    values = array.astype(np.float64)
    bad = int(array.size - np.isfinite(values).sum())
    odd = f", {bad} NaN or infinite" if bad else ""
    return f"{values.min():.5g} to {values.max():.5g}, largest at {int(values.argmax())}{odd}"


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu run", description=__doc__)
    cli.add_common_options(parser, models=1, what=cli.RUNNABLE_HELP)
    networks.add_input_options(parser)
    parser.add_argument("--hint", choices=HINTS, default=HINTS[0])
    parser.add_argument("--runs", type=cli.positive, default=10, help="timed runs (default: 10)")
    parser.add_argument(
        "--output", type=Path, metavar="F.npz", help="write the outputs to this file"
    )
    cli.add_json_option(parser)
    return parser
