"""TVM's schedule without the checks of its arguments' types, which are written in Python.

They were a tenth of what lowering a ResNet-18 takes (Zen 3), and a template's own tests run its
steps. What a step does to the loops is checked as ever, by TVM's C++.
"""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule


class UncheckedSchedule(Schedule):  # type: ignore[misc]
    """A :class:`tvm.s_tir.Schedule` whose methods take their arguments as they are."""


def _bare(method: Any) -> Any:
    """What TVM's ``type_checked`` wraps; ``None`` for any other attribute."""
    return getattr(method, "__wrapped__", None) if callable(method) else None


for _name, _method in vars(Schedule).items():
    if _bare(_method) is not None:
        setattr(UncheckedSchedule, _name, _bare(_method))
