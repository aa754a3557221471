"""Which ONNX operators have a converter here; TVM's importer converts all others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_neocpu.frontend.converters.activations import elu, prelu, selu, thresholded_relu
from tvm_neocpu.frontend.converters.celu import celu
from tvm_neocpu.frontend.converters.conv import conv
from tvm_neocpu.frontend.converters.conv_transpose import conv_transpose
from tvm_neocpu.frontend.converters.deform_conv import deform_conv
from tvm_neocpu.frontend.converters.integer_arithmetic import (
    conv_integer,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
)
from tvm_neocpu.frontend.converters.lp_normalization import lp_normalization
from tvm_neocpu.frontend.converters.max_unpool import max_unpool
from tvm_neocpu.frontend.converters.node import Converter
from tvm_neocpu.frontend.converters.non_max_suppression import non_max_suppression
from tvm_neocpu.frontend.converters.normalization import (
    batch_normalization,
    group_normalization,
    layer_normalization,
    lrn,
    mean_variance_normalization,
    rms_normalization,
)
from tvm_neocpu.frontend.converters.one_hot import one_hot
from tvm_neocpu.frontend.converters.pool import average_pool, global_lp_pool, lp_pool, max_pool
from tvm_neocpu.frontend.converters.quantize import (
    dequantize_linear,
    dynamic_quantize_linear,
    quantize_linear,
)
from tvm_neocpu.frontend.converters.recurrent import gru, lstm, rnn
from tvm_neocpu.frontend.converters.resize import resize, upsample
from tvm_neocpu.frontend.converters.roi_align import roi_align
from tvm_neocpu.frontend.converters.shape import reshape, shape, size

CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {
        "AveragePool": average_pool,
        "BatchNormalization": batch_normalization,
        "Celu": celu,
        "Conv": conv,
        "ConvInteger": conv_integer,
        "ConvTranspose": conv_transpose,
        "DeformConv": deform_conv,
        "DequantizeLinear": dequantize_linear,
        "DynamicQuantizeLinear": dynamic_quantize_linear,
        "Elu": elu,
        "GRU": gru,
        "GlobalLpPool": global_lp_pool,
        "GroupNormalization": group_normalization,
        "LRN": lrn,
        "LSTM": lstm,
        "LayerNormalization": layer_normalization,
        "LpNormalization": lp_normalization,
        "LpPool": lp_pool,
        "MatMulInteger": matmul_integer,
        "MaxPool": max_pool,
        "MaxUnpool": max_unpool,
        "MeanVarianceNormalization": mean_variance_normalization,
        "NonMaxSuppression": non_max_suppression,
        "OneHot": one_hot,
        "PRelu": prelu,
        "QLinearConv": qlinear_conv,
        "QLinearMatMul": qlinear_matmul,
        "QuantizeLinear": quantize_linear,
        "RMSNormalization": rms_normalization,
        "RNN": rnn,
        "Reshape": reshape,
        "Resize": resize,
        "Selu": selu,
        "RoiAlign": roi_align,
        "Shape": shape,
        "Size": size,
        "ThresholdedRelu": thresholded_relu,
        "Upsample": upsample,
    }
)

# ONNX's own operators that TVM's importer takes for one of another domain by its name. The body
# that ONNX's schema has is converted in their place.
BY_BODY = frozenset({"Attention"})
