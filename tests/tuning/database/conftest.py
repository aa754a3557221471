"""A template that comes from outside the package, registered for as long as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from tvm_neocpu.topi.conv2d_direct.implementation import DIRECT
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.table import register_implementation, unregister_implementation


@dataclass(frozen=True)
class FancyConfig:
    """Knobs that AutoTVM never heard of, beside blocks."""

    template: ClassVar[str] = "conv2d_fancy"

    ic_bn: int
    oc_bn: int
    fold: bool = True


@pytest.fixture
def fancy() -> Implementation:
    """Of conv2d; not registered. Any of its configs fits, none has AutoTVM's names."""
    return replace(
        DIRECT,
        name=FancyConfig.template,
        config_type=FancyConfig,
        misfit=lambda conv, config: None,
        classic=(),
    )


@pytest.fixture
def registered() -> Callable[[Implementation], AbstractContextManager[None]]:
    """``with registered(implementation):`` conv2d has one more inside."""

    @contextmanager
    def inside(implementation: Implementation) -> Iterator[None]:
        register_implementation("conv2d", implementation)
        try:
            yield
        finally:
            unregister_implementation(implementation.name)

    return inside
