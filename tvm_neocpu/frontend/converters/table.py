"""Which ONNX operators have a converter here; TVM's importer converts all others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_neocpu.frontend.converters.celu import celu
from tvm_neocpu.frontend.converters.conv_transpose import conv_transpose
from tvm_neocpu.frontend.converters.deform_conv import deform_conv
from tvm_neocpu.frontend.converters.integer_arithmetic import (
    conv_integer,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
)
from tvm_neocpu.frontend.converters.lp_normalization import lp_normalization
from tvm_neocpu.frontend.converters.node import Converter
from tvm_neocpu.frontend.converters.non_max_suppression import non_max_suppression
from tvm_neocpu.frontend.converters.one_hot import one_hot
from tvm_neocpu.frontend.converters.pad import pad
from tvm_neocpu.frontend.converters.pool import average_pool, lp_pool, max_pool
from tvm_neocpu.frontend.converters.recurrent import gru, lstm, rnn
from tvm_neocpu.frontend.converters.reduction import reduction
from tvm_neocpu.frontend.converters.resize import resize, upsample
from tvm_neocpu.frontend.converters.roi_align import roi_align
from tvm_neocpu.frontend.converters.scatter import scatter_elements, scatter_nd
from tvm_neocpu.frontend.converters.selection import compress, non_zero, unique
from tvm_neocpu.frontend.converters.shape import reshape, shape, size
from tvm_neocpu.frontend.converters.slicing import slice_, split
from tvm_neocpu.frontend.converters.top_k import arg_extremum, top_k

CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {
        "ArgMax": arg_extremum,
        "ArgMin": arg_extremum,
        "AveragePool": average_pool,
        "Celu": celu,
        "Compress": compress,
        "ConvInteger": conv_integer,
        "ConvTranspose": conv_transpose,
        "DeformConv": deform_conv,
        "GRU": gru,
        "LSTM": lstm,
        "LpNormalization": lp_normalization,
        "LpPool": lp_pool,
        "MatMulInteger": matmul_integer,
        "MaxPool": max_pool,
        "NonMaxSuppression": non_max_suppression,
        "NonZero": non_zero,
        "OneHot": one_hot,
        "Pad": pad,
        "QLinearConv": qlinear_conv,
        "QLinearMatMul": qlinear_matmul,
        "RNN": rnn,
        **dict.fromkeys(
            [
                "ReduceL1",
                "ReduceL2",
                "ReduceLogSum",
                "ReduceLogSumExp",
                "ReduceMax",
                "ReduceMean",
                "ReduceMin",
                "ReduceProd",
                "ReduceSum",
                "ReduceSumSquare",
            ],
            reduction,
        ),
        "Reshape": reshape,
        "Resize": resize,
        "RoiAlign": roi_align,
        "Scatter": scatter_elements,
        "ScatterElements": scatter_elements,
        "ScatterND": scatter_nd,
        "Shape": shape,
        "Size": size,
        "Slice": slice_,
        "Split": split,
        "TopK": top_k,
        "Unique": unique,
        "Upsample": upsample,
    }
)
