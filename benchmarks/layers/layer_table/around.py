"""What stands around networks: chains of norms and activations, pictures, boxes, vocoders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .convolutions import conv, conv_transpose
from .layer import Layer, chain, normal, unary
from .reductions import top_k


def norm_chains() -> Iterator[Layer]:
    norm = (normal(256), normal(256))
    volume = (1, 32, 16, 28, 28)
    yield unary("InstanceNormalization", *volume, constants=(normal(32), normal(32)))
    yield chain(
        "GroupNormalization, SiLU 256x28x28 of 32",
        (1, 256, 28, 28),
        [
            ("GroupNormalization", ["", "c0", "c1"], {"num_groups": 32}),
            ("Sigmoid", [""], {}),
            ("Mul", ["t0", ""], {}),
        ],
        *norm,
        opset=21,
    )
    yield chain(
        "LayerNormalization over channels 96x56x56",
        (1, 96, 56, 56),
        [
            ("Transpose", [""], {"perm": [0, 2, 3, 1]}),
            ("LayerNormalization", ["", "c0", "c1"], {}),
            ("Transpose", [""], {"perm": [0, 3, 1, 2]}),
        ],
        normal(96),
        normal(96),
    )
    yield chain(
        "Gelu by Erf 196x3072",
        (1, 196, 3072),
        [
            ("Div", ["", "c0"], {}),
            ("Erf", [""], {}),
            ("Add", ["", "c1"], {}),
            ("Mul", ["x0", ""], {}),
            ("Mul", ["", "c2"], {}),
        ],
        *(np.array(value, "f4") for value in (1.41421356, 1, 0.5)),
    )
    tanh = {"approximate": "tanh"}
    yield Layer("Gelu tanh 196x3072", "Gelu", ((1, 196, 3072),), attributes=tanh, opset=20)
    yield chain(
        "Scaled softmax with a mask 12x196x196",
        (1, 12, 196, 196),
        [("Mul", ["", "c0"], {}), ("Add", ["", "c1"], {}), ("Softmax", [""], {"axis": -1})],
        np.array(0.125, "f4"),
        normal(1, 1, 196, 196),
    )


def pictures() -> Iterator[Layer]:
    mean, scale = np.full((1, 1, 1, 3), 127.5, "f4"), np.full((1, 1, 1, 3), 1 / 58, "f4")
    yield chain(
        "Picture to NCHW: Cast, Sub, Mul, Transpose 224x224x3",
        (1, 224, 224, 3),
        [
            ("Cast", [""], {"to": 1}),
            ("Sub", ["", "c0"], {}),
            ("Mul", ["", "c1"], {}),
            ("Transpose", [""], {"perm": [0, 3, 1, 2]}),
        ],
        mean,
        scale,
        dtype="uint8",
    )
    yield chain(
        "Picture to NCHW: Transpose, Cast, Div 640x640x3",
        (1, 640, 640, 3),
        [
            ("Transpose", [""], {"perm": [0, 3, 1, 2]}),
            ("Cast", [""], {"to": 1}),
            ("Div", ["", "c0"], {}),
        ],
        np.array(255, "f4"),
        dtype="uint8",
    )
    yield unary("ArgMax", 1, 21, 520, 520, axis=1)
    yield unary("DepthToSpace", 1, 48, 180, 320, blocksize=4, mode="CRD")
    yield chain(
        "Clip, Mul, Cast to uint8 3x224x224",
        (1, 3, 224, 224),
        [
            ("Clip", ["", "c0", "c1"], {}),
            ("Mul", ["", "c2"], {}),
            ("Cast", [""], {"to": 2}),
        ],
        *(np.array(value, "f4") for value in (0, 1, 255)),
    )
    yield chain(
        "Where of a comparison 256x28x28",
        (1, 256, 28, 28),
        [("Greater", ["", "c0"], {}), ("Where", ["", "x0", "c1"], {})],
        np.array(0.5, "f4"),
        np.array(-1, "f4"),
    )
    yield unary("Mod", 1, 256, 28, 28, constants=(np.array(0.7, "f4"),), fmod=1)


def boxes() -> Iterator[Layer]:
    rng = np.random.default_rng(6)
    for count in (1000, 10000):
        corners = rng.uniform(0, 500, (1, count, 2))
        found = np.concatenate([corners, corners + rng.uniform(5, 80, (1, count, 2))], -1)
        scores = rng.uniform(size=(1, 1, count)).astype("f4")
        limits = np.array([100]), np.array([0.5], "f4"), np.array([0.1], "f4")
        yield chain(
            f"NonMaxSuppression of {count}",
            (1, count, 4),
            [("Add", ["", "c0"], {}), ("NonMaxSuppression", ["", "c1", "c2", "c3", "c4"], {})],
            found.astype("f4") * 100,
            scores,
            *limits,
        )
    yield top_k(300, 1, 8400)
    yield top_k(2000, 1, 60000)
    yield unary("CumSum", 1, 1, 512, 512, constants=(np.array(3),))
    table = normal(3000, 384)
    ids = [("Mul", ["", "c0"], {}), ("Add", ["", "c1"], {}), ("Gather", ["c2", ""], {})]
    numbers = np.arange(128)[None] * 7, np.arange(128)[None]
    yield chain("Gather of ids: 128 of 3000x384", (1, 128), ids, *numbers, table, dtype="int64")


def sequences() -> Iterator[Layer]:
    yield conv_transpose(256, (100,), 128, 16, 8, 4)
    yield conv_transpose(64, (3200,), 32, 4, 2, 1)
    yield conv(64, (4000,), 128, 3, dilation=16)
    yield conv(128, (1000,), 128, 7, dilation=3)
    yield conv(80, (500,), 512, 5)
    yield Layer("MatMul of int64 64x64x64", "MatMul", ((64, 64), (64, 64)), dtype="int64")


def layers_around() -> Iterator[Layer]:
    yield from norm_chains()
    yield from pictures()
    yield from boxes()
    yield from sequences()
