"""The benchmark of tuned networks: its arithmetic, going on, its exit code; one real network."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    import tuned_networks

    return tuned_networks


def pairs(*ratios: float) -> list[dict[str, float]]:
    return [{"ratio": ratio, "untuned_ms": 10 * ratio, "tuned_ms": 10.0} for ratio in ratios]


def test_the_median_pair_counts(bench: ModuleType) -> None:
    row = bench.row_of("net", {"verdict": "1.02x faster"}, pairs(1.0, 1.2, 1.02))
    assert (row["ratio"], row["lowest"], row["highest"]) == (1.02, 1.0, 1.2)
    assert bench.line(row) == "net: 1.020 (1.000-1.200); tune said: 1.02x faster"
    assert "below 0.995" in bench.line(bench.row_of("net", {}, pairs(0.99)))


@pytest.mark.parametrize(("ratio", "code"), [(1.0, 0), (0.994, 1)])
def test_what_is_done_is_not_done_again(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratio: float, code: int
) -> None:
    asked: list[str] = []

    def measure(name: str, _: object) -> dict[str, object]:
        asked.append(name)
        return bench.row_of(name, {}, pairs(ratio))

    monkeypatch.setattr(bench, "measure", measure)
    output = tmp_path / "found.json"
    command = ["--output", str(output), "--time-budget", "7"]
    assert bench.main(["lenet", *command]) == code
    assert bench.main(["lenet", "alexnet", *command]) == code
    assert asked == ["lenet", "alexnet"]
    report = json.loads(output.read_text())
    assert [row["network"] for row in report["networks"]] == asked
    assert [row["time_budget"] for row in report["networks"]] == [7, 7]
    assert report["threads"] == 1
    assert {"machine", "commit", "versions"} <= report.keys()


@pytest.mark.slow
@pytest.mark.compiler
def test_a_network(bench: ModuleType, tmp_path: Path) -> None:
    output = tmp_path / "found.json"
    few = ["--time-budget", "15", "--pairs", "1", "--runs", "5"]
    bench.main(["lenet", "--output", str(output), *few])
    (row,) = json.loads(output.read_text())["networks"]
    (pair,) = row["pairs"]
    assert pair["error"] < 1e-3
    assert pair["untuned_ms"] > 0 < pair["tuned_ms"]
    assert row["tune"]["measured"] >= 0
