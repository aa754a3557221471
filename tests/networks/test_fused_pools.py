"""Convolutions with the pools behind them, as relay.build fuses them: ONNX Runtime's outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import onnx
import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_net import Net, check, run

from tvm_neocpu import pipeline, relay
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.fused_block import pool_cost
from tvm_neocpu.topi.fused_block.template import layers_of
from tvm_neocpu.topi.schedule import shares


@dataclass(frozen=True)
class Chain:
    """A convolution, what is on each element, a max pool, a reader; all that may be odd is."""

    batch: int
    channels: int
    height: int
    width: int
    kernel: int
    stride: int
    epilogue: str
    taps: int
    hop: int
    pads: tuple[int, int, int, int]
    ceil: int
    cores: int

    def model(self) -> onnx.ModelProto:
        net = Net((self.batch, self.channels, self.height, self.width), biases=True)
        same = {"pads": [self.kernel // 2] * 4, "strides": [self.stride] * 2}
        y = net.conv("data", self.channels, 24, self.kernel, **same)
        if self.epilogue == "residual":
            y = net(
                "Relu",
                net(
                    "Add",
                    y,
                    net.conv("data", self.channels, 24, 1, pads=[0] * 4, strides=[self.stride] * 2),
                ),
            )
        elif self.epilogue != "none":
            y = net(self.epilogue, y)
        windows = {"kernel_shape": [self.taps] * 2, "strides": [self.hop] * 2}
        y = net("MaxPool", y, pads=list(self.pads), ceil_mode=self.ceil, **windows)
        return net.model(net.conv(y, 24, 8))

    def check(self) -> None:
        model = self.model()
        mod, params = relay.frontend.from_onnx(model)
        lib = relay.build(mod, target=f"llvm -num-cores={self.cores}", params=params, cache=False)
        check(model, partial(run, lib))


STEM = Chain(1, 3, 33, 30, 7, 2, "Relu", 3, 2, (1, 1, 1, 1), 0, 2)
CHAINS = st.builds(
    Chain,
    batch=st.sampled_from([1, 1, 2, 3]),
    channels=st.sampled_from([3, 8, 16]),
    height=st.integers(9, 40),
    width=st.integers(9, 40),
    kernel=st.sampled_from([1, 3, 3, 5, 7]),
    stride=st.sampled_from([1, 1, 2]),
    epilogue=st.sampled_from(["none", "Relu", "HardSwish", "Sigmoid", "residual"]),
    taps=st.sampled_from([2, 3, 3]),
    hop=st.sampled_from([1, 2, 2, 3]),
    pads=st.tuples(*[st.integers(0, 1)] * 4),
    ceil=st.integers(0, 1),
    cores=st.sampled_from([1, 2]),
)


@pytest.fixture(autouse=True)
def _every_pool_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_cost, "apart_seconds", lambda layer, pool, cpu: float("inf"))
    # Pools as small as these have no loop over rows.
    monkeypatch.setattr(shares, "MIN_PARALLEL_WORK", 1)


@pytest.mark.slow
@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(chain=CHAINS)
def test_any_chain_computes_what_onnx_runtime_does(chain: Chain) -> None:
    chain.check()


def test_a_stem_is_fused_and_right() -> None:
    mod, _ = relay.frontend.from_onnx(STEM.model())
    lowered = pipeline.lower(mod, parse_target("llvm -num-cores=2").cpu)
    found = [layers_of(func) for func in lowered.functions.values()]
    assert [each[0] for each in found if each] == ["3x33x30->24 7x7 s2 p3 -> pool"]
    STEM.check()
