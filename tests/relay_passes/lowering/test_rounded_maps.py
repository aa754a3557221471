"""Maps that only a layer in bf16 reads are stored as bf16: the same numbers, half the bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from numpy.typing import NDArray
from onnx_net import Net
from tvm import tirx

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.core.machine.dot import PORTABLE_BF16, DotProduct
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import BF16_MAPS, BF16_WEIGHTS
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import apply_plan, compute_templates, fold, lower
from tvm_neocpu.relay_passes.ir.half_weights import with_half_weights
from tvm_neocpu.relay_passes.lowering import lower_to_templates
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.specialize import build_networks
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.targets.families import FIGURES
from tvm_neocpu.topi.conv2d_amx.geometry import Bf16TilesConfig
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.schedule.unchecked import UncheckedSchedule
from tvm_neocpu.topi.schedule_function import anchor_of
from tvm_neocpu.tuning.database.history import current_history

# So fast that every convolution gains: plain arithmetic in place of the instruction.
FAST = replace(PORTABLE_BF16, rate=8.0)
SHAPE = (1, 16, 15, 13)


def here(fast: DotProduct = FAST) -> CompileTarget:
    """This machine's instructions; the figures that choose layers are one CPU's on any machine."""
    target = parse_target("llvm -num-cores=1", measured=False)
    figures = {name: getattr(known_cpu().cpu, name) for name in FIGURES}
    return _multiplying(target, fast, **figures)


def for_one_cpu() -> CompileTarget:
    """What is chosen for one CPU, on any machine: the width of vectors decides, too."""
    return _multiplying(known_cpu(), FAST)


def known_cpu() -> CompileTarget:
    return parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=emeraldrapids -num-cores=1")


def _multiplying(target: CompileTarget, fast: DotProduct, **figures: float) -> CompileTarget:
    """The target with ``fast`` for bf16, and without a matrix unit."""
    others = (dot for dot in target.cpu.dots if not dot.multiplies(BF16_WEIGHTS))
    cpu = replace(target.cpu, dots=(fast, *others), matrix=None, **figures)
    return replace(target, cpu=cpu)


def separable() -> onnx.ModelProto:
    """Two depthwise separable layers; a sum between them."""
    net = Net(SHAPE, biases=True)
    x = net("Relu", net.conv("data", 16, 48))
    y = net("Relu", net.conv(x, 48, 48, 3, group=48))
    y = net("Relu", net.conv(y, 48, 48))
    x = net("Add", x, y)
    x = net("Clip", net.conv(x, 48, 32), net.constant(0.0), net.constant(6.0))
    x = net("Relu", net.conv(x, 32, 32, 3, group=32))
    return net.model(net("Relu", net.conv(x, 32, 24)))


def padded() -> onnx.ModelProto:
    """What the second layer reads is padded, and its channels do not fill words."""
    net = Net(SHAPE, biases=True)
    x = net("Sigmoid", net.conv("data", 16, 37, 3))
    x = net("Relu", net.conv(x, 37, 24, 3, strides=[2, 2]))
    return net.model(net.conv(x, 24, 16, 1, strides=[2, 2]))


def joined() -> onnx.ModelProto:
    """A border and a concat between layers, which only layers in bf16 read."""
    net = Net(SHAPE, biases=True)
    x = net("Relu", net.conv("data", 16, 48))
    y = net("Relu", net.conv(net("Sigmoid", net.conv("data", 16, 48, 3)), 48, 48))
    x = net("Relu", net.conv(net("Concat", x, y, axis=1), 96, 32, 3))
    y = net("Relu", net.conv("data", 16, 32))
    x = net("Relu", net.conv(net("Concat", x, y, axis=1), 64, 32))
    border = net.integers(0, 0, 1, 1, 0, 0, 1, 1)
    return net.model(net.conv(net("Pad", x, border, mode="reflect"), 32, 48, 3, pads=[0] * 4))


def normalised() -> onnx.ModelProto:
    """A mirrored border behind an instance norm, as networks that make images have it."""
    net = Net(SHAPE)
    x = net.conv("data", 16, 48, 3)
    x = net("InstanceNormalization", x, net.weight(48), net.weight(48))
    border = net.integers(0, 0, 2, 1, 0, 0, 1, 2)
    x = net("Pad", net("Relu", x), border, mode="edge")
    return net.model(net.conv(x, 48, 32, 3, pads=[0] * 4))


def volume() -> onnx.ModelProto:
    """Taps along the depth, with a border and without, over volumes that only these read."""
    net = Net((1, 3, 5, 9, 8))
    x = net("Relu", net("Conv", "data", net.weight(48, 3, 1, 1, 1)))
    x = net("Conv", x, net.weight(32, 48, 3, 3, 3), pads=[1] * 6)
    x = net("Conv", net("Relu", x), net.weight(32, 32, 3, 1, 1), pads=[1, 0, 0, 1, 0, 0])
    return net.model(net("Relu", x))


def planned(model: onnx.ModelProto, target: CompileTarget) -> tuple[tvm.IRModule, Plan]:
    mod = fold(with_half_weights(from_onnx(model)[0], "bfloat16"), target.cpu)
    graph = ExtractConvGraph(target.cpu)(mod)
    return mod, choose_plan(graph, target.cpu, current_history(target.cpu))


def anchors(model: onnx.ModelProto, target: CompileTarget) -> list[tuple[Workload, Config]]:
    """What the functions of the lowered network compute, and how."""
    return lowered(*planned(model, target), target)


def lowered(mod: tvm.IRModule, plan: Plan, target: CompileTarget) -> list[tuple[Workload, Config]]:
    graph = ExtractConvGraph(target.cpu)(mod)
    altered = apply_plan(mod, plan, target.cpu)
    computed = compute_templates(altered, plan.by_layout(graph), target.cpu)
    functions = [f for f in computed.functions.values() if isinstance(f, tirx.PrimFunc)]
    found = [anchor_of(UncheckedSchedule(each)) for each in functions]
    return [(each.workload, each.config) for each in found if each is not None]


def _is_winograd(config: Config) -> bool:
    return "winograd" in config.template


def run(model: onnx.ModelProto, target: CompileTarget) -> NDArray[np.float32]:
    mod = with_half_weights(from_onnx(model)[0], "bfloat16")
    module = build_networks({"main": mod}, target)["default"](tvm.cpu())
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    module.run(data=np.random.default_rng(1).normal(size=shape).astype("float32"))
    return np.array(module.get_output(0).numpy())


def test_which_are_stored_so() -> None:
    """What the depthwise layers make; what they read is not, nor what is added to something."""
    found = [
        workload for workload, config in anchors(separable(), for_one_cpu()) if _is_direct(config)
    ]
    stored = [workload for workload in found if workload.types == BF16_MAPS]
    assert sorted((w.in_channels, w.out_channels) for w in stored) == [(32, 24), (48, 32), (48, 48)]
    assert all(workload.types in (BF16_MAPS, BF16_WEIGHTS) for workload in found)


def _is_direct(config: Config) -> bool:
    return isinstance(config, Bf16Config)


EXACT = {
    "separable": separable(),
    "padded": padded(),
    "joined": joined(),
    "normalised": normalised(),
    "volume": volume(),
}


@pytest.mark.parametrize("model", EXACT.values(), ids=EXACT)
def test_the_numbers_stay_the_same(model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(model, here())
    monkeypatch.setattr(lower_to_templates, "rounded_maps", lambda *_: frozenset())
    np.testing.assert_array_equal(found, run(model, here()))


@pytest.mark.parametrize("model", EXACT.values(), ids=EXACT)
def test_the_numbers_stay_the_same_by_the_instruction(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    instruction = parse_target("llvm -num-cores=1").cpu.bf16
    if instruction is None:
        pytest.skip("this CPU has no AVX512_BF16")
    target = here(replace(instruction, rate=8.0))
    assert any(w.types == BF16_MAPS for w, _ in anchors(model, target))
    found = run(model, target)
    monkeypatch.setattr(lower_to_templates, "rounded_maps", lambda *_: frozenset())
    np.testing.assert_array_equal(found, run(model, target))


def test_what_is_read_twice_stays_in_fp32() -> None:
    net = Net(SHAPE)
    x = net("Relu", net.conv("data", 16, 48))
    y = net("Add", net("Relu", net.conv(x, 48, 32)), net("Relu", net.conv(x, 48, 32)))
    found = anchors(net.model(y), for_one_cpu())
    assert all(workload.types != BF16_MAPS for workload, _ in found)


def test_what_no_layer_makes_stays_in_fp32() -> None:
    """Rounding it would be a pass of its own."""
    net = Net(SHAPE)
    x = net("Relu", net.conv("data", 16, 48))
    x = net("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    found = anchors(net.model(net.conv(x, 48, 32)), for_one_cpu())
    assert all(workload.types != BF16_MAPS for workload, _ in found)


def test_a_border_and_a_concat_move_rounded_numbers() -> None:
    """Or Winograd reads them, which transforms fp32."""
    found = [
        w for w, c in anchors(joined(), for_one_cpu()) if w.types == BF16_MAPS or _is_winograd(c)
    ]
    channels = [(32, 48), (48, 48), (64, 32), (96, 32)]
    assert sorted((w.in_channels, w.out_channels) for w in found) == channels
    (workload,) = [w for w, _ in anchors(normalised(), for_one_cpu()) if w.types == BF16_MAPS]
    assert workload.in_channels == 48


@pytest.mark.parametrize("model", EXACT.values(), ids=EXACT)
def test_a_matrix_unit_reads_them_from_memory(model: onnx.ModelProto) -> None:
    """Without a border only the matrix unit needs the rounded parts of a concat copied."""
    target = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=1")
    assert any(
        isinstance(config, Bf16TilesConfig) and workload.types == BF16_MAPS
        for workload, config in anchors(model, target)
    )
    mod = with_half_weights(from_onnx(model)[0], "bfloat16")
    assert "tdpbf16ps" in lower(mod, target.cpu).script()


def test_the_images_of_a_volume_are_moved_rounded() -> None:
    """Elsewhere the first layer may be Winograd's, which transforms fp32."""
    for target, channels in (
        (in_tiles(for_one_cpu()), {3 * 48, 3 * 32}),
        (for_one_cpu(), {3 * 32}),
    ):
        found = anchors(volume(), target)
        assert channels <= {w.in_channels for w, _ in found if w.types == BF16_MAPS}


