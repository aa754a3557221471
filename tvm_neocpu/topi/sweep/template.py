"""No template makes a sweep: TVM's legalisation does, or a schedule of whole functions."""

from __future__ import annotations

from typing import NoReturn

from tvm_neocpu.core.errors import ConfigError


def compute(*arguments: object) -> NoReturn:
    """Refused: nobody asks for it, since the space of a sweep is empty."""
    raise ConfigError("a sweep has no template; TVM's own code computes it")


def schedule(*arguments: object) -> NoReturn:
    """Refused, as :func:`compute` is."""
    raise ConfigError("a sweep has no template; TVM's own code computes it")
