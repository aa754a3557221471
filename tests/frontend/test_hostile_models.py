"""Files that somebody made to harm: refused in one line, in bounded time and memory."""

from __future__ import annotations

import itertools
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_neocpu import relay
from tvm_neocpu.commands import bench, explain, tune
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.frontend.checks.limits import MAX_NODES

SECONDS = 5.0  # of CPU time; each takes a fraction of a second
MORE_BYTES = 2**30

Node = onnx.NodeProto
node = helper.make_node


@pytest.fixture
def bounded() -> Iterator[None]:
    """No more than a GiB and some seconds; what takes more raises MemoryError, or fails."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MORE_BYTES, hard))
    start = time.process_time()
    yield
    taken = time.process_time() - start
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert taken < SECONDS


def model(
    nodes: Sequence[Node], shape: Sequence[int] = (1, 4, 4, 4), opset: int = 13, **weights: Any
) -> onnx.ModelProto:
    """From ``data`` to ``out``; weights are arrays or tensors by name."""
    tensors = [
        value if isinstance(value, TensorProto) else numpy_helper.from_array(value, name)
        for name, value in weights.items()
    ]
    graph = helper.make_graph(
        nodes,
        "hostile",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        tensors,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def computed(nodes: Sequence[Node], **weights: Any) -> onnx.ModelProto:
    """What the nodes make of weights, ``big``, is added to the input."""
    nodes = [*nodes, node("ReduceMax", ["big"], ["one"], keepdims=0)]
    return model([*nodes, node("Add", ["data", "one"], ["out"])], **weights)


def ints(*values: int) -> np.ndarray:
    return np.array(values, "int64")


def scalar(value: float, dtype: str = "int64") -> np.ndarray:
    return np.array(value, dtype)


KERNEL = np.ones((4, 4, 3, 3), "float32")
PIXELS = np.ones((1, 1, 4, 4), "float32")
ONE = np.ones(1, "float32")


def conv(**attributes: Any) -> onnx.ModelProto:
    return model([node("Conv", ["data", "w"], ["out"], **attributes)], w=KERNEL)


def weight(change: Callable[[TensorProto], object]) -> onnx.ModelProto:
    """A weight of 16 values, changed."""
    tensor = numpy_helper.from_array(np.ones(16, "float32"), "w")
    change(tensor)
    return model([node("Add", ["data", "w"], ["out"])], (16,), w=tensor)


def chain(count: int) -> onnx.ModelProto:
    names = ["data", *(f"t{place}" for place in range(count - 1)), "out"]
    pairs = itertools.pairwise(names)
    return model([node("Relu", [before], [after]) for before, after in pairs])


def concats(count: int) -> onnx.ModelProto:
    """Each is eight times larger than the one before."""
    names = ["w", *(f"c{place}" for place in range(count - 1)), "big"]
    pairs = itertools.pairwise(names)
    return computed([node("Concat", [old] * 8, [new], axis=0) for old, new in pairs], w=ONE)


def functions(calls: Callable[[int], str], count: int) -> onnx.ModelProto:
    """Each function calls another one twice."""
    made = model([node("F0", ["data"], ["out"], domain="mine")])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("mine", 1)]
    for place in range(count):
        called, domain = calls(place), "mine" if calls(place).startswith("F") else ""
        body = [
            node(called, ["x"], ["a"], domain=domain),
            node(called, ["a"], ["y"], domain=domain),
        ]
        made.functions.append(helper.make_function("mine", f"F{place}", ["x"], ["y"], body, opsets))
    return made


def duplicate_input() -> onnx.ModelProto:
    made = chain(1)
    made.graph.input.append(made.graph.input[0])
    return made


def without_outputs() -> onnx.ModelProto:
    made = chain(1)
    del made.graph.output[:]
    return made


def flat(axes: int) -> onnx.ModelProto:
    """Products of a column and a row of 60,000 elements each."""
    column, row = node("Reshape", ["w", "tall"], ["a"]), node("Reshape", ["w", "wide"], ["b"])
    nodes = [column, row, node("Mul", ["a", "b"], ["big"])]
    return computed(nodes, w=np.ones(axes, "float32"), tall=ints(axes, 1), wide=ints(1, axes))


HOSTILE: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "huge input": (lambda: model([node("Relu", ["data"], ["out"])], (1, 2**40, 8)), "2\\*\\*31"),
    "zero input": (lambda: model([node("Relu", ["data"], ["out"])], (1, 0)), "dynamic dim"),
    "negative input": (lambda: model([node("Relu", ["data"], ["out"])], (1, -3)), "dynamic dim"),
    "cycle": (
        lambda: model(
            [node("Add", ["data", "b"], ["out"]), node("Relu", ["out"], ["b"])],
        ),
        "reads 'b' before it is made",
    ),
    "own result": (lambda: model([node("Add", ["data", "out"], ["out"])]), "before it is made"),
    "nothing makes it": (lambda: model([node("Relu", ["no"], ["out"])]), "nothing makes tensor"),
    "duplicate result": (
        lambda: model([node("Relu", ["data"], ["out"]), node("Neg", ["data"], ["out"])]),
        "two tensors are named 'out'",
    ),
    "duplicate input": (duplicate_input, "two tensors are named 'data'"),
    "no outputs": (without_outputs, "has no outputs"),
    "opset": (lambda: model([node("Relu", ["data"], ["out"])], opset=-3), "opset below 1"),
    "negative weight": (lambda: weight(lambda w: w.dims.__setitem__(0, -16)), "negative extent"),
    "huge weight": (lambda: weight(lambda w: w.dims.__setitem__(0, 2**60)), "do not fill"),
    "overflowing weight": (lambda: weight(lambda w: w.dims.extend([2**60] * 9)), "do not fill"),
    "unknown type": (lambda: weight(lambda w: setattr(w, "data_type", 77)), "element type 77"),
    "short weight": (lambda: weight(lambda w: setattr(w, "raw_data", b"1234")), "do not fill"),
    "many nodes": (lambda: chain(2 * MAX_NODES), "100000 nodes; 50000 are the maximum"),
    "endless functions": (lambda: functions(lambda place: "F0", 1), "each other forever"),
    "doubling functions": (
        lambda: functions(lambda place: f"F{place + 1}" if place < 29 else "Relu", 30),
        "1073741824 nodes",
    ),
    "ConstantOfShape": (
        lambda: computed([node("ConstantOfShape", ["s"], ["big"])], s=ints(10**5, 10**5)),
        "ConstantOfShape .* more than 2",
    ),
    "ConstantOfShape, overflow": (
        lambda: computed([node("ConstantOfShape", ["s"], ["big"])], s=ints(2**33, 2**33)),
        "more than 2",
    ),
    "ConstantOfShape, too much": (
        lambda: computed([node("ConstantOfShape", ["s"], ["big"])], s=ints(2**30)),
        "too large for a constant",
    ),
    "Expand": (
        lambda: computed([node("Expand", ["w", "s"], ["big"])], w=ONE, s=ints(10**6, 10**6)),
        "more than 2",
    ),
    "Tile": (
        lambda: computed([node("Tile", ["w", "s"], ["big"])], w=ONE, s=ints(2 * 10**10)),
        "more than 2",
    ),
    "Range": (
        lambda: computed(
            [node("Range", ["a", "b", "c"], ["big"])], a=scalar(0), b=scalar(10**11), c=scalar(1)
        ),
        "more than 2",
    ),
    "Range of no step": (
        lambda: computed(
            [node("Range", ["a", "b", "c"], ["big"])], a=scalar(0), b=scalar(9), c=scalar(0)
        ),
        "Range",
    ),
    "OneHot": (
        lambda: computed(
            [node("OneHot", ["i", "d", "v"], ["big"])],
            i=ints(*range(1000)),
            d=ints(10**8),
            v=np.array([0, 1], "float32"),
        ),
        "more than 2",
    ),
    "Resize": (
        lambda: computed(
            [node("Resize", ["w", "", "s"], ["big"])],
            w=PIXELS,
            s=np.array([1, 1, 1e5, 1e5], "float32"),
        ),
        "more than 2",
    ),
    "Resize of the input": (
        lambda: model(
            [node("Resize", ["data", "", "s"], ["out"])], s=np.array([1, 1, 1e5, 1e5], "float32")
        ),
        "more than 2",
    ),
    "Pad": (
        lambda: computed(
            [node("Pad", ["w", "p"], ["big"])], w=PIXELS, p=ints(*[0, 0, 10**6, 10**6] * 2)
        ),
        "more than 2",
    ),
    "Concat of Concats": (lambda: concats(12), "too large for a constant"),
    "product": (lambda: flat(60_000), "more than 2"),
    "conv padding": (lambda: conv(pads=[10**8] * 4), "more than 2"),
    "conv padding and stride": (
        lambda: conv(pads=[10**8] * 4, strides=[10**8] * 2),
        "padded input of Conv .* more than 2",
    ),
    "conv dilation": (lambda: conv(dilations=[10**9] * 2), "negative extent"),
    "conv stride": (lambda: conv(strides=[0, 0]), "cannot import operator Conv"),
    "conv group": (lambda: conv(group=0), "cannot import operator Conv"),
    "transposed stride": (
        lambda: model(
            [node("ConvTranspose", ["data", "w"], ["out"], strides=[10**6] * 2)], w=KERNEL
        ),
        "more than 2",
    ),
    "sparse": (
        lambda: computed(
            [
                node(
                    "Constant",
                    [],
                    ["big"],
                    sparse_value=helper.make_sparse_tensor(
                        numpy_helper.from_array(ONE), numpy_helper.from_array(ints(0)), [10**11]
                    ),
                )
            ]
        ),
        "more than 2",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_is_one_line(name: str, bounded: None) -> None:
    make, words = HOSTILE[name]
    with pytest.raises(NeoCpuError, match=words) as caught:
        relay.frontend.from_onnx(make())
    assert "\n" not in str(caught.value)


def external(location: str, shape: Sequence[int] = (16,), **entries: int) -> onnx.ModelProto:
    """A model whose weight lies in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model([node("Add", ["data", "w"], ["out"])], (16,), w=tensor)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder: weights beside it, a secret outside, links and a pipe."""
    (tmp_path / "secret").write_bytes(bytes(64))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "weights").write_bytes(np.arange(32, dtype="float32").tobytes())
    (folder / "short").write_bytes(bytes(8))
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    with (folder / "sparse").open("wb") as file:
        file.truncate(3 * 2**30)
    return folder


EXTERNAL: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "absolute": (lambda: external("/etc/hostname"), "outside the model's folder"),
    "device": (lambda: external("/dev/zero"), "outside"),
    "up": (lambda: external("../secret"), "outside"),
    "up and down": (lambda: external("../models/../secret"), "outside"),
    "link": (lambda: external("link"), "outside"),
    "linked folder": (lambda: external("up/secret"), "outside"),
    "pipe": (lambda: external("pipe"), "which is no file"),
    "missing": (lambda: external("nothing"), "which is no file"),
    "folder": (lambda: external("."), "which is no file"),
    "no location": (lambda: external(""), "which is no file"),
    "zero byte": (lambda: external("a\0b"), "broken location"),
    "short": (lambda: external("short"), "is not in 'short': 64 bytes from 0 on"),
    "negative offset": (lambda: external("weights", offset=-64), "64 bytes from -64 on"),
    "huge offset": (lambda: external("weights", offset=2**62), "is not in"),
    "other length": (lambda: external("weights", length=2**40), "is not in"),
    "huge": (lambda: external("weights", shape=(2**40,)), "4096.0 GiB of weights"),
    "3 GB": (lambda: external("sparse", shape=(3 * 2**28,)), "3.0 GiB of weights"),
}


@pytest.mark.parametrize("name", EXTERNAL)
def test_hostile_external_data_is_one_line(name: str, folder: Path, bounded: None) -> None:
    make, words = EXTERNAL[name]
    path = folder / "model.onnx"
    path.write_bytes(make().SerializeToString())
    before = sorted(folder.parent.rglob("*"))
    with pytest.raises(NeoCpuError, match=words) as caught:
        relay.frontend.from_onnx(path)
    assert "\n" not in str(caught.value)
    assert sorted(folder.parent.rglob("*")) == before


def test_external_data_of_the_models_folder_is_read(folder: Path) -> None:
    path = folder / "model.onnx"
    path.write_bytes(external("weights", offset=64, length=64).SerializeToString())
    mod, _ = relay.frontend.from_onnx(path)
    constants = [arg for arg in mod["main"].body.blocks[0].bindings[0].value.args]
    np.testing.assert_array_equal(constants[1].value.numpy(), np.arange(16, 32, dtype="float32"))


def test_a_model_in_memory_has_no_folder() -> None:
    with pytest.raises(NeoCpuError, match="lies in another file; give the model's path"):
        relay.frontend.from_onnx(external("weights"))


@pytest.mark.parametrize("where", [b"out", b"data", b"Relu"])
def test_names_are_utf8(where: bytes, tmp_path: Path) -> None:
    text = chain(2).SerializeToString().replace(where, bytes(range(0xF8, 0xF8 + len(where))))
    (tmp_path / "model.onnx").write_bytes(text)
    with pytest.raises(NeoCpuError, match="not UTF-8"):
        relay.frontend.from_onnx(tmp_path / "model.onnx")


def nested(depth: int) -> bytes:
    """An ``If`` in an ``If``, serialised from within: no protobuf library builds it."""

    def field(number: int, payload: bytes) -> bytes:
        length, size = b"", len(payload)
        while True:
            length += bytes([size & 127 | (128 if size > 127 else 0)])
            size >>= 7
            if not size:
                return bytes([number << 3 | 2]) + length + payload

    identity = node("Identity", ["data"], ["r"]).SerializeToString()
    graph = field(1, identity) + field(2, b"g")
    for _ in range(depth):
        branches = [
            field(5, field(1, name) + field(6, graph) + b"\xa0\x01\x05")
            for name in (b"then_branch",)
        ]
        graph = field(1, field(4, b"If") + field(1, b"c") + field(2, b"r") + b"".join(branches))
    whole = chain(1)
    return whole.SerializeToString() + field(7, graph)


@pytest.mark.parametrize("depth", [40, 5_000])
def test_deep_nesting_is_one_line(depth: int, tmp_path: Path, bounded: None) -> None:
    (tmp_path / "model.onnx").write_bytes(nested(depth))
    with pytest.raises(NeoCpuError, match="not an ONNX model, or is truncated"):
        relay.frontend.from_onnx(tmp_path / "model.onnx")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_one_line(share: float, tmp_path: Path, bounded: None) -> None:
    text = conv().SerializeToString()
    (tmp_path / "model.onnx").write_bytes(text[: int(share * len(text))])
    with pytest.raises(NeoCpuError, match="truncated"):
        relay.frontend.from_onnx(tmp_path / "model.onnx")


@pytest.mark.parametrize("main", [tune.main, explain.main, bench.main])
def test_the_command_lines_say_one_line(
    main: Callable[[list[str]], int], folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = folder / "model.onnx"
    path.write_bytes(external("../secret").SerializeToString())
    assert main([str(path)]) == 2
    error = capfd.readouterr().err
    assert error.startswith("error: weight 'w' of ") and error.count("\n") == 1
