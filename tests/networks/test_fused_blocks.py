"""Depthwise layers with the 1x1 layers around them, as relay.build fuses them: ONNX Runtime's."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
import pytest
import tvm
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_net import Net, check
from tvm import relax

from tvm_neocpu import pipeline, relay
from tvm_neocpu.codegen.network import compile_network
from tvm_neocpu.contrib.model_zoo import build
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.fused_block import cost
from tvm_neocpu.topi.fused_block.template import layers_of

# On two cores layers at 14x14 wait for each other's channels.
TARGET = parse_target("llvm -mcpu=znver3 -num-cores=2")


@dataclass(frozen=True)
class Chain:
    """1x1 -> depthwise -> 1x1, maybe with a sum around it; everything that may be odd is.

    ``gated``: a squeeze-excite gate reads the depthwise layer. ``kept``: a factor of the sum is
    made of the expansion, too. ``scaled``: a batch norm and a ReLU in front of the expansion.
    ``taps``: something that no layer of the chain needs reads the expansion ("e"), the depthwise
    layer ("d").
    """

    batch: int
    channels: int
    expanded: int
    height: int
    width: int
    kernel: int
    stride: int
    pads: tuple[int, int, int, int]
    activation: str
    residual: bool
    gated: bool = False
    kept: bool = False
    scaled: bool = False
    taps: str = ""

    def model(self) -> onnx.ModelProto:
        net = Net((self.batch, self.channels, self.height, self.width), biases=True)
        x = net("Relu", net.conv("data", self.channels, self.channels))
        front = net("Relu", net.batch_norm(x, self.channels)) if self.scaled else x
        y = inner = self._active(net, net.conv(front, self.channels, self.expanded))
        window = {"strides": [self.stride] * 2, "pads": list(self.pads)}
        y = net.conv(y, self.expanded, self.expanded, self.kernel, self.expanded, **window)
        y = deep = self._active(net, y)
        if self.gated:
            gate = net.conv(net("GlobalAveragePool", y), self.expanded, self.expanded)
            y = net("Mul", y, net("Sigmoid", gate))
        y = net.conv(y, self.expanded, self.channels)
        same = self.stride == 1 and self.pads == (self.kernel // 2,) * 4
        y = net("Add", y, x) if self.residual and same else y
        if self.kept:
            mean = net.conv(net("GlobalAveragePool", inner), self.expanded, self.channels)
            y = net("Mul", y, mean)
        if self.taps:
            # Behind a pool: the sums with what the taps' readers make are no epilogues.
            y = net("MaxPool", y, kernel_shape=[3, 3], pads=[1] * 4)
        for tap in self.taps:
            x = net.conv(inner if tap == "e" else deep, self.expanded, self.channels, 3)
            y = net("Add", y, net("GlobalAveragePool", net("Relu", x)))
        return net.model(y)

    def _active(self, net: Net, x: str) -> str:
        return x if self.activation == "none" else net(self.activation, x)


CHAINS = st.builds(
    Chain,
    batch=st.sampled_from([1, 1, 2, 3]),
    channels=st.sampled_from([8, 12, 16, 24, 40]),
    expanded=st.sampled_from([16, 24, 48, 72]),
    height=st.integers(5, 20),
    width=st.integers(5, 20),
    kernel=st.sampled_from([3, 3, 5]),
    stride=st.sampled_from([1, 2]),
    pads=st.tuples(*[st.integers(0, 2)] * 4) | st.just((1, 1, 1, 1)),
    activation=st.sampled_from(["none", "Relu", "HardSwish", "Sigmoid"]),
    residual=st.booleans(),
    gated=st.booleans(),
    kept=st.sampled_from([False, False, False, True]),
    scaled=st.booleans(),
    taps=st.sampled_from(["", "", "e", "d", "ed"]),
)
# Groups gain then, whatever the cost model says.
ALWAYS = "apart_seconds"


@pytest.mark.slow
@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(chain=CHAINS)
def test_any_chain_computes_what_onnx_runtime_does(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cost, ALWAYS, lambda block, cpu: float("inf"))
        check(chain.model())


def test_a_chain_with_a_residual_is_fused_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, ALWAYS, lambda block, cpu: float("inf"))
    model = Chain(2, 16, 48, 14, 14, 3, 1, (1, 1, 1, 1), "HardSwish", residual=True).model()
    assert groups(model) == 1
    check(model)


def test_mobilenet_v2_is_fused_at_14x14_on_two_cores() -> None:
    assert groups(build("mobilenet_v2")) >= 5


def groups(model: onnx.ModelProto) -> int:
    """Functions of groups in the network as it is lowered for two cores."""
    return len(grouped(model))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("gated", [False, True])
def test_the_expansion_is_in_the_group(
    stride: int, gated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate ends it behind the depthwise layer."""
    monkeypatch.setattr(cost, ALWAYS, lambda block, cpu: float("inf"))
    chain = Chain(1, 16, 48, 17, 16, 3, stride, (0, 1, 2, 1), "HardSwish", False, gated)
    model = chain.model()
    layers = grouped(model)
    assert [text.count("->") for text in layers] == [5 - gated * 2]
    check(model)


