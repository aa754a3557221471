"""Bilinear resize by tables gives TVM's answers; everything else is TVM's."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax.transform import LegalizeOps

from tvm_neocpu.relay_passes.legalizing.resize_legalize import RESIZE, legalize_resize

MODES = ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"]
BLOCKED, PLAIN = (2, 3, 7, 5, 4), (1, 3, 1, 13)


def module(shape: tuple[int, ...], size: tuple[int, int], mode: str, **attrs: str) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    attrs = {"layout": f"NCHW{shape[4]}c" if len(shape) == 5 else "NCHW", **attrs}
    with builder.function("main", [x]):
        with builder.dataflow():
            call = relax.op.image.resize2d(x, size, coordinate_transformation_mode=mode, **attrs)
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    return builder.get()


def run(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    executable = tvm.compile(mod, tvm.target.Target({"kind": "llvm"}))
    return relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [BLOCKED, PLAIN])
@pytest.mark.parametrize("size", [(14, 10), (11, 3), (2, 2)])
def test_answers_are_tvms(shape: tuple[int, ...], size: tuple[int, int], mode: str) -> None:
    mod = module(shape, size, mode)
    ours = LegalizeOps({RESIZE: legalize_resize})(mod)
    assert "resize_linear" in ours.script()
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    np.testing.assert_allclose(run(ours, x), run(mod, x), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    "attrs", [{"method": "nearest_neighbor"}, {"method": "cubic"}, {"layout": "NHWC"}]
)
def test_other_resizes_go_tvms_way(attrs: dict[str, str]) -> None:
    mod = module(PLAIN, (4, 20), "half_pixel", **attrs)
    ours = LegalizeOps({RESIZE: legalize_resize})(mod)
    tvm.ir.assert_structural_equal(ours, LegalizeOps()(mod))
