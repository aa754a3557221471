"""Which ONNX operators have a converter here; TVM's importer converts all others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_neocpu.frontend.converters.celu import celu
from tvm_neocpu.frontend.converters.conv_transpose import conv_transpose
from tvm_neocpu.frontend.converters.deform_conv import deform_conv
from tvm_neocpu.frontend.converters.elementwise import (
    bit_cast,
    bit_shift,
    equal,
    is_inf,
    modulo,
    power,
    sign,
)
from tvm_neocpu.frontend.converters.hyperbolic import hyperbolic, in_float32
from tvm_neocpu.frontend.converters.integer_arithmetic import (
    conv_integer,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
)
from tvm_neocpu.frontend.converters.lp_normalization import lp_normalization
from tvm_neocpu.frontend.converters.matrix import affine_grid, det, einsum, grid_sample
from tvm_neocpu.frontend.converters.node import Converter
from tvm_neocpu.frontend.converters.non_max_suppression import non_max_suppression
from tvm_neocpu.frontend.converters.one_hot import one_hot
from tvm_neocpu.frontend.converters.pad import pad
from tvm_neocpu.frontend.converters.pool import average_pool, lp_pool, max_pool
from tvm_neocpu.frontend.converters.rearrangement import (
    col2im,
    constant_of_shape,
    cumulative,
    expand,
    eye_like,
    reverse_sequence,
    space_to_depth,
    unsqueeze,
)
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
        "Acos": in_float32,
        "Acosh": in_float32,
        "AffineGrid": affine_grid,
        "ArgMax": arg_extremum,
        "ArgMin": arg_extremum,
        "Asin": in_float32,
        "Asinh": in_float32,
        "Atan": in_float32,
        "Atanh": hyperbolic,
        "AveragePool": average_pool,
        "BitCast": bit_cast,
        "BitShift": bit_shift,
        "Celu": celu,
        "Col2Im": col2im,
        "Compress": compress,
        "ConstantOfShape": constant_of_shape,
        "ConvInteger": conv_integer,
        "ConvTranspose": conv_transpose,
        "Cosh": hyperbolic,
        "CumProd": cumulative,
        "CumSum": cumulative,
        "DeformConv": deform_conv,
        "Det": det,
        "Einsum": einsum,
        "Equal": equal,
        "Expand": expand,
        "EyeLike": eye_like,
        "GRU": gru,
        "GridSample": grid_sample,
        "IsInf": is_inf,
        "LSTM": lstm,
        "LpNormalization": lp_normalization,
        "LpPool": lp_pool,
        "MatMulInteger": matmul_integer,
        "MaxPool": max_pool,
        "Mod": modulo,
        "NonMaxSuppression": non_max_suppression,
        "NonZero": non_zero,
        "OneHot": one_hot,
        "Pad": pad,
        "Pow": power,
        "QLinearConv": qlinear_conv,
        "QLinearMatMul": qlinear_matmul,
        "RNN": rnn,
        "ReduceL1": reduction,
        "ReduceL2": reduction,
        "ReduceLogSum": reduction,
        "ReduceLogSumExp": reduction,
        "ReduceMax": reduction,
        "ReduceMean": reduction,
        "ReduceMin": reduction,
        "ReduceProd": reduction,
        "ReduceSum": reduction,
        "ReduceSumSquare": reduction,
        "Reshape": reshape,
        "Resize": resize,
        "ReverseSequence": reverse_sequence,
        "RoiAlign": roi_align,
        "Scatter": scatter_elements,
        "ScatterElements": scatter_elements,
        "ScatterND": scatter_nd,
        "Shape": shape,
        "Sign": sign,
        "Sinh": hyperbolic,
        "Size": size,
        "Slice": slice_,
        "SpaceToDepth": space_to_depth,
        "Split": split,
        "Tan": in_float32,
        "TopK": top_k,
        "Unique": unique,
        "Unsqueeze": unsqueeze,
        "Upsample": upsample,
    }
)
