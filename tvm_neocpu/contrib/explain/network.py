"""An explanation with what it is of."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_neocpu.global_search.network.explain import Explanation


@dataclass(frozen=True)
class ExplainedNetwork:
    """``origin`` says where the choice comes from: a log's plan, or a search over what is known."""

    name: str
    cpu: str
    threads: int
    origin: str
    explanation: Explanation
