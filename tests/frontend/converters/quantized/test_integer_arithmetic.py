"""Integer and quantised operators: bit for bit, or one step of rounding."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_text import Array, assert_like, check_like_peer, exact, normal, ours, parsed

from tvm_neocpu.core.errors import UnsupportedOperatorError

TYPES = {"uint8": "uint8", "int8": "int8"}


def integers(dtype: str, *shape: int, seed: int = 0) -> Array:
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def check_within_one_step(text: str, data: Array, **weights: Array) -> None:
    """Types and shapes are equal; a value at a half may round to either side."""
    model = parsed(text, **weights)
    for mine, theirs in zip(ours(model, {"x": data}), exact(model, {"x": data}), strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        steps = np.abs(mine.astype("int32") - theirs.astype("int32"))
        assert steps.max() <= 1
        assert (steps == 0).mean() > 0.99


@pytest.mark.parametrize("zeros", ["", ", za", ", za, zb"])
def test_matmul_integer(zeros: str) -> None:
    model = parsed(
        f"g (uint8[2,3,4] x) => (int32[] y) {{ y = MatMulInteger(x, w{zeros}) }}",
        w=integers("int8", 4, 5),
        za=np.array(7, "uint8"),
        zb=integers("int8", 5, seed=1),
    )
    inputs = {"x": integers("uint8", 2, 3, 4)}
    assert_like(ours(model, inputs), exact(model, inputs))


@pytest.mark.parametrize("zeros", ["", ", za, zb"])
def test_matmul_integer_of_a_vector(zeros: str) -> None:
    model = parsed(
        f"g (uint8[12] x) => (int32[] y) {{ y = MatMulInteger(x, w{zeros}) }}",
        w=integers("int8", 12, 7),
        za=np.array(7, "uint8"),
        zb=np.array(3, "int8"),
    )
    inputs = {"x": integers("uint8", 12)}
    assert_like(ours(model, inputs), exact(model, inputs))


CONVOLUTIONS = {
    "plain": ((1, 4, 7, 6), (3, 4, 3, 3), ""),
    "pads, strides, dilations": (
        (2, 4, 9, 8),
        (3, 4, 3, 2),
        "<pads = [1, 0, 2, 1], strides = [2, 1], dilations = [1, 2]>",
    ),
    "groups": ((1, 4, 5, 5), (6, 2, 3, 3), "<group = 2, pads = [1, 1, 1, 1]>"),
    "SAME_UPPER": ((1, 2, 6, 7), (3, 2, 3, 3), '<auto_pad = "SAME_UPPER", strides = [2, 2]>'),
    "SAME_LOWER": ((1, 2, 6, 7), (3, 2, 2, 3), '<auto_pad = "SAME_LOWER">'),
    "SAME, a stride above the kernel": (
        (1, 2, 8, 7),
        (3, 2, 1, 2),
        '<auto_pad = "SAME_UPPER", strides = [2, 3]>',
    ),
    "one axis": ((1, 2, 9), (3, 2, 3), "<pads = [1, 1]>"),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_conv_integer(case: str) -> None:
    shape, kernel, attributes = CONVOLUTIONS[case]
    dims = ",".join(map(str, shape))
    model = parsed(
        f"g (uint8[{dims}] x) => (int32[] y) {{ y = ConvInteger{attributes}(x, w, z) }}",
        w=integers("uint8", *kernel),
        z=np.array(130, "uint8"),
    )
    check_like_peer(model, x=integers("uint8", *shape))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [("<pads = [0, -1, 0, 0]>", "negative"), ("<strides = [0, 1]>", "must be positive")],
)
def test_conv_integer_refused_in_one_line(attributes: str, message: str) -> None:
    model = parsed(
        f"g (uint8[1,2,6,7] x) => (int32[] y) {{ y = ConvInteger{attributes}(x, w) }}",
        w=integers("uint8", 3, 2, 3, 3),
    )
    with pytest.raises(UnsupportedOperatorError, match=message):
        ours(model, {"x": integers("uint8", 1, 2, 6, 7)})


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_per_channel", [False, True])
def test_qlinear_conv(dtype: str, is_per_channel: bool) -> None:
    count = 3 if is_per_channel else 1
    scales = np.linspace(0.01, 0.03, count, dtype="float32")
    check_within_one_step(
        f"""g ({dtype}[1,4,7,6] x) => ({dtype}[] y) {{
            y = QLinearConv<pads = [1, 1, 1, 1]>(x, sx, zx, w, sw, zw, sy, zy, b)
        }}""",
        integers(dtype, 1, 4, 7, 6),
        sx=np.array(0.02, "float32"),
        zx=np.array(5, dtype),
        w=integers("int8", 3, 4, 3, 3),
        sw=scales if is_per_channel else scales.reshape(()),
        zw=np.zeros(count if is_per_channel else (), "int8"),
        sy=np.array(0.7, "float32"),
        zy=np.array(11, dtype),
        b=np.array([100, -2000, 30000], "int32"),
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_qlinear_matmul(dtype: str) -> None:
    check_within_one_step(
        f"""g ({dtype}[6,8] x) => ({dtype}[] y) {{
            y = QLinearMatMul(x, sa, za, w, sb, zb, sy, zy)
        }}""",
        integers(dtype, 6, 8),
        sa=np.array(0.02, "float32"),
        za=np.array(5, dtype),
        w=integers(dtype, 8, 5),
        sb=np.array(0.03, "float32"),
        zb=np.array(2, dtype),
        sy=np.array(0.9, "float32"),
        zy=np.array(11, dtype),
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_quantize_and_dequantize(dtype: str, axis: int | None) -> None:
    count = 1 if axis is None else (3, 4, 5)[axis]
    scale, zero = np.linspace(0.02, 0.5, count, dtype="float32"), integers(dtype, count)
    if axis is None:
        scale, zero = scale.reshape(()), zero.reshape(())
    attribute = "" if axis is None else f"<axis = {axis}>"
    model = parsed(
        f"""g (float[3,4,5] x) => ({dtype}[3,4,5] q, float[3,4,5] y) {{
            q = QuantizeLinear{attribute}(x, s, z)
            y = DequantizeLinear{attribute}(q, s, z)
        }}""",
        s=scale,
        z=zero,
    )
    check_like_peer(model, x=10 * normal(3, 4, 5))


def test_quantize_rounds_halves_to_even() -> None:
    text = "g (float[6] x) => (uint8[6] y) { y = QuantizeLinear(x, s) }"
    model = parsed(text, s=np.array(1, "float32"))
    check_like_peer(model, x=np.array([0.5, 1.5, 2.5, -3, 254.5, 1e9], "float32"))


@pytest.mark.parametrize("shift", [0, 3, -20])
def test_dynamic_quantize(shift: int) -> None:
    model = parsed(
        """g (float[7,9] x) => (uint8[7,9] y, float s, uint8 z) {
            y, s, z = DynamicQuantizeLinear(x)
        }"""
    )
    check_like_peer(model, x=normal(7, 9) + np.float32(shift))


def test_channels_of_a_3d_convolution() -> None:
    """A scale and a zero point for each filter."""
    weights = {
        "w": integers("int8", 3, 2, 2, 2, 1),
        "s": np.array([0.02, 0.01, 0.03], "float32"),
        "n": np.zeros(3, "int8"),
        "t": np.float32(0.1),
        "z": np.uint8(7),
    }
    text = "g (uint8[1,2,4,3,3] x) => (y) { y = QLinearConv(x, t, z, w, s, n, t, z) }"
    model = parsed(text, **{name: np.asarray(value) for name, value in weights.items()})
    check_like_peer(model, x=integers("uint8", 1, 2, 4, 3, 3))
