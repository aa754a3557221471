"""Candidates: what a config reads and writes."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.network.candidate import Candidate, layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig


@pytest.mark.parametrize(
    ("config", "reads", "writes"),
    [
        (ConvConfig(8, 16, 4), Layout(8), Layout(16)),
        (ConvConfig(0, 16, 4), NCHW, Layout(16)),
        (ConvConfig(1, 1, 4), Layout(1), Layout(1)),
        (DepthwiseConfig(16, 32, 4), Layout(16), Layout(32)),
        (DenseConfig(32), NCHW, NCHW),
    ],
)
def test_layouts(config: Config, reads: Layout, writes: Layout) -> None:
    assert layouts_of(config) == (reads, writes)
    candidate = Candidate(config, seconds=1e-3)
    assert (candidate.reads, candidate.writes) == (reads, writes)
