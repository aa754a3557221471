"""What 2-D convolution is; its algorithms lie in the rooms beside this one, ``conv2d_...``."""

from __future__ import annotations

from tvm_neocpu.topi.conv2d.log import decode
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.text import EXAMPLE, parse
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.operator import Operator

CONV2D = Operator(
    name="conv2d",
    workload_type=ConvWorkload,
    decode=decode,
    reference=convolved,
    parse=parse,
    example=EXAMPLE,
)
