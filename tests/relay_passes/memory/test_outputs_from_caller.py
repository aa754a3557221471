"""Networks that write into tensors of the caller."""

from __future__ import annotations

import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_neocpu.relay_passes.ir.written_outputs import written_outputs
from tvm_neocpu.relay_passes.memory.outputs_from_caller import OutputsFromCaller


@I.ir_module
class Before:
    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((2, 8), "float32"), b: T.Buffer((2, 8), "float32")):
        for i, j in T.grid(2, 8):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor((2, 8), "float32")) -> R.Tuple(
        R.Tensor((2, 8), "float32"), R.Tensor((16,), "float32"), R.Tensor((2, 8), "float32")
    ):
        cls = Before
        first = R.builtin.alloc_tensor(R.shape([2, 8]), R.dtype("float32"), R.prim_value(0))
        cls.twice(x, first)
        second = R.builtin.alloc_tensor(R.shape([2, 8]), R.dtype("float32"), R.prim_value(0))
        cls.twice(first, second)
        flat = R.call_packed(
            "vm.builtin.reshape", second, R.shape([16]), ty_args=(R.Tensor((16,), "float32"),)
        )
        result = (first, flat, x)
        return result


@I.ir_module
class Expected:
    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((2, 8), "float32"), b: T.Buffer((2, 8), "float32")):
        for i, j in T.grid(2, 8):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] * T.float32(2)

    @R.function(pure=False)
    def main_into(
        x: R.Tensor((2, 8), "float32"),
        output_0: R.Tensor((2, 8), "float32"),
        output_1: R.Tensor((16,), "float32"),
    ) -> R.Tuple(
        R.Tensor((2, 8), "float32"), R.Tensor((16,), "float32"), R.Tensor((2, 8), "float32")
    ):
        R.func_attr({"neocpu_written_outputs": [0, 1]})
        cls = Expected
        first = R.call_packed(
            "vm.builtin.reshape",
            output_0,
            R.shape([2, 8]),
            ty_args=(R.Tensor((2, 8), "float32"),),
        )
        cls.twice(x, first)
        second = R.call_packed(
            "vm.builtin.reshape",
            output_1,
            R.shape([2, 8]),
            ty_args=(R.Tensor((2, 8), "float32"),),
        )
        cls.twice(first, second)
        flat = R.call_packed(
            "vm.builtin.reshape", second, R.shape([16]), ty_args=(R.Tensor((16,), "float32"),)
        )
        result = (first, flat, x)
        return result

    @R.function(pure=False)
    def main(x: R.Tensor((2, 8), "float32")) -> R.Tuple(
        R.Tensor((2, 8), "float32"), R.Tensor((16,), "float32"), R.Tensor((2, 8), "float32")
    ):
        cls = Expected
        output_0 = R.builtin.alloc_tensor(R.shape([2, 8]), R.dtype("float32"), R.prim_value(0))
        output_1 = R.builtin.alloc_tensor(R.shape([16]), R.dtype("float32"), R.prim_value(0))
        result = cls.main_into(x, output_0, output_1)
        return result


@I.ir_module
class Passed:
    """Returns what it was given."""

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = x
        return y


def test_a_function_takes_the_tensors_that_it_allocates() -> None:
    after = OutputsFromCaller(("main",))(Before)
    tvm.ir.assert_structural_equal(after, Expected)
    assert written_outputs(after, "main") == (0, 1)


def test_what_a_network_was_given_stays_where_it_is() -> None:
    after = OutputsFromCaller(("main",))(Passed)
    assert after.same_as(Passed)
    assert written_outputs(after, "main") == ()
