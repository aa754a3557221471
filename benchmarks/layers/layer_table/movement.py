"""What reads each element about once: elementwise, data movement, resizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .layer import Layer, normal, times, unary


def resize(mode: str, scale: float, *shape: int, **attributes: Any) -> Layer:
    given = "".join(f" {k}={v}" for k, v in attributes.items())
    return Layer(
        f"Resize {times(shape)} by {scale:g} mode={mode}{given}",
        "Resize",
        (shape,),
        (None, np.array([1, 1, scale, scale], "f4")),
        attributes={"mode": mode, **attributes},
    )


def elementwise() -> Iterator[Layer]:
    image = (1, 256, 28, 28)
    for operator in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Exp", "Erf", "LeakyRelu", "Softplus"):
        yield unary(operator, *image)
    for operator in ("HardSigmoid", "Elu", "Selu", "Mish", "Abs", "Neg", "Floor", "Round", "Sign"):
        yield unary(operator, *image)
    yield Layer("Gelu 1x196x768", "Gelu", ((1, 196, 768),), opset=20)
    yield unary("PRelu", *image, constants=(normal(256, 1, 1),))
    yield unary("Clip", *image, constants=(np.float32(0).reshape(()), np.array(6, "f4")))
    yield unary("Sqrt", *image)
    yield unary("Pow", *image, constants=(np.array(2, "f4"),))
    yield unary("Div", *image, constants=(np.array([3.0], "f4"),))
    yield Layer("Add 256x28x28", "Add", (image,) * 2)
    yield Layer("Add 33x57x57", "Add", ((1, 33, 57, 57),) * 2)
    yield Layer("Max 256x28x28", "Max", (image,) * 2)
    yield Layer("Add along rows 196x768", "Add", ((1, 196, 768), (768,)))
    yield Layer("Mul by a gate 256x28x28", "Mul", (image, (1, 256, 1, 1)))
    yield Layer("Mul by a gate 67x26x26", "Mul", ((1, 67, 26, 26), (1, 67, 1, 1)))
    yield Layer("Mul by a map 256x28x28", "Mul", (image, (1, 1, 28, 28)))


def data_movement() -> Iterator[Layer]:
    yield unary("Transpose", 1, 64, 56, 56, perm=[0, 2, 3, 1])
    yield unary("Transpose", 1, 56, 56, 64, perm=[0, 3, 1, 2])
    yield unary("Transpose", 1, 3, 224, 224, perm=[0, 2, 3, 1])
    yield unary("Transpose", 1, 224, 224, 3, perm=[0, 3, 1, 2])
    yield unary("Transpose", 1, 85, 80, 80, perm=[0, 2, 3, 1])
    yield unary("Transpose", 1, 196, 12, 64, perm=[0, 2, 1, 3])
    yield unary("Transpose", 1, 2, 58, 28, 28, perm=[0, 2, 1, 3, 4])  # a channel shuffle
    yield unary("Transpose", 1, 3, 85, 20, 20, perm=[0, 1, 3, 4, 2])  # YOLO's heads
    yield unary("Transpose", 1000, 256, perm=[1, 0])
    yield unary("Transpose", 512, 1, 26, perm=[2, 1, 0])
    yield unary("Reshape", 1, 256, 28, 28, constants=(np.array([1, 256, 784]),))
    yield unary("DepthToSpace", 1, 64, 28, 28, blocksize=2)
    yield unary("DepthToSpace", 1, 27, 57, 57, blocksize=3, mode="CRD")
    yield unary("SpaceToDepth", 1, 16, 56, 56, blocksize=2)
    edges = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    yield unary("Pad", 1, 64, 56, 56, constants=(edges,))
    yield unary("Pad", 1, 64, 56, 56, constants=(edges,), mode="reflect")
    yield unary("Pad", 1, 64, 56, 56, constants=(edges,), mode="edge")
    yield unary("Pad", 1, 3, 224, 224, constants=(3 * edges,), mode="reflect")
    yield unary("Slice", 1, 256, 28, 28, constants=(np.array([64]), np.array([192]), np.array([1])))
    yield unary(
        "Slice",
        *(1, 3, 320, 320),
        constants=(np.array([0, 0]), np.array([320, 320]), np.array([2, 3]), np.array([2, 2])),
    )
    yield Layer("Concat 2 x 128x28x28", "Concat", ((1, 128, 28, 28),) * 2, attributes={"axis": 1})
    yield Layer(
        "Concat 2 x 64x27x27 rows", "Concat", ((1, 64, 27, 27),) * 2, attributes={"axis": 3}
    )
    yield Layer(
        "Split 256x28x28",
        "Split",
        ((1, 256, 28, 28),),
        outputs=2,
        attributes={"axis": 1, "num_outputs": 2},
    )
    yield unary("Gather", 1000, 256, constants=(np.arange(0, 1000, 7),))
    yield Layer(
        "Gather of 196x256 along 1",
        "Gather",
        ((196, 256),),
        (np.arange(0, 256, 3),),
        attributes={"axis": 1},
    )
    yield Layer(
        "GatherElements of 64x1000",
        "GatherElements",
        ((64, 1000),),
        (np.random.default_rng(2).integers(0, 1000, (64, 100)),),
        attributes={"axis": 1},
    )
    pixels = np.random.default_rng(3).integers(0, 100, (500, 2))
    yield Layer("GatherND 500 of 100x100x64", "GatherND", ((100, 100, 64),), (pixels,))
    yield Layer(
        "ScatterND 500 into 100x100x64",
        "ScatterND",
        ((100, 100, 64),),
        (pixels, normal(500, 64)),
    )
    yield unary("Expand", 1, 256, 1, 1, constants=(np.array([1, 256, 28, 28]),))
    yield unary("Tile", 1, 64, 28, 28, constants=(np.array([1, 2, 1, 1]),))
    grid = (1, 64, 28, 28), (1, 28, 28, 2)
    for mode in ("bilinear", "nearest"):
        yield Layer(f"GridSample 64x28x28 {mode}", "GridSample", grid, attributes={"mode": mode})
    corners = np.random.default_rng(4).uniform(0, 30, (50, 2))
    boxes = np.concatenate([corners, corners + 15], axis=1).astype("f4")
    yield Layer(
        "RoiAlign 50 of 64x50x50 7x7",
        "RoiAlign",
        ((1, 64, 50, 50),),
        (boxes, np.zeros(50, "int64")),
        attributes={"output_height": 7, "output_width": 7, "sampling_ratio": 2},
    )


def resizes() -> Iterator[Layer]:
    image = (1, 64, 28, 28)
    for mode in ("nearest", "linear", "cubic"):
        yield resize(mode, 2, *image)
    yield resize("nearest", 2, *image, coordinate_transformation_mode="asymmetric")
    yield resize("nearest", 1.5, *image)
    yield resize("linear", 2, *image, coordinate_transformation_mode="align_corners")
    yield resize("linear", 1.5, *image)
    yield resize("linear", 0.5, 1, 64, 56, 56)
    yield resize("linear", 8, 1, 21, 33, 33)
    yield resize("linear", 4, 1, 3, 57, 57)
    yield resize("cubic", 0.5, 1, 3, 224, 224)
    yield resize("linear", 0.5, 1, 64, 56, 56, antialias=1)
    yield resize("cubic", 2, 1, 3, 224, 224)
    yield resize("cubic", 0.4375, 1, 3, 512, 512, antialias=1)
    yield resize("linear", 0.4375, 1, 3, 512, 512, antialias=1)