def test_an_expansion_that_a_factor_behind_the_sum_is_made_of_is_an_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cost, ALWAYS, lambda block, cpu: float("inf"))
    chain = Chain(1, 16, 48, 14, 14, 3, 1, (1, 1, 1, 1), "Relu", residual=True, kept=True)
    model = chain.model()
    (layers,) = grouped(model)
    assert layers.startswith("16x14x14->48 1x1 -> 48x14x14->48 3x3 p1 depthwise -> ")
    check(model)


@pytest.mark.parametrize(
    ("chain", "layers"),
    [
        (Chain(1, 16, 48, 18, 17, 3, 1, (1, 1, 1, 1), "Relu", True, taps="e"), 3),
        (Chain(2, 16, 48, 14, 15, 5, 1, (2, 1, 0, 2), "HardSwish", True, taps="d"), 3),
        (Chain(2, 24, 48, 13, 9, 3, 2, (0, 1, 2, 1), "Relu", False, taps="ed"), 3),
        # Rows 12 and 13 have no reader in the depthwise layer, so that no band computes them.
        (Chain(1, 16, 48, 14, 14, 3, 3, (0, 0, 0, 0), "Relu", False, taps="e"), 2),
    ],
    ids=["expansion", "depthwise", "both", "unread rows"],
)
@pytest.mark.parametrize("cores", [1, 3])
def test_what_something_else_reads_is_an_output_of_the_group(
    chain: Chain, layers: int, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One core has runs of bands, three have bands that compute halos."""
    monkeypatch.setattr(cost, ALWAYS, lambda block, cpu: float("inf"))
    model = chain.model()
    mod, _ = relay.frontend.from_onnx(model)
    cpu = TARGET.cpu.with_cores(cores)
    lowered = pipeline.lower(mod, cpu)
    found = [layers_of(func) for func in lowered.functions.values()]
    (text,) = [each[0] for each in found if each is not None]
    assert text.count(" -> ") == layers - 1
    machine = relax.VirtualMachine(compile_network(lowered, TARGET.target), tvm.cpu())
    check(model, lambda data: machine["main"](tvm.runtime.tensor(data)).numpy())


def test_a_1x1_depthwise_layer_is_a_group_with_the_projection_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1x1 -> depthwise 3x3, and depthwise 1x1 -> 1x1: two groups of two."""
    monkeypatch.setattr(cost, ALWAYS, lambda block, cpu: float("inf"))
    net = Net((2, 16, 14, 13), biases=True)
    x = net("Relu", net.conv(net("Relu", net.conv("data", 16, 16)), 16, 48))
    x = net("Relu", net.conv(x, 48, 48, 3, 48, pads=[1, 0, 1, 1]))
    x = net("Relu", net.conv(x, 48, 48, 1, 48))
    model = net.model(net.conv(x, 48, 16))
    first, second = sorted(grouped(model), key=lambda text: "3x3" not in text)
    assert "3x3" in first and first.endswith("depthwise")
    assert "48x14x12->48 1x1 depthwise -> " in second
    check(model)


def grouped(model: onnx.ModelProto) -> list[str]:
    """What the functions of groups compute."""
    mod, _ = relay.frontend.from_onnx(model)
    functions = pipeline.lower(mod, TARGET.cpu).functions.values()
    return [found[0] for func in functions if (found := layers_of(func)) is not None]
