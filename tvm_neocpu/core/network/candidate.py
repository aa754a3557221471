"""What the global search chooses among at one convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.types import Types


@dataclass(frozen=True)
class Candidate:
    """A scheme: the fastest known config with its layouts, and its seconds, measured or predicted.

    A config without ``ic_bn`` (dense layers) reads and writes plain tensors. ``types`` are given
    where the scheme computes in another precision than its node's workload says. ``rounding`` are
    those of the seconds in which it rounds data that are not stored as it multiplies them.
    """

    config: Config
    seconds: float
    types: Types | None = None
    rounding: float = 0.0

    @property
    def reads(self) -> Layout:
        return layouts_of(self.config)[0]

    @property
    def writes(self) -> Layout:
        return layouts_of(self.config)[1]


def layouts_of(config: Config) -> tuple[Layout, Layout]:
    """(input layout, output layout) of a config; plain for one without blocks."""
    blocks: Any = config
    return (Layout(blocks.ic_bn), Layout(blocks.oc_bn)) if has_blocks(config) else (NCHW, NCHW)


def has_blocks(config: Config) -> bool:
    """Whether a config is of an operator over feature maps."""
    return hasattr(config, "ic_bn")
