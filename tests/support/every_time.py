"""Which of many long cases every run of the tests takes; `make nightly` takes the others."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

import pytest


def slow_but(names: Iterable[str], every_time: Set[str]) -> list[Any]:
    """The names as parameters, all slow but those that are tested every time."""
    names = tuple(names)
    assert every_time <= set(names)
    return [n if n in every_time else pytest.param(n, marks=pytest.mark.slow) for n in names]
