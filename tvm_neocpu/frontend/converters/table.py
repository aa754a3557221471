"""Which ONNX operators have a converter here; TVM's importer converts all others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_neocpu.frontend.converters.conv_transpose import conv_transpose
from tvm_neocpu.frontend.converters.deform_conv import deform_conv
from tvm_neocpu.frontend.converters.node import Converter
from tvm_neocpu.frontend.converters.pool import average_pool, lp_pool, max_pool
from tvm_neocpu.frontend.converters.resize import resize, upsample

CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {
        "AveragePool": average_pool,
        "ConvTranspose": conv_transpose,
        "DeformConv": deform_conv,
        "LpPool": lp_pool,
        "MaxPool": max_pool,
        "Resize": resize,
        "Upsample": upsample,
    }
)
