"""torchvision's networks: what is said without torch, and both exporters against torch itself."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from onnx_net import TOLERANCE, run

from tvm_neocpu import relay
from tvm_neocpu.commands.shared import cli
from tvm_neocpu.contrib.model_zoo import pretrained as module
from tvm_neocpu.contrib.model_zoo.pretrained import PACKAGES, pretrained
from tvm_neocpu.core.errors import MissingPackageError, ShapeError, UnknownModelError

needs_torch = pytest.mark.skipif(
    any(find_spec(package) is None for package in PACKAGES), reason="needs tvm-neocpu[zoo]"
)
NAMES = (
    "resnet50",
    "shufflenet_v2_x1_0",
    "mobilenet_v3_large",
    "efficientnet_b0",
    "convnext_tiny",
    "regnet_y_400mf",
    "mnasnet1_0",
    "googlenet",
    "squeezenet1_1",
    "densenet169",
)


def test_without_torch_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: name != "torchvision" or None)
    with pytest.raises(MissingPackageError) as caught:
        cli.load_network("torchvision:resnet50")
    assert str(caught.value) == (
        "torchvision:resnet50 needs torchvision: pip install 'tvm-neocpu[zoo]'"
    )


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ShapeError, match="not 0"):
        pretrained("resnet50", batch=0)


@needs_torch
def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownModelError, match="no network 'resnet51'"):
        pretrained("resnet51")
    with pytest.raises(UnknownModelError, match="no weights 'V9' of resnet50"):
        pretrained("resnet50", weights="V9")


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_both_exports_compute_what_torch_does(
    name: str, dynamo: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With random weights: nothing is downloaded."""
    networks: list[Any] = []
    load = module._load

    def remember(name: str, weights: str | None) -> tuple[Any, int]:
        network, size = load(name, weights)
        _calibrate(network, size)
        networks.append(network)
        return network, size

    monkeypatch.setattr(module, "_load", remember)
    model = pretrained(name, weights=None, dynamo=dynamo)
    shape = tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)
    data = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    torch = importlib.import_module("torch")
    with torch.no_grad():
        expected = networks[0](torch.from_numpy(data)).numpy()
    mod, params = relay.frontend.from_onnx(model)
    found = run(relay.build(mod, target="llvm", params=params), data)
    assert np.max(np.abs(found - expected)) <= TOLERANCE * np.max(np.abs(expected))


def _calibrate(network: Any, size: int) -> None:
    """Give batch norms the statistics of two random images, so that the signal stays near 1."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    with torch.no_grad():
        network.train()(torch.randn(2, 3, size, size))
    network.eval()
