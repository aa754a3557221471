"""What moves data without computing: reshape, transpose, slices, shuffles, enlarged images."""

from __future__ import annotations

from collections.abc import Sequence

from .builder import GraphBuilder, Tensor
from .window import Size


def reshape(g: GraphBuilder, x: Tensor, name: str, shape: Sequence[int]) -> Tensor:
    target = g.constant(f"{name}.shape", tuple(shape))
    return g.node("Reshape", name, [x.name, target], tuple(shape), x.moments)


def transpose(g: GraphBuilder, x: Tensor, name: str, axes: Sequence[int]) -> Tensor:
    shape = tuple(x.shape[axis] for axis in axes)
    return g.node("Transpose", name, [x.name], shape, x.moments, perm=tuple(axes))


def take(g: GraphBuilder, x: Tensor, name: str, start: int, stop: int) -> Tensor:
    """Channels `start` to `stop`."""
    words = (("start", start), ("stop", stop), ("axis", 1))
    bounds = [g.constant(f"{name}.{word}", (value,)) for word, value in words]
    shape = (x.shape[0], stop - start, *x.image)
    return g.node("Slice", name, [x.name, *bounds], shape, x.moments)


def shuffle(g: GraphBuilder, x: Tensor, name: str, groups: int) -> Tensor:
    """Channels (groups, C / groups) in the order (C / groups, groups): ShuffleNet's shuffle."""
    batch, channels, height, width = x.shape
    y = reshape(g, x, f"{name}.split", (batch, groups, channels // groups, height, width))
    y = transpose(g, y, f"{name}.transpose", (0, 2, 1, 3, 4))
    return reshape(g, y, name, x.shape)


def space_to_depth(g: GraphBuilder, x: Tensor, name: str, block: int) -> Tensor:
    batch, channels, height, width = x.shape
    shape = (batch, channels * block**2, height // block, width // block)
    return g.node("SpaceToDepth", name, [x.name], shape, x.moments, blocksize=block)


def enlarge(g: GraphBuilder, x: Tensor, name: str, image: Size, mode: str) -> Tensor:
    """The image at another size, by `nearest` or `linear` interpolation, as PyTorch does both."""
    height, width = (image, image) if isinstance(image, int) else image
    shape = (*x.shape[:2], height, width)
    sizes = g.constant(f"{name}.sizes", shape)
    nearest = mode == "nearest"
    where = "asymmetric" if nearest else "pytorch_half_pixel"
    attributes = {"nearest_mode": "floor"} if nearest else {}
    return g.node(
        "Resize",
        name,
        [x.name, "", "", sizes],
        shape,
        x.moments,
        mode=mode,
        coordinate_transformation_mode=where,
        **attributes,
    )


def shift_by_one(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """The image one pixel up and left, zeros behind: the second path of a factorised reduction."""
    height, width = x.image
    start = g.constant(f"{name}.start", (1, 1))
    stop = g.constant(f"{name}.stop", (height, width))
    axes = g.constant(f"{name}.axes", (2, 3))
    shape = (*x.shape[:2], height - 1, width - 1)
    y = g.node("Slice", f"{name}.slice", [x.name, start, stop, axes], shape, x.moments)
    pads = g.constant(f"{name}.pads", (0, 0, 0, 0, 0, 0, 1, 1))
    return g.node("Pad", name, [y.name, pads], x.shape, x.moments)
