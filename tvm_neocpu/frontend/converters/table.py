"""Which ONNX operators have a converter here; TVM's importer converts all others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_neocpu.frontend.converters.arranging.pad import pad
from tvm_neocpu.frontend.converters.arranging.rearrangement import (
    col2im,
    constant_of_shape,
    cumulative,
    expand,
    eye_like,
    reverse_sequence,
    space_to_depth,
    tile,
    unsqueeze,
)
from tvm_neocpu.frontend.converters.arranging.shape import reshape, shape, size
from tvm_neocpu.frontend.converters.arranging.slicing import (
    slice_,
    split,
    split_to_sequence,
)
from tvm_neocpu.frontend.converters.convolutions.conv import conv
from tvm_neocpu.frontend.converters.convolutions.conv_transpose import conv_transpose
from tvm_neocpu.frontend.converters.convolutions.deform_conv import deform_conv
from tvm_neocpu.frontend.converters.convolutions.max_unpool import max_unpool
from tvm_neocpu.frontend.converters.convolutions.pool import (
    average_pool,
    global_lp_pool,
    lp_pool,
    max_pool,
)
from tvm_neocpu.frontend.converters.einsum import einsum
from tvm_neocpu.frontend.converters.fourier import dft, stft
from tvm_neocpu.frontend.converters.node import Converter
from tvm_neocpu.frontend.converters.pointwise.activations import (
    elu,
    mish,
    prelu,
    selu,
    softplus,
    thresholded_relu,
)
from tvm_neocpu.frontend.converters.pointwise.celu import celu
from tvm_neocpu.frontend.converters.pointwise.clip import clip
from tvm_neocpu.frontend.converters.pointwise.division import divide, modulo
from tvm_neocpu.frontend.converters.pointwise.dropout import dropout
from tvm_neocpu.frontend.converters.pointwise.elementwise import (
    bit_cast,
    bit_shift,
    cast,
    comparison,
    is_inf,
    negation,
    power,
    sign,
)
from tvm_neocpu.frontend.converters.pointwise.hyperbolic import hyperbolic, in_float32
from tvm_neocpu.frontend.converters.quantized.integer_arithmetic import (
    conv_integer,
    matmul_integer,
)
from tvm_neocpu.frontend.converters.quantized.quantize import (
    dequantize_linear,
    dynamic_quantize_linear,
    quantize_linear,
)
from tvm_neocpu.frontend.converters.quantized.quantized_operators import (
    qgemm,
    qlinear_average_pool,
    qlinear_binary,
    qlinear_concat,
    qlinear_conv,
    qlinear_global_average_pool,
    qlinear_matmul,
    qlinear_unary,
)
from tvm_neocpu.frontend.converters.recurrences.quantized_recurrent import dynamic_quantize_lstm
from tvm_neocpu.frontend.converters.recurrences.recurrent import gru, lstm, rnn
from tvm_neocpu.frontend.converters.reductions.instance_norm import instance_normalization
from tvm_neocpu.frontend.converters.reductions.lp_normalization import lp_normalization
from tvm_neocpu.frontend.converters.reductions.normalization import (
    batch_normalization,
    group_normalization,
    layer_normalization,
    lrn,
    mean_variance_normalization,
    rms_normalization,
)
from tvm_neocpu.frontend.converters.reductions.reduction import reduction
from tvm_neocpu.frontend.converters.sampling.matrix import affine_grid, det, grid_sample
from tvm_neocpu.frontend.converters.sampling.max_roi_pool import max_roi_pool
from tvm_neocpu.frontend.converters.sampling.resize import resize, upsample
from tvm_neocpu.frontend.converters.sampling.roi_align import roi_align
from tvm_neocpu.frontend.converters.selecting.gather import gather, gather_elements, gather_nd
from tvm_neocpu.frontend.converters.selecting.non_max_suppression import non_max_suppression
from tvm_neocpu.frontend.converters.selecting.one_hot import one_hot
from tvm_neocpu.frontend.converters.selecting.scatter import scatter_elements, scatter_nd
from tvm_neocpu.frontend.converters.selecting.selection import compress, non_zero, unique
from tvm_neocpu.frontend.converters.selecting.top_k import arg_extremum, hardmax, top_k

CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {
        "Acos": in_float32(),
        "Acosh": in_float32(),
        "AffineGrid": affine_grid,
        "ArgMax": arg_extremum,
        "ArgMin": arg_extremum,
        "Asin": in_float32(),
        "Asinh": in_float32(),
        "Atan": in_float32(),
        "Atanh": hyperbolic,
        "AveragePool": average_pool,
        "BatchNormalization": batch_normalization,
        "BitCast": bit_cast,
        "BitShift": bit_shift,
        "Cast": cast,
        "Celu": in_float32(celu),
        "Clip": clip,
        "Col2Im": col2im,
        "Compress": compress,
        "ConstantOfShape": constant_of_shape,
        "Conv": conv,
        "ConvInteger": conv_integer,
        "ConvTranspose": conv_transpose,
        "Cosh": hyperbolic,
        "CumProd": cumulative,
        "CumSum": cumulative,
        "DFT": dft,
        "DeformConv": deform_conv,
        "DequantizeLinear": dequantize_linear,
        "Det": det,
        "Div": divide,
        "Dropout": dropout,
        "DynamicQuantizeLSTM": dynamic_quantize_lstm,
        "DynamicQuantizeLinear": dynamic_quantize_linear,
        "Einsum": einsum,
        "Elu": in_float32(elu),
        "Equal": comparison,
        "Expand": expand,
        "EyeLike": eye_like,
        "GRU": gru,
        "Gather": gather,
        "GatherElements": gather_elements,
        "GatherND": gather_nd,
        "Gelu": in_float32(),
        "GlobalLpPool": global_lp_pool,
        "GreaterOrEqual": comparison,
        "GridSample": grid_sample,
        "GroupNormalization": group_normalization,
        "HardSigmoid": in_float32(),
        "Hardmax": hardmax,
        "IsInf": is_inf,
        "LRN": lrn,
        "InstanceNormalization": instance_normalization,
        "LSTM": lstm,
        "LayerNormalization": layer_normalization,
        "LessOrEqual": comparison,
        "LpNormalization": lp_normalization,
        "LpPool": lp_pool,
        "MatMulInteger": matmul_integer,
        "MaxPool": max_pool,
        "MaxRoiPool": max_roi_pool,
        "MaxUnpool": max_unpool,
        "MeanVarianceNormalization": mean_variance_normalization,
        "Mish": mish,
        "Mod": modulo,
        "NonMaxSuppression": non_max_suppression,
        "NonZero": non_zero,
        "Not": negation,
        "OneHot": one_hot,
        "PRelu": prelu,
        "Pad": pad,
        "Pow": power,
        "QGemm": qgemm,
        "QLinearAdd": qlinear_binary,
        "QLinearAveragePool": qlinear_average_pool,
        "QLinearConcat": qlinear_concat,
        "QLinearConv": qlinear_conv,
        "QLinearGlobalAveragePool": qlinear_global_average_pool,
        "QLinearLeakyRelu": qlinear_unary,
        "QLinearMatMul": qlinear_matmul,
        "QLinearMul": qlinear_binary,
        "QLinearSigmoid": qlinear_unary,
        "QLinearSoftmax": qlinear_unary,
        "QuantizeLinear": quantize_linear,
        "RMSNormalization": rms_normalization,
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
        "Selu": in_float32(selu),
        "Shape": shape,
        "STFT": stft,
        "Sign": sign,
        "SimplifiedLayerNormalization": rms_normalization,
        "Sinh": hyperbolic,
        "Size": size,
        "Slice": slice_,
        "Softplus": softplus,
        "SpaceToDepth": space_to_depth,
        "Split": split,
        "SplitToSequence": split_to_sequence,
        "Tan": in_float32(),
        "Tanh": in_float32(),
        "ThresholdedRelu": thresholded_relu,
        "Tile": tile,
        "TopK": top_k,
        "Unique": unique,
        "Unsqueeze": unsqueeze,
        "Upsample": upsample,
    }
)

# ONNX's own operators that TVM's importer takes for one of another domain by its name. The body
# that ONNX's schema has is converted in their place.
BY_BODY = frozenset({"Attention"})
