"""Small Relax modules, plans for them, and a check of what AlterOpLayout makes of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import NodeKind
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.relay_passes.ir.rewrite import tidy
from tvm_neocpu.relay_passes.planning.alter_op_layout import AlterOpLayout
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

op = relax.op

CPU = Cpu("haswell", AVX2, cores=1)
SHAPE = (1, 16, 6, 6)
RNG = np.random.default_rng(0)


def pack(x: relax.Expr, b: int) -> relax.Expr:
    """NCHW to blocks of ``b`` channels."""
    return op.layout_transform(x, lambda n, c, h, w: (n, c // b, h, w, c % b))


def unpack(x: relax.Expr, b: int) -> relax.Expr:
    return op.layout_transform(x, lambda n, o, h, w, i: (n, o * b + i, h, w))


def repack(x: relax.Expr, a: int, b: int) -> relax.Expr:
    """From blocks of ``a`` channels to blocks of ``b``."""

    def index_map(n, o, h, w, i):
        return n, (o * a + i) // b, h, w, (o * a + i) % b

    return op.layout_transform(x, index_map)


class Net:
    """Writes a module, every operation bound to a variable."""

    def __init__(self) -> None:
        self.builder = relax.BlockBuilder()

    def __call__(self, value: relax.Expr) -> relax.Var:
        return self.builder.emit(value)

    def conv(
        self, x: relax.Var, weight: relax.Expr, ic_bn: int = 0, oc_bn: int = 0, groups: int = 1
    ) -> relax.Var:
        """A convolution that keeps the image's size; blocks of 0 are plain NCHW."""
        return self(
            op.nn.conv2d(
                x,
                weight,
                padding=int(weight.ty.shape[2]) // 2,
                groups=groups,
                data_layout=str(Layout(ic_bn)),
                out_layout=str(Layout(oc_bn)),
                kernel_layout="OIHW",
            )
        )

    def pack(self, x: relax.Var, b: int) -> relax.Var:
        return self(pack(x, b))

    def unpack(self, x: relax.Var, b: int) -> relax.Var:
        return self(unpack(x, b))

    def repack(self, x: relax.Var, a: int, b: int) -> relax.Var:
        return self(repack(x, a, b))


Build = Callable[..., relax.Expr]


def module(build: Build, *shapes: tuple[int, ...]) -> tvm.IRModule:
    net = Net()
    types = [relax.TensorType(shape, "float32") for shape in shapes or (SHAPE,)]
    inputs = [relax.Var(f"x{i}", ty) for i, ty in enumerate(types)]
    with net.builder.function("main", inputs):
        with net.builder.dataflow():
            result = net.builder.emit_output(build(net, *inputs))
        net.builder.emit_func_output(result)
    return net.builder.get()


def plan_for(mod: tvm.IRModule, configs: Sequence[Config], joins: Sequence[int]) -> Plan:
    """A plan that lists configs, and blocks of joins, in the order of the program."""
    graph = ExtractConvGraph(CPU)(mod)
    join_nodes = [node.id for node in graph.nodes if node.kind is NodeKind.JOIN]
    return Plan(
        graph.hash,
        dict(zip([node.id for node in graph.convs], configs, strict=True)),
        dict(zip(join_nodes, map(Layout, joins), strict=bool(joins))),
    )


def altered(mod: tvm.IRModule, configs: Sequence[Config], *joins: int) -> tvm.IRModule:
    return AlterOpLayout(plan_for(mod, configs, joins), CPU)(mod)


def check(
    before: Build,
    configs: Sequence[Config],
    expected: Build,
    *shapes: tuple[int, ...],
    joins: Sequence[int] = (),
) -> None:
    after = altered(module(before, *shapes), configs, *joins)
    tvm.ir.assert_structural_equal(after, tidy(module(expected, *shapes)))


def blocks(ic_bn: int, oc_bn: int) -> Config:
    return ConvConfig(ic_bn, oc_bn, reg_n=2)


def const(values: np.ndarray | float) -> relax.Expr:
    return relax.const(np.ascontiguousarray(values, "float32"))


def weight(*shape: int) -> relax.Expr:
    return const(RNG.normal(size=shape))


# Weights of 16 inputs, named after their outputs, and a constant for every one of 16 channels.
W16, W16B, W32, W8 = (weight(outputs, 16, 3, 3) for outputs in (16, 16, 32, 8))
BIAS = RNG.normal(size=(1, 16, 1, 1))
