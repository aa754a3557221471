"""ncnn on the CPU, in float32, with its packed layouts, Winograd and pooled memory.

pnnx converts. Its program is called as it lies in the wheel: importing the package needs torch.
"""

from __future__ import annotations

import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ncnn
import numpy as np
import onnx
from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.converter import ConversionError, convert
from tvm_neocpu.contrib.peers.runner import Network, TimedRuns

VERSION = f"{ncnn.__version__} (pnnx {metadata.version('pnnx')})"

# Options off: each would compute or store in fewer than 32 bits, or on a GPU.
_OFF = (
    "use_bf16_packed",
    "use_bf16_storage",
    "use_fp16_arithmetic",
    "use_fp16_packed",
    "use_fp16_storage",
    "use_int8_inference",
    "use_vulkan_compute",
)
_ON = ("use_packing_layout", "use_sgemm_convolution", "use_winograd_convolution", "lightmode")
# What pnnx calls the types of inputs.
_KINDS = {"float32": "f32", "int32": "i32", "int64": "i64", "uint8": "u8", "int8": "i8"}


class NcnnRunner(TimedRuns):
    """One net; every run makes an extractor, as ncnn wants it, over memory that the net keeps."""

    def __init__(self, network: Network) -> None:
        self._net = ncnn.Net()
        options = self._net.opt
        options.num_threads = network.threads
        for name in _OFF:
            setattr(options, name, False)
        for name in _ON:
            setattr(options, name, True)
        self._pools = ncnn.UnlockedPoolAllocator(), ncnn.PoolAllocator()
        options.blob_allocator, options.workspace_allocator = self._pools
        with tempfile.TemporaryDirectory(prefix="neocpu-ncnn-") as folder:
            parameters, weights = _converted(network, Path(folder))
            _check_layers(parameters)
            if self._net.load_param(str(parameters)) or self._net.load_model(str(weights)):
                raise ConversionError("ncnn cannot load what pnnx converted")
        self._inputs = [_matrix(array) for array in network.inputs.values()]
        self._shapes = _output_shapes(network.model)

    def run(self) -> None:
        extractor = self._net.create_extractor()
        for number, matrix in enumerate(self._inputs):
            extractor.input(f"in{number}", matrix)
        self._outputs = [self._extract(extractor, n) for n in range(len(self._shapes))]

    def outputs(self) -> list[NDArray[Any]]:
        found = (np.array(matrix.numpy(batch_index=0)) for matrix in self._outputs)
        return [
            array.reshape(shape) if array.size == np.prod(shape) else array
            for array, shape in zip(found, self._shapes, strict=True)
        ]

    def _extract(self, extractor: Any, number: int) -> Any:
        code, matrix = extractor.extract(f"out{number}")
        if code:
            raise ConversionError(f"ncnn cannot compute output {number}: code {code}")
        return matrix


def _converted(network: Network, folder: Path) -> tuple[Path, Path]:
    """The network as ncnn's two files in ``folder``. Raises ConversionError."""
    package = find_spec("pnnx")
    if package is None or not package.submodule_search_locations:
        raise ConversionError("pnnx is not installed")
    program = Path(package.submodule_search_locations[0]) / "pnnx"
    (folder / "network.onnx").write_bytes(network.content)
    shapes = ",".join(_input_word(array) for array in network.inputs.values())
    # pnnx derives the names of its nine files from the model's.
    convert([program, "network.onnx", f"inputshape={shapes}", "fp16=0"], folder)
    files = folder / "network.ncnn.param", folder / "network.ncnn.bin"
    if not all(file.exists() for file in files):
        raise ConversionError("pnnx wrote no files of ncnn's")
    return files


def _input_word(array: NDArray[Any]) -> str:
    kind = _KINDS.get(str(array.dtype))
    if kind is None:
        raise ConversionError(f"pnnx has no input of type {array.dtype}")
    return f"[{','.join(map(str, array.shape))}]{kind}"


def _check_layers(parameters: Path) -> None:
    """Raise ConversionError with the layers that pnnx wrote and ncnn lacks.

    Each line after the first two is a layer and starts with its type.
    """
    lines = parameters.read_text().splitlines()[2:]
    types = dict.fromkeys(line.split()[0] for line in lines if line.strip())
    unknown = [name for name in types if ncnn.layer_to_index(name) < 0]
    if unknown:
        raise ConversionError(f"ncnn has no layer {', '.join(unknown)}")


def _matrix(array: NDArray[Any]) -> Any:
    if array.dtype != np.float32:
        array = array.astype(np.int32)  # ncnn's whole numbers have 32 bits
    return ncnn.Mat(array, batch_index=0).clone()


def _output_shapes(model: onnx.ModelProto) -> list[tuple[int, ...]]:
    """The outputs' shapes as the file declares them: ncnn drops axes of size 1.

    An open extent counts as 0, so that no array is forced into it.
    """
    declared = (value.type.tensor_type.shape.dim for value in model.graph.output)
    return [tuple(dim.dim_value for dim in dims) for dims in declared]
