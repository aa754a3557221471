"""Dense layers of many rows: loops, panels, rows of several axes, the choice between templates."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import tvm
from nests import SKYLAKE, nest
from onnx import TensorProto
from onnx_net import Net
from samples import HOST, assert_close, run
from tvm import te, topi

from tvm_neocpu import Session
from tvm_neocpu.topi.cost.ranking import predict_seconds, ranked
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm import space, template
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig, GemmGeometry, misfit
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.schedule_function import schedule_function

DENSE = DenseWorkload(28, 64, 96)
PRODUCT = "gemm_acc_update"


# Chunks; blocks and tiles; the reduction; a tile.
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (GemmConfig(32, 14, 2), "3, 2, 64, unroll 14, vector 32"),
        (GemmConfig(32, 14, 1), "parallel 2, 3, 64, unroll 14, vector 32"),
        (GemmConfig(32, 7, 2, parallel_oc=True), "parallel 6, 2, 64, unroll 7, vector 32"),
    ],
)
def test_loops(config: GemmConfig, expected: str) -> None:
    assert nest(DENSE, config, PRODUCT).replace(", 1,", ",") == expected


def test_rows_are_copied_where_tiles_overhang_or_a_config_says_so() -> None:
    def copies(batch: int, config: GemmConfig) -> bool:
        return GemmGeometry(DenseWorkload(batch, 64, 96), config).copies

    assert not copies(28, GemmConfig(32, 14, 2))
    assert copies(27, GemmConfig(32, 14, 2))
    assert copies(28, GemmConfig(32, 14, 2, copies=True))
    text = kernel(DENSE, GemmConfig(32, 14, 2, copies=True), SKYLAKE).script()
    # 64 floats are four lines; rows lie five lines apart.
    assert "strides=(1120, 80, 1)" in text


def test_the_last_panel_is_cut_off_where_it_is_filled() -> None:
    """No vector of the panels before it is stored under a test."""
    dense, config = DenseWorkload(14, 64, 100), GemmConfig(32, 14)
    built = tvm.compile(kernel(dense, config, SKYLAKE), target=HOST.target)
    even = tvm.compile(kernel(DenseWorkload(14, 64, 96), config, SKYLAKE), target=HOST.target)
    products = [lib.mod.inspect_source("ll").count("fmul") for lib in (built, even)]
    assert products[0] > 1.5 * products[1] > 0


@pytest.mark.parametrize("shape", [(3, 7, 5), (2, 3, 3, 5), (9, 5)], ids=str)
def test_rows_are_all_axes_but_the_last(shape: tuple[int, ...]) -> None:
    """With an epilogue over the tensor as it is, its shapes of 64 bits as those of Relax."""
    rng = np.random.default_rng(0)
    rows = int(np.prod(shape[:-1]))
    dense, config = DenseWorkload(rows, shape[-1], 19), GemmConfig(16, 4, 2)
    data, weight = rng.normal(size=shape), rng.normal(size=(shape[-1], 19))
    other = rng.normal(size=(*shape[:-1], 19))
    x, y = (
        te.placeholder([tvm.tirx.IntImm("int64", extent) for extent in each.shape], "float32", name)
        for each, name in ((data, "x"), (other, "y"))
    )
    packed = template.pack_weight(weight.astype("float32"), dense, config)
    w = te.placeholder(packed.shape, "float32", "w")
    out = topi.nn.relu(topi.add(template.compute(x, w, dense, config), y))
    func = schedule_function(te.create_prim_func([x, w, y, out]), SKYLAKE)
    arrays = [data.astype("float32"), packed, other.astype("float32")]
    expected = np.maximum(data @ weight + other, 0)
    assert_close(run(func, arrays, expected.shape, "float32"), expected, 1e-5)


def test_one_row_stays_with_the_template_that_streams() -> None:
    assert not space.accepts(DenseWorkload(1, 64, 100), SKYLAKE)
    best = ranked(DenseWorkload(196, 384, 1536), SKYLAKE)[0].config
    assert isinstance(best, GemmConfig)
    assert isinstance(ranked(DenseWorkload(1, 2048, 1000), SKYLAKE)[0].config, DenseConfig)


def test_rows_a_page_apart_are_copied() -> None:
    layer, other = DenseWorkload(196, 1024, 512), DenseWorkload(196, 768, 512)
    for dense, copies in ((layer, True), (other, False)):
        pair = [GemmConfig(32, 14, 14, copies=each) for each in (False, True)]
        in_place, copied = (predict_seconds(dense, config, SKYLAKE) for config in pair)
        assert (copied < in_place) == copies


@pytest.mark.parametrize("empty", [GemmConfig(0, 1), GemmConfig(16, 0), GemmConfig(16, 1, 0)])
def test_empty_tiles_do_not_fit(empty: GemmConfig) -> None:
    assert misfit(DENSE, empty) == "its tiles are empty"
    assert misfit(DENSE, GemmConfig(48, 99, 99)) is None


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_whole_numbers_behind_a_product_whose_loops_are_cut(kind: str) -> None:
    """40 columns end in a narrower panel; TVM's narrowing would narrow values of 64 bits, too."""
    net = Net((8, 16))
    number = {"int32": TensorProto.INT32, "int64": TensorProto.INT64}[kind]
    model = net.model(net("Cast", net("MatMul", "data", net.weight(16, 40)), to=number))
    model.graph.output[0].type.tensor_type.elem_type = number
    data = 100 * np.random.default_rng(0).standard_normal((8, 16), dtype="float32")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"data": data})
    (found,) = Session(model).run({"data": data}).values()
    assert found.dtype == kind
    assert np.abs(found - expected).max() <= 1 and (found == expected).mean() > 0.98
