"""What leaves is what JavaScript would have written."""

from __future__ import annotations

import json

import pytest

from unforget._json import encode


@pytest.mark.parametrize(
    "text",
    [
        '{"b":1,"a":{"z":null,"y":[true,false]}}',
        '{"text":"é 😀 \\u2028 \\u007f \\u0000 \\b\\t\\n\\f\\r \\" \\\\ /"}',
        '{"half":"\\ud83d","other":"x\\udc00y"}',
        '{"\\ud83d":1}',
        "[0,-1,1.5,0.1,123456789012345680000,1e+21,1.5e+300]",
        "[0.001,0.0001,0.00001,0.000001,-0.0000015,1e-7,-1.25e-9,5e-324]",
        '{"looks":",1e-5 [1e-05 :1e-5","is":1e-7}',
    ],
)
def test_what_javascript_wrote_leaves_as_it_came(text: str) -> None:
    # JSON.stringify leaves U+2028 and DEL as they are, and escapes controls and halves of pairs.
    written = text.replace("\\u2028", "\u2028").replace("\\u007f", "\u007f")
    assert encode(json.loads(written)) == written.encode()


def test_numbers_of_python_stay_what_they_are() -> None:
    written = encode([1.0, 1e16, -0.0, 2.5e-05, 10**30])
    assert written == b"[1.0,1e+16,-0.0,0.000025," + str(10**30).encode() + b"]"
    assert [type(value) for value in json.loads(written)] == [float, float, float, float, int]


def test_small_numbers_do_not_change_anything_beside_them() -> None:
    value = {2: [1e-7], None: {"a": ("x", 1e-5)}, True: "1e-5", 'é"': 1}
    assert json.loads(encode(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_what_json_does_not_have_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        encode(value)


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        encode({"a": object()})
