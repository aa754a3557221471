"""The arithmetic that is outside the plan: what a build leaves to TVM's own legalisation and says
of that, and what one function of ours computes in one way.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

from tvm_neocpu.core.errors import FallbackError, NeoCpuError
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.messages.told import tell_user

# What a build does about operations that no template takes.
OnFallback = Literal["warn", "error", "ignore"]

# A longer list is cut in the one line that a warning has; `explain` shows all.
MAX_LISTED = 12


class FallbackWarning(UserWarning):
    """No template takes some of the network's arithmetic, which may be many times slower."""


@dataclass(frozen=True)
class Fallback:
    """One operation that no template takes.

    ``operator``: Relax's name without its prefix (``"conv1d"``). ``what``: the shapes of its
    operands and of its result. ``flops``: a multiply-add counts as two; ``None`` if unknown.
    """

    operator: str
    what: str
    why: str
    flops: int | None = None

    def __str__(self) -> str:
        return f"{self.operator} {self.what} ({self.why})"


@dataclass(frozen=True)
class Fixed:
    """One operation of ours that the plan has no choice for.

    ``operator``: its name (``"LSTM"``). ``what``: its sizes. ``algorithm``: what computes it.
    ``flops``: a multiply-add counts as two. ``seconds``: predicted.
    """

    operator: str
    what: str
    algorithm: str
    flops: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.operator} {self.what}"


@dataclass(frozen=True)
class Coverage:
    """The arithmetic-heavy operations of a network: those of the plan, and the rest.

    ``fallbacks`` and ``fixed`` are in program order; ``planned_flops`` belong to all calls that
    templates take.
    """

    planned_flops: int
    fallbacks: tuple[Fallback, ...] = ()
    fixed: tuple[Fixed, ...] = ()

    @property
    def fixed_seconds(self) -> float:
        """The predicted seconds of all operations that the plan has no choice for."""
        return sum(each.seconds for each in self.fixed)

    @property
    def fixed_kinds(self) -> str:
        """How many of which operators: ``"2 LSTM, 1 GRU"``; empty where there are none."""
        counted = Counter(each.operator for each in self.fixed)
        return ", ".join(f"{times} {operator}" for operator, times in counted.items())

    @property
    def share(self) -> float | None:
        """The share of the multiply-adds that code of ours computes, from 0 to 1.

        ``None`` if the network has none, or an operation's are unknown.
        """
        flops = [fallback.flops for fallback in self.fallbacks]
        ours = self.planned_flops + sum(each.flops for each in self.fixed)
        total = ours + sum(count or 0 for count in flops)
        return None if None in flops or not total else ours / total

    def report(self) -> str:
        """One line: how many operations no template takes, their share, each with its reason."""
        count, share = len(self.fallbacks), self.share
        operations = plural(count, "operation")
        part = "an unknown share" if share is None else percent(1 - share)
        return (
            f"no template takes {operations} of this network, {part} of its multiply-adds; TVM's "
            f"own code computes them and may be many times slower: {'; '.join(self._listed())}"
        )

    def _listed(self) -> list[str]:
        """Equal operations once, ``"3 x conv1d ..."``; at most ``MAX_LISTED`` of them."""
        counted = Counter(map(str, self.fallbacks))
        texts = [text if times == 1 else f"{times} x {text}" for text, times in counted.items()]
        more = len(texts) - MAX_LISTED
        return [*texts[:MAX_LISTED], f"and {more} more"] if more > 0 else texts


def check_choice(choice: str) -> None:
    """Raises NeoCpuError for a word that is no :data:`OnFallback`."""
    known = get_args(OnFallback)
    if choice not in known:
        raise NeoCpuError(f"fallback is one of {', '.join(known)}, not {choice!r}")


def tell(coverage: Coverage, choice: OnFallback) -> None:
    """Warn once of everything that no template takes; nothing is said where there is none.

    Raises FallbackError in place of the warning if ``choice`` is ``"error"``.
    """
    check_choice(choice)
    if not coverage.fallbacks or choice == "ignore":
        return
    if choice == "error":
        raise FallbackError(coverage.report())
    tell_user(FallbackWarning(coverage.report()))


def percent(share: float) -> str:
    """``"12.5%"``; a part never reads as nothing or as everything: ``"under 0.1%"``."""
    text = f"{share:.1%}"
    if text == "0.0%" and share > 0:
        return "under 0.1%"
    if text == "100.0%" and share < 1:
        return "over 99.9%"
    return text
