"""What the global search chooses among at one convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.layout import NCHW, Layout


@runtime_checkable
class Blocked(Protocol):
    """A config of an operator over feature maps."""

    @property
    def ic_bn(self) -> int: ...

    @property
    def oc_bn(self) -> int: ...


@dataclass(frozen=True)
class Candidate:
    """A scheme: the fastest known config with its layouts, and its seconds, measured or predicted.

    A config without ``ic_bn`` (dense layers) reads and writes plain tensors.
    """

    config: Config
    seconds: float

    @property
    def reads(self) -> Layout:
        return layouts_of(self.config)[0]

    @property
    def writes(self) -> Layout:
        return layouts_of(self.config)[1]


def layouts_of(config: Config) -> tuple[Layout, Layout]:
    """(input layout, output layout) of a config."""
    if not isinstance(config, Blocked):
        return NCHW, NCHW
    return Layout(config.ic_bn), Layout(config.oc_bn)
