"""Sort keys: texts, numbers and dates, read one column at a time."""

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.folding import Fold, fold_texts
from gradebook.rubrics.check_kit.regexes import WHITESPACE

EMPHASIS = rf"[*`]|^[{WHITESPACE}_]+|[{WHITESPACE}_]+$"
# A sign counts only at the start or after whitespace, a bracket or a currency: "A-5" and "3-5" are 5 and 3.
NUMBER = (
    rf"(?:(?:^|[{WHITESPACE}(\[|\p{{Sc}}])(?P<sign>[-+\x{{2212}}]))?\p{{Sc}}?"
    r"(?P<whole>[0-9]+(?:,[0-9]+)*)(?P<rest>(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
)
NOT_THOUSANDS = r"^(?:[0-9]{4,},|[0-9]+(?:,[0-9]{3})*,(?:[0-9]{1,2}(?:,|$)|[0-9]{4}))"
UNREAD_EXPONENT = r"[eE][-+]?[0-9]{3}"
DATE = (
    r"(?:^|[^0-9])(?P<day>[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01]))"
    r"(?:[T ](?P<time>(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?)|[^0-9]|$)"
)
MOST_DIGITS = 200  # keeps every number within the range of a 64-bit float


def text_keys(values: pa.Array, fold: Fold, *, is_case_sensitive: bool) -> pa.Array:
    """Values without emphasis, folded: (value,). UTF-8 compares in code point order."""
    bare = fold_texts(pc.replace_substring_regex(values, EMPHASIS, ""), fold)
    return bare if is_case_sensitive else pc.utf8_lower(pc.utf8_upper(bare))


def number_keys(values: pa.Array) -> pa.DoubleArray:
    """First number in each value, null if there is none or it is too large: (value,).

    A comma that does not separate thousands ends a number: "12,34" gives 12.
    """
    parts = pc.extract_regex(values, NUMBER)
    sign, whole, rest = (pc.struct_field(parts, name) for name in ("sign", "whole", "rest"))
    full = pc.binary_join_element_wise(pc.replace_substring(whole, ",", ""), rest, pa.scalar("", rest.type))
    first = pc.replace_substring_regex(whole, ",.*", "")
    size = pc.if_else(pc.match_substring_regex(whole, NOT_THOUSANDS), first, full)
    is_long = pc.greater(pc.binary_length(size), MOST_DIGITS)
    is_short = pc.invert(pc.or_(is_long, pc.match_substring_regex(size, UNREAD_EXPONENT)))
    sizes = pc.if_else(is_short, size, pa.scalar(None, size.type)).cast(pa.float64())
    is_negative = pc.is_in(sign, value_set=pa.array(["-", "\u2212"], sign.type))
    return pc.if_else(is_negative, pc.negate(sizes), sizes)


def date_keys(values: pa.Array) -> pa.Array:
    """First ISO date in each value with its time, as sortable text; null if there is none: (value,)."""
    parts = pc.extract_regex(values, DATE)
    day, time = (pc.struct_field(parts, name) for name in ("day", "time"))
    return pc.binary_join_element_wise(day, time, pa.scalar(" ", day.type))
