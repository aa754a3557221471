"""What a config of the AMX templates means for a convolution: the words of others, in tiles.

Data and weights lie as the integer and the bf16 template store them. A tile of data is up to 16
pixels of a block of channels, one of weights those channels of 16 filters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeAlias, TypeVar

from tvm_neocpu.core.machine.matrix_unit import LANES
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Geometry
from tvm_neocpu.topi.conv2d_direct import geometry as direct
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerGeometry
from tvm_neocpu.topi.conv2d_integer_rows.geometry import ImageRowsGeometry, has_runs
from tvm_neocpu.topi.math import bf16_products
from tvm_neocpu.topi.math.matrix_tiles import MAX_SUMS, Cut, cut


@dataclass(frozen=True, order=True)
class IntegerTilesConfig(ConvConfig):
    """The direct template's schedule tuple; ``reg_m`` x ``reg_n`` pixels are tiles of sums."""

    template: ClassVar[str] = "conv2d_NCHWc_int_amx"

    dot: ClassVar[int] = 4
    words: ClassVar[int] = 1
    signed: ClassVar[bool] = False


@dataclass(frozen=True, order=True)
class Bf16TilesConfig(ConvConfig):
    """The same of bf16, whose words have two elements."""

    template: ClassVar[str] = "conv2d_NCHWc_bf16_amx"

    dot: ClassVar[int] = bf16_products.ELEMENTS
    words: ClassVar[int] = 1
    signed: ClassVar[bool] = False


@dataclass(frozen=True, order=True)
class IntegerRowsConfig(IntegerTilesConfig):
    """The same of a plain image, whose kernel's rows are the words of a tile's row."""

    template: ClassVar[str] = "conv2d_NCHWc_int_rows_amx"


@dataclass(frozen=True, order=True)
class Bf16RowsConfig(Bf16TilesConfig):
    """The same in bf16."""

    template: ClassVar[str] = "conv2d_NCHWc_bf16_rows_amx"


class _WholeTiles(IntegerGeometry):
    """All tiles of a row are equally wide, also of a pair: a chunk's registers keep their shape."""

    @cached_property
    def columns(self) -> int:
        return self.tiles[1] * self.config.reg_n


class _Gathered(_WholeTiles):
    """The pixels that a strided 1x1 kernel reads are copied side by side: 49 are four tiles."""

    @property
    def is_padded(self) -> bool:
        conv = self.conv
        return super().is_padded or (conv.kernel == (1, 1) and conv.stride != (1, 1))


class IntegerTilesGeometry(_Gathered):
    """Words of four elements."""


class Bf16TilesGeometry(_Gathered, Bf16Geometry):
    """Words of two elements."""


class IntegerRowsGeometry(_WholeTiles, ImageRowsGeometry):
    """Words of four elements of a kernel's row."""


@dataclass(frozen=True)
class Bf16RowsGeometry(_WholeTiles, ImageRowsGeometry, Bf16Geometry):
    """Words of two elements of a kernel's row: 11 of 7 columns x 3 channels."""

    config: Bf16RowsConfig  # type: ignore[assignment]


TilesConfig: TypeAlias = IntegerTilesConfig | Bf16TilesConfig
TilesGeometry: TypeAlias = IntegerGeometry
Packed = TypeVar("Packed", IntegerTilesConfig, Bf16TilesConfig)
# The geometry of each config: that of the template over words, with whole tiles.
_GEOMETRIES: dict[type[TilesConfig], Callable[..., TilesGeometry]] = {
    IntegerTilesConfig: IntegerTilesGeometry,
    Bf16TilesConfig: Bf16TilesGeometry,
    IntegerRowsConfig: IntegerRowsGeometry,
    Bf16RowsConfig: Bf16RowsGeometry,
}


def geometry_of(conv: ConvWorkload, config: TilesConfig) -> TilesGeometry:
    """The extents that template, space and cost share."""
    return _GEOMETRIES[type(config)](conv, config)


def cut_of(geometry: TilesGeometry) -> Cut:
    """The register tile as tiles of the unit."""
    config = geometry.config
    pixels = config.reg_m, config.reg_n
    return cut(pixels, pitch_of(geometry), config.tile_channels, geometry.words)


def in_passes(conv: ConvWorkload, config: Packed) -> Packed:
    """The config whose blocks are the filters of a pass: weights are packed as for that."""
    found = cut_of(geometry_of(conv, config))
    return replace(config, oc_bn=found.filters * LANES) if found.passes > 1 else config


def pitch_of(geometry: TilesGeometry) -> int | None:
    """Pixels between two rows of whole lines, in the image that is read; ``None`` without a run.

    TVM later removes the columns of a copy that nothing reads, so that rows get closer: of 10
    columns a 3x3 kernel of stride 2 reads 9. Such rows are no run. Neither are the words of a
    kernel's rows, which are no whole pixels.
    """
    (down, across), between = geometry.stride, geometry.image_extent[1]
    is_line = geometry.columns == geometry.config.reg_n
    all_read = between == geometry.padded_extent[1] and not isinstance(geometry, ImageRowsGeometry)
    if not is_line or not all_read or down * between % across:
        return None
    return down * between // across


def misfit(conv: ConvWorkload, config: TilesConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    if config.ic_bn == 0:
        return "it reads plain NCHW, which has no rows of words"
    return _misfit_of_tiles(conv, config)


def misfit_of_rows(conv: ConvWorkload, config: IntegerRowsConfig | Bf16RowsConfig) -> str | None:
    """The same of a plain image."""
    if config.ic_bn or not has_runs(conv):
        return "the rows of its kernel are no runs of a plain image"
    return _misfit_of_tiles(conv, config)


def _misfit_of_tiles(conv: ConvWorkload, config: TilesConfig) -> str | None:
    reason = direct.misfit_in_groups(conv, config)
    if reason is not None:
        return reason
    if config.tile_channels % LANES:
        return f"its {config.tile_channels} channels are no number of tiles of {LANES} filters"
    if config.oc_lanes and conv.groups > 1:
        return "its groups fill no tiles of filters"
    found = cut_of(geometry_of(conv, config))
    if found.products > MAX_SUMS:
        return f"its sums take more than {MAX_SUMS} registers"
    if found.passes > 1 and config.oc_lanes:
        return "its filled block takes more than one pass"
    return None
