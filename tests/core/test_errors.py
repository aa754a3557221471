"""Errors: one family, one readable line each."""

from __future__ import annotations

import inspect

import pytest

from tvm_neocpu.core import errors
from tvm_neocpu.core.errors import NeoCpuError

FAMILY = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


@pytest.mark.parametrize("kind", FAMILY)
def test_every_error_is_of_the_family_and_prints_its_text(kind: type[NeoCpuError]) -> None:
    assert issubclass(kind, NeoCpuError)
    assert str(kind("no network is called 'x'")) == "no network is called 'x'"


def test_tvms_operators_and_integers_are_named_and_not_dumped() -> None:
    """TVM prints an operator with all its fields: 500 characters before the reason."""
    text = (
        'In ir.Op(span=None, ty=ir.Type(span=None), name="relax.concat", description="", '
        'arguments=(ir.ArgumentInfo(name="tensors", type_info="Tuple"),), num_inputs=1, '
        "support_level=10), axis 9 of (T.int64(3), T.int64(-1)) is out of range"
    )
    expected = "In relax.concat, axis 9 of (3, -1) is out of range"
    assert errors.first_line(ValueError(text)) == expected
