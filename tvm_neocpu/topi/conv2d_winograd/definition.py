"""Winograd convolution in NCHW[x]c with the fused scatter-pack (Wang et al. 2020).

F(m x m, r x r), for 1xN and Nx1 kernels F(1 x m, 1 x r) in one dimension; a stride is several
phases side by side (:mod:`.matrices`). A first convolution reads plain NCHW and has its phases made
channels instead (:mod:`.phases`).

Four fused parts: the kernel transform happens at compile time; input tiles are transformed a vector
of channels at a time and written once, straight into the order in which the product reads them;
the products are blocked like the direct template; the inverse transform writes the output with
the epilogue. Every transform is a constant-matrix product written out, zeros and ones for free.

Largest error over the largest output, unit-variance data, 512 input channels: F(2x2, 3x3) 2e-6 (as
the direct template), F(3x3, 3x3) 1e-5, F(4x4, 3x3) 2e-5, F(6x6, 3x3) 1e-4, F(1x2, 1x7) 1e-5,
F(1x3, 1x7) 4e-5, F(2x2, 5x5) 2e-5; with stride 2 the 3x3 ones lose less. 2e-5 also for
F(4x4, 4x4) over 12 phases.
A test holds these bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from tvm import te, tirx

from tvm_neocpu.topi.anchor import anchor_attrs
from tvm_neocpu.topi.conv2d_winograd import phases
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradGeometry
from tvm_neocpu.topi.conv2d_winograd.matrices import Matrix, factored
from tvm_neocpu.topi.conv2d_winograd.tails import Tail
from tvm_neocpu.topi.schedule.pad import pad_spatial

PAD, ROWS, PACK = "winograd_pad", "winograd_rows", "winograd_pack"
PRODUCT, COLUMNS, INVERSE, STORE = (
    "winograd_product",
    "winograd_columns",
    "winograd_inverse",
    "winograd_store",
)


def transformed(product: Callable[..., tirx.Expr], geometry: WinogradGeometry) -> te.Tensor:
    """What ``product`` makes of a tile and its filters, summed over channels, and A^T M A of it.

    ``product`` takes two indices: (n, u, v, block, tile row, tile column, step) of the transformed
    input, with one index of the tile where those of a chunk are one axis (``n`` counts the chunk's
    sets of images then), and that of the packed weight.
    """
    ico = te.reduce_axis((0, geometry.in_blocks), name="ico")
    ici = te.reduce_axis((0, geometry.inner_steps), name="ici")
    groups = geometry.conv.groups

    def term(n, o, u, v, *tile_and_lane):
        *tile, c = tile_and_lane
        of_group = o // (geometry.out_blocks // groups) * geometry.in_blocks
        block = ico if groups == 1 else of_group + ico
        return product((n, u, v, block, *tile, ici), (o, u, v, ico, ici, c))

    sums = te.compute(
        geometry.product_shape,
        lambda *index: te.sum(term(*index), axis=[ico, ici]),
        name=PRODUCT,
        attrs=anchor_attrs(geometry.conv, geometry.config),
    )
    return transform_output(sums, geometry)


def transform_input(
    data: te.Tensor,
    geometry: WinogradGeometry,
    stored: Callable[[tirx.Expr], tirx.Expr] = lambda value: value,
) -> te.Tensor:
    """B^T d B as (N, a, b, C/x, tile rows, tile columns, x), in the type that is multiplied.

    Where the tiles of a chunk are one axis, of one image or several, they are one here. ``stored``
    narrows an element.
    """
    conv, grid, hop = geometry.conv, geometry.grid, geometry.tiled.hop
    down, across = geometry.tiled.matrices
    if geometry.tiled.plain:
        padded = phases.split_pixels(data, geometry)
    else:
        extent, parts = geometry.padded_extent, geometry.groups_read
        padded = pad_spatial(data, conv.padding, extent, PAD, conv.pad_value, parts=parts)

    def pixel(n, i, y, x, c):
        value = padded(n, i, y, x, c)
        is_wide = conv.types.data == geometry.factor_type
        return value if is_wide else value.astype(geometry.factor_type)

    # Lanes beyond the channels are transformed, never multiplied.
    blocks, lanes = geometry.packed_blocks, geometry.stored_ic_bn
    rows, columns = (
        (tail, tiles - 1) for tail, tiles in zip(geometry.tails, geometry.tiled.tiles, strict=True)
    )

    def half_tile(n, i, ty, tx, u, x, c):
        def row(y):
            return pixel(n, i, ty * hop[0] + y, tx * hop[1] + x, c)

        return _combine(down.b, u, _continued(row, *rows, ty))

    half = te.compute(
        (conv.batch, blocks, *grid, down.products, across.pixels, lanes), half_tile, name=ROWS
    )

    def element(n, u, v, i, *tile_and_lane):
        *tile, c = tile_and_lane
        image, ty, tx = _place_of(n, tile, geometry)

        def column(x):
            return half(image, i, ty, tx, u, x, c)

        return stored(_combine(across.b, v, _continued(column, *columns, tx)))

    tiles = geometry.axes_of_tiles
    shape = (geometry.batches, down.products, across.products, blocks, *tiles, lanes)
    return te.compute(shape, element, name=PACK)


def _place_of(
    n: tirx.Var, tile: Sequence[tirx.Expr], geometry: WinogradGeometry
) -> tuple[tirx.Expr, tirx.Expr, tirx.Expr]:
    """The image, row and column of a tile, which :func:`_tile_at` takes back."""
    if not geometry.is_flat:
        return n, tile[0], tile[1]
    (rows, columns), (at,) = geometry.grid, tile
    if geometry.images == 1:
        return n, at // columns, at % columns
    image = n * geometry.images + at // (rows * columns)
    return image, at // columns % rows, at % columns


def _tile_at(
    n: tirx.Var, ty: tirx.Var, tx: tirx.Var, geometry: WinogradGeometry
) -> tuple[tirx.Expr, tuple[tirx.Expr, ...]]:
    """A tile as the product knows it: the first index, and those behind ``v``."""
    if not geometry.is_flat:
        return n, (ty, tx)
    (rows, columns), images = geometry.grid, geometry.images
    if images == 1:
        return n, (ty * columns + tx,)
    return n // images, ((n % images * rows + ty) * columns + tx,)


def _continued(
    given: Callable[[int], tirx.Expr], tail: Tail | None, last: int, tile: tirx.Expr
) -> Callable[[int], tirx.Expr]:
    """A tile's pixels: in tile ``last`` those beyond what is given follow from those before."""
    if tail is None or not tail.recurrence:
        return given

    def followed(at: int) -> tirx.Expr:
        if at < tail.given:
            return given(at)
        return _dot(tail.recurrence, lambda index: followed(at - len(tail.recurrence) + index))

    # TVM would take the test as known while it simplifies either side, and drop the test of the
    # padding there. A select reads both sides for every tile. It knows nothing of an exclusive or.
    is_last = tirx.bitwise_xor(tile, tirx.const(last, tile.ty.dtype)) == 0

    def pixel(at: int) -> tirx.Expr:
        if at < tail.given:
            return given(at)
        return tirx.Select(is_last, followed(at), given(at))

    return pixel


