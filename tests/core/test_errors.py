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
