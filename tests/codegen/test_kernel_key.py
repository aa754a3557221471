"""Keys of kernels: what must be equal, what must not."""

from __future__ import annotations

import pytest
import tvm
from small_kernels import adds
from tvm import tirx
from tvm.ir.transform import PassContext

from tvm_neocpu.codegen.kernel_key import kernel_key, nameless
from tvm_neocpu.targets import parse_target

TARGET = parse_target("llvm -mcpu=haswell").target


def key(func: tirx.PrimFunc, target: tvm.target.Target = TARGET, **context: object) -> str:
    return kernel_key(func, target, PassContext(**context))


def test_names_do_not_count() -> None:
    assert key(adds()) == key(adds(data="x", out="a"))
    assert key(adds()) == key(adds().with_attr("global_symbol", "conv2d_add7"))
    assert len(key(adds())) == 40


def test_all_else_counts() -> None:
    others = [
        key(adds()),
        key(adds(2.0)),
        key(adds(1.0 + 2**-23)),
        key(adds(extent=5)),
        key(adds().with_attr("tirx.noalias", False)),
        key(adds(), parse_target("llvm -mcpu=znver4").target),
        key(adds(), config={"tirx.disable_assert": True}),
        key(adds(), opt_level=3),
        key(adds(), required_pass=["tirx.RemoveNoOp"]),
        key(adds(), disabled_pass=["tirx.RemoveNoOp"]),
    ]
    assert len(set(others)) == len(others)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("for i in range(4):\n    a[i] = b[i]", "for k in range(4):\n    x[k] = y[k]", True),
        ("a[i] = b[i]", "a[i] = a[i]", False),
        ("x = T.max(a, b)", "x = T.min(a, b)", False),
        ("x = T.max(a, b)", "x = T.max(b, a)", True),  # free names: the signature ties them
        ("f(a, b, a)", "f(a, b, b)", False),
        ("m = T.Buffer((4,), data=d)", "m = T.Buffer((4,), strides=d)", False),
        ('T.call("a")', 'T.call("b")', False),
        ('with T.sblock("pad"):', 'with T.sblock("conv_1"):', True),
        ('x_offset = TypeVar("x_offset")\nf(x_offset)', 'b = TypeVar("b")\nf(b)', True),
        ("a if c else b", "a or c and b", False),
        ("T.float32(1e-05)", "T.float32(1e-06)", False),
    ],
)
def test_scripts_without_names(one: str, other: str, equal: bool) -> None:
    assert (nameless(one) == nameless(other)) is equal
