"""Pieces of LLVM's text for functions that kernels bring with them, and that LLVM inlines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def function(kind: str, name: str, operands: str, steps: Iterable[str]) -> str:
    """A function of that type; the steps define what they return."""
    head = f"define {kind} @{name}({operands}) alwaysinline {{"
    return "\n  ".join((head, *steps)) + "\n}"


def mask(places: Iterable[int | None]) -> str:
    """Which lane goes where; None: anything may stand there."""
    picks = ["i32 poison" if place is None else f"i32 {place}" for place in places]
    return f"<{len(picks)} x i32> <{', '.join(picks)}>"


def cut(value: str, kind: str, lanes: int, first: int, width: int, into: str) -> str:
    """The step that defines ``into``: ``width`` lanes from ``first`` on of ``lanes``, filled up."""
    places = [at if at < lanes else None for at in range(first, first + width)]
    whole = f"<{lanes} x {kind}>"
    return f"{into} = shufflevector {whole} {value}, {whole} poison, {mask(places)}"


def joined(parts: Sequence[str], kind: str, lanes: int, width: int) -> Iterator[str]:
    """Steps that return ``parts`` side by side, each of ``width`` lanes, the last one cut."""
    whole, before = f"<{lanes} x {kind}>", "poison"
    for place, part in enumerate(parts):
        first = place * width
        inside = min(width, lanes - first)
        behind = [None] * (lanes - first - inside)
        placed = mask([*[None] * first, *range(inside), *behind])
        kept = mask([*range(first), *range(lanes + first, lanes + first + inside), *behind])
        source = f"<{width} x {kind}>"
        yield f"%placed{place} = shufflevector {source} {part}, {source} poison, {placed}"
        yield f"%r{place} = shufflevector {whole} {before}, {whole} %placed{place}, {kept}"
        before = f"%r{place}"
    yield f"ret {whole} {before}"