def test_a_concat_moves_all_its_parts_rounded_or_none() -> None:
    """What the network is given is no layer's, and a pool reads the numbers of the other concat."""
    net = Net(SHAPE)
    x = net("Relu", net.conv("data", 16, 48))
    x = net("Relu", net.conv(net("Concat", x, "data", axis=1), 64, 32))
    y = net("Concat", net("Relu", net.conv("data", 16, 16)), x, axis=1)
    pooled = net("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    found = anchors(
        net.model(net("Add", net.conv(y, 48, 32), net.conv(pooled, 48, 32))), for_one_cpu()
    )
    assert all(workload.types != BF16_MAPS for workload, _ in found)


def in_tiles(target: CompileTarget) -> CompileTarget:
    """The same CPU, multiplying tiles of bf16; loops stand in for its unit."""
    unit = MatrixUnit((BF16_WEIGHTS, BF16_MAPS), is_plain=True)
    return replace(target, cpu=replace(target.cpu, matrix=unit))


def residual() -> onnx.ModelProto:
    """Two blocks whose sums are read by the next layer and by the next sum; a shortcut of 1x1."""
    net = Net(SHAPE, biases=True)
    x = net("Relu", net.conv("data", 16, 32))
    for channels, inputs, stride in ((32, 32, 1), (64, 32, 2)):
        y = net("Relu", net.conv(x, inputs, channels, 3, strides=[stride, stride]))
        y = net.conv(y, channels, channels, 3)
        if stride > 1:
            x = net.conv(x, inputs, channels, 1, strides=[stride, stride])
        x = net("Relu", net("Add", y, x))
    return net.model(net.conv(x, 64, 48))


