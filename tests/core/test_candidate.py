"""Candidates: what a config reads and writes."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.candidate import Candidate, layouts_of
from tvm_neocpu.core.config import Config, ConvConfig, DenseConfig, DepthwiseConfig
from tvm_neocpu.core.layout import NCHW, Layout


@pytest.mark.parametrize(
    ("config", "reads", "writes"),
    [
        (ConvConfig(8, 16, 4), Layout(8), Layout(16)),
        (ConvConfig(0, 16, 4), NCHW, Layout(16)),
        (ConvConfig(1, 1, 4), Layout(1), Layout(1)),
        (DepthwiseConfig(16, 4), Layout(16), Layout(16)),
        (DenseConfig(32), NCHW, NCHW),
    ],
)
def test_layouts(config: Config, reads: Layout, writes: Layout) -> None:
    assert layouts_of(config) == (reads, writes)
    candidate = Candidate(config, seconds=1e-3)
    assert (candidate.reads, candidate.writes) == (reads, writes)
