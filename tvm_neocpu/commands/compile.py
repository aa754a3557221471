"""The compile command line: a network in, one file out.

    python -m tvm_neocpu compile resnet50 -o resnet50.so
    python -m tvm_neocpu compile model.onnx --shape data:1,3,224,224 --target llvm -mcpu=znver4

The file has code, weights and a description; a session, a C++ program and `tvm_neocpu.load` take
it. Where there is no C compiler, name it .tar.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from tvm_neocpu.commands.shared import cli, disk, networks
from tvm_neocpu.commands.shared.precision import add_precision_options, in_precision
from tvm_neocpu.core.accuracy.precision import FP32
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.exporting.write_module import INSIDE, SEPARATE, check_place, weights_beside
from tvm_neocpu.runtime.files.linker import c_compiler
from tvm_neocpu.runtime.files.module_file import SUFFIXES


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_compile, argv)


def _compile(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    parser = _parser()
    options = parser.parse_args(words)
    only_onnx = options.onnx is not None and options.output is None
    if only_onnx and (options.json or options.shape or options.size or options.precision != FP32):
        parser.error(
            "--json, --shape, --size and --precision are for a compiled file: name it (-o)"
        )
    name, model = cli.load_network(options.models[0])
    path = options.output or Path(f"{name}{'.so' if c_compiler() else '.tar'}")
    written = () if only_onnx else (path, weights_beside(path, options.weights))
    disk.check_apart(options.onnx, *written, options.json)
    if options.onnx is not None:
        disk.write_model(options.onnx, model)
        print(f"{name} -> {options.onnx}")
        if options.output is None:
            return 0
    if path.suffix not in SUFFIXES:
        raise NeoCpuError(f"-o names a .so or .tar file, not {path}")
    if options.size and path.suffix != ".so":
        raise NeoCpuError(f"--size needs a .so: who loads it transforms weights; {path} cannot")
    check_place(path, options.weights)
    disk.check_replaceable(path)
    disk.check_writable(options.json)
    shapes = cli.parse_shapes(options.shape)
    model, precision = in_precision(name, model, shapes, options, flags)
    start = time.perf_counter()
    library = networks.build(model, options, flags, small_file=options.size)
    built = time.perf_counter()
    library.export_library(path, weights=options.weights)
    info, size = library.info, path.stat().st_size
    print(
        f"{name} for {info.cpu}, {plural(info.threads, 'thread')} -> {path} "
        f"({size / 2**20:.1f} MiB, "
        f"built in {built - start:.1f} s, written in {time.perf_counter() - built:.1f} s)"
    )
    for kind, tensors in (("input", info.inputs), ("output", info.outputs)):
        for tensor in tensors:
            print(f"{kind:6} {cli.printable(str(tensor))}")
    report = {
        "file": str(path),
        "bytes": size,
        "cpu": info.cpu,
        "threads": info.threads,
        "build_seconds": built - start,
        "inputs": list(map(str, info.inputs)),
        "outputs": list(map(str, info.outputs)),
        "precision": precision.as_json() if precision else None,
    }
    disk.write_report(options.json, report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(
        prog="python -m tvm_neocpu compile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cli.add_common_options(parser, models=1)
    add_precision_options(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="F", help="the file, .so or .tar (default: MODEL.so)"
    )
    parser.add_argument(
        "--weights",
        choices=(INSIDE, SEPARATE),
        default=INSIDE,
        help="separate: in a file of their own beside a .so, which must stay there",
    )
    parser.add_argument(
        "--size",
        action="store_true",
        help="a small .so: Winograd's weights are transformed as it is loaded, by Python only",
    )
    parser.add_argument(
        "--onnx",
        type=Path,
        metavar="F",
        help="write the ONNX model to this file; without -o nothing is compiled",
    )
    cli.add_json_option(parser)
    return parser
