"""Single layers against ONNX Runtime, one thread: which are below 0.8 of its speed?

    TVM_NUM_THREADS=1 python benchmarks/single_layers.py --save DIR
    TVM_NUM_THREADS=1 taskset -c 1 python benchmarks/single_layers.py --load DIR [--before OTHER]

Each layer is an ONNX model of one node with plain NCHW inputs and outputs, so that our layout
transforms count. `--save` compiles all of them, `--load` times what was compiled, so that nothing
else runs while the machine is kept quiet. `--before` times another checkout's files too, in turns.
`--only TEXT` takes the layers whose names contain the text. A row has the medians in us, and the
median over rounds of ONNX Runtime's time over ours (and of the time before over ours).

The exit code is 1 if outputs differ from ONNX Runtime's.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import helper, numpy_helper

import tvm_neocpu  # noqa: F401  it provides tvm.relay
from tvm_neocpu import relay
from tvm_neocpu.contrib.peers.compare import SMALLEST_SCALE, TOLERANCE
from tvm_neocpu.contrib.peers.onnx_runtime import OnnxRuntimeRunner
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.core.largest_error import largest_error
from tvm_neocpu.runtime.built_module import load
from tvm_neocpu.runtime.timing import time_calls

Shape = tuple[int, ...]
# Least milliseconds of a timed burst.
BURST_MS = 3.0


@dataclass(frozen=True)
class Layer:
    """One ONNX node; ``constants`` are its inputs behind the first ``inputs``."""

    name: str
    operator: str
    inputs: tuple[Shape, ...]
    constants: tuple[np.ndarray | None, ...] = ()
    outputs: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        return "".join(c if c.isalnum() else "_" for c in self.name) + ".so"

    def model(self) -> onnx.ModelProto:
        """The node alone, opset 18."""
        fed = [f"x{place}" for place in range(len(self.inputs))]
        fixed = [
            numpy_helper.from_array(value, f"c{place}")
            for place, value in enumerate(self.constants)
            if value is not None
        ]
        names = ["" if value is None else f"c{place}" for place, value in enumerate(self.constants)]
        made = [f"y{place}" for place in range(self.outputs)]
        node = helper.make_node(self.operator, [*fed, *names], made, **self.attributes)
        graph = helper.make_graph(
            [node],
            "layer",
            [
                helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
                for name, shape in zip(fed, self.inputs, strict=True)
            ],
            [helper.make_empty_tensor_value_info(name) for name in made],
            fixed,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        model.ir_version = 9
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        types = {value.name: value for value in inferred.graph.value_info}
        for value in model.graph.output:
            found = next((v for v in inferred.graph.output if v.name == value.name), None)
            value.CopyFrom(found if found and found.type.WhichOneof("value") else types[value.name])
        return model


def _normal(*shape: int) -> np.ndarray:
    scale = 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 1)
    return (np.random.default_rng(1).standard_normal(shape) * scale).astype("float32")


def conv(
    inputs: int, size: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> Layer:
    """A convolution with bias, padded so that stride 1 keeps the size."""
    kind = " depthwise" if groups == inputs > 1 else f" g{groups}" if groups > 1 else ""
    name = f"conv {inputs}x{size}x{size}->{outputs} {kernel}x{kernel} s{stride}{kind}"
    attributes = {
        "kernel_shape": [kernel] * 2,
        "strides": [stride] * 2,
        "pads": [kernel // 2] * 4,
        "group": groups,
    }
    constants = (_normal(outputs, inputs // groups, kernel, kernel), _normal(outputs))
    return Layer(name, "Conv", ((1, inputs, size, size),), constants, attributes=attributes)


def pool(operator: str, channels: int, size: int, kernel: int, stride: int) -> Layer:
    pads = [kernel // 2] * 4 if kernel % 2 else [0] * 4
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
    name = f"{operator} {channels}x{size}x{size} {kernel}x{kernel} s{stride}"
    return Layer(name, operator, ((1, channels, size, size),), attributes=attributes)


def unary(
    operator: str, *shape: int, constants: Sequence[np.ndarray | None] = (), **attributes: Any
) -> Layer:
    told = {k: v for k, v in attributes.items() if k != "keepdims"}
    small = [c.tolist() for c in constants if c is not None and c.dtype == "int64" and c.size < 5]
    given = " ".join([*(f"{k}={v}" for k, v in told.items()), *map(str, small)])
    name = f"{operator} {'x'.join(map(str, shape))} {given}".strip()
    return Layer(name, operator, (shape,), tuple(constants), attributes=attributes)


def top_k(k: int, *shape: int, axis: int = -1) -> Layer:
    name = f"TopK {k} of {'x'.join(map(str, shape))}"
    ks = np.array([k], "int64")
    return Layer(name, "TopK", (shape,), (ks,), outputs=2, attributes={"axis": axis})


def layers() -> Iterator[Layer]:
    """Every kind of layer that networks have."""
    # Convolutions of every kind.
    yield conv(3, 224, 64, 7, 2)
    yield conv(3, 224, 32, 3, 2)
    yield conv(3, 224, 64, 3)
    yield conv(64, 56, 64, 1)
    yield conv(64, 56, 64, 3)
    yield conv(128, 56, 128, 3, 2)
    yield conv(256, 14, 256, 3)
    yield conv(512, 7, 512, 3)
    yield conv(256, 14, 1024, 1)
    yield conv(512, 28, 1024, 1, 2)
    yield conv(16, 55, 64, 1)  # SqueezeNet's
    yield conv(64, 55, 16, 1)
    yield conv(96, 54, 16, 1)
    yield conv(32, 27, 128, 1)
    yield conv(16, 55, 64, 3)
    yield conv(48, 13, 192, 1)
    yield conv(512, 13, 1000, 1)
    yield conv(17, 57, 33, 1)
    yield conv(17, 57, 33, 3)
    yield conv(24, 56, 144, 1)
    yield conv(255, 13, 255, 1)
    yield conv(192, 17, 192, 5)
    yield conv(32, 112, 32, 3, 1, 32)
    yield conv(144, 56, 144, 3, 2, 144)
    yield conv(576, 14, 576, 3, 1, 576)
    yield conv(960, 7, 960, 5, 1, 960)
    yield conv(256, 28, 256, 3, 1, 32)
    yield conv(96, 1, 4, 1)  # squeeze-excite
    yield conv(4, 1, 96, 1)
    yield conv(1152, 1, 48, 1)
    yield conv(48, 1, 1152, 1)
    yield Layer(
        "ConvTranspose 64x28x28->32 2x2 s2",
        "ConvTranspose",
        ((1, 64, 28, 28),),
        (_normal(64, 32, 2, 2), _normal(32)),
        attributes={"kernel_shape": [2, 2], "strides": [2, 2]},
    )
    yield Layer(
        "ConvTranspose 64x28x28->32 4x4 s2",
        "ConvTranspose",
        ((1, 64, 28, 28),),
        (_normal(64, 32, 4, 4), _normal(32)),
        attributes={"kernel_shape": [4, 4], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    )
    yield Layer(
        "Conv1d 64x400->128 3",
        "Conv",
        ((1, 64, 400),),
        (_normal(128, 64, 3), _normal(128)),
        attributes={"kernel_shape": [3], "pads": [1, 1]},
    )
    yield Layer(
        "Conv3d 16x8x28x28->32 3x3x3",
        "Conv",
        ((1, 16, 8, 28, 28),),
        (_normal(32, 16, 3, 3, 3), _normal(32)),
        attributes={"kernel_shape": [3] * 3, "pads": [1] * 6},
    )
    # Pools.
    yield pool("MaxPool", 64, 112, 3, 2)
    yield pool("MaxPool", 64, 112, 2, 2)
    yield pool("MaxPool", 256, 13, 13, 1)
    yield pool("MaxPool", 192, 28, 3, 1)
    yield pool("AveragePool", 192, 35, 3, 1)
    yield pool("AveragePool", 128, 56, 2, 2)
    yield unary("GlobalAveragePool", 1, 2048, 7, 7)
    yield unary("GlobalAveragePool", 1, 96, 112, 112)
    yield unary("GlobalMaxPool", 1, 512, 14, 14)
    # Products.
    yield Layer("Gemm 1x2048->1000", "Gemm", ((1, 2048),), (_normal(2048, 1000), _normal(1000)))
    yield Layer(
        "Gemm 1x9216->4096 tB",
        "Gemm",
        ((1, 9216),),
        (_normal(4096, 9216), _normal(4096)),
        attributes={"transB": 1},
    )
    yield Layer("MatMul 1x196x768->768", "MatMul", ((1, 196, 768),), (_normal(768, 768),))
    yield Layer("MatMul 12x196x64x196", "MatMul", ((1, 12, 196, 64), (1, 12, 64, 196)))
    yield Layer("MatMul 12x197x197x64", "MatMul", ((1, 12, 197, 197), (1, 12, 197, 64)))
    # Norms and rows.
    norm = (_normal(256), _normal(256))
    yield unary("InstanceNormalization", 1, 256, 28, 28, constants=norm)
    yield unary(
        "BatchNormalization", 1, 256, 28, 28, constants=(*norm, _normal(256), abs(_normal(256)))
    )
    yield unary("LRN", 1, 96, 55, 55, size=5)
    yield unary("LayerNormalization", 1, 196, 768, constants=(_normal(768), _normal(768)))
    yield unary("LayerNormalization", 1, 3136, 96, constants=(_normal(96), _normal(96)))
    yield unary("Softmax", 1, 1000, axis=-1)
    yield unary("Softmax", 1, 12, 196, 196, axis=-1)
    yield unary("Softmax", 1, 21, 65, 65, axis=1)
    yield unary("LogSoftmax", 1, 1000, axis=-1)
    yield unary("ReduceMean", 1, 256, 28, 28, constants=(np.array([2, 3]),), keepdims=1)
    yield unary("ReduceMean", 1, 256, 28, 28, constants=(np.array([1]),), keepdims=1)
    yield unary("ReduceMax", 1, 256, 28, 28, constants=(np.array([2, 3]),), keepdims=1)
    yield unary("ReduceSum", 1, 196, 768, constants=(np.array([-1]),), keepdims=1)
    yield unary("ArgMax", 1, 21, 65, 65, axis=1)
    yield unary("ArgMax", 1, 1000, axis=-1)
    yield top_k(5, 1, 1000)
    yield top_k(100, 1, 8400)
    yield top_k(1000, 1, 20000)
    yield top_k(10, 64, 1000)
    yield top_k(300, 8, 1000)
    yield top_k(3, 1, 80, 40, 40, axis=1)
    # Elementwise.
    for operator in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Exp", "Erf", "LeakyRelu", "Softplus"):
        yield unary(operator, 1, 256, 28, 28)
    yield unary("PRelu", 1, 256, 28, 28, constants=(_normal(256, 1, 1),))
    yield unary("Clip", 1, 256, 28, 28, constants=(np.float32(0).reshape(()), np.array(6, "f4")))
    yield unary("Sqrt", 1, 256, 28, 28)
    yield unary("Div", 1, 256, 28, 28, constants=(np.array([3.0], "f4"),))
    yield Layer("Add 256x28x28", "Add", ((1, 256, 28, 28),) * 2)
    yield Layer("Mul by a gate 256x28x28", "Mul", ((1, 256, 28, 28), (1, 256, 1, 1)))
    # Data movement.
    yield unary("Transpose", 1, 64, 56, 56, perm=[0, 2, 3, 1])
    yield unary("Transpose", 1, 56, 56, 64, perm=[0, 3, 1, 2])
    yield unary("Transpose", 1, 3, 224, 224, perm=[0, 2, 3, 1])
    yield unary("Transpose", 1, 224, 224, 3, perm=[0, 3, 1, 2])
    yield unary("Transpose", 1, 196, 12, 64, perm=[0, 2, 1, 3])
    yield unary("Reshape", 1, 256, 28, 28, constants=(np.array([1, 256, 784]),))
    yield unary("DepthToSpace", 1, 64, 28, 28, blocksize=2)
    yield unary("SpaceToDepth", 1, 16, 56, 56, blocksize=2)
    yield unary("Pad", 1, 64, 56, 56, constants=(np.array([0, 0, 1, 1, 0, 0, 1, 1]),))
    yield unary(
        "Pad", 1, 64, 56, 56, constants=(np.array([0, 0, 1, 1, 0, 0, 1, 1]),), mode="reflect"
    )
    yield unary(
        "Slice",
        *(1, 256, 28, 28),
        constants=(np.array([64]), np.array([192]), np.array([1])),
    )
    yield Layer("Concat 2 x 128x28x28", "Concat", ((1, 128, 28, 28),) * 2, attributes={"axis": 1})
    yield Layer(
        "Split 256x28x28",
        "Split",
        ((1, 256, 28, 28),),
        outputs=2,
        attributes={"axis": 1, "num_outputs": 2},
    )
    yield unary("Gather", 1000, 256, constants=(np.arange(0, 1000, 7),))
    twice = (None, np.array([1, 1, 2, 2], "f4"))
    yield unary("Resize", 1, 64, 28, 28, constants=twice, mode="nearest")
    yield unary("Resize", 1, 64, 28, 28, constants=twice, mode="linear")
    yield unary("Resize", 1, 64, 28, 28, constants=twice, mode="cubic")
    yield unary("Expand", 1, 256, 1, 1, constants=(np.array([1, 256, 28, 28]),))
    yield unary("Tile", 1, 64, 28, 28, constants=(np.array([1, 2, 1, 1]),))
    yield unary("CumSum", 196, 768, constants=(np.array(1),))


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

    def __str__(self) -> str:
        text = (
            f"{self.layer.name:48} {statistics.median(self.ours):9.1f} "
            f"{statistics.median(self.theirs):9.1f} {self.ratio:6.2f}"
        )
        if self.before:
            gain = statistics.median(b / o for b, o in zip(self.before, self.ours, strict=True))
            text += f" {statistics.median(self.before):9.1f} {gain:6.2f}"
        return text + ("" if self.error <= TOLERANCE else f"  differs by {self.error:.1e}")


def timed(layer: Layer, folder: Path, before: Path | None, rounds: int) -> Timed:
    """Interleaved: ONNX Runtime, ours, before; each burst takes some milliseconds."""
    shapes = {f"x{place}": shape for place, shape in enumerate(layer.inputs)}
    network = Network(layer.name, layer.model(), shapes, threads=1)
    theirs, expected = their_timer(network)
    ours, found = our_timer(folder / layer.file_name, network)
    timers = [theirs, ours]
    if before is not None:
        timers.append(our_timer(before / layer.file_name, network)[0])
    numbers = [max(1, round(BURST_MS * 1e-3 / timer(2))) for timer in timers]
    seconds: list[list[float]] = [[] for _ in timers]
    for _ in range(rounds):
        for timer, number, into in zip(timers, numbers, seconds, strict=True):
            into.append(1e6 * timer(number))
    return Timed(
        layer,
        seconds[0],
        seconds[1],
        seconds[2] if before else [],
        largest_error(found, expected, SMALLEST_SCALE),
    )


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


def save(layer: Layer, folder: Path) -> None:
    mod, params = relay.frontend.from_onnx(layer.model())
    library = relay.build(mod, target="llvm", params=params, cache=False)
    library.export_library(str(folder / layer.file_name))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, metavar="DIR")
    parser.add_argument("--load", type=Path, metavar="DIR")
    parser.add_argument("--before", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    chosen = [layer for layer in layers() if options.only in layer.name]
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        for layer in chosen:
            save(layer, options.save)
        return 0
    if not options.load:
        parser.error("give --save DIR or --load DIR")
    found = [timed(layer, options.load, options.before, options.rounds) for layer in chosen]
    print(f"{'layer':48} {'ours, us':>9} {'ORT, us':>9} {'ratio':>6}")
    for row in sorted(found, key=lambda row: row.ratio):
        print(row)
    return 1 if any(row.error > TOLERANCE for row in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
