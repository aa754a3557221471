"""`precision="auto"` against fp32: the same networks, built both ways, in fresh processes in turns.

    python benchmarks/networks/auto_precision.py build FOLDER [NETWORK...]
    python benchmarks/networks/auto_precision.py time FOLDER -o \
        benchmarks/results/auto_1_thread_zen4.json

``build`` chooses with normal values as data (text lines and pages for RapidOCR's networks) and
writes the files; ``time`` runs them, each in a process of its own, fp32 and auto in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx

NETWORKS = (
    *("mobilenet_v2", "squeezenet1_1", "resnet18", "ocr_det", "ocr_rec", "ocr_rec_832", "resnet50"),
    *("densenet121", "inception_v3", "vgg16"),
)
SAMPLES = 2
RUN = """
import json, sys, time
import numpy as np, tvm_neocpu
session = tvm_neocpu.Session(sys.argv[1])
feeds = dict(np.load(sys.argv[2]))
for _ in range(5):
    session.run(feeds)
times = []
end = time.perf_counter() + float(sys.argv[3])
while time.perf_counter() < end or len(times) < 5:
    start = time.perf_counter()
    session.run(feeds)
    times.append(time.perf_counter() - start)
print(json.dumps(sorted(times)[len(times) // 2]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("build", "time"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.15, help="of a process")
    parser.add_argument("--max-error", type=float, help="of the outputs; auto's default")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.what == "time":
        _time(options)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.networks or NETWORKS:
        _build(name, options)


def _network(name: str) -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    """The model, and samples for it."""
    if not name.startswith("ocr"):
        from tvm_neocpu.commands.shared.cli import load_network
        from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes

        _, model = load_network(name)
        shapes = resolve_shapes(model.graph, {})
        rng = np.random.default_rng(0)
        return model, [
            {key: rng.standard_normal(shape).astype("float32") for key, shape in shapes.items()}
            for _ in range(SAMPLES)
        ]
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
    from ocr import DETECT, READ, line_samples, page, page_samples, random_lines, reader

    engine = reader(ours=False)
    if name == "ocr_det":
        pages = [page(random_lines(5, seed), 640, 480) for seed in range(100, 100 + SAMPLES)]
        return onnx.load(DETECT), page_samples(engine, pages)
    width = 832 if name.endswith("832") else 320
    return onnx.load(READ), line_samples(engine, width, 8)


def _build(name: str, options: argparse.Namespace) -> None:
    from tvm_neocpu import relay
    from tvm_neocpu.core.accuracy.precision import request_of
    from tvm_neocpu.precision.choose import choose_fastest, samples_of
    from tvm_neocpu.precision.mixed_network import mixed_network
    from tvm_neocpu.targets import parse_target
    from tvm_neocpu.tuning.database.history import current_history

    model, samples = _network(name)
    feeds = samples[0]
    np.savez(options.folder / f"{name}.npz", **feeds)
    shapes: Mapping[str, Any] = {key: value.shape for key, value in feeds.items()}
    request = request_of("auto", options.max_error, samples)
    assert request is not None
    start = time.time()
    # What is measured does not depend on the threads.
    data, halves = samples_of(model, shapes, request.data), parse_target("llvm").cpu.halves
    network = mixed_network(model, name, data, request.precision, halves)
    for threads in options.threads:
        text = f"llvm -num-cores={threads}"
        cpu = parse_target(text).cpu
        chosen = choose_fastest(model, network, shapes, request, cpu, current_history(cpu))
        seconds, start = time.time() - start, time.time()
        for kind, each in (("fp32", model), ("auto", chosen.model)):
            mod, params = relay.frontend.from_onnx(each, shapes)
            lib = relay.build(mod, target=text, params=params, cache=False)
            lib.export_library(str(options.folder / f"{name}.{threads}.{kind}.so"))
        report = {**chosen.report.as_json(), "choosing_seconds": seconds}
        report.pop("layers")
        (options.folder / f"{name}.{threads}.json").write_text(json.dumps(report))
        print(name, threads, *chosen.report.lines(), sep="\n", flush=True)


def _time(options: argparse.Namespace) -> None:
    from tvm_neocpu.contrib.provenance import provenance
    from tvm_neocpu.targets import parse_target

    (threads,) = options.threads
    rows = {}
    names = [
        name
        for name in options.networks or NETWORKS
        if (options.folder / f"{name}.{threads}.json").exists()
    ]
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(options.turns):
        for name in names:
            for kind in ("fp32", "auto") if turn % 2 else ("auto", "fp32"):
                times.setdefault((name, kind), []).append(_run(name, kind, threads, options))
        # A window may end at any time.
        for name in names:
            pairs = list(zip(times[name, "fp32"], times[name, "auto"], strict=True))
            ratios = [fp32 / auto for fp32, auto in pairs]
            chosen = json.loads((options.folder / f"{name}.{threads}.json").read_text())
            rows[name] = {
                **{f"{kind}_ms": 1e3 * median(times[name, kind]) for kind in ("fp32", "auto")},
                "fp32_over_auto": median(ratios),
                "ratios": ratios,
                "chosen": chosen,
            }
        report = {**provenance(parse_target("llvm").cpu.name, threads), "networks": rows}
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for name, row in rows.items():
        print(f"{name:16} {row['fp32_ms']:8.2f} {row['auto_ms']:8.2f} {row['fp32_over_auto']:.3f}")


def _run(name: str, kind: str, threads: int, options: argparse.Namespace) -> float:
    file = options.folder / f"{name}.{threads}.{kind}.so"
    command = [sys.executable, "-c", RUN, str(file), str(options.folder / f"{name}.npz")]
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
    if threads == 1:
        command = ["taskset", "-c", "1", *command]
    command.append(str(options.seconds))
    found = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(found.stdout))


if __name__ == "__main__":
    main()
