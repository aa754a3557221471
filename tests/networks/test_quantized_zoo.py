"""Networks of the zoo that ONNX Runtime's quantiser wrote, against its integer kernels.

Weights have 7 bits, so that ONNX Runtime's products do not saturate on a CPU without VNNI. All but
ties of rounding is the same, to the network's last integers: 0 of 1000 differ in both networks on a
Zen 3. Without optimisations ONNX Runtime computes in float32 and is 2 to 3 steps off itself.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx_text import ours
from quantized_onnx import (
    assert_equal_but_for_ties,
    images,
    on_integers,
    quantized,
    with_integer_outputs,
)

from tvm_neocpu.contrib import model_zoo

shape_inference = pytest.importorskip("onnxruntime.quantization.shape_inference")

# A tie in an early layer moves a few of the last integers by 1.
TIES = 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_as_onnx_runtime_computes_in_integers(name: str, tmp_path: Path) -> None:
    plain, folded = tmp_path / "plain.onnx", tmp_path / "folded.onnx"
    onnx.save(model_zoo.build(name), plain)
    shape_inference.quant_pre_process(plain, folded, skip_symbolic_shape=True)
    coded = quantized(onnx.load(folded), per_channel=True, reduce_range=True)
    model = with_integer_outputs(coded)
    inputs = images(model, seed=9)
    (found,), (wanted,) = ours(model, inputs), on_integers(model, inputs)
    assert_equal_but_for_ties(found, wanted, TIES)
