"""What the model expects of tiles."""

from __future__ import annotations

import math
from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.dot import VPDPBUSD
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.cost import predict_seconds, pricing
from tvm_neocpu.topi.conv2d_amx.geometry import IntegerTilesConfig
from tvm_neocpu.topi.conv2d_amx.space import integer_space
from tvm_neocpu.topi.conv2d_integer.implementation import INTEGER

CONV = ConvWorkload(1, 128, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1), types=U8S8)
CONFIG = IntegerTilesConfig(ic_bn=64, oc_bn=32, reg_n=14, reg_m=2)
CPU = Cpu("emeraldrapids", AVX512, 1, dots=(VPDPBUSD,), matrix=MatrixUnit((U8S8,)))


def test_two_by_two_tiles_load_least() -> None:
    """Four products of four loads; of five loads where pixels or filters are one tile."""
    square = predict_seconds(CONV, CONFIG, CPU)
    for other in (replace(CONFIG, oc_bn=64, reg_m=1), replace(CONFIG, reg_m=1)):
        assert square < predict_seconds(CONV, other, CPU)


def test_it_gains_where_channels_fill_tiles() -> None:
    """Emerald Rapids, ResNet-50's layers: 1.6 times the speed of vpdpbusd over the network."""
    price = INTEGER.price(CONV, CPU)
    words = min(map(price, INTEGER.space(CONV, CPU)))
    tiles = min(predict_seconds(CONV, config, CPU) for config in integer_space(CONV, CPU))
    assert 1.3 < words / tiles < 3
    few = replace(CONV, in_channels=16, kernel=(1, 1), padding=(0, 0, 0, 0))
    price = INTEGER.price(few, CPU)
    words = min(map(price, INTEGER.space(few, CPU)))
    assert words < min(predict_seconds(few, config, CPU) for config in integer_space(few, CPU))


def test_four_tiles_of_pixels_read_half_the_weights() -> None:
    """Emerald Rapids, the layer alone, bf16: 128x66x66->128 3x3 2 x 2 tiles 645 us, in a row of 32
    pixels, 612 in two of 16; 4 x 1 579. Twice the channels are as many bytes of integers.
    L1 holds what both read of 64 channels of a 1x1 kernel."""
    conv = replace(CONV, in_channels=256, height=66, width=66, out_channels=128, padding=(0,) * 4)
    server = replace(CPU, l1=48 * 1024)
    row, square, tall = (
        IntegerTilesConfig(ic_bn=64, oc_bn=32, reg_n=reg_n, reg_m=reg_m, oh_bn=16)
        for reg_m, reg_n in ((1, 32), (2, 16), (4, 16))
    )
    seconds = [predict_seconds(conv, config, server) for config in (tall, square, row)]
    assert seconds == sorted(seconds) and seconds[2] > 1.05 * seconds[0]
    near = replace(conv, in_channels=64, kernel=(1, 1), height=64, width=64)
    assert predict_seconds(near, square, CPU) < predict_seconds(near, tall, CPU)


def test_pricing_many_configs_predicts_the_same() -> None:
    price, space = pricing(CONV, CPU), integer_space(CONV, CPU)
    assert [price(config) for config in space] == [
        predict_seconds(CONV, config, CPU) for config in space
    ]
    least = min(map(price, space))
    assert all(price(config, least) in (price(config), math.inf) for config in space)
    assert least in [price(config, least) for config in space]
