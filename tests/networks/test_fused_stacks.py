"""Dense convolutions behind each other, as relay.build fuses them: ONNX Runtime's outputs."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import onnx
import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_net import Net, check, run

from tvm_neocpu import pipeline, relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.commands import explain, profile
from tvm_neocpu.contrib.profile.profile_network import GROUP
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.fused_block import cost
from tvm_neocpu.topi.fused_block.geometry import FusedBlock
from tvm_neocpu.topi.fused_block.template import layers_of
from tvm_neocpu.tuning.database import places
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.group_candidates import with_doubtful_groups


@dataclass(frozen=True)
class Layer:
    """A convolution and what is on each element of its result."""

    channels: int
    kernel: int
    stride: int
    pads: tuple[int, int, int, int] | None
    epilogue: str


@dataclass(frozen=True)
class Stack:
    """Layers behind a first one that all may read; ``winograd`` is its largest tile, 0: none.

    ``seed`` says which bands are taken.
    """

    batch: int
    plain: bool
    height: int
    width: int
    layers: tuple[Layer, ...]
    residual: bool
    winograd: int
    cores: int
    seed: int = 0

    def model(self) -> onnx.ModelProto:
        channels = 3 if self.plain else 16
        net = Net((self.batch, channels, self.height, self.width), biases=True)
        x = y = "data" if self.plain else net("Relu", net.conv("data", 16, 16, 7))
        same, given = True, channels
        for at, layer in enumerate(self.layers):
            pads = list(layer.pads or [layer.kernel // 2] * 4)
            window = {"pads": pads, "strides": [layer.stride] * 2}
            y = net.conv(y, channels, layer.channels, layer.kernel, **window)
            channels, last = layer.channels, at == len(self.layers) - 1
            same = same and layer.stride == 1 and (not layer.pads or layer.pads == (1,) * 4)
            if last and self.residual and same and channels == given:
                y = net("Add", y, x)
            y = y if layer.epilogue == "none" else net(layer.epilogue, y)
        return net.model(y)

    def check(self, patch: pytest.MonkeyPatch) -> None:
        """Every stack gains, in the bands that the seed says."""
        patch.setenv("TVM_NEOCPU_WINOGRAD_TILE", str(self.winograd))
        always_gains(patch)

        def by_chance(block: FusedBlock, cpu: Cpu) -> float:
            return random.Random(f"{self.seed} {block.bands}").random()

        patch.setattr(cost, "predict_seconds", by_chance)
        model = self.model()
        mod, params = relay.frontend.from_onnx(model)
        lib = relay.build(mod, target=f"llvm -num-cores={self.cores}", params=params, cache=False)
        check(model, partial(run, lib))


def always_gains(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cost, "may_gain", lambda members, cpu: True)
    patch.setattr(cost, "apart_seconds", lambda block, cpu: float("inf"))


LAYERS = st.builds(
    Layer,
    channels=st.sampled_from([8, 16, 24]),
    kernel=st.sampled_from([1, 3, 3, 3, 5]),
    stride=st.sampled_from([1, 1, 1, 2]),
    pads=st.none() | st.tuples(*[st.integers(0, 2)] * 4),
    epilogue=st.sampled_from(["none", "Relu", "HardSwish", "Sigmoid"]),
)
STACKS = st.builds(
    Stack,
    batch=st.sampled_from([1, 1, 2, 3]),
    plain=st.booleans(),
    height=st.integers(10, 33),
    width=st.integers(10, 33),
    layers=st.lists(LAYERS, min_size=2, max_size=4).map(tuple),
    residual=st.booleans(),
    winograd=st.sampled_from([0, 2, 4, 6]),
    cores=st.sampled_from([1, 2]),
    seed=st.integers(0, 99),
)


@pytest.mark.slow
@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(stack=STACKS)
def test_any_stack_computes_what_onnx_runtime_does(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stack.check(patch)


SAME = Layer(16, 3, 1, None, "Relu")


@pytest.mark.parametrize("winograd", [0, 4])
def test_two_layers_with_a_residual_are_one_function_and_right(
    winograd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = Stack(1, False, 21, 18, (SAME, SAME), True, winograd, 2, seed=1)
    monkeypatch.setenv("TVM_NEOCPU_WINOGRAD_TILE", str(winograd))
    always_gains(monkeypatch)
    mod, _ = relay.frontend.from_onnx(stack.model())
    lowered = pipeline.lower(mod, parse_target("llvm -num-cores=2").cpu)
    found = [layers_of(func) for func in lowered.functions.values()]
    (text,) = [each[0] for each in found if each is not None]
    assert text.endswith("16x21x18->16 3x3 p1 -> 16x21x18->16 3x3 p1")
    stack.check(monkeypatch)


def test_a_tuned_plans_stack_is_built_explained_and_profiled(
    user_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The plan as `tune` logs it, with a stack of which the cost model expects nothing."""
    stack = Stack(1, False, 21, 18, (SAME, SAME), True, 4, 1)
    monkeypatch.setenv("TVM_NEOCPU_WINOGRAD_TILE", "4")
    monkeypatch.setattr(profile, "read_bandwidth", lambda *_: 10.0)
    model = stack.model()
    path, report = str(tmp_path / "stack.onnx"), tmp_path / "report.json"
    onnx.save(model, path)
    network = open_onnx(model.SerializeToString(), {"data": (1, 16, 21, 18)}, "llvm")
    graph, cpu = network.graph, network.cpu
    with monkeypatch.context() as patch:
        always_gains(patch)
        plan = with_doubtful_groups(replace(choose_plan(graph, cpu), groups=()), graph, cpu)
    assert [len(group.members) for group in plan.groups or ()] == [2]
    TuningLog(places.user_log(cpu.name), cpu.features).append_plan(plan, graph, cpu.name, cpu.cores)
    check(model)
    layer = "16x21x18->16 3x3 p1"
    assert explain.main([path, "--json", str(report)]) == 0
    assert "the log's plan" in capsys.readouterr().out
    (group,) = json.loads(report.read_text())["groups"]
    assert len(group["nodes"]) == 2
    assert profile.main([path, "--runs", "3", "--json", str(report)]) == 0
    rows = json.loads(report.read_text())["operations"]
    assert [row["what"] for row in rows if row["algorithm"] == GROUP] == [f"{layer} -> {layer}"]
