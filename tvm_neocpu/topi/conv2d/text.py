"""Convolutions from the text that they print as: ``512x7x7->512 3x3 p1``."""

from __future__ import annotations

import re

from tvm_neocpu.core.errors import WorkloadTextError
from tvm_neocpu.core.machine.dot import ANY_WEIGHTS
from tvm_neocpu.core.types import FP32, Types
from tvm_neocpu.topi.conv2d.workload import ConvWorkload, Padding, Pair

EXAMPLE = "64x56x56->64 3x3 s2 p1"
_CONV = re.compile(
    r"(?:batch(?P<batch>\d+) )?(?P<channels>\d+)x(?P<height>\d+)x(?P<width>\d+)->(?P<filters>\d+) "
    r"(?P<rows>\d+)x(?P<columns>\d+)(?P<options>.*)"
)
# What element types, printed behind everything else, begin with.
_TYPES = re.compile(r" (?P<types>u?int\d+.*|b?float\d+.*)")
_OPTION = re.compile(
    r" (?:(?P<key>[spdgzw])(?P<values>\d+|\(\d+(?:, ?\d+)*\))|(?P<word>depthwise))"
)


def parse(text: str) -> ConvWorkload | None:
    """The inverse of ``str``: stride, padding, dilation, groups as s, p, d, g, once or in full.

    z is what the padding consists of, w the bits of small weights. ``None`` for a text of another
    form. Raises WorkloadTextError for unknown options, and for a convolution that has no output.
    """
    conv = _CONV.fullmatch(text.strip())
    if conv is None:
        return None
    rest, types = split_types(text, conv["options"])
    options = _options(text, rest)
    channels = int(conv["channels"])
    found = ConvWorkload(
        int(conv["batch"] or 1),
        channels,
        int(conv["height"]),
        int(conv["width"]),
        int(conv["filters"]),
        (int(conv["rows"]), int(conv["columns"])),
        _pair(text, options.get("s", (1,))),
        _padding(text, options.get("p", (0,))),
        _pair(text, options.get("d", (1,))),
        channels if "depthwise" in options else options.get("g", (1,))[0],
        types,
        options.get("z", (0,))[0],
        options.get("w", (ANY_WEIGHTS,))[0],
    )
    _check(text, found)
    return found


def split_types(text: str, rest: str) -> tuple[str, Types]:
    """What is left of the options of a workload's text without its element types, and these."""
    found = _TYPES.search(rest)
    if found is None:
        return rest, FP32
    try:
        return rest[: found.start()], Types.parse(found["types"].strip())
    except ValueError as error:
        raise WorkloadTextError(f"{text!r}: {error}") from None


def _options(text: str, rest: str) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    while rest:
        option = _OPTION.match(rest)
        if option is None:
            known = "s2, p1, d2, g4, depthwise, z128, w7, uint8 x int8"
            raise WorkloadTextError(f"{rest.strip()!r} in {text!r} is none of {known}")
        key = option["key"] or option["word"]
        found[key] = tuple(int(value) for value in re.findall(r"\d+", option["values"] or ""))
        rest = rest[option.end() :]
    return found


def _pair(text: str, values: tuple[int, ...]) -> Pair:
    pair = values * 2 if len(values) == 1 else values
    if len(pair) != 2 or min(pair) < 1:
        raise WorkloadTextError(f"strides and dilations of {text!r} are one number or two, from 1")
    return pair[0], pair[1]


def _padding(text: str, values: tuple[int, ...]) -> Padding:
    sides = values * 4 if len(values) == 1 else values
    if len(sides) != 4:
        raise WorkloadTextError(f"padding of {text!r} is one number, or (top, left, bottom, right)")
    return sides[0], sides[1], sides[2], sides[3]


def _check(text: str, conv: ConvWorkload) -> None:
    if conv.groups < 1 or conv.in_channels % conv.groups or conv.out_channels % conv.groups:
        raise WorkloadTextError(f"{conv.groups} groups of {text!r} do not divide its channels")
    sizes = (conv.batch, conv.in_channels, conv.out_channels, *conv.kernel)
    if min(*sizes, conv.out_height, conv.out_width) < 1:
        raise WorkloadTextError(f"{text!r} has no output")
