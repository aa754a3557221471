"""The scale of a memory chart: figures that a reader takes in at once, whatever their size."""

from __future__ import annotations

import re

import pytest

from tvm_neocpu.contrib.schedule.charts import _chart


@pytest.mark.parametrize(
    ("top", "scale"),
    [
        (0.04, ["0", "0.01", "0.02", "0.03", "0.04"]),
        (2048.0, ["0", "512", "1024", "1536", "2048"]),
        (999.9, ["0", "250", "500", "750", "1000"]),
    ],
)
def test_the_scale_is_in_plain_figures(top: float, scale: list[str]) -> None:
    chart = _chart({"order": ([(0, top)], 1.0)}, top, "KiB", "1 step", {})
    assert re.findall(r'class="scale"[^>]*>([\d.e+]+)<', chart) == scale
