"""A workload of any operator from the text that it prints as."""

from __future__ import annotations

from tvm_neocpu.core.errors import WorkloadTextError
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.table import operators


def parse_workload(text: str) -> Workload:
    """``"512x7x7->512 3x3 p1"``, ``"dense 1x25088->4096"``: the inverse of ``str(workload)``.

    Element types stand behind the rest, ``uint8 x int8``; without any the workload is of fp32.
    Raises WorkloadTextError for a text that is no operator's.
    """
    for operator in operators():
        found = operator.parse(text) if operator.parse is not None else None
        if found is not None:
            return found
    examples = ", ".join(repr(operator.example) for operator in operators() if operator.example)
    raise WorkloadTextError(f"{text!r} is no workload; write one like {examples}")
