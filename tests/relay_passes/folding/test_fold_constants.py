"""FoldConstants: NumPy agrees with what TVM would have computed, and nothing is copied twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from tvm_neocpu.relay_passes.folding import fold_constants
from tvm_neocpu.relay_passes.folding.fold_constants import FoldConstants
from tvm_neocpu.relay_passes.ir.constants import array_of, constant_of
from tvm_neocpu.relay_passes.ir.rewrite import tidy

RNG = np.random.default_rng(0)
CUBE = RNG.uniform(0.5, 2, (2, 3, 4)).astype("float32")
ROW = RNG.uniform(0.5, 2, (1, 4)).astype("float32")
CUBE_CONST, ROW_CONST = relax.const(CUBE), relax.const(ROW)
WHOLE = relax.const(np.array([[7, -7], [3, 2]], "int64"))

op = relax.op


def module(build: Callable[[relax.BlockBuilder], relax.Expr]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    with builder.function("main", [relax.Var("x", relax.TensorType((4,), "float32"))]):
        with builder.dataflow():
            result = builder.emit_output(build(builder))
        builder.emit_func_output(result)
    return builder.get()


def run(mod: tvm.IRModule) -> np.ndarray:
    executable = tvm.compile(mod, target=tvm.target.Target({"kind": "llvm"}))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(np.zeros(4, "float32"))).numpy()


def returned(mod: tvm.IRModule) -> np.ndarray | None:
    """The constant that ``main`` returns, if it does nothing else."""
    function = mod["main"]
    return array_of(function.body.body) if not function.body.blocks else None


@pytest.mark.parametrize(
    "expr",
    [
        op.abs(op.negative(CUBE_CONST)),
        op.add(CUBE_CONST, ROW_CONST),
        op.astype(CUBE_CONST, "float16"),
        op.astype(CUBE_CONST, "int32"),
        op.broadcast_to(ROW_CONST, (3, 4)),
        op.concat([CUBE_CONST, CUBE_CONST], axis=1),
        op.divide(CUBE_CONST, ROW_CONST),
        op.exp(CUBE_CONST),
        op.expand_dims(CUBE_CONST, [0, 2]),
        op.full((2, 3), relax.const(2.5, "float32"), "float32"),
        op.isnan(CUBE_CONST),
        op.log(CUBE_CONST),
        op.matmul(CUBE_CONST, op.permute_dims(CUBE_CONST, [0, 2, 1])),
        op.max(CUBE_CONST, axis=[1]),
        op.maximum(CUBE_CONST, ROW_CONST),
        op.mean(CUBE_CONST, axis=[0, 2], keepdims=True),
        op.mean(CUBE_CONST),
        op.min(CUBE_CONST, axis=[-1], keepdims=True),
        op.minimum(CUBE_CONST, ROW_CONST),
        op.multiply(WHOLE, WHOLE),
        op.multiply(CUBE_CONST, relax.const(2.0, "float32")),
        op.nn.pad(CUBE_CONST, [0, 1, 2, 0, 0, 0], pad_value=1.5),
        op.nn.relu(op.negative(CUBE_CONST)),
        op.nn.softmax(CUBE_CONST, axis=1),
        op.ones((2, 3), "float32"),
        op.permute_dims(CUBE_CONST),
        op.permute_dims(CUBE_CONST, [2, 0, 1]),
        op.power(CUBE_CONST, ROW_CONST),
        op.reshape(CUBE_CONST, (4, -1)),
        op.rsqrt(CUBE_CONST),
        op.sigmoid(CUBE_CONST),
        op.sqrt(CUBE_CONST),
        op.squeeze(ROW_CONST, [0]),
        op.stack([CUBE_CONST, CUBE_CONST], axis=2),
        op.strided_slice(CUBE_CONST, [1, 2], [0, 1], [3, 2**31 - 1], [2, 1]),
        op.subtract(ROW_CONST, CUBE_CONST),
        op.sum(CUBE_CONST, axis=[1]),
        op.take(CUBE_CONST, relax.const(np.array([[2, 0]], "int64")), axis=1),
        op.tanh(CUBE_CONST),
        op.tile(CUBE_CONST, [1, 2, 1]),
        op.where(op.isnan(CUBE_CONST), ROW_CONST, CUBE_CONST),
        op.zeros((3,), "int64"),
    ],
    ids=lambda expr: expr.op.name.removeprefix("relax."),
)
def test_constants_are_what_tvm_would_compute(expr: relax.Expr) -> None:
    mod = module(lambda builder: expr)
    folded = returned(FoldConstants()(mod))
    assert folded is not None
    want = run(mod)
    assert folded.dtype == want.dtype
    np.testing.assert_allclose(folded, want, rtol=2e-7)


@pytest.mark.parametrize(("center", "scale"), [(True, True), (False, True), (True, False)])
def test_a_normalised_weight_is_a_constant(center: bool, scale: bool) -> None:
    """Weight standardisation is a batch norm of the weight by its own statistics."""
    vectors = [relax.const(RNG.uniform(0.5, 2, 3).astype("float32")) for _ in range(4)]

    def build(builder: relax.BlockBuilder) -> relax.Expr:
        normal = op.nn.batch_norm(
            CUBE_CONST, *vectors, 1, 1e-3, center=center, scale=scale, training=False
        )
        return relax.TupleGetItem(builder.emit(normal), 0)

    gamma, beta, mean, variance = (vector.value.numpy()[:, None] for vector in vectors)
    want = (CUBE - mean) / np.sqrt(variance + np.float32(1e-3))
    want = want * gamma if scale else want
    want = want + beta if center else want
    np.testing.assert_allclose(returned(FoldConstants()(module(build))), want, rtol=1e-6)


@pytest.mark.parametrize("sections", [3, [1], [1, 2]])
def test_parts_of_a_split_are_constants(sections: int | list[int]) -> None:
    def build(builder: relax.BlockBuilder) -> relax.Expr:
        return op.negative(relax.TupleGetItem(op.split(CUBE_CONST, sections, axis=1), 1))

    folded = returned(FoldConstants()(module(build)))
    want = np.split(CUBE, sections, axis=1)[1]
    np.testing.assert_array_equal(folded, -want)


@pytest.mark.parametrize(
    "expr",
    [
        op.divide(WHOLE, WHOLE),
        op.power(WHOLE, WHOLE),
        op.sum(WHOLE, axis=[0]),
        op.strided_slice(CUBE_CONST, [0], [1], [-3], [-1]),
        op.sin(CUBE_CONST),
        op.take(CUBE_CONST, relax.const(np.array([3], "int64")), axis=1),
        op.add(relax.const(np.ones(4, "float32")), relax.Var("y", relax.TensorType((4,)))),
    ],
    ids=["int-divide", "int-power", "int-sum", "backward-slice", "no-entry", "outside", "variable"],
)
def test_what_is_not_known_for_certain_stays(expr: relax.Expr) -> None:
    builder = relax.BlockBuilder()
    y = [arg for arg in expr.args if isinstance(arg, relax.Var)]
    with builder.function("main", y):
        with builder.dataflow():
            result = builder.emit_output(expr)
        builder.emit_func_output(result)
    mod = builder.get()
    tvm.ir.assert_structural_equal(FoldConstants()(mod), mod)


def test_weight_behind_a_view_of_a_view_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """VGG-19's dense weights arrive as ``permute_dims(broadcast_to(scalar))``, 400 MB of them."""
    stored: list[tuple[int, ...]] = []

    def spy(array: np.ndarray) -> relax.Expr:
        stored.append(array.shape)
        assert 0 in array.strides, "computed in full before it was stored"
        return constant_of(array)

    monkeypatch.setattr(fold_constants, "constant_of", spy)
    x = relax.Var("x", relax.TensorType((1, 5), "float32"))

    def build(weight: relax.Expr) -> tvm.IRModule:
        builder = relax.BlockBuilder()
        with builder.function("main", [x]):
            with builder.dataflow():
                y = builder.emit(op.matmul(x, builder.emit(weight)))
                result = builder.emit_output(op.nn.relu(y))
            builder.emit_func_output(result)
        return builder.get()

    before = build(op.permute_dims(op.broadcast_to(relax.const(0.5, "float32"), (3, 5))))
    after = build(relax.const(np.full((5, 3), 0.5, "float32")))
    folded = FoldConstants()(before)
    tvm.ir.assert_structural_equal(folded, tidy(after))
    assert stored == [(5, 3)]


