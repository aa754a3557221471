"""Inputs that are bound once: where they are copied, and what is refused."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from onnx import helper

from tvm_neocpu import Session
from tvm_neocpu.core.errors import SessionError, ShapeError
from tvm_neocpu.runtime.calls.binding import IOBinding
from tvm_neocpu.runtime.calls.feed import Feed
from tvm_neocpu.runtime.ffi.light.objects import Held
from tvm_neocpu.runtime.ffi.tensors import as_array, zeros

Array = NDArray[np.float32]
SHAPE = (1, 8, 6, 6)


def test_bound_memory_is_read_and_written_in_every_run(
    binding: IOBinding, session: Session, data: Array, scores: Array
) -> None:
    image, out = as_array(zeros(SHAPE, "float32")), np.empty((1, 10), "float32")
    binding.bind_input("data", image, copy=False)
    binding.bind_output("out", out)
    binding.run()
    zero_scores = out.copy()
    image[...] = data
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, scores)
    assert binding.outputs()["out"] is out
    image[...] = 0
    binding.run()
    np.testing.assert_array_equal(out, zero_scores)


@pytest.mark.parametrize("kind", ["misaligned", "strided", "read-only"])
def test_other_memory_is_copied_in_every_run_or_refused(
    kind: str, binding: IOBinding, data: Array, scores: Array
) -> None:
    image = np.zeros((1, 8, 6, 12), "float32")[..., ::2]
    if kind == "misaligned":
        image = np.zeros(data.size + 1, "float32")[1:].reshape(SHAPE)
    binding.bind_input(0, image)
    image[...] = data
    if kind == "read-only":
        image.flags.writeable = False
    for _ in range(2):
        binding.run()
        np.testing.assert_array_equal(binding.outputs()["out"], scores)
    with pytest.raises(ShapeError, match="cannot share"):
        binding.bind_input(0, image, copy=False)


def test_a_copy_is_taken_once_where_it_is_wanted(
    binding: IOBinding, data: Array, scores: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = as_array(zeros(SHAPE, "float32"))
    image[...] = data
    binding.bind_input("data", image, copy=True)
    monkeypatch.setattr(Feed, "_copied", lambda *_: pytest.fail("it was copied again"))
    image[...] = 0
    binding.run()
    np.testing.assert_array_equal(binding.outputs()["out"], scores)


def test_an_output_in_strided_memory(binding: IOBinding, data: Array, scores: Array) -> None:
    wide = np.zeros((1, 20), "float32")
    binding.bind_input("data", data)
    binding.bind_output("out", wide[:, ::2])
    binding.run()
    np.testing.assert_array_equal(wide[:, ::2], scores)
    assert not wide[:, 1::2].any()


def test_torch_tensors_are_shared(binding: IOBinding, data: Array, scores: Array) -> None:
    torch = pytest.importorskip("torch")
    out = torch.empty((1, 10))
    binding.bind_input("data", torch.from_numpy(data))
    binding.bind_output("out", out)
    binding.run()
    np.testing.assert_array_equal(out.numpy(), scores)


def test_what_is_refused(binding: IOBinding, data: Array) -> None:
    with pytest.raises(SessionError, match=r"no outputs yet: call run\(\) first"):
        binding.outputs()
    with pytest.raises(SessionError, match=r"bound to input 'data': call bind_input\(\)"):
        binding.run()
    with pytest.raises(ShapeError, match="no input 'image'"):
        binding.bind_input("image", data)
    with pytest.raises(ShapeError, match=r"input 'data' is \[1, 8, 6, 6\], not \[8, 6, 6\]"):
        binding.bind_input("data", data[0])
    with pytest.raises(ShapeError, match="output 'out' is float32, not float64"):
        binding.bind_output("out", np.zeros((1, 10)))
    with pytest.raises(ShapeError, match=r"output 'out' is \[1, 10\], not \[10\]"):
        binding.bind_output("out", np.zeros(10, "float32"))
    frozen = np.zeros((1, 10), "float32")
    frozen.flags.writeable = False
    with pytest.raises(ShapeError, match="read-only"):
        binding.bind_output("out", frozen)
    for step in (0, 2):
        shared = as_strided(np.zeros(10, "float32"), (1, 10), (0, step))
        with pytest.raises(ShapeError, match="elements share memory"):
            binding.bind_output("out", shared)
    for bind, name in ((binding.bind_input, "data"), (binding.bind_output, "out")):
        with pytest.raises(SessionError, match="copy is True, False or None, not 'no'"):
            bind(name, data, copy="no")


def test_a_copy_of_a_binding_is_refused_and_harms_no_run(
    session: Session, data: Array, scores: Array
) -> None:
    """A copied handle would release what the session still needs."""
    binding = session.io_binding()
    binding.bind_input(0, data)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(SessionError, match="a binding is neither pickled nor copied"):
            copied(binding)
    del binding
    gc.collect()
    np.testing.assert_array_equal(session.run({"data": data})["out"], scores)


def test_objects_of_tvm_are_not_copied(session: Session) -> None:
    held = Held(1)
    try:
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="neither pickled nor copied"):
                copied(held)
    finally:
        del held.handle  # nobody's object: nothing is released


def test_outputs_that_share_memory_are_refused() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
    x, *outputs = (helper.make_tensor_value_info(name, 1, [1, 4]) for name in "xab")
    with Session(helper.make_model(helper.make_graph(nodes, "two", [x], outputs))) as session:
        binding, both = session.io_binding(), np.zeros((1, 8), "float32")
        binding.bind_input("x", np.array([[1, -2, 3, -4]], "float32"))
        binding.bind_output("a", both[:, ::2])
        binding.bind_output("b", both[:, 1::2])  # beside each other
        binding.run()
        np.testing.assert_array_equal(both, [[1, -1, 0, 2, 3, -3, 0, 4]])
        binding.bind_output("b", both[:, :4])
        with pytest.raises(SessionError, match="'a' and 'b' are bound to the same memory"):
            binding.run()
