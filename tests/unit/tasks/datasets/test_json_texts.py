"""JSON as other programs write it."""

import json

import pytest

from gradebook.tasks.datasets.file_formats import KEPT_AS_TEXT, NULLED, Notes, load_json
from tests.support.law_over import law_over


@law_over(
    ("text", "value", "notes"),
    [
        ('{"a": [NaN, Infinity, -Infinity]}', {"a": [None, None, None]}, [NULLED]),
        ('{"a": 123456789012345678901234567890}', {"a": "123456789012345678901234567890"}, [KEPT_AS_TEXT]),
        ("[18446744073709551615, 18446744073709551616]", [2**64 - 1, str(2**64)], [KEPT_AS_TEXT]),
        ("[-9223372036854775808, -9223372036854775809]", [-(2**63), str(-(2**63) - 1)], [KEPT_AS_TEXT]),
        ("1e400", "1e400", [KEPT_AS_TEXT]),
        ('["12345678901234567890123", 0.10000000000000000000001]', ["12345678901234567890123", 0.1], []),
        (r'["\\ud835", "\ud835\udc00", NaN]', [r"\ud835", "\U0001d400", None], [NULLED]),
    ],
)
def test_a_value_keeps_its_digits_and_nan_is_null(text, value, notes):
    for given in (text, text.encode()):
        found = Notes()
        assert load_json(given, found) == value
        assert found == Notes(notes)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        (r'["a \ud835 b"]', r"half of a surrogate pair, \ud835", 4),
        (r'[NaN, "\\\ud835\udc00\udc01"]', r"half of a surrogate pair, \udc01", 21),
        ("[1, nil]", "invalid literal", 4),
        ("[" * 5_000, "depth limit", 1025),
        (b'["\xff", NaN]', "", 0),
    ],
)
def test_a_text_that_is_no_json_is_refused_with_its_place(text, message, place):
    notes = Notes()
    with pytest.raises(json.JSONDecodeError) as caught:
        load_json(text, notes)
    assert message in caught.value.msg
    assert caught.value.pos == place
    assert not notes
