"""Narrow numbers that are stored under a test: every byte is the tensor's own, and right."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from nests import SKYLAKE
from onnx import TensorProto
from onnx_net import Net

from tvm_neocpu import Session
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks, schedule_function
from tvm_neocpu.topi.tir.instructions.store_singly import store_singly


# One column is left behind a vector of 8: LLVM stored it with its neighbour in the next row.
@pytest.mark.parametrize("columns", [105, 113, 121, 169, 1001])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_codes_of_a_row_do_not_reach_into_the_next(columns: int, kind: str) -> None:
    net = Net((4, 16))
    product = net("MatMul", "data", net.weight(16, columns))
    zero = net.constant(128 if kind == "uint8" else 0, kind)
    model = net.model(net("QuantizeLinear", product, net.constant(0.02), zero))
    model.graph.output[0].type.tensor_type.elem_type = getattr(TensorProto, kind.upper())
    data = np.random.default_rng(0).standard_normal((4, 16), dtype="float32")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"data": data})
    (found,) = Session(model).run({"data": data}).values()
    assert found.dtype == kind
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_stores_of_whole_registers_and_those_without_a_test_stay() -> None:
    for columns, config in ((100, GemmConfig(32, 14)), (96, GemmConfig(32, 14))):
        func = schedule_blocks(unscheduled(DenseWorkload(14, 64, columns), config), SKYLAKE)
        assert store_singly(func, SKYLAKE).script() == func.script()
        assert "fake.use" not in schedule_function(func, SKYLAKE).script()
