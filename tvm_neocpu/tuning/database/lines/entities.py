"""A config as AutoTVM's ``entity`` list and back: ``[[name, "sp" | "ot", value], ...]``.

Knobs that AutoTVM's template had carry its names, so that old tools understand them; the others
follow under ours. An implementation lists AutoTVM's names in its ``classic``.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_type_hints

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.config import Config, knobs
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.classic_knobs import Entity
from tvm_neocpu.topi.table import find_implementation, implementation_of


def encode_config(config: Config, workload: Workload) -> list[Entity]:
    """The entity list of a line about this workload; raises ConfigError if unregistered."""
    values = knobs(config)
    classic = [k for k in implementation_of(config).classic if k.written(workload)]
    entities = [knob.encode(values[knob.field]) for knob in classic]
    told = {knob.field for knob in classic if knob.can_tell(values[knob.field])}
    return entities + [[name, "ot", value] for name, value in values.items() if name not in told]


def decode_config(template: str, entities: Any) -> Config:
    """The inverse; knobs that AutoTVM lacked take their defaults.

    Raises LineError for an unknown template or knob, or a value of the wrong type.
    """
    entry = find_implementation(template)
    if entry is None:
        raise LineError(f"unknown template {template!r}")
    if not isinstance(entities, list):
        raise LineError("its entity is not a list")
    names = {knob.name: knob.field for knob in entry.classic}
    classic: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    for name, value in map(_read_entity, entities):
        if name in names:
            _agree(classic, names[name], _checked(name, value))
        else:
            ours[name] = _checked(name, value)
    values = entry.upgrade(classic | ours)
    types, required = _signature(entry.config_type)  # type: ignore[arg-type]  # types are hashable
    for name, value in values.items():
        if name not in types:
            raise LineError(f"unknown knob {name!r} of {template}")
        if type(value) is not types[name]:
            raise LineError(f"knob {name!r} cannot be {value!r}")
    missing = required - values.keys()
    if missing:
        raise LineError(f"no value for {', '.join(sorted(missing))}")
    try:
        config: Config = entry.config_type(**values)
    except ValueError as error:
        raise LineError(str(error)) from None
    return config


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
    """Two classic knobs may stand for one of ours, if they are equal."""
    if values.setdefault(field, value) != value:
        raise LineError(f"no {field} can be both {values[field]} and {value}")


def _checked(name: str, value: Any) -> int | bool:
    """A knob is a boolean or a number that counts something."""
    if type(value) not in (int, bool) or value < 0:
        raise LineError(f"knob {name!r} cannot be {value!r}")
    knob: int | bool = value
    return knob


@cache
def _signature(kind: Any) -> tuple[dict[str, type], frozenset[str]]:
    """(field -> type, fields without a default) of a config type."""
    hints = get_type_hints(kind)
    types = {field.name: hints[field.name] for field in fields(kind)}
    return types, frozenset(f.name for f in fields(kind) if f.default is MISSING)
