"""The comparison as a table and as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from rich.console import Console

from tvm_neocpu.contrib.plans.report import as_json, show
from tvm_neocpu.contrib.plans.result import NetworkPlans


def test_the_table_and_its_conclusions(compared: NetworkPlans) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    show([replace(compared, core_share=0.5)], 1, console)
    text = " ".join(console.export_text().split())
    assert "+20.0%" in text
    assert "DISTURBED: the runs got 50% of their core" in text
    assert "Spearman) 1.00" in text
    json.dumps(as_json(compared))
