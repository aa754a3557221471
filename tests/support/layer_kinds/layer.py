"""What a layer of a random network is: it reads earlier maps, and picks its attributes."""

from __future__ import annotations

from collections.abc import Callable

from random_onnx import Choices, RandomNet

Write = Callable[[RandomNet, Choices], str]


def factors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
