"""A workload of any operator from the text that it prints as."""

from __future__ import annotations

from math import prod

from tvm_neocpu.core.errors import WorkloadTextError
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import MAX_ELEMENTS
from tvm_neocpu.topi.table import operators


def parse_workload(text: str) -> Workload:
    """``"512x7x7->512 3x3 p1"``, ``"dense 1x25088->4096"``: the inverse of ``str(workload)``.

    Element types stand behind the rest, ``uint8 x int8``; without any the workload is of fp32.
    Raises WorkloadTextError for a text that is no operator's, and for a tensor that TVM cannot
    count.
    """
    for operator in operators():
        found = operator.parse(text) if operator.parse is not None else None
        if found is not None:
            return _small_enough(text, found)
    examples = ", ".join(repr(operator.example) for operator in operators() if operator.example)
    raise WorkloadTextError(f"{text!r} is no workload; write one like {examples}")


def _small_enough(text: str, workload: Workload) -> Workload:
    for shape in (*(operand.shape for operand in workload.operands), workload.out_shape):
        if prod(shape) > MAX_ELEMENTS:
            extents = "x".join(map(str, shape))
            raise WorkloadTextError(f"{text!r} has a tensor of {extents}: 2**31 elements or more")
    return workload
