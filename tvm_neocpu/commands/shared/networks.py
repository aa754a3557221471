"""What commands that run networks share: options to build one, a session over it, its inputs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.core import arrays_file
from tvm_neocpu.core.errors import NeoCpuError, ShapeError
from tvm_neocpu.runtime.built_module import BuiltModule, load
from tvm_neocpu.runtime.ffi.arrays import numpy_dtype
from tvm_neocpu.runtime.files.module_file import SUFFIXES, is_compiled_file
from tvm_neocpu.runtime.files.module_info import OPEN, TensorInfo

if TYPE_CHECKING:
    import onnx

Arrays = dict[str, NDArray[Any]]


def library_of(spec: str, options: argparse.Namespace, flags: Sequence[str]) -> BuiltModule:
    """A compiled file as it is; any other model compiled for the options' target and shapes.

    Raises NeoCpuError for an option that a compiled file would ignore.
    """
    if is_compiled_file(spec) and not _is_of_zoo(spec):
        _check_no_build(spec, options, flags)
        return load(spec)
    return build(cli.load_network(spec)[1], options, flags)


def _is_of_zoo(spec: str) -> bool:
    """Whether it names a network of the zoo, whatever lies here: a program may have that name."""
    if Path(spec).suffix in SUFFIXES:
        return False
    try:
        from tvm_neocpu.contrib import model_zoo
    except ImportError:  # a deployed package may have no onnx
        return False
    return spec in model_zoo.names()


def _check_no_build(spec: str, options: argparse.Namespace, flags: Sequence[str]) -> None:
    given = {
        "--target": options.target != cli.HERE or flags,
        "--shape": options.shape,
        "--log": options.log,
    }
    ignored = [name for name, value in given.items() if value]
    if ignored:
        raise NeoCpuError(f"{ignored[0]} is for models that are compiled now: {spec} has been")


def build(
    model: onnx.ModelProto,
    options: argparse.Namespace,
    flags: Sequence[str],
    small_file: bool = False,
) -> BuiltModule:
    """The model compiled as the options of `cli.add_common_options` say.

    An extent that the file leaves open, and no ``--shape`` gives, stays open where it is a batch.
    """
    from tvm_neocpu import relay

    cli.take_threads(options, flags)
    mod, params = relay.frontend.from_onnx(model, cli.parse_shapes(options.shape))
    with cli.logs_of(options):
        target = cli.target_text(options.target, flags)
        return relay.build(mod, target=target, params=params, small_file=small_file)


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--input`` and ``--seed``, which say what the network computes."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an input's values; may be repeated (default: random values); or one FILE.npz",
    )
    cli.add_seed_option(parser, "the random inputs")


def inputs_for(infos: Sequence[TensorInfo], texts: Sequence[str], seed: int) -> Arrays:
    """Values for every input: from files, else random; open extents are 1.

    Raises ShapeError for a file of an input that is not there, NeoCpuError for an unreadable one.
    """
    given: Arrays = {}
    for text in texts:
        given |= _read(text, infos)
    names = [info.name for info in infos]
    for name in given:
        if name not in names:
            raise ShapeError(f"the network has no input {name!r}; it has {', '.join(names)}")
    rng = np.random.default_rng(seed)
    return {info.name: given.get(info.name, random_input(info, rng)) for info in infos}


def random_input(info: TensorInfo, rng: np.random.Generator) -> NDArray[Any]:
    """Normal values; for whole numbers zeros and ones."""
    shape = tuple(1 if extent == OPEN else extent for extent in info.shape)
    kind = numpy_dtype(info.dtype)
    if kind.kind in "iub":
        return rng.integers(0, 2, shape).astype(kind)
    return rng.standard_normal(shape, dtype=np.float32).astype(kind)


def milliseconds(seconds: float) -> str:
    """A time for people: ``"17.81 ms"``, below a millisecond ``"85 us"``."""
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """One ``.npz`` with an array for each name. Raises NeoCpuError."""
    disk.write_file(path, lambda file: arrays_file.write_arrays(file, arrays))


def _read(text: str, infos: Sequence[TensorInfo]) -> Arrays:
    name, equals, file = text.rpartition("=")
    if not equals and not file.endswith(".npz"):
        if len(infos) != 1:
            raise ShapeError(f"--input is NAME=FILE.npy or FILE.npz, not {text!r}")
        name = infos[0].name
    found = arrays_file.read_arrays(file)
    if isinstance(found, np.ndarray):
        return {name: found}
    if equals:
        raise ShapeError(f"{file} names its arrays itself: --input {file}, not {text!r}")
    return found
