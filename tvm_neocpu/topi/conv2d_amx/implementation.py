"""Convolution by AMX as two implementations of conv2d: of integers, and of bf16."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d_amx import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_amx.geometry import Bf16TilesConfig, IntegerTilesConfig
from tvm_neocpu.topi.conv2d_bf16.implementation import BF16_DIRECT
from tvm_neocpu.topi.conv2d_integer.implementation import INTEGER
from tvm_neocpu.topi.operator import Implementation


def _in_tiles(other: Implementation) -> Implementation:
    """What packs weights as another implementation does."""
    return replace(
        other,
        guard=space.accepts,
        compute=template.compute,
        schedule=template.schedule,
        cost=cost.predict_seconds,
        pricing=None,
        blocks=None,
        part_of_space=None,
        misfit=geometry.misfit,
        isas=(AVX512.name,),
    )


INTEGER_TILES = replace(
    _in_tiles(INTEGER),
    name=IntegerTilesConfig.template,
    config_type=IntegerTilesConfig,
    space=space.integer_space,
    types=(U8S8,),
    label=lambda conv, config: "integer, AMX",
)
BF16_TILES = replace(
    _in_tiles(BF16_DIRECT),
    name=Bf16TilesConfig.template,
    config_type=Bf16TilesConfig,
    space=space.bf16_space,
    label=lambda conv, config: "bf16, AMX",
)
