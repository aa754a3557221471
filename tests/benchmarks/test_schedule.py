"""The paper's experiment as a script: one machine, its JSON and its table."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "plans" / "schedule.py"


def test_a_network_in_both_files(tmp_path: Path) -> None:
    main = runpy.run_path(str(SCRIPT))["main"]
    assert (
        main(["lenet", "squeezenet1_1", "--machine", "nvdla-large", "--results", str(tmp_path)])
        == 0
    )
    found = json.loads((tmp_path / "schedule_nvdla-large.json").read_text())
    assert [each["network"] for each in found["networks"]] == ["lenet", "squeezenet1_1"]
    page = (tmp_path / "schedule_nvdla-large.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].startswith("| lenet |")
    assert lines[3].startswith("| squeezenet1_1 |")
