"""Regular expressions that RE2 accepts: linear time on any text, no lookaround, no backreferences.

`WHITESPACE` is a character class (without brackets) of exactly the characters at which Python's `str.split` splits:
U+0009 to U+000D, U+001C to U+0020, U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and U+3000.
RE2's own `\\s` is ASCII only, and lacks U+000B and U+001C to U+001F.
"""

import re
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator

OTHER_THAN_SPACE = r"\t-\r\x1c-\x1f\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
WHITESPACE = r"\x20" + OTHER_THAN_SPACE
WORD_CHARACTER = r"\p{L}\p{M}\p{N}_"
BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


def regex_fault(pattern: str) -> str | None:
    """Reason why RE2 rejects a pattern; None if it accepts it."""
    if BYTE.search(pattern):
        return r"\C matches a single byte, which may be a part of a character"
    try:
        for searched in (pattern, f"({pattern})"):  # some kernels add a group, whose end an open \Q would swallow
            pc.match_substring_regex(pa.array([""]), searched)  # with an empty array the pattern would not be compiled
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        return str(error)
    return None


def _compile(pattern: str) -> str:
    fault = regex_fault(pattern)
    if fault is not None:
        raise ValueError(f"found {pattern!r}, expected a regular expression that RE2 accepts: {fault}")
    return pattern


Regex = Annotated[str, AfterValidator(_compile)]