def test_sums_are_stored_so_where_bytes_decide() -> None:
    """All layers but the first read bf16; elsewhere only what one layer reads, and no sum.

    Winograd may take one of those, and transforms fp32.
    """
    for target, wide in ((in_tiles(for_one_cpu()), 1), (for_one_cpu(), 4)):
        found = anchors(residual(), target)
        apart = sum(_is_winograd(config) for _, config in found)
        types = [workload.types for workload, _ in found]
        assert types.count(BF16_MAPS) == 7 - wide - apart
        assert types.count(BF16_WEIGHTS) == wide + apart


def dense_block() -> onnx.ModelProto:
    """RRDB's: each layer reads all maps before it, and a sum the last one and the first."""
    net = Net(SHAPE, biases=True)
    first = x = net("Relu", net.conv("data", 16, 32))
    maps = [x]
    for count in (1, 2):
        maps.append(net("Relu", net.conv(x, 32 * count, 32, 3)))
        x = net("Concat", *maps, axis=1)
    x = net("Add", net.conv(x, 96, 32, 3), first)
    return net.model(net.conv(x, 32, 48))


def test_several_readers_of_a_map_read_it_rounded_where_bytes_decide() -> None:
    found = [w.types for w, _ in anchors(dense_block(), in_tiles(for_one_cpu()))]
    assert found.count(BF16_WEIGHTS) == 1 and found.count(BF16_MAPS) == 4
    model = dense_block()
    assert relative_error(run(model, in_tiles(here())), run_exactly(model)) < 1e-2


def test_what_a_sum_reads_is_rounded_and_widened() -> None:
    model = residual()
    found, exact = run(model, in_tiles(here())), run_exactly(model)
    assert relative_error(found, exact) < 1e-2
    assert relative_error(found, exact) < 1.5 * relative_error(run(model, here()), exact)


def test_a_bound_on_the_error_leaves_sums_as_they_are() -> None:
    """What it bounds is the error of rounding layers' data and weights."""
    target = in_tiles(for_one_cpu())
    mod, plan = planned(residual(), target)
    found = lowered(mod.without_attr("neocpu_half_weights"), plan, target)
    assert [workload.types for workload, _ in found].count(BF16_WEIGHTS) == 4


def run_exactly(model: onnx.ModelProto) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    data = np.random.default_rng(1).normal(size=SHAPE).astype("float32")
    return np.array(session.run(None, {"data": data})[0])


def relative_error(found: NDArray[np.float32], exact: NDArray[np.float32]) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
