"""What could a group of layers gain at most? Its layers in the network against the same in L2.

    TVM_NUM_THREADS=1 taskset -c 1 python benchmarks/groups/fused_bounds.py vgg16 resnet50 \
        --json out.json

A group saves the time in which its layers wait for each other's maps. So each layer of a chain is
timed twice:

- in the network, as `relay.build` compiles it (`network`);
- the same config on a band of rows, again and again, times the bands of an image (`hot`): L2 then
  holds what a group would keep there. On several threads each runs a band of its own.

The difference is an upper bound. A real group gains less: bands compute rows of the halo twice, the
ring takes a part of L2, and cores get uneven shares.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tvm

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.codegen.network import compile_network
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.kernels.measure import random_tensor
from tvm_neocpu.contrib.profile.watch_calls import watch_calls
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.types import FP32, item_bytes
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.cost.roofline import L2_SHARE
from tvm_neocpu.topi.kernel import kernel

# Runs of a network, rounds of each band's kernel, milliseconds of a round.
RUNS, ROUNDS, ROUND_MS = 12, 7, 10
Undisturbed = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Chain:
    """Layers of a network, by their text, that one group might compute.

    ``rows``: output rows of a band, whole chunks of each layer. ``times``: how often it occurs.
    """

    network: str
    layers: tuple[str, ...]
    rows: int = 8
    times: int = 1


CHAINS = (
    Chain("vgg16", ("3x224x224->64 3x3 p1", "64x224x224->64 3x3 p1")),
    Chain("vgg16", ("64x112x112->128 3x3 p1", "128x112x112->128 3x3 p1")),
    Chain("vgg16", ("128x56x56->256 3x3 p1", "256x56x56->256 3x3 p1")),
    Chain("unet", ("3x256x256->64 3x3 p1", "64x256x256->64 3x3 p1")),
    Chain("unet", ("64x128x128->128 3x3 p1", "128x128x128->128 3x3 p1")),
    Chain("tiny_yolov2", ("3x416x416->16 3x3 p1", "16x208x208->32 3x3 p1")),
    Chain("tiny_yolov2", ("16x208x208->32 3x3 p1", "32x104x104->64 3x3 p1")),
    Chain("resnet50", ("64x56x56->64 1x1", "64x56x56->64 3x3 p1", "64x56x56->256 1x1")),
    Chain("resnet50", ("256x56x56->64 1x1", "64x56x56->64 3x3 p1", "64x56x56->256 1x1"), times=2),
)


def band_of(conv: ConvWorkload, config: Config, rows: int, space: int) -> ConvWorkload:
    """So many rows of the output, from the inside of the image: fewer columns if they do not fit.

    What the band reads and writes takes at most ``space`` bytes, or has one register tile across.
    """
    top, left, bottom, right = conv.padding
    rows = min(rows, conv.out_height)
    height = min((rows - 1) * conv.stride[0] + conv.reach[0], conv.height + top + bottom)
    whole = replace(conv, height=height, padding=(0, left, 0, right))
    tile = config.reg_n * getattr(config, "tile", 1)  # type: ignore[attr-defined]
    fitting = whole.out_width * space // _bytes(whole) // tile * tile
    columns = min(whole.out_width, max(tile, fitting))
    if columns == whole.out_width:
        return whole
    width = (columns - 1) * conv.stride[1] + conv.reach[1]
    return replace(whole, width=width, padding=(0, 0, 0, 0))


def _bytes(conv: ConvWorkload) -> int:
    return sum(prod(shape) * item_bytes(FP32.data) for shape in (conv.in_shape, conv.out_shape))


def within_band(config: Config, band: ConvWorkload) -> Config:
    """The config with chunks of one band at most: else one thread would have all bands."""
    if not isinstance(config, Im2colConfig):
        return config
    return replace(config, tiles=min(config.tiles, prod(band.out_shape[2:]) // config.reg_n))


class HotBand:
    """A layer's kernel on as many bands as there are threads, over tensors that stay in place."""

    def __init__(self, conv: ConvWorkload, config: Config, target: CompileTarget, rows: int):
        cpu = target.cpu
        self.band = band_of(conv, config, rows, int(L2_SHARE * cpu.l2))
        bands = replace(self.band, batch=cpu.cores)
        self._share = prod(conv.out_shape) / prod(bands.out_shape)
        # A group forks once for all of its bands.
        self._fork = cpu.fork_join if cpu.cores > 1 else 0.0
        config = within_band(config, self.band)
        func = kernel(bands, config, cpu)
        module = tvm.compile(func, target=target.target).jit()
        rng = np.random.default_rng(7)
        self._arguments = [
            random_tensor([int(extent) for extent in buffer.shape], str(buffer.dtype), rng)
            for buffer in func.params
        ]
        self._timer = module.time_evaluator(
            "main", tvm.cpu(), number=1, repeat=1, min_repeat_ms=ROUND_MS
        )

    def seconds(self) -> float:
        """Of one run of the whole layer, all of whose bands lie in L2."""
        return self._share * (self._timer(*self._arguments).mean - self._fork)


