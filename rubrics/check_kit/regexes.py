"""Regular expressions that RE2 accepts: linear time on any text, no lookaround, no backreferences.

`WHITESPACE` is a character class (without brackets) of exactly the characters at which Python's `str.split` splits:
U+0009 to U+000D, U+001C to U+0020, U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and U+3000.
RE2's own `\\s` is ASCII only, and lacks U+000B and U+001C to U+001F.
"""

import re
from typing import Annotated, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator

OTHER_THAN_SPACE = r"\t-\r\x1c-\x1f\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
WHITESPACE = r"\x20" + OTHER_THAN_SPACE
WORD_CHARACTER = r"\p{L}\p{M}\p{N}_"
MOST_PLACES = 1_000  # of a pattern
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
    if (fault := costly_regex(pattern)) is not None:
        raise ValueError(fault)
    return pattern


def costly_regex(pattern: str) -> str | None:
    """Reason why a pattern that RE2 accepts takes it too long; None if it does not."""
    if (count := repeated_places(pattern)) <= MOST_PLACES:
        return None
    return f"found {pattern[:60]!r}, whose repeats match {count:,} places, expected at most {MOST_PLACES:,}"


Regex = Annotated[str, AfterValidator(_compile)]


def repeated_places(pattern: str) -> int:
    """Number of places of a pattern's repeats that may match at once; a search costs about this times the text.

    `.{0,300}` has 300; a repeat of something that varies itself counts twice: `(.?){300}` has 600. RE2 searches in
    linear time, but where a text needs too many states of its automaton, without it: up to 34 s a megabyte and 1,000
    places, on hostile texts alone.
    """
    groups = [_Element(0, 0)]  # the open groups, outermost first
    last = _Element(0, 1)  # what a repeat would apply to
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "open":
                groups.append(_Element(0, 0))
                continue
            case "close" if len(groups) > 1:
                last = groups.pop()
            case "repeat":
                repeated = last.repeated(token[0])
                groups[-1] = _Element(groups[-1].places + repeated.places - last.places, groups[-1].atoms)
                last = repeated
                continue
            case "atom":
                last = _Element(0, 1)
            case _:
                continue
        groups[-1] = _Element(groups[-1].places + last.places, groups[-1].atoms + last.atoms)
    return sum(each.places for each in groups)


class _Element(NamedTuple):
    """Part of a pattern. places: of its repeats; atoms: characters and classes in it."""

    places: int
    atoms: int

    def repeated(self, repeat: str) -> "_Element":
        counts = [int(count) for count in re.findall(r"\d+", repeat)]
        places = max(counts, default=1) * (2 * self.places or self.atoms)
        return _Element(max(places, 1), self.atoms)


# A group's begin and end, a repeat, or an atom: a quoted part, a class, an escape, one character. Anchors are none.
_TOKEN = re.compile(
    r"(?P<open>\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:))?(?!\?))|(?P<flags>\(\?[a-zA-Z-]*\)|[|^$])|(?P<close>\))"
    r"|(?P<repeat>(?:[*+?]|\{\d*,?\d*\})\??)"
    r"|(?P<atom>\\Q.*?(?:\\E|\Z)|\[\^?\]?(?:\[:[^:]*:\]|\\.|[^\]\\])*\]|\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\.|.)",
    re.DOTALL,
)
