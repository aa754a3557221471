"""Deformable convolutions from the text that they print as."""

from __future__ import annotations

import re

from tvm_neocpu.core.errors import WorkloadTextError
from tvm_neocpu.topi.conv2d import text as conv2d
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

EXAMPLE = "deformable 64x56x56->64 3x3 p1 masked"
_DEFORM = re.compile(r"deformable (?P<conv>.*?)(?: og(?P<offset_groups>\d+))?(?P<mask> masked)?")


def parse(text: str) -> DeformConvWorkload | None:
    """The inverse of ``str``: a convolution's text, ``og`` for offset groups, ``masked``.

    ``None`` for a text of another form. Raises WorkloadTextError where the convolution's text does,
    and for offset groups that do not divide its channels.
    """
    found = _DEFORM.fullmatch(text.strip())
    conv = conv2d.parse(found["conv"]) if found is not None else None
    if found is None or conv is None:
        return None
    deform = DeformConvWorkload(
        conv.batch,
        conv.in_channels,
        conv.height,
        conv.width,
        conv.out_channels,
        conv.kernel,
        conv.stride,
        conv.padding,
        conv.dilation,
        conv.groups,
        int(found["offset_groups"] or 1),
        found["mask"] is not None,
    )
    if deform.misfit is not None:
        raise WorkloadTextError(f"{text!r}: {deform.misfit}")
    return deform
