"""Constants fitted to a log: what made the times is found again, and nothing stays changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.contrib.cost_model.constants import CONSTANTS, tried
from tvm_neocpu.contrib.cost_model.fit import fit, loss, split
from tvm_neocpu.contrib.cost_model.readings import Readings
from tvm_neocpu.topi.conv2d_direct import cost as direct
from tvm_neocpu.topi.cost import roofline
from tvm_neocpu.topi.cost.ranking import predict_seconds

CHUNKS = next(constant for constant in CONSTANTS if constant.name == "CHUNK_CYCLES")


def test_a_tried_constant_reaches_every_module_that_has_it() -> None:
    panel = next(constant for constant in CONSTANTS if constant.name == "PANEL_SHARE")
    before = roofline.PANEL_SHARE
    with pytest.raises(ZeroDivisionError), tried({panel: 0.125}):
        assert roofline.PANEL_SHARE == direct.PANEL_SHARE == 0.125
        raise ZeroDivisionError
    assert roofline.PANEL_SHARE == direct.PANEL_SHARE == before


def test_no_constant_is_outside_of_its_bounds() -> None:
    assert all(c.low <= c.value <= c.high for c in CONSTANTS)


def test_the_constant_that_made_the_times_is_found_again(milan: Readings) -> None:
    """Times are the model's own, with chunks that cost four times as much as today's."""
    layers = []
    with tried({CHUNKS: 4 * CHUNKS.value}):
        for layer in milan.layers[::4]:
            times = [predict_seconds(layer.workload, c, layer.cpu) for c in layer.configs]
            ordered = sorted(zip(times, layer.configs, strict=True), key=lambda pair: pair[0])
            seconds, configs = zip(*ordered, strict=True)
            layers.append(replace(layer, configs=configs, seconds=seconds))
    found = fit(replace(milan, layers=tuple(layers)), (CHUNKS,))
    (fitted,) = found.constants
    assert fitted.after > 2 * fitted.before
    assert found.loss_after < found.loss_before / 2
    assert found.held_out_after < found.held_out_before
    assert CHUNKS.value == fitted.before


def test_a_workload_is_used_or_held_out(milan: Readings) -> None:
    used, held_out = split(milan.layers)
    assert used and held_out and len(used) + len(held_out) == len(milan.layers)
    assert not {e.workload for e in used} & {e.workload for e in held_out}
    assert loss(()) == 0