class TimedChains:
    """A network and its chains, compiled and ready to be timed."""

    def __init__(self, network: str) -> None:
        self.network, self._target = network, parse_target("llvm")
        content = model_zoo.build(network).SerializeToString()
        folded = open_onnx(content, {"data": model_zoo.input_shape(network)}, "llvm")
        lowered = folded.lower(choose_plan(folded.graph, folded.cpu))
        self._schemes = lowered.schemes
        self._inputs = [tvm.runtime.tensor(array) for array in folded.inputs]
        self._code = compile_network(lowered.module, folded.target).jit()
        by_text = {str(workload): (workload, config) for workload, config in self._schemes.values()}
        self._hot: dict[str, HotBand] = {}
        for chain in CHAINS:
            for text in chain.layers if chain.network == network else ():
                workload, config = by_text[text]
                self._hot[text] = HotBand(workload, config, self._target, chain.rows)

    def run(self) -> list[dict[str, Any]]:
        """A row for each chain."""
        found = watch_calls(self._code, self._inputs, RUNS)
        rounds = [{text: band.seconds() for text, band in self._hot.items()} for _ in range(ROUNDS)]
        hot = {text: median(each[text] for each in rounds) for text in self._hot}
        calls: dict[str, list[float]] = {}
        for call in found.calls:
            if call.name in self._schemes:
                calls.setdefault(str(self._schemes[call.name][0]), []).append(call.seconds)
        return [
            self._row(chain, calls, hot, found.wall)
            for chain in CHAINS
            if chain.network == self.network
        ]

    def _row(
        self, chain: Chain, calls: dict[str, list[float]], hot: dict[str, float], wall: float
    ) -> dict[str, Any]:
        apart = [median(calls[text]) for text in chain.layers]
        inside = [hot[text] for text in chain.layers]
        return {
            "network": chain.network,
            "layers": list(chain.layers),
            "times": chain.times,
            "bands": [str(self._hot[text].band) for text in chain.layers],
            "network_us": [seconds * 1e6 for seconds in apart],
            "hot_us": [seconds * 1e6 for seconds in inside],
            "gain_of_chain": 1 - sum(inside) / sum(apart),
            "gain_of_network": chain.times * (sum(apart) - sum(inside)) / wall,
            "wall_ms": wall * 1e3,
        }


def main(arguments: Sequence[str] | None = None, undisturbed: Undisturbed = nullcontext) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+", choices=sorted({c.network for c in CHAINS}))
    parser.add_argument("--json", type=Path, metavar="F")
    options = parser.parse_args(arguments)
    rows = []
    for network in options.networks:
        timed = TimedChains(network)
        with undisturbed():
            rows += timed.run()
    for row in rows:
        apart, inside = (
            " + ".join(f"{time:.0f}" for time in row[key]) for key in ("network_us", "hot_us")
        )
        print(
            f"{row['network']} {' -> '.join(row['layers'])}: {apart} us, in L2 {inside} us; "
            f"at most {row['gain_of_network']:.1%} of {row['wall_ms']:.2f} ms"
        )
    if options.json:
        cpu = parse_target("llvm").cpu
        report = {**provenance(cpu.name, cpu.cores), "chains": rows}
        options.json.write_text(json.dumps([report], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
