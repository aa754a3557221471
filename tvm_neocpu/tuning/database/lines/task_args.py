"""A workload from the argument list of an AutoTVM task (``Workload.args`` writes it).

A line that is about all implementations of an operator names the operator in the template's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.table import find_operator, operator_of_template


def decode_workload(template: str, args: Any, extras: Mapping[str, Any]) -> Workload:
    """The workload of a task of this template or operator; the operator reads the arguments.

    ``extras`` is the line's ``"neocpu"`` key. Raises LineError for an unknown template and for
    arguments that are none of its operator's: other layouts, mixed types, impossible shapes.
    """
    operator = operator_of_template(template) or find_operator(template)
    if operator is None:
        raise LineError(f"unknown template {template!r}")
    if not isinstance(args, list):
        raise LineError("its arguments are not a task's")
    try:
        workload: Workload = operator.decode(template, args, extras)
    except LineError:
        raise
    except (ValueError, TypeError, LookupError) as error:
        # A decoder from outside may trip over a line that is not its own: a log never ends a build.
        raise LineError(f"{operator.name} cannot read its arguments: {error}") from None
    return workload
