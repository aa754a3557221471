"""The line that a session ends with."""

from __future__ import annotations

import pytest

from tvm_neocpu.tuning.in_network.processes.verify import Proof
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.report.outcome import Outcome

SLOWER = Proof(Ratio(0.02, 0.001), 0.0, 1.0, 1.02)
DONE = Outcome(None, 12, 0, 60.0)


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (DONE, "no faster plan found, after 12 candidates"),
        (
            Outcome(None, 12, 0, 60.0, open_layers=2, layers=7),
            "no faster plan found, 2 of 7 layers not settled, after 12 candidates",
        ),
        (
            Outcome(None, 12, 0, 60.0, settled=True, promised=0.0061, layers=7),
            "already at its best: within 0.7 % by what the search expects, after 12 candidates",
        ),
        (
            Outcome(None, 1, 0, 60.0, settled=True, promised=0.0, layers=7),
            "already at its best: within 0.1 % by what the search expects, after 1 candidate",
        ),
        (
            Outcome(None, 12, 0, 60.0, SLOWER, open_layers=2, layers=7),
            f"no faster plan found, the best other plan takes {SLOWER.ratio} of its time, "
            "2 of 7 layers not settled, after 12 candidates",
        ),
        (
            Outcome(None, 12, 0, 60.0, SLOWER, settled=True, promised=0.003, layers=7),
            "already at its best: within 0.3 % by what the search expects, "
            f"the best other plan takes {SLOWER.ratio} of its time, after 12 candidates",
        ),
        (
            Outcome(None, 12, 0, 60.0, Proof(Ratio(-0.1, 0.001), 0.0, 1.0, 0.9), open_layers=2),
            "1.11x faster (1.10-1.11) after 12 candidates",
        ),
        (
            Outcome(None, 1, 0, 60.0, interrupted=True, open_layers=1, layers=7),
            "interrupted after 1 candidate; run again to go on",
        ),
    ],
)
def test_the_line(outcome: Outcome, line: str) -> None:
    assert str(outcome) == line
