"""What lower precision costs in accuracy over the zoo: SQNR by layer and at the output, top-1.

    python benchmarks/networks/zoo_accuracy.py -o benchmarks/results/zoo_accuracy_zen4.json
    python benchmarks/networks/zoo_accuracy.py resnet18 vgg16 --ways int8 auto --size 224 -o FILE

Reference is ONNX Runtime in fp32; outputs are those of the compiled module. Errors by layer are of
the same numbers in exact arithmetic, errors of the layers before included.

Seeded weights name no classes: of a thousand random scores the two largest lie close together, and
all pictures look alike to them. So every network is asked what a user of trained weights asks: a
linear readout of its scores, fitted to the fp32 network's, tells twenty kinds of pictures apart.
Top-1 is the class of the readout, the same in every precision.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tvm_neocpu import relay
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.accuracy.output_noise import relative_error, sqnr
from tvm_neocpu.core.accuracy.precision import request_of
from tvm_neocpu.core.machine.half import BF16
from tvm_neocpu.precision.choose import choose_precision
from tvm_neocpu.quantizing.accuracy.compare import Accuracy, compare
from tvm_neocpu.quantizing.onnx_runs import runner
from tvm_neocpu.quantizing.quantiser import prepared
from tvm_neocpu.quantizing.quantize_model import Settings, quantize_model
from tvm_neocpu.quantizing.rewriting.choose_nodes import layers_of
from tvm_neocpu.quantizing.rewriting.in_half import in_half
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import current_history

NETWORKS = (
    *("resnet18", "mobilenet_v2", "resnet50", "squeezenet1_0", "mobilenet_v3_large", "googlenet"),
    *("densenet121", "vgg16", "inception_v3", "efficientnet_b0", "regnet_y_400mf", "alexnet"),
    *("mobilenet_v1", "mobilenet_v3_small", "mnasnet1_0", "shufflenet_v2_x1_0", "repvgg_a0"),
    *("resnext50_32x4d", "nasnet_a_mobile", "convnext_tiny"),
)
# Networks whose pools do not fit smaller images.
LEAST_SIZE = {"inception_v3": 160}
CALIBRATING, FITTING, KINDS, CELLS = 16, 160, 20, 4
# fp32 is sure where its two largest values are so far apart: of the readout's 1 for a kind, and of
# the standard deviation of a row's scores.
READOUT_MARGIN, MARGIN = 0.25, 0.5

Floats = NDArray[np.float32]
Network = Callable[[Floats], Floats]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--size", type=int, default=128, help="pixels a side")
    parser.add_argument("--pictures", type=int, default=120, help="that are compared")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(words)
    rows: list[dict[str, Any]] = []
    for name in options.networks or NETWORKS:
        for row in _rows(name, options):
            told = {key: value for key, value in row.items() if key != "layers_db"}
            print(json.dumps(told), flush=True)
            rows.append(row)
            report = {**provenance(parse_target("llvm").cpu.name, 1, ("onnxruntime",))}
            options.output.write_text(
                json.dumps({**report, "rows": rows}, indent=1) + "\n", encoding="utf-8"
            )
    return 0


def pictures(count: int, size: int, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """``count`` pictures (N, 1, 3, size, size), mean 0 and deviation 1, and the kind of each.

    A kind is a coarse picture of random colours. Pictures of a kind differ by a pixel of place, by
    a faint coarse picture of their own, and by noise.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, KINDS, count)
    coarse = np.random.default_rng(1).standard_normal((KINDS, 3, CELLS, CELLS))
    found = np.empty((count, 1, 3, size, size), "float32")
    for picture, kind in zip(found, kinds, strict=True):
        own = 0.15 * rng.standard_normal(coarse[kind].shape)
        whole = np.kron(coarse[kind] + own, np.ones((1, -(-size // CELLS), -(-size // CELLS))))
        picture[0] = np.roll(whole[:, :size, :size], rng.integers(-1, 2, 2), (1, 2))
        picture += rng.normal(0, 0.1, picture.shape)
        picture -= picture.mean()
        picture /= picture.std()
    return found, kinds


@dataclass(frozen=True)
class Readout:
    """Scores (N, classes) -> kinds, by least squares with a ridge that the fit chose."""

    mean: Floats
    scale: Floats
    weights: Floats

    def __call__(self, scores: Floats) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.argmax(self.values(scores), 1)
        return found

    def values(self, scores: Floats) -> Floats:
        """(N, kinds): near 1 for the kind of a picture, near 0 for others."""
        found: Floats = self._features(scores) @ self.weights
        return found

    def _features(self, scores: Floats) -> Floats:
        centred = (scores - self.mean) / self.scale
        return np.concatenate([centred, np.ones((len(scores), 1))], 1).astype("float32")


def fitted(scores: Floats, kinds: NDArray[np.int64]) -> Readout:
    """The readout of these scores; the ridge is what is right most often on every fourth row."""
    mean = scores.mean(0)
    scale = np.full_like(mean, np.sqrt(scores.var(0).mean()) or 1.0)
    wanted = np.eye(KINDS)[kinds]
    held = np.arange(len(scores)) % 4 == 0

    def fit(rows: NDArray[np.bool_], ridge: float) -> Readout:
        features = Readout(mean, scale, mean)._features(scores[rows]).astype("float64")
        kernel = features @ features.T + ridge * np.eye(len(features))
        weights = features.T @ np.linalg.solve(kernel, wanted[rows])
        return Readout(mean, scale, weights.astype("float32"))

    right = {
        ridge: float(np.mean(fit(~held, ridge)(scores[held]) == kinds[held]))
        for ridge in (1e3, 1e2, 10.0, 1.0)
    }
    best = max(right, key=lambda ridge: right[ridge])
    return fit(np.ones(len(scores), bool), best)


def _rows(name: str, options: argparse.Namespace) -> Any:
    network = model_zoo.find(name)
    size = max(options.size, LEAST_SIZE.get(name, 0))
    model = replace(network, image=(network.image[0], size, size)).build(1)
    seed = zlib.crc32(name.encode())
    samples = [{"data": each} for each in pictures(CALIBRATING, size, seed)[0]]
    shown, kinds = pictures(FITTING, size, seed + 1)
    others, wanted_kinds = pictures(options.pictures, size, seed + 2)
    exact = _fp32(model)
    fitting, wanted = _scores(exact, shown), _scores(exact, others)
    readout = fitted(fitting, kinds)
    classes = readout(wanted)
    sure_class = _margins(readout.values(wanted)) > READOUT_MARGIN
    sure = _margins(wanted) > MARGIN * wanted.std(1)
    centre = fitting.mean(0)
    for way in options.ways:
        start = time.process_time()
        run, accuracy, about = WAYS[way](model, name, samples)
        found = _scores(run, others)
        signal, noise = float(np.sum(wanted**2)), float(np.sum((wanted - found) ** 2))
        layers = {key: round(powers.sqnr, 1) for key, powers in accuracy.layers.items()}
        same = wanted.argmax(1) == found.argmax(1)
        same_class = readout(found) == classes
        yield {
            "network": name,
            "size": size,
            "way": way,
            "pictures": len(others),
            "sqnr_db": round(sqnr(signal, noise), 2),
            "error": relative_error(signal, noise),
            # Beside what one picture's scores differ from another's by.
            "sqnr_of_differences_db": round(sqnr(float(np.sum((wanted - centre) ** 2)), noise), 2),
            "readout_agrees": float(np.mean(same_class)),
            "where_fp32s_readout_is_sure": [
                int(same_class[sure_class].sum()),
                int(sure_class.sum()),
            ],
            "fp32_reads_right": float(np.mean(classes == wanted_kinds)),
            "reads_right": float(np.mean(readout(found) == wanted_kinds)),
            "largest_score_agrees": float(same.mean()),
            "where_fp32_is_sure": [int(same[sure].sum()), int(sure.sum())],
            "worst_layer_db": min(layers.values(), default=None),
            "median_layer_db": float(np.median([*layers.values()])) if layers else None,
            **about,
            "cpu_seconds": round(time.process_time() - start, 1),
            "layers_db": layers,
        }


def _margins(values: Floats) -> Floats:
    """The two largest values of each row: how far they are apart."""
    second, first = np.sort(values, axis=1)[:, -2:].T
    found: Floats = first - second
    return found


def _scores(run: Network, images: Floats) -> Floats:
    return np.concatenate([run(each).reshape(1, -1) for each in images])


def _fp32(model: onnx.ModelProto) -> Network:
    run = runner(model, threads=1)
    return lambda image: run({"data": image})[0]


def _compiled(model: onnx.ModelProto, **how: Any) -> Network:
    mod, params = relay.frontend.from_onnx(model)
    lib = relay.build(mod, target="llvm -num-cores=1", params=params, cache=False, **how)
    module = lib["default"]()

    def run(image: Floats) -> Floats:
        module.run(data=image)
        found: Floats = module.get_output(0).numpy()
        return found

    return run


Way = tuple[Network, Accuracy, dict[str, Any]]


def _int8(model: onnx.ModelProto, name: str, samples: Any, bits: int = 8) -> Way:
    settings = Settings(per_channel=True, weight_bits=bits)
    found = quantize_model(model, name, samples, settings)
    return _compiled(found.model), found.accuracy, {"share_int8": round(found.share, 4)}


def _7_bits(model: onnx.ModelProto, name: str, samples: Any) -> Way:
    return _int8(model, name, samples, 7)


def _bf16(model: onnx.ModelProto, name: str, samples: Any) -> Way:
    """Errors by layer are of weights and data of all layers rounded, without Winograd's growth."""
    ready = prepared(model, name, samples[0], Settings())
    layers = layers_of(ready.graph)
    names = [node.name for node in layers]
    rounded = in_half(ready, dict.fromkeys(names, BF16.dtype), names)
    accuracy = compare(ready, rounded, samples, layers)
    return _compiled(model, precision="bf16"), accuracy, {}


def _auto(model: onnx.ModelProto, name: str, samples: Any) -> Way:
    cpu = parse_target("llvm -num-cores=1").cpu
    request = request_of("auto", None, samples)
    assert request is not None
    shapes = {"data": samples[0]["data"].shape}
    chosen = choose_precision(model, shapes, request, cpu, current_history(cpu), name)
    report = chosen.report
    ready = prepared(model, name, samples[0], Settings(per_channel=True))
    about = {
        "max_error": report.max_error,
        "measured_on_calibration": report.measured,
        "share_int8": round(report.share, 4),
        "share_bf16": round(report.share_of("bf16"), 4),
        "share_fp16": round(report.share_of("fp16"), 4),
        "predicted_gain": round(report.fp32 / report.chosen, 3),
    }
    accuracy = compare(ready, chosen.exact, samples, layers_of(ready.graph))
    return _compiled(chosen.model), accuracy, about


# In their order, as the command line names them.
WAYS: dict[str, Callable[[onnx.ModelProto, str, Any], Way]] = {
    "int8": _int8,
    "int8_7_bits": _7_bits,
    "bf16": _bf16,
    "auto": _auto,
}

if __name__ == "__main__":
    raise SystemExit(main())