def test_unused_weight_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(fold_constants, "constant_of")

    def build(builder: relax.BlockBuilder) -> relax.Expr:
        builder.emit(op.broadcast_to(relax.const(1.0, "float32"), (4096, 4096)))
        return builder.emit(op.sin(ROW_CONST))

    assert returned(FoldConstants()(module(build))) is None


def test_constant_of_an_unknown_element_type_stays() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2,), "bfloat16")) -> R.Tensor((2,), "bfloat16"):
            with R.dataflow():
                y: R.Tensor((2,), "bfloat16") = R.astype(R.const(1.0, "bfloat16"), "bfloat16") + x
                R.output(y)
            return y

    tvm.ir.assert_structural_equal(FoldConstants()(Before), Before)


def test_branches_still_see_what_was_folded_outside() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(take: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor(
            (4,), "float32"
        ):
            two: R.Tensor((4,), "float32") = R.full((4,), R.const(2.0, "float32"), "float32")
            if take:
                y: R.Tensor((4,), "float32") = R.multiply(x, two)
            else:
                y: R.Tensor((4,), "float32") = R.add(x, two)
            return y

    folded = FoldConstants()(Before)
    relax.analysis.well_formed(folded)
    executable = tvm.compile(folded, target=tvm.target.Target({"kind": "llvm"}))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    x = tvm.runtime.tensor(np.arange(4, dtype="float32"))
    for take, want in ((True, [0, 2, 4, 6]), (False, [2, 3, 4, 5])):
        got = machine["main"](tvm.runtime.tensor(np.array(take)), x)
        np.testing.assert_array_equal(got.numpy(), want)


def test_the_argument_is_left_alone() -> None:
    mod = module(lambda builder: op.add(CUBE_CONST, ROW_CONST))
    text = mod.script()
    FoldConstants()(mod)
    assert mod.script() == text


def test_array_of_is_a_read_only_view() -> None:
    view = array_of(CUBE_CONST)
    np.testing.assert_array_equal(view, CUBE)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    assert array_of(relax.Var("x", relax.TensorType((4,), "float32"))) is None


def test_another_name_of_a_constant_is_that_constant() -> None:
    def build(builder: relax.BlockBuilder) -> relax.Expr:
        return builder.emit(builder.emit(op.abs(CUBE_CONST)))

    found = returned(FoldConstants()(module(build)))
    np.testing.assert_array_equal(found, CUBE)
