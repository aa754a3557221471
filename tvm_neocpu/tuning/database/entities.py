"""A config as AutoTVM's ``entity`` list and back: ``[[name, "sp" | "ot", value], ...]``.

Knobs that AutoTVM's template had carry its names, so that old tools understand them; the others
follow under ours. A template without a line in ``_CLASSIC`` is written under our names alone.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from tvm_neocpu.core.config import (
    CONFIG_TYPES,
    Config,
    ConvConfig,
    DenseConfig,
    DepthwiseConfig,
    knobs,
)

Entity = list[Any]


class LineError(ValueError):
    """A log line that cannot be understood; the text says why."""


@dataclass(frozen=True)
class ClassicKnob:
    """AutoTVM's ``name`` for our ``field``: ``parts`` of a split, or 0 for a plain option."""

    name: str
    field: str
    parts: int = 0

    def encode(self, value: int | bool) -> Entity:
        if not self.parts:
            return [self.name, "ot", value]
        # Only the innermost part matters; AutoTVM writes -1 for what follows from the extent.
        innermost = value if self.can_tell(value) else 1
        return [self.name, "sp", [-1, *[1] * (self.parts - 2), innermost]]

    def can_tell(self, value: int | bool) -> bool:
        """A split by 0 would break an old tool: plain NCHW is, byte for byte, NCHW1c."""
        return not self.parts or value >= 1


_TILE_OH = ClassicKnob("tile_oh", "reg_m")
_UNROLL_KW = ClassicKnob("unroll_kw", "unroll_ker")
_CONV = (
    ClassicKnob("tile_ic", "ic_bn", 2),
    ClassicKnob("tile_oc", "oc_bn", 2),
    ClassicKnob("tile_ow", "reg_n", 2),
)
_CLASSIC: dict[str, tuple[ClassicKnob, ...]] = {
    ConvConfig.template: (*_CONV, _UNROLL_KW),
    DepthwiseConfig.template: (
        ClassicKnob("tile_ic", "oc_bn", 2),
        *_CONV[1:],
        _UNROLL_KW,
    ),
    DenseConfig.template: (
        ClassicKnob("tile_y", "reg_n", 3),
        ClassicKnob("tile_x", "oc_bn", 3),
        ClassicKnob("tile_k", "unroll_k", 2),
    ),
}


def encode_config(config: Config, pointwise: bool = False) -> list[Entity]:
    """The entity list; AutoTVM's 1x1 template (``pointwise``) tiled rows where others unroll."""
    values = knobs(config)
    classic = _classic_knobs(config.template, pointwise)
    entities = [knob.encode(values[knob.field]) for knob in classic]
    told = {knob.field for knob in classic if knob.can_tell(values[knob.field])}
    return entities + [[name, "ot", value] for name, value in values.items() if name not in told]


def decode_config(template: str, entities: Any) -> Config:
    """The inverse, for either kind of 1x1 record; knobs that AutoTVM lacked take their defaults.

    Raises LineError for an unknown template or knob, or a value of the wrong type.
    """
    kind: Any = CONFIG_TYPES.get(template)
    if kind is None:
        raise LineError(f"unknown template {template!r}")
    if not isinstance(entities, list):
        raise LineError("its entity is not a list")
    types, required = _signature(kind)
    names = {knob.name: knob.field for knob in (*_CLASSIC.get(template, ()), _TILE_OH)}
    classic: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    for name, value in map(_read_entity, entities):
        if name in types:
            ours[name] = _typed(name, value, types[name])
        elif names.get(name) in types:
            _agree(classic, names[name], _typed(name, value, types[names[name]]))
        else:
            raise LineError(f"unknown knob {name!r} of {template}")
    values = classic | ours
    missing = required - values.keys()
    if missing:
        raise LineError(f"no value for {', '.join(sorted(missing))}")
    try:
        config: Config = kind(**values)
    except ValueError as error:
        raise LineError(str(error)) from None
    return config


def _classic_knobs(template: str, pointwise: bool) -> tuple[ClassicKnob, ...]:
    classic = _CLASSIC.get(template, ())
    if not (pointwise and template == ConvConfig.template):
        return classic
    return tuple(_TILE_OH if knob is _UNROLL_KW else knob for knob in classic)


def _read_entity(entity: Any) -> tuple[str, Any]:
    if not (isinstance(entity, list) and len(entity) == 3 and isinstance(entity[0], str)):
        raise LineError(f"entity {entity!r} is not [name, kind, value]")
    name, kind, value = entity
    if kind == "ot":
        return name, value
    if kind == "sp" and isinstance(value, list) and value:
        return name, value[-1]
    raise LineError(f"cannot read knob {name!r} of kind {kind!r}")


def _agree(values: dict[str, Any], field: str, value: Any) -> None:
    """Two classic knobs may stand for one of ours (depthwise blocks), if they are equal."""
    if values.setdefault(field, value) != value:
        raise LineError(f"no {field} can be both {values[field]} and {value}")


def _typed(name: str, value: Any, kind: type) -> Any:
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        raise LineError(f"knob {name!r} cannot be {value!r}")
    return value


@cache
def _signature(kind: Any) -> tuple[dict[str, type], frozenset[str]]:
    """(field -> type, fields without a default) of a config type."""
    hints = get_type_hints(kind)
    types = {field.name: hints[field.name] for field in fields(kind)}
    return types, frozenset(f.name for f in fields(kind) if f.default is MISSING)
