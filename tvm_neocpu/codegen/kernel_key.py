"""What a scheduled function computes and how, as a short key: equal keys mean equal machine code.

Names do not count: the same layer has other variables in another network.
"""

from __future__ import annotations

import hashlib
import keyword
import re

import tvm_ffi
from tvm import tirx
from tvm.ir.transform import PassContext
from tvm.target import Target

from tvm_neocpu.core.tvm_version import tvm_version

GLOBAL_SYMBOL = "global_symbol"
# How entries are written: :mod:`.kernel_store` would not read those of another number.
_FORMAT = 2
# Python's words and TVMScript's prefix, which the script has beside names.
_WORDS = frozenset([*keyword.kwlist, "T", "range"])
# A string, or a name: one behind a dot is an attribute, one before "=" a parameter's.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|(\.?)\b([A-Za-z_]\w*)\b(=?)')
# Names in strings: of blocks and of the variables that the signature needs.
_NAMED = re.compile(r'^(?:#.*|\w+ = TypeVar\(.*\))\n|(?<=T\.sblock\()"[^"]*"', re.MULTILINE)


def kernel_key(func: tirx.PrimFunc, target: Target, context: PassContext) -> str:
    """Forty hex digits for a function; ``context`` is the one that its passes run in.

    The script shows attributes that are objects, and floats, in short; TVM's own hash (of 64 bits)
    covers them.
    """
    bare = func.without_attr(GLOBAL_SYMBOL)
    about = [
        _FORMAT,
        tvm_version(),
        str(target),
        context.opt_level,
        sorted(map(str, context.required_pass)),
        sorted(map(str, context.disabled_pass)),
        sorted(dict(context.config).items()),
        tvm_ffi.structural_hash(bare),
        # Most integers are of 64 bits: without their type a script takes a sixth less time.
        nameless(bare.script(show_meta=False, int_dtype="int64")),
    ]
    return hashlib.sha256(repr(about).encode()).hexdigest()[:40]


def nameless(script: str) -> str:
    """A script with its names numbered in the order in which they come; other names stay others."""
    numbers: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        dot, name, equals = found.groups()
        if name is None or dot or equals or name in _WORDS:
            return found[0]
        return numbers.setdefault(name, f"v{len(numbers)}")

    return _TOKEN.sub(numbered, _NAMED.sub("", script))
