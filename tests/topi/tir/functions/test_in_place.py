"""Functions that write over an argument: which may, and what they compute.

`samples.check` compares every template's own, where it has one, with what is written elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest
from samples import HOST, check_over, drawn, run, sample
from template_workloads import EPILOGUES, favourite
from tvm import te, tirx, topi
from tvm.script import tirx as T

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.table import implementation_of
from tvm_neocpu.topi.tir.functions.in_place import REQUEST, written_over

PLAIN = ConvWorkload(1, 64, 28, 28, 64, (1, 1))
WIDE = ConvWorkload(1, 32, 17, 17, 32, (3, 3), padding=(1, 1, 1, 1))
DEPTHWISE = ConvWorkload(1, 32, 14, 14, 32, (3, 3), padding=(1, 1, 1, 1), groups=32)
DIRECT, BY_CHANNEL = "conv2d_NCHWc", "depthwise_conv2d_NCHWc"


def with_residual(conv: ConvWorkload, config: Config) -> tuple[tirx.PrimFunc, list[np.ndarray]]:
    """A scheduled convolution with a bias and a residual, and its arguments without the result."""
    rng, residual = np.random.default_rng(0), EPILOGUES["residual"]
    case = sample(conv, config, rng)
    arrays = [*case.inputs]
    arrays += [drawn(s, "float32", rng) for s in residual.inputs(case.expected.shape)]
    tensors = [te.placeholder(a.shape, str(a.dtype), f"p{at}") for at, a in enumerate(arrays)]
    count = len(case.inputs)
    out = implementation_of(config).compute(*tensors[:count], conv, config)
    func = te.create_prim_func([*tensors, residual.stages(out, *tensors[count:])])
    return schedule_function(func, HOST.cpu), arrays


@pytest.mark.parametrize(
    ("conv", "template"), [(PLAIN, DIRECT), (WIDE, DIRECT), (DEPTHWISE, BY_CHANNEL)]
)
def test_a_convolution_writes_over_its_residual(conv: ConvWorkload, template: str) -> None:
    func, arrays = with_residual(conv, favourite(template, conv, HOST.cpu))
    got = run(func, arrays, arrays[-1].shape, "float32")
    written = written_over(func, len(arrays) - 1)
    assert written is not None and len(written.params) == len(arrays)
    check_over(func, arrays, len(arrays) - 1, got)


def test_lines_of_both_are_asked_for_once() -> None:
    func, arrays = with_residual(PLAIN, favourite(DIRECT, PLAIN, HOST.cpu))
    written = written_over(func, len(arrays) - 1)
    assert written is not None
    assert 0 < requests(written) < requests(func)


def requests(func: tirx.PrimFunc) -> int:
    return str(func).count(f"T.{REQUEST.removeprefix('tirx.')}(")


def test_tiles_that_overhang_write_what_is_inside() -> None:
    config = ConvConfig(16, 16, reg_n=9, unroll_ker=True)
    func, arrays = with_residual(WIDE, config)
    assert "T.where" in str(func) and written_over(func, len(arrays) - 1) is not None
    check_over(func, arrays, len(arrays) - 1, run(func, arrays, arrays[-1].shape, "float32"))


def test_tiles_that_overlap_do_not() -> None:
    """Two tiles of nine compute one of 17 elements twice."""

    @T.prim_func(s_tir=True)
    def overlapping(
        x: T.Buffer((17,), "float32"), r: T.Buffer((17,), "float32"), y: T.Buffer((17,), "float32")
    ):
        for i, j in T.grid(2, 9):
            with T.sblock("y"):
                at = T.axis.spatial(17, T.min(i * 9, 8) + j)
                y[at] = x[at] + r[at]

    @T.prim_func(s_tir=True)
    def repeated(
        x: T.Buffer((16,), "float32"), r: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")
    ):
        for _i, j in T.grid(2, 16):
            with T.sblock("y"):
                at = T.axis.spatial(16, j)
                y[at] = x[at] + r[at]

    @T.prim_func(s_tir=True)
    def in_two_steps(
        x: T.Buffer((16,), "float32"), r: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")
    ):
        for j in range(16):
            with T.sblock("first"):
                at = T.axis.spatial(16, j)
                y[at] = x[at] + r[at]
        for j in range(16):
            with T.sblock("second"):
                at = T.axis.spatial(16, j)
                y[at] = x[at] - r[at]

    for func in (overlapping, repeated, in_two_steps):
        assert written_over(func, 1) is None


def elementwise(read: str) -> tirx.PrimFunc:
    """y = x + r as a schedule of ours, of what is read of r."""
    shape = (4, 32)
    x, r = (te.placeholder(shape, name=name) for name in "xr")
    places = {
        "same": lambda i, j: r[i, j],
        "twice": lambda i, j: r[i, j] * r[i, j],
        "other": lambda i, j: r[3 - i, j],
        "both": lambda i, j: r[i, j] * r[0, j],
        "row": lambda i, j: r[0, j],
    }
    y = te.compute(shape, lambda i, j: x[i, j] + places[read](i, j), name="y")
    return te.create_prim_func([x, r, y])


@pytest.mark.parametrize(
    ("read", "may"),
    [("same", True), ("twice", True), ("other", False), ("both", False), ("row", False)],
)
def test_only_the_element_that_is_written_may_be_read(read: str, may: bool) -> None:
    func = elementwise(read)
    assert (written_over(func, 1) is not None) == may
    # x is read in the same way, but where it is read only there.
    assert written_over(func, 0) is not None


def test_nobody_else_may_name_either() -> None:
    """A second statement that reads or writes the operand, or takes a pointer to it; one that reads
    the result."""

    @T.prim_func(s_tir=True)
    def read_first(
        r: T.Buffer((4, 8), "float32"), s: T.Buffer((4,), "float32"), y: T.Buffer((4, 8), "float32")
    ):
        for i in range(4):
            with T.sblock("s"):
                at = T.axis.spatial(4, i)
                s[at] = r[(at + 1) % 4, 0]
            for j in range(8):
                with T.sblock("y"):
                    a, b = T.axis.remap("SS", [i, j])
                    y[a, b] = r[a, b] - s[a]

    @T.prim_func(s_tir=True)
    def stored_too(r: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.sblock("y"):
                at = T.axis.spatial(16, i)
                y[at] = r[at] * T.float32(2)
        for i in range(16):
            with T.sblock("r"):
                at = T.axis.spatial(16, i)
                r[at] = T.float32(0)

    @T.prim_func(s_tir=True)
    def handed_out(r: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")):
        T.evaluate(T.call_extern("int32", "look_at", r.data))
        for i in range(16):
            with T.sblock("y"):
                at = T.axis.spatial(16, i)
                y[at] = r[at] * T.float32(2)

    @T.prim_func(s_tir=True)
    def read_later(
        r: T.Buffer((16,), "float32"), z: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")
    ):
        for i in range(16):
            with T.sblock("y"):
                at = T.axis.spatial(16, i)
                y[at] = r[at] * T.float32(2)
        for i in range(16):
            with T.sblock("z"):
                at = T.axis.spatial(16, i)
                z[at] = y[15 - at]

    for func in (read_first, stored_too, handed_out, read_later):
        assert written_over(func, 0) is None


def test_others_are_left_alone() -> None:
    """Another shape, another type, no operand at all, a result of several stages."""
    x, bias = te.placeholder((4, 32), name="x"), te.placeholder((32,), name="bias")
    func = te.create_prim_func([x, bias, topi.add(x, bias)])
    assert written_over(func, 1) is None and written_over(func, 2) is None
    codes = te.placeholder((4, 32), "uint8", name="codes")
    func = te.create_prim_func([codes, x, topi.add(x, topi.cast(codes, "float32"))])
    assert written_over(func, 0) is None and written_over(func, 1) is not None
    func = te.create_prim_func([x, topi.nn.softmax(x)])
    assert written_over(func, 0) is None
    rows = te.var("rows", "int64")
    some = te.placeholder((rows, 4), name="some")
    func = te.create_prim_func([some, topi.nn.relu(some)])
    assert written_over(func, 0) is None


def test_a_sum_of_what_was_written_is_no_result() -> None:
    """A reduction reads what it writes."""
    x, r = te.placeholder((4, 8), name="x"), te.placeholder((4,), name="r")
    k = te.reduce_axis((0, 8), name="k")
    y = te.compute((4,), lambda i: te.sum(x[i, k] + r[i], axis=k), name="y")
    assert written_over(te.create_prim_func([x, r, y]), 1) is None
