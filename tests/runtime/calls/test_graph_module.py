"""Inputs, outputs, timing: one network that runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm

from tvm_neocpu.core.errors import NeoCpuError, ShapeError
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.calls.graph_module import GraphModule, UnsetInputWarning
from tvm_neocpu.runtime.calls.inputs import ALIGNMENT

SHAPE = (1, 8, 6, 6)


def aligned(data: np.ndarray, offset: int = 0) -> np.ndarray:
    raw = np.zeros(data.nbytes + 2 * ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT + offset
    view = raw[start : start + data.nbytes].view(data.dtype).reshape(data.shape)
    view[...] = data
    return view


def test_inputs_by_name_number_keyword_and_tensor(
    module: GraphModule, data: np.ndarray, scores: np.ndarray
) -> None:
    assert module.get_num_inputs() == module.get_num_outputs() == 1
    assert module.get_input_info() == ({"data": SHAPE}, {"data": "float32"})
    for setter in (
        lambda: module.set_input("data", data),
        lambda: module.set_input(0, data),
        lambda: module.set_input(data=data),
        lambda: module.set_input("data", tvm.runtime.tensor(data)),
        lambda: module.set_input("data", np.asfortranarray(data)),
    ):
        module.set_input("data", np.zeros(SHAPE, "float32"))
        setter()
        module.run()
        np.testing.assert_array_equal(module.get_output(0).numpy(), scores)
        np.testing.assert_array_equal(module.get_input("data").numpy(), data)


def test_set_input_copies(module: GraphModule, data: np.ndarray, scores: np.ndarray) -> None:
    mine = data.copy()
    module.set_input("data", mine)
    mine[:] = 0
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


def test_shared_inputs_do_not(module: GraphModule, data: np.ndarray, scores: np.ndarray) -> None:
    mine = aligned(np.zeros_like(data))
    module.set_input_zero_copy("data", mine)
    mine[:] = data
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)
    module.set_input("data", np.zeros_like(data))
    assert mine.any(), "setting by copy must not write into memory that was shared"


def test_the_modules_own_memory_can_be_written(
    module: GraphModule, data: np.ndarray, scores: np.ndarray
) -> None:
    module.input_array("data")[...] = data
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


def test_a_tvm_tensor_is_shared(module: GraphModule, data: np.ndarray, scores: np.ndarray) -> None:
    module.set_input_zero_copy("data", tvm.runtime.tensor(data))
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


@pytest.mark.parametrize("kind", ["misaligned", "strided", "transposed", "read-only"])
def test_memory_that_cannot_be_shared_is_refused(
    kind: str, module: GraphModule, data: np.ndarray
) -> None:
    array = aligned(data, offset=4) if kind == "misaligned" else aligned(data)
    if kind == "strided":
        array = np.zeros((*SHAPE[:3], 2 * SHAPE[3]), "float32")[..., ::2]
    if kind == "transposed":
        array = array.swapaxes(2, 3)
    if kind == "read-only":
        array.flags.writeable = False
    with pytest.raises(ShapeError, match="cannot share"):
        module.set_input_zero_copy("data", array)


@pytest.mark.parametrize("wrap", [np.asarray, tvm.runtime.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((1, 8, 6, 7), "float32"), "is [1, 8, 6, 6], not [1, 8, 6, 7]"),
        (np.zeros((8, 6, 6), "float32"), "is [1, 8, 6, 6], not [8, 6, 6]"),
        (np.zeros(SHAPE, "float64"), "is float32, not float64"),
        (np.zeros(SHAPE, "int32"), "is float32, not int32"),
    ],
)
def test_other_shapes_and_types_are_not_shared(
    array: np.ndarray, words: str, wrap: Callable[[np.ndarray], object], module: GraphModule
) -> None:
    with pytest.raises(ShapeError) as caught:
        module.set_input_zero_copy("data", wrap(array))
    assert words in str(caught.value)


def test_a_byte_order_of_another_machine_is_refused(module: GraphModule) -> None:
    for setter in (module.set_input, module.set_input_zero_copy):
        with pytest.raises(ShapeError, match="is float32, not >f4"):
            setter("data", np.zeros(SHAPE, ">f4"))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("image", np.zeros(SHAPE, "float32"), "no input 'image'; it has data float32"),
        (1, np.zeros(SHAPE, "float32"), "no input 1"),
        ("data", np.zeros((1, 8, 6, 5), "float32"), "is [1, 8, 6, 6], not [1, 8, 6, 5]"),
        ("data", np.zeros(SHAPE), "is float32, not float64"),
        ("data", None, "is [1, 8, 6, 6], not []"),
    ],
)
def test_bad_inputs_are_one_line(
    key: object, value: object, words: str, module: GraphModule
) -> None:
    with pytest.raises(ShapeError) as caught:
        module.set_input(key, value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_outputs(module: GraphModule, data: np.ndarray, scores: np.ndarray) -> None:
    with pytest.raises(NeoCpuError, match=r"run\(\) first"):
        module.get_output(0)
    module.run(data=data)
    first = module.get_output(0)
    array, tensor = np.empty((1, 10), "float32"), tvm.runtime.empty((1, 10))
    assert module.get_output(0, array) is array
    assert module.get_output(0, tensor) is tensor
    np.testing.assert_array_equal(array, scores)
    np.testing.assert_array_equal(tensor.numpy(), scores)
    module.run(data=np.zeros_like(data))
    np.testing.assert_array_equal(first.numpy(), scores)
    for key in (1, -1, "scores", None):
        with pytest.raises(ShapeError, match=r"no output .*; it has out float32"):
            module.get_output(key)


def test_outputs_by_name(module: GraphModule, data: np.ndarray, scores: np.ndarray) -> None:
    module.run(data=data)
    np.testing.assert_array_equal(module.get_output("out").numpy(), scores)
    np.testing.assert_array_equal(module.get_output(np.int64(0)).numpy(), scores)
    assert module.get_output_index("out") == 0


def test_a_forgotten_input_is_named_once(module: GraphModule) -> None:
    with pytest.warns(UnsetInputWarning, match="zeros for input 'data', never set") as caught:
        module.run()
    assert caught[0].filename == __file__
    module.run()
    assert len(caught) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", ["set_input", "run", "input_array", "zero_copy", "benchmark"])
def test_every_way_to_set_an_input_counts(way: str, module: GraphModule, data: np.ndarray) -> None:
    ways = {
        "set_input": lambda: module.set_input("data", data),
        "run": lambda: module.run(data=data),
        "input_array": lambda: module.input_array("data").fill(1),
        "zero_copy": lambda: module.set_input_zero_copy("data", tvm.runtime.tensor(data)),
        "benchmark": lambda: None,
    }
    ways[way]()
    module.benchmark(repeat=1, number=1)
    module.time_evaluator("run", number=1)()
    module.benchmark(repeat=1, number=1, end_to_end=True)
    if way != "benchmark":
        module.run()


def test_timing_sets_no_input_and_keeps_what_is_bound(
    module: GraphModule, data: np.ndarray, scores: np.ndarray
) -> None:
    shared = aligned(np.zeros_like(data))
    module.set_input_zero_copy("data", shared)
    module.run()
    before = module.get_output(0)
    module.benchmark(repeat=1, number=1, end_to_end=True)
    assert module.get_output(0).same_as(before)
    shared[:] = data
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


def test_instances_do_not_share_inputs(
    lib: BuiltModule, data: np.ndarray, scores: np.ndarray
) -> None:
    one, other = lib["default"](tvm.cpu()), lib["default"](tvm.cpu(0))
    one.set_input("data", data)
    other.set_input("data", np.zeros_like(data))
    other.run()
    one.run()
    np.testing.assert_array_equal(one.get_output(0).numpy(), scores)


def test_benchmark(module: GraphModule) -> None:
    found = module.benchmark(tvm.cpu(), repeat=3, number=2)
    assert len(found.results) == 3
    assert 0 < found.min <= found.median <= found.max < 1
    assert len(module.benchmark(repeat=2, number=1, end_to_end=True).results) == 2
    assert module.module.time_evaluator("run", tvm.cpu(), number=1)().mean > 0
    with pytest.raises(NeoCpuError, match='only "run"'):
        module.benchmark(func_name="main")
