"""Whether a module for any batch is as fast as a build for each batch: ratios, interleaved.

    TVM_NUM_THREADS=2 python benchmarks/networks/open_batch.py resnet50 mobilenet_v2 \
        --batches 1 2 3 4 7 8

Prints, for each batch, milliseconds of the module for any batch, of the build for that batch, and
their ratio: the median over rounds of the ratio of the fastest runs in a round.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import tvm

import tvm_neocpu  # noqa: F401  it provides tvm.relay
from tvm_neocpu import relay
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.runtime.calls.graph_module import GraphModule


def fastest(module: GraphModule, runs: int) -> float:
    """Seconds of the fastest of some runs, after one that warms the caches."""
    module.run()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        module.run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 2, 3, 4, 7, 8])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--max-batch", type=int, default=8)
    options = parser.parse_args()
    for network in options.networks:
        model = model_zoo.build(network)
        (value,) = model.graph.input
        image = [dim.dim_value for dim in value.type.tensor_type.shape.dim][1:]
        mod, _ = relay.frontend.from_onnx(model, {value.name: (-1, *image)})
        library = relay.build(mod, "llvm", max_batch=options.max_batch)
        for batch in options.batches:
            fixed, _ = relay.frontend.from_onnx(model, {value.name: (batch, *image)})
            own = relay.build(fixed, "llvm")["default"](tvm.cpu())
            any_batch = library["default"](tvm.cpu())
            data = np.random.default_rng(0).standard_normal((batch, *image), dtype=np.float32)
            for module in (own, any_batch):
                module.set_input(value.name, data)
            pairs = [
                (fastest(any_batch, options.runs), fastest(own, options.runs))
                for _ in range(options.rounds)
            ]
            ratio = statistics.median(ours / theirs for ours, theirs in pairs)
            ours, theirs = (min(column) * 1e3 for column in zip(*pairs, strict=True))
            print(f"{network} {batch}: {ours:.2f} ms, own build {theirs:.2f} ms, {ratio:.3f}")


if __name__ == "__main__":
    main()
