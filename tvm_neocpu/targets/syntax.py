"""The classic target syntax, `llvm -mcpu=skylake-avx512 -mattr=+fma`, as TVM's dictionary of today.

TVM removed the text form. Every script of the Relay era uses it, and so do our command lines.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from tvm_neocpu.core.errors import TargetError

KIND = "llvm"
# TVM has these options to describe the dictionary itself; a flag cannot set them.
_NOT_FLAGS = frozenset({"kind", "tag", "host", "from_device", "target_device_type"})


def parse_text(text: str, options: Mapping[str, str]) -> dict[str, Any]:
    """A classic target string, or JSON text, as a target dictionary.

    ``options`` maps each option that TVM has for the kind to its type (``"str"``, ``"int"``,
    ``"bool"``, ``"Array<str>"``). Raises TargetError on anything that does not parse.
    """
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"target {text!r} does not parse: {error}") from error
    if not words:
        raise TargetError(f'the target is empty; write "{KIND}" for this machine')
    return {"kind": words[0], **_parse_flags(words[1:], options)}


def suggestion(name: str, known: Iterable[str], mark: str = "") -> str:
    """``"; did you mean x or y?"`` for near names of ``known``, else an empty string."""
    near = difflib.get_close_matches(name, sorted(known), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(mark + word for word in near)}?" if near else ""


def _parse_json(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise TargetError(f"the target's JSON does not parse: {error}") from error
    return dict(config)


def _parse_flags(words: list[str], options: Mapping[str, str]) -> dict[str, Any]:
    """`-name=value`, `--name=value` and `-name value`; a boolean option also as `-name`."""
    config: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            raise TargetError(f"expected a flag like -mcpu=NAME in the target, not {word!r}")
        name, equals, value = word.lstrip("-").partition("=")
        kind = _option_type(name, word, options)
        if not equals and kind == "bool":
            value = "1"
        elif not equals:
            value = rest.pop(0) if rest else ""
        if not value:
            raise TargetError(f"target flag -{name} needs a value: -{name}=...")
        if name in config:
            raise TargetError(f"target flag -{name} is given twice")
        config[name] = _convert(name, value, kind)
    return config


def _option_type(name: str, word: str, options: Mapping[str, str]) -> str:
    flags = options.keys() - _NOT_FLAGS
    if name not in flags:
        hint = suggestion(name, flags, "-") or f"; known are -{', -'.join(sorted(flags))}"
        raise TargetError(f"unknown target flag {word.split('=')[0]!r}{hint}")
    return options[name]


def _convert(name: str, value: str, kind: str) -> Any:
    if kind == "Array<str>":
        return [item for item in value.split(",") if item]
    if kind == "int":
        return _integer(name, value)
    if kind == "bool":
        return _boolean(name, value)
    return value


def _integer(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise TargetError(f"target flag -{name} needs a whole number, not {value!r}") from None


def _boolean(name: str, value: str) -> bool:
    known = {"1": True, "true": True, "0": False, "false": False}
    if value.lower() not in known:
        raise TargetError(f"target flag -{name} is 0 or 1, not {value!r}")
    return known[value.lower()]
