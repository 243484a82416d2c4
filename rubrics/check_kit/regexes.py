"""Regular expressions that RE2 accepts, over a column: linear time on any text, no lookaround, no backreferences.

RE2 compiles a pattern on each call. A pattern with `\\p{L}\\p{M}\\p{N}` takes milliseconds, which dominates a check
over one row. So the character classes here are as small as the given texts allow: the characters of ASCII texts, or of
texts in common blocks, fit into far fewer ranges.

`WHITESPACE` is a character class (without brackets) of exactly the characters at which Python's `str.split` splits:
U+0009 to U+000D, U+001C to U+0020, U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and U+3000.
RE2's own `\\s` is ASCII only, and lacks U+000B and U+001C to U+001F.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Annotated, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator

from gradebook.rubrics.check_kit.check import CheckVerdicts, RowFinding, gather_rows

OTHER_THAN_SPACE = r"\t-\r\x1c-\x1f\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
WHITESPACE = r"\x20" + OTHER_THAN_SPACE
WORD_CHARACTER = r"\p{L}\p{M}\p{N}_"
MOST_PLACES = 1_000  # repeated places of a pattern, see `repeated_places`
BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


def regex_fault(pattern: str) -> str | None:
    """Reason why RE2 rejects a pattern; None if it accepts it."""
    if BYTE.search(pattern):
        return r"\C matches a single byte, which may be a part of a character"
    try:
        for searched in (pattern, f"({pattern})"):  # some kernels add a group; an unclosed \Q would quote its end
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
    """Reason why an accepted pattern takes RE2 too long; None if it does not."""
    if (count := repeated_places(pattern)) <= MOST_PLACES:
        return None
    return f"found {pattern[:60]!r}, whose repeats match {count:,} places, expected at most {MOST_PLACES:,}"


Regex = Annotated[str, AfterValidator(_compile)]


def repeated_places(pattern: str) -> int:
    """Count of a pattern's repeated positions that may match at once: a search costs at most this times the text.

    `.{0,300}` has 300; a repeat of a part that varies itself counts twice: `(.?){300}` has 600. RE2 searches in linear
    time, but a hostile text can need too many states of its automaton. RE2 then searches without it, which takes up to
    34 s for a megabyte and 1,000 positions.
    """
    groups = [_Element(0, 0)]  # enclosing groups, outermost first
    last = _Element(0, 1)  # the element that a repeat would apply to
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
    return sum(group.places for group in groups)


class _Element(NamedTuple):
    """Part of a pattern. places: positions of its repeats; atoms: count of its characters and classes."""

    places: int
    atoms: int

    def repeated(self, repeat: str) -> "_Element":
        counts = [int(count) for count in re.findall(r"\d+", repeat)]
        places = max(counts, default=1) * (2 * self.places or self.atoms)
        return _Element(max(places, 1), self.atoms)


# Tokens: begin and end of a group, a repeat, an atom (quoted part, class, escape, character). Anchors are no atoms.
_TOKEN = re.compile(
    r"(?P<open>\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:))?(?!\?))|(?P<flags>\(\?[a-zA-Z-]*\)|[|^$])|(?P<close>\))"
    r"|(?P<repeat>(?:[*+?]|\{\d*,?\d*\})\??)"
    r"|(?P<atom>\\Q.*?(?:\\E|\Z)|\[\^?\]?(?:\[:[^:]*:\]|\\.|[^\]\\])*\]|\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\.|.)",
    re.DOTALL,
)


ASCII_GAP = r"\x00-/:-@\[-^`{-\x7f"
ASCII_WHITESPACE = r"\x20\t-\r\x1c-\x1f"
WIDE_GAP = rf"^{WORD_CHARACTER}"
# Latin, Greek, Cyrillic; punctuation and symbols; kana; full-width forms; emoji: classified one by one.
MIXED_BLOCKS = ((0x00, 0x24F), (0x370, 0x52F), (0x2000, 0x2BFF), (0x3000, 0x30FF), (0xFF00, 0xFFEF), (0x1F300, 0x1FAFF))
# Han and Hangul, which are all letters, and the emoji variation selector, which is a mark.
LETTER_BLOCKS = ((0x4E00, 0x9FFC), (0xAC00, 0xD7A3), (0xFE0F, 0xFE0F))


def is_all_ascii(texts: pa.Array) -> bool:
    return pc.all(pc.string_is_ascii(texts)).as_py() is not False


def whitespace_class(texts: pa.Array) -> str:
    """Character class (without brackets) of the whitespace that can occur in these texts."""
    return ASCII_WHITESPACE if is_all_ascii(texts) else WHITESPACE


def gap_class(texts: pa.Array) -> str:
    """Character class (without brackets) of the characters in these texts other than letters, marks, numbers and
    underscores.
    """
    if is_all_ascii(texts):
        return ASCII_GAP
    beyond = f"[^{_class_of(MIXED_BLOCKS + LETTER_BLOCKS)}]"
    return WIDE_GAP if pc.any(pc.match_substring_regex(texts, beyond)).as_py() else _common_gap()


@cache
def _common_gap() -> str:
    """Non-word characters of the mixed blocks."""
    points = itertools.chain.from_iterable(range(first, last + 1) for first, last in MIXED_BLOCKS)
    gaps = [point for point in points if not _is_of_word(chr(point))]
    runs = itertools.groupby(enumerate(gaps), key=lambda numbered: numbered[1] - numbered[0])
    return _class_of((run[0][1], run[-1][1]) for _, run in ((key, list(members)) for key, members in runs))


def _is_of_word(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def _class_of(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)


MARK = "\x00"  # separator around each match before splitting; NUL characters of the text are replaced first
CODE = r"(?s)```.*?(?:```|\z)|`[^`\n]*`"
FEW_ROWS = 4  # up to here a Python loop is faster than a kernel, which compiles its pattern on each call
FEW_BYTES = 4_000


def are_few(texts: pa.Array) -> bool:
    """Whether a Python loop over the texts is faster than compiling a pattern in a kernel."""
    return len(texts) <= FEW_ROWS and texts.nbytes <= FEW_BYTES


def find_likely(texts: pa.Array, pattern: str) -> pa.BooleanArray:
    """Mask of texts that may have a match, (text,): those with a match, or all texts if they are few. Null is false."""
    if are_few(texts):
        return texts.is_valid()
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False)


def split_at_matches(texts: pa.Array, pattern: str) -> list[list[str]]:
    """Split each text at every match: text before, match, text between, next match, and so on.

    A match is represented by the pattern's first group, or by the whole match if there is none. The pattern is in RE2's
    syntax. texts: (text,); a null gives one empty piece. A NUL character is read as U+FFFD.
    """
    match_reference = r"\1" if has_group(pattern) else r"\0"
    plain = pc.replace_substring(pc.fill_null(texts, ""), MARK, "\ufffd")
    marked = pc.replace_substring_regex(plain, pattern, f"{MARK}{match_reference}{MARK}")
    return [text.split(MARK) for text in marked.to_pylist()]


def all_matches(texts: pa.Array, pattern: str) -> list[list[str]]:
    """Non-empty matches in each text, represented as in `split_at_matches`."""
    return [[match for match in pieces[1::2] if match] for pieces in split_at_matches(texts, pattern)]


@lru_cache(maxsize=256)
def has_group(pattern: str) -> bool:
    """Whether a valid RE2 pattern has a capturing group."""
    try:
        pc.replace_substring_regex(pa.array([""]), pattern, r"\1")
    except pa.ArrowInvalid:
        return False
    return True


def without_code(texts: pa.Array) -> pa.Array:
    """Replace each Markdown code block and code span with a space."""
    has_code = pc.any(pc.match_substring(texts, "`")).as_py()
    return pc.replace_substring_regex(texts, CODE, " ") if has_code else texts


def place_findings(is_judged: pa.BooleanArray, findings: Iterable[RowFinding], others: CheckVerdicts) -> CheckVerdicts:
    """Merge the findings of the judged rows, in order, into the verdicts of the other rows. is_judged: (output,)."""
    judged = gather_rows(findings)
    level_ids = others.level_ids
    if level_ids is not None:
        level_ids = pc.if_else(is_judged, pa.scalar(None, pa.string()), level_ids)
    others_reasons = pa.nulls(len(is_judged), pa.string()) if others.reasons is None else others.reasons
    return CheckVerdicts(
        pc.replace_with_mask(others.is_passed, is_judged, judged.is_passed),
        pc.replace_with_mask(others.evidence, is_judged, judged.evidence),
        pc.replace_with_mask(others_reasons, is_judged, judged.reasons),
        level_ids,
    )


def same_verdicts(row_count: int, finding: RowFinding) -> CheckVerdicts:
    """Repeat one finding for every row: (output,) each."""
    return CheckVerdicts(
        pa.repeat(pa.scalar(finding.is_passed, pa.bool_()), row_count),
        pa.repeat(pa.scalar(finding.evidence, pa.string()), row_count),
        pa.repeat(pa.scalar(finding.reason, pa.string()), row_count),
    )
