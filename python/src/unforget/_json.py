"""JSON as a browser's `JSON.stringify` writes it, as far as Python can know what was there.

Entries are kept byte for byte, and a request that is rebuilt from them is looked up in a cache by its bytes. So what came from JavaScript should leave
as it came: without spaces, members in their order, text unescaped. What remains:

- Small numbers: JavaScript writes `0.00001` and `1e-7`, Python `1e-05` and `1e-07`. They are written as JavaScript does.
- Whole floats: Python writes `1.0` and `1e+16` where JavaScript has `1` and `10000000000000000`. JavaScript's come in as `int` and leave unchanged;
  a `float` was made by Python, and `1.0` is kept so that it comes back as a `float`.
- `-0`, which JavaScript writes as `0`, comes in as the `int` 0.
- Half a surrogate pair, which UTF-8 cannot hold, is written as an escape, as JavaScript does.
"""

from __future__ import annotations

import json
import re
from typing import Any

_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_quoted = json.JSONEncoder(ensure_ascii=False)
_half = re.compile("[\ud800-\udfff]")
# The end of a small number, or something in a text that looks like one. It begins with what is rare, so that looking for it costs little.
_small = re.compile(r"e-\d\d\d?[,\]}]")


def encode(value: Any) -> bytes:
    """Writes a value in one line.

    >>> encode({"b": 1, "a": [1.5, 1e-05, "é", None]})
    b'{"b":1,"a":[1.5,0.00001,"\\xc3\\xa9",null]}'
    """
    try:
        text = _encoder.encode(value)
    except ValueError as error:
        raise ValueError(f"this cannot be written as JSON: {error}") from error
    except TypeError as error:
        raise TypeError(f"this cannot be written as JSON: {error}") from error
    if _small.search(text):
        text = _with_small_numbers(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _half.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def decode(text: bytes) -> Any:
    """Reads a value."""
    return json.loads(text)


def _with_small_numbers(value: Any) -> str:
    """Writes a value that has been found to be one, with small numbers as JavaScript has them."""
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, dict):
        # Names that are no texts are written as the encoder does.
        members = (
            f"{_quoted.encode(name) if isinstance(name, str) else _encoder.encode({name: 0})[1:-3]}:{_with_small_numbers(item)}"
            for name, item in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_with_small_numbers, value)) + "]"
    return _encoder.encode(value)


def _number(value: float) -> str:
    text = repr(value)
    digits, _, exponent = text.partition("e-")
    if not exponent:
        return text
    if int(exponent) > 6:
        return f"{digits}e-{int(exponent)}"
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    return f"{sign}0.{'0' * (int(exponent) - 1)}{digits.replace('.', '')}"
