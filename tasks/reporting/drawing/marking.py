"""Texts of strangers as a page shows them: evidence marked where it stands, long ones cut, tricks made visible."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise

MOST_SHOWN = 6_000  # characters of a text
MOST_SEARCHED = 200_000  # characters of a text that are searched for evidence in another writing
AROUND = 150  # characters shown before and behind evidence that stands far down in a long text
MOST_MARKED = 600  # characters of such evidence
MOST_QUOTES = 300  # that are looked for in a text: a judge may give 20 a criterion

# What reorders, hides or splits a text without being seen: controls, overrides and isolates of direction, tags. Marks
# of direction and joiners stay: Arabic, Hindi and emoji are written with them.
_TRICK = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_CHECK_WORD = re.compile(r"""(?<!\w)(?:'((?:[^'\\]|\\.)+)'|"((?:[^"\\]|\\.)+)")(?!\w)""")

Span = tuple[int, int]  # from, and up to but without
Evidence = tuple[str, str]  # the criterion's name, and a quote


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a text. criteria: those whose evidence it is; left_out: characters that are left out in its place."""

    text: str
    criteria: tuple[str, ...] = ()
    left_out: int = 0


def visible(text: str) -> str:
    """A text with what would trick the eye written out: a null byte as ␀, an override of direction as [U+202E]."""
    return _TRICK.sub(_written_out, text.replace("\r\n", "\n"))


def whole_text(text: str) -> str:
    """A text out of JSON, where half a letter can stand: no file takes one."""
    return text.encode(errors="replace").decode()


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"[U+{code:04X}]"


def quotes_of(evidence: str | None, method: str) -> tuple[str, ...]:
    """What of a verdict's evidence may stand in the output. evidence: a JSON list of quotes, or a check's words."""
    if not evidence or method == "ratings":
        return ()
    quotes = judge_quotes(evidence)
    if quotes is not None:
        return quotes
    if method != "check":
        return (evidence,)
    return tuple(_unescaped(single or double) for single, double in _CHECK_WORD.findall(evidence))


def judge_quotes(evidence: str) -> tuple[str, ...] | None:
    """What a judge quoted, by the JSON list that it is kept as; None where it is a text of another kind."""
    if not evidence.startswith("["):
        return None
    try:
        found = json.loads(evidence)
    except (ValueError, RecursionError):
        return None
    is_list = isinstance(found, list) and all(isinstance(quote, str) for quote in found)
    return tuple(whole_text(quote) for quote in found if quote.strip()) if is_list else None


def _unescaped(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word)


def segments_of(text: str, evidence: Iterable[Evidence] = (), most: int = MOST_SHOWN) -> tuple[Segment, ...]:
    """A text in pieces, each of one set of criteria, made visible.

    Of a text with more than `most` characters the beginning is shown, and evidence farther down with what is around it.
    """
    searched = _Searched(text)
    spans: dict[Span, list[str]] = {}
    for name, quote in islice(evidence, MOST_QUOTES):
        span = searched.find(quote)
        if span is not None and name not in spans.setdefault(span, []):
            spans[span].append(name)
    return tuple(_segments(text, spans, _windows(len(text), sorted(spans), most)))


def _segments(text: str, spans: dict[Span, list[str]], windows: Sequence[Span]) -> Iterator[Segment]:
    end = 0
    for first, last in windows:
        if first > end:
            yield Segment("", left_out=first - end)
        cuts = {place for span in spans for place in span if first < place < last} | {first, last}
        places = sorted(cuts)
        for start, stop in pairwise(places):
            names = [name for span, names in spans.items() if span[0] <= start < span[1] for name in names]
            yield Segment(visible(text[start:stop]), tuple(dict.fromkeys(names)))
        end = last
    if end < len(text):
        yield Segment("", left_out=len(text) - end)


def _windows(length: int, spans: Sequence[Span], most: int) -> list[Span]:
    """Which parts of a text of this length are shown, in order and apart; spans: of evidence, in order."""
    if length <= most:
        return [(0, length)]
    left, chosen = most // 2, []
    for start, stop in spans:
        window = (max(0, start - AROUND), min(length, min(stop, start + MOST_MARKED) + AROUND))
        size = window[1] - window[0]
        if stop > most // 2 and size <= left:
            chosen.append(window)
            left -= size
    windows = [(0, most // 2 + left)]
    for start, stop in chosen:
        if start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(stop, windows[-1][1]))
        else:
            windows.append((start, stop))
    return windows


class _Searched:
    """A text in which quotes are looked for: as they are, else whatever their case, spaces and width."""

    def __init__(self, text: str) -> None:
        self._text = text

    def find(self, quote: str) -> Span | None:
        """Where a quote stands for the first time, as words of its own where it does."""
        span = _find(self._text, quote)
        if span is not None or not quote.strip():
            return span
        written, places = self._folded
        for wanted in dict.fromkeys((_fold(quote)[0].strip(), _fold(_decoded(quote))[0].strip())):
            found = _find(written, wanted) if wanted else None
            if found is not None:
                return places[found[0]], places[found[1] - 1] + 1
        return None

    @cached_property
    def _folded(self) -> tuple[str, list[int]]:
        return _fold(self._text[:MOST_SEARCHED])


def _find(text: str, quote: str) -> Span | None:
    if not quote or quote not in text:
        return None
    whole = re.search(rf"(?<!\w){re.escape(quote)}(?!\w)", text)
    start = whole.start() if whole else text.index(quote)
    return start, start + len(quote)


def _fold(text: str) -> tuple[str, list[int]]:
    """A text in one case, its spaces folded, without what takes no place; and where each letter of it stood."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if unicodedata.category(character) == "Cf":
            continue
        for letter in unicodedata.normalize("NFKC", character).casefold():
            plain = " " if letter.isspace() else letter
            if plain != " " or not letters or letters[-1] != " ":
                letters.append(plain)
                places.append(place)
    return "".join(letters), places


def _decoded(quote: str) -> str:
    r"""A quote in the writing of JSON, in which judges are shown outputs: `\n` for a line feed."""
    try:
        return str(json.loads(f'"{quote}"', strict=False))
    except ValueError:
        return quote
