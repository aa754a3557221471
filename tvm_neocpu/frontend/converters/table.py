"""Which ONNX operators have a converter here; TVM's importer converts all others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_neocpu.frontend.converters.celu import celu
from tvm_neocpu.frontend.converters.conv_transpose import conv_transpose
from tvm_neocpu.frontend.converters.deform_conv import deform_conv
from tvm_neocpu.frontend.converters.instance_norm import instance_normalization
from tvm_neocpu.frontend.converters.integer_arithmetic import (
    conv_integer,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
)
from tvm_neocpu.frontend.converters.lp_normalization import lp_normalization
from tvm_neocpu.frontend.converters.node import Converter
from tvm_neocpu.frontend.converters.one_hot import one_hot
from tvm_neocpu.frontend.converters.pool import average_pool, lp_pool, max_pool
from tvm_neocpu.frontend.converters.recurrent import gru, lstm, rnn
from tvm_neocpu.frontend.converters.resize import resize, upsample
from tvm_neocpu.frontend.converters.shape import reshape, shape, size

CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {
        "AveragePool": average_pool,
        "Celu": celu,
        "ConvInteger": conv_integer,
        "ConvTranspose": conv_transpose,
        "DeformConv": deform_conv,
        "GRU": gru,
        "InstanceNormalization": instance_normalization,
        "LSTM": lstm,
        "LpNormalization": lp_normalization,
        "LpPool": lp_pool,
        "MatMulInteger": matmul_integer,
        "MaxPool": max_pool,
        "OneHot": one_hot,
        "QLinearConv": qlinear_conv,
        "QLinearMatMul": qlinear_matmul,
        "RNN": rnn,
        "Reshape": reshape,
        "Resize": resize,
        "Shape": shape,
        "Size": size,
        "Upsample": upsample,
    }
)
