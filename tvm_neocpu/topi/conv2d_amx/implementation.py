"""Convolution by AMX as four implementations of conv2d: integers and bf16, blocked and plain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.types import BF16_WEIGHTS, U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx import cost, geometry, rows_of_bf16, space, template
from tvm_neocpu.topi.conv2d_amx.geometry import (
    Bf16RowsConfig,
    Bf16TilesConfig,
    IntegerRowsConfig,
    IntegerTilesConfig,
    in_passes,
)
from tvm_neocpu.topi.conv2d_bf16.implementation import BF16_DIRECT
from tvm_neocpu.topi.conv2d_integer.implementation import INTEGER
from tvm_neocpu.topi.conv2d_integer_rows.implementation import INTEGER_ROWS
from tvm_neocpu.topi.operator import Implementation

Guard: TypeAlias = Callable[[ConvWorkload, Cpu], bool]


def _in_tiles(other: Implementation, guard: Guard = space.accepts) -> Implementation:
    """What packs weights as another implementation does, those of a pass in a block."""
    pack, shape = other.pack_weight, other.packed_shape
    assert pack is not None and shape is not None
    return replace(
        other,
        guard=guard,
        pack_weight=lambda weight, conv, config: pack(weight, conv, in_passes(conv, config)),
        packed_shape=lambda conv, config: shape(conv, in_passes(conv, config)),
        compute=template.compute,
        schedule=template.schedule,
        cost=cost.predict_seconds,
        pricing=cost.pricing,
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
INTEGER_ROWS_IN_TILES = replace(
    _in_tiles(INTEGER_ROWS, space.accepts_image),
    name=IntegerRowsConfig.template,
    config_type=IntegerRowsConfig,
    space=space.integer_rows_space,
    misfit=geometry.misfit_of_rows,
    label=lambda conv, config: "integer, rows, AMX",
)
BF16_ROWS_IN_TILES = replace(
    _in_tiles(
        replace(
            BF16_DIRECT,
            pack_weight=rows_of_bf16.pack_weight,
            packed_shape=rows_of_bf16.packed_shape,
        ),
        space.accepts_image,
    ),
    name=Bf16RowsConfig.template,
    config_type=Bf16RowsConfig,
    space=space.bf16_rows_space,
    misfit=geometry.misfit_of_rows,
    types=(BF16_WEIGHTS,),
    takes_prologue=False,
    label=lambda conv, config: "bf16, rows, AMX",
)
