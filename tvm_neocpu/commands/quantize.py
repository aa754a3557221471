"""The quantize command line: an fp32 network in, an int8 network in standard ONNX (QDQ) out.

    python -m tvm_neocpu quantize resnet50.onnx --calibration images/ -o resnet50-int8.onnx
    python -m tvm_neocpu quantize net.onnx --calibration all.npz --per-channel --max-error 0.05

Calibration data is a folder of .png, .jpg, .npy or .npz files, or one .npz with an array for each
input, samples along the first axis. Images are resized, cut out at the centre and normalised as
networks trained on ImageNet expect it; --mean and --std say otherwise.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tvm_neocpu.commands.shared import cli, disk, networks
from tvm_neocpu.core.errors import NeoCpuError, ShapeError
from tvm_neocpu.frontend.reading.onnx_model import (
    declared_shape,
    graph_inputs,
    resolve_shape,
    resolve_shapes,
)
from tvm_neocpu.quantizing.calibration.images import ImageOptions
from tvm_neocpu.quantizing.calibration.range_methods import METHODS
from tvm_neocpu.quantizing.calibration.samples import read_samples
from tvm_neocpu.quantizing.quantize_model import Settings, quantize_model
from tvm_neocpu.quantizing.report import as_json, summary, worst_layers
from tvm_neocpu.runtime.files.module_info import OPEN, TensorInfo

Samples = list[dict[str, NDArray[Any]]]
# More samples change ranges little and cost time.
SAMPLES = 100


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_quantize, argv)


def _quantize(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    name, model = cli.load_network(options.model)
    path = options.output or Path(f"{name}-int8.onnx")
    if path.exists() and Path(options.model).exists() and path.samefile(options.model):
        raise NeoCpuError(f"{path} is the model itself; give another name with -o")
    disk.check_apart(path, options.json)
    disk.check_writable(options.json)
    with _kept_only_if_written(path):
        samples = _samples(model, options)
        start = time.perf_counter()
        result = quantize_model(model, name, samples, _settings(options), print)
        disk.write_model(path, result.model)
    for line in summary(name, result):
        print(line)
    cli.console(width=100).print(worst_layers(name, result))
    print(
        f"{name} -> {path} ({path.stat().st_size / 2**20:.1f} MiB, {len(samples)} samples, "
        f"{time.perf_counter() - start:.1f} s)"
    )
    disk.write_report(options.json, as_json(name, result) | {"file": str(path)})
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        method=options.method,
        per_channel=options.per_channel,
        equalise=options.equalise,
        correct_bias=options.bias_correction,
        excluded=tuple(options.exclude),
        wide_results=options.wide_results,
        weight_bits=options.weight_bits,
        max_error=options.max_error,
    )


def _samples(model: onnx.ModelProto, options: argparse.Namespace) -> Samples:
    """Calibration data from files, or random."""
    infos = _inputs(model, options.shape)
    if options.calibration is not None:
        images = ImageOptions(options.mean, options.std, options.bgr)
        return read_samples(options.calibration, infos, images, options.samples)
    for info in infos:
        if OPEN in info.shape[1:]:
            resolve_shapes(model.graph, cli.parse_shapes(options.shape))
    print(f"{options.random} random samples: good for tests of speed; ranges mean nothing else")
    rng = np.random.default_rng(options.seed)
    return [
        {info.name: networks.random_input(info, rng) for info in infos}
        for _ in range(options.random)
    ]


def _inputs(model: onnx.ModelProto, texts: Sequence[str]) -> list[TensorInfo]:
    """The inputs; an extent that the model leaves open and no ``--shape`` gives is OPEN."""
    given = cli.parse_shapes(texts)
    values = graph_inputs(model.graph)
    if set(given) - {value.name for value in values}:
        resolve_shapes(model.graph, given)  # says which inputs there are
    infos = []
    for value in values:
        own = given.get(value.name)
        shape = declared_shape(value) if own is None else resolve_shape(value, own)
        if shape is None:
            raise ShapeError(f"input {value.name!r} has no shape; give one by --shape")
        if not shape:
            raise ShapeError(f"input {value.name!r} is a scalar; quantise without it")
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
        extents = tuple(OPEN if extent is None else extent for extent in shape)
        infos.append(TensorInfo(value.name, extents, kind))
    return infos


@contextmanager
def _kept_only_if_written(path: Path) -> Iterator[None]:
    """Test that the file can be written, before minutes of work; leave none behind a failure."""
    there = path.exists()
    disk.check_writable(path, is_report=False)
    try:
        yield
    except BaseException:
        if not there:
            path.unlink(missing_ok=True)
        raise


def _three_numbers(text: str) -> tuple[float, ...]:
    numbers = tuple(float(part) for part in text.split(","))
    if len(numbers) not in (1, 3) or not np.isfinite(numbers).all():
        raise ValueError
    return numbers if len(numbers) == 3 else numbers * 3


def _scales(text: str) -> tuple[float, ...]:
    numbers = _three_numbers(text)
    if min(numbers) <= 0:
        raise ValueError
    return numbers


# argparse's error message names the type by it.
_three_numbers.__name__, _scales.__name__ = "R,G,B", "R,G,B above 0"


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(
        prog="python -m tvm_neocpu quantize",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help=cli.MODEL_HELP)
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument(
        "--calibration", type=Path, metavar="DIR|F.npz", help="typical inputs, some hundred"
    )
    data.add_argument(
        "--random",
        type=cli.positive,
        metavar="N",
        help="N samples of normal values instead: for tests and benchmarks only",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="F", help="the file (default: MODEL-int8.onnx)"
    )
    parser.add_argument(
        "--method",
        choices=tuple(METHODS),
        default="minmax",
        help="how ranges of activations follow from what was seen (default: minmax)",
    )
    parser.add_argument(
        "--per-channel",
        action="store_true",
        help="a scale for each output channel of a weight: more accurate, and as fast",
    )
    parser.add_argument(
        "--weight-bits",
        type=int,
        choices=(7, 8),
        default=8,
        help="7 for x86 without VNNI: faster, and no kernel's sums saturate (default: 8)",
    )
    parser.add_argument(
        "--wide-results",
        action="store_true",
        help="do not round results of convolutions that only fp32 operations read",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="NODE",
        help="an operation that stays in fp32, by its name; may be repeated",
    )
    parser.add_argument(
        "--max-error",
        type=cli.positive_number,
        metavar="E",
        help="layers go back to fp32 until the outputs' relative error is at most E: 0.1 is 20 dB",
    )
    parser.add_argument(
        "--samples",
        type=cli.positive,
        default=SAMPLES,
        metavar="N",
        help=f"use at most N samples (default: {SAMPLES})",
    )
    cli.add_shape_option(parser)
    images = ImageOptions()
    for name, kind, default in (
        ("--mean", _three_numbers, images.mean),
        ("--std", _scales, images.std),
    ):
        parser.add_argument(
            name,
            type=kind,
            default=default,
            metavar="R,G,B",
            help=f"of pixels between 0 and 1 (default: {','.join(map(str, default))})",
        )
    parser.add_argument("--bgr", action="store_true", help="channels of images as B, G, R")
    cli.add_seed_option(parser, "the random samples")
    parser.add_argument(
        "--no-equalise", dest="equalise", action="store_false", help="leave weights as they are"
    )
    parser.add_argument(
        "--no-bias-correction",
        dest="bias_correction",
        action="store_false",
        help="leave biases as they are",
    )
    cli.add_json_option(parser)
    return parser