def transform_output(product: te.Tensor, geometry: WinogradGeometry) -> te.Tensor:
    """A^T M A as (N, K/y, rows, columns, y) of all tiles, which may overhang the output."""
    conv, grid, oc_bn = geometry.conv, geometry.grid, geometry.oc_bn
    down, across = geometry.tiled.matrices

    def column(n, o, ty, tx, y, v, c):
        first, tile = _tile_at(n, ty, tx, geometry)
        return _combine(down.a, y, lambda u: product(first, o, u, v, *tile, c))

    columns = te.compute(
        (conv.batch, geometry.out_blocks, *grid, down.outputs, across.products, oc_bn),
        column,
        name=COLUMNS,
    )
    high, wide = down.outputs, across.outputs
    return te.compute(
        (conv.batch, geometry.out_blocks, grid[0] * high, grid[1] * wide, oc_bn),
        lambda n, o, y, x, c: _combine(
            across.a, x % wide, lambda v: columns(n, o, y // high, x // wide, y % high, v, c)
        ),
        name=INVERSE,
    )


def _combine(matrix: Matrix, row: tirx.Var, term: Callable[[int], tirx.Expr]) -> tirx.Expr:
    """Row ``row`` of a constant matrix times a vector of terms, once ``row`` is a constant.

    The selection vanishes when the loop over ``row`` is unrolled. What rows share LLVM computes
    once.
    """
    outer, inner = factored(matrix)

    def shared(index: int) -> tirx.Expr:
        return _dot(inner[index], term)

    rows = [_dot(coefficients, shared) for coefficients in outer]
    chosen = rows[-1]
    for index in range(len(rows) - 2, -1, -1):
        chosen = tirx.if_then_else(row == index, rows[index], chosen)
    return chosen


def _dot(coefficients: tuple[Fraction, ...], term: Callable[[int], tirx.Expr]) -> tirx.Expr:
    total = None
    for index, factor in enumerate(coefficients):
        if factor == 0:
            continue
        value = term(index)
        number = float(factor) if factor.denominator > 1 else int(factor)
        scaled = value if factor == 1 else value * tirx.const(number, str(value.ty.dtype))
        total = scaled if total is None else total + scaled
    assert total is not None
    return total
