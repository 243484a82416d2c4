"""Display of untrusted texts: evidence marked, long texts cut, invisible characters written out."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise

MOST_SHOWN = 6_000  # characters of a text
MOST_SEARCHED = 200_000  # characters of a text searched for evidence regardless of case, spaces and width
AROUND = 150  # characters shown before and after evidence far down in a long text
MOST_MARKED = 600  # characters of such evidence
MOST_QUOTES = 300  # searched for in a text; a judge may give 20 per criterion

# Invisible characters that reorder, hide or split a text: controls, direction overrides and isolates, tags. Direction
# marks and joiners are allowed: Arabic, Hindi and emoji need them.
_TRICK = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_CHECK_WORD = re.compile(r"""(?<!\w)(?:'((?:[^'\\]|\\.)+)'|"((?:[^"\\]|\\.)+)")(?!\w)""")

Span = tuple[int, int]  # start, and end (exclusive)
Evidence = tuple[str, str]  # criterion's name, quote


@dataclass(frozen=True, slots=True)
class Segment:
    """Piece of a text. criteria: names of the criteria with this evidence; left_out: characters that it replaces."""

    text: str
    criteria: tuple[str, ...] = ()
    left_out: int = 0


def visible(text: str) -> str:
    """Text with deceptive invisible characters written out: a null byte as ␀, a direction override as [U+202E]."""
    return _TRICK.sub(_written_out, text.replace("\r\n", "\n"))


def whole_text(text: str) -> str:
    """Text from JSON with lone surrogates replaced, because no file can store them."""
    return text.encode(errors="replace").decode()


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"[U+{code:04X}]"


def quotes_of(evidence: str | None, method: str) -> tuple[str, ...]:
    """Quotes of a verdict's evidence to search for in the output. evidence: JSON list of quotes, or a check's words."""
    if not evidence or method == "ratings":
        return ()
    quotes = judge_quotes(evidence)
    if quotes is not None:
        return quotes
    if method != "check":
        return (evidence,)
    return tuple(_unescaped(single or double) for single, double in _CHECK_WORD.findall(evidence))


def judge_quotes(evidence: str) -> tuple[str, ...] | None:
    """Quotes of a judge, stored as a JSON list; None if the evidence is another kind of text."""
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
    """Split a text into pieces, each with one set of criteria, and write out invisible characters.

    Of a text with more than `most` characters the beginning is shown, and evidence farther down with its surroundings.
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
    """Parts of a text that are shown, in order and without overlaps. spans: of evidence, in order."""
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
    """Text to search for quotes: first exactly, then regardless of case, spaces and width."""

    def __init__(self, text: str) -> None:
        self._text = text

    def find(self, quote: str) -> Span | None:
        """First position of a quote, preferably as whole words; None if it is absent."""
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
    """Text in one case, with folded spaces and without zero-width characters, and each letter's original position."""
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
    r"""Quote with JSON escapes decoded, `\n` for a line feed: judges see outputs as JSON."""
    try:
        return str(json.loads(f'"{quote}"', strict=False))
    except ValueError:
        return quote
