"""Check that an output was not cut off."""

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.check import (
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, text_column
from gradebook.rubrics.check_kit.regexes import WHITESPACE
from gradebook.rubrics.checks.style.phrases import UNSPACED, read_phrases

MARKS = ".!?…。！？।॥؟۔؛։።"  # noqa: RUF001
CLOSERS = "\"'”’»›」』)]}）】*_`~|>$"  # noqa: RUF001
TAIL_CHARACTERS = 2000  # length of the ending that is read
LEAST_FRAGMENT_WORDS = 4  # words after a sentence; fewer words may be a name under a letter
LEAST_LINE_WORDS = 8  # words of a line without any mark; fewer words may be a heading or a signature

# A clearly complete end, so that one kernel decides most rows: an end mark, and nothing that may be open.
ENDED = rf"[{re.escape(MARKS)}][\"'”’»)*_]*\s*\z"
SUSPECT = rf"```|~~~|\A[{WHITESPACE}]*(?:<think>|[{{\[])|(?:\A|\n)[{WHITESPACE}]*[0-9]+[.)][{WHITESPACE}]*\z"
LEAST_ROWS_TO_TELL = 32  # for fewer rows, reading all of them is faster than compiling the patterns
LAST_CHARACTERS = 40  # last characters of a text, in which `ENDED` is searched

FENCE = re.compile(r"^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
BULLET = re.compile(r"[-*+•]|([0-9]+)[.)]")
MARKED_LINE = re.compile(r"[ \t]*(?:[-*+•>|#]|\d+[.)][ \t])")
SENTENCE_END = re.compile(r"(\w*)[)\"'”’»*_]?[.!?…][\"'”’»)*_]*\s+|[。！？।؟۔]")  # noqa: RUF001
NO_SENTENCE_END = frozenset(("etc", "prof", "approx", "inc", "ltd", "corp", "dept", "est", "fig", "sen", "gov", "rev"))
UNSPACED_LETTER = re.compile(UNSPACED)
ADDRESS = re.compile(r"://|[@#\\/]|^www\.")
STRAIGHT_QUOTE = re.compile(r'(?<![0-9])"')  # after a digit it means inches
EMOTICON_END = re.compile(r"[:;=]['’]?-?[(\[{]$")
EMOTICON = re.compile(r"(?<!\w)[:;]['’]?-?[()\[\]{}]")
OPEN_ENDS = (
    (",、，،", "ends with a comma"),  # noqa: RUF001
    (":：", "ends with a colon"),  # noqa: RUF001
    ("([{（【「『", "ends with an open bracket"),  # noqa: RUF001
    ("“«", "ends with an open quote"),
    ("—–", "ends with a dash"),
)
PAIRS = (
    ("([", ")]", "an open bracket"),  # together, as an interval may be half open: [0, 1)
    ("{", "}", "an open bracket"),
    ("（【", "）】", "an open bracket"),  # noqa: RUF001
    ("“", "”", "an open quote"),
    ("「『", "」』", "an open quote"),
)
LOW_QUOTE = "„"  # closed by “, as in German


@register_check(
    "is_complete",
    CheckSettings,
    cost="rows",
    examples=(
        Example("Refunds take five days. We will write to you.", True),
        Example("Refunds take five days. After that the money is sent", False),
        Example("Run this:\n```sh\nmake test", False),
        Example("Kind regards,\nAda", True),
        Example("", False),
    ),
)
def is_complete(shard: pa.Table, settings: CheckSettings) -> CheckVerdicts:
    """The output does not break off in the middle. The evidence names the open part and quotes the ending.

    An output breaks off if a code fence, a `<think>` block or a JSON text is open, if it ends with a comma, a colon, a
    dash, an open bracket or quote, a bare bullet or half a table row, or if its last line

    - has an open bracket or quote, and no end mark at its end;
    - ends with a word that cannot end an English sentence, such as "the" or "of" (`lists/unfinished.txt`);
    - continues after a sentence for four words or more (six characters in scripts without spaces) without an end mark;
    - is prose of eight words or more without an end mark, while the text above it has sentences.

    An empty output is not complete. Titles, short answers, bullets, links, hashtags, emoji, code and signatures pass,
    and so does a line of up to three words with a comma, such as "Kind regards,".

    The heuristic prefers to miss a cut over reporting a wrong one: a text cut right after a sentence passes, and so
    does one of short lines without marks. Of a long last line, the last 2,000 characters count.
    """
    texts = text_column(shard, "output")
    if len(texts) < LEAST_ROWS_TO_TELL:
        return gather_rows(_judge(text) for text in texts.to_pylist())
    is_ended = pc.match_substring_regex(pc.utf8_slice_codeunits(texts, -LAST_CHARACTERS, None), ENDED)
    is_decided = pc.and_not(is_ended, pc.match_substring_regex(texts, SUSPECT))
    doubtful = iter(texts.filter(pc.invert(is_decided)).to_pylist())
    return gather_rows(RowFinding(True) if decided else _judge(next(doubtful)) for decided in is_decided.to_pylist())


def _judge(output: str) -> RowFinding:
    text = output.rstrip()
    if not text:
        return RowFinding(False, "the output is empty")
    fault = _open_block(text) or _open_line(text)
    if fault is None:
        return RowFinding(True)
    ending = text[-EXCERPT_CHARACTERS:]
    return RowFinding(False, f"{fault}: '{'…' if len(text) > EXCERPT_CHARACTERS else ''}{ending}'")


def _open_block(text: str) -> str | None:
    if _has_open_fence(text):
        return "an open code fence"
    start = text.lstrip()
    if start.startswith("<think>") and "</think>" not in text:
        return "an open <think>"
    for opening, closing in ("{}", "[]"):
        if start.startswith(opening) and text.count(opening) > text.count(closing):
            return f"an open {opening}"
    return None


def _has_open_fence(text: str) -> bool:
    """Whether a fence is open. It is closed by one of its own kind, at least as long and with nothing after it."""
    open_fence = ""
    for fence in FENCE.finditer(text):
        marks, text_after = fence.groups()
        if not open_fence:
            open_fence = "" if marks[0] == "`" and "`" in text_after else marks
        elif marks.startswith(open_fence) and not text_after.strip():
            open_fence = ""
    return bool(open_fence)


def _open_line(text: str) -> str | None:
    """Open part of the last line; None if it seems complete. text: stripped at its end, not empty."""
    above, _, line = text[-TAIL_CHARACTERS:].rpartition("\n")
    if _is_bare_bullet(line, above):
        return "a bare bullet"
    closing_quotes = _turned_quotes(text[-TAIL_CHARACTERS:])
    bare = line.rstrip(CLOSERS + closing_quotes)
    if not bare or bare[-1] in MARKS:
        return None
    if line.lstrip().startswith("|"):
        return "half a table row" if above.rstrip().endswith("|") and not line.endswith("|") else None
    if EMOTICON_END.search(line):
        return None
    for ends, fault in OPEN_ENDS:
        if line[-1] in ends and line[-1] not in closing_quotes and not _is_sign_off(line):
            return fault
    return _open_pair(line) or (_cut_prose(line, above) if line[-1].isalnum() else None)


def _turned_quotes(text: str) -> str:
    """Quotation marks that close in this text although they open in English or French: „so“ and »so«."""
    return "“" * (LOW_QUOTE in text) + "«" * (0 <= text.find("»") < text.rfind("«"))


def _is_bare_bullet(line: str, above: str) -> bool:
    """Whether a line is a bare bullet. A number alone may be an answer, unless the line above begins with one too."""
    bullet = BULLET.fullmatch(line.strip())
    if bullet is None or bullet[1] is None:
        return bullet is not None
    before = BULLET.match(above.rstrip().rpartition("\n")[2].lstrip())
    return before is not None and before[1] is not None


def _is_sign_off(line: str) -> bool:
    return line[-1] == "," and line[0].isupper() and len(line.split()) < LEAST_FRAGMENT_WORDS


def _open_pair(line: str) -> str | None:
    line = EMOTICON.sub("", line)
    for opening, closing, fault in PAIRS:
        is_low = opening == "“" and LOW_QUOTE in line
        if not is_low and sum(map(line.count, opening)) > sum(map(line.count, closing)):
            return fault
    quotes = len(STRAIGHT_QUOTE.findall(line))
    # A quote at the end may close one that was opened some lines above.
    return "an open quote" if quotes % 2 and not line.endswith('"') else None


def _cut_prose(line: str, above: str) -> str | None:
    """Reason why a line that ends with a letter or a number was cut off."""
    words = line.split()
    if ADDRESS.search(words[-1]):
        return None
    if len(words) > 2 and words[-1] in _unfinished_words():
        return f"ends on {words[-1]!r}"
    if MARKED_LINE.match(line):
        return None
    fragment = _after_last_sentence(line)
    if fragment is not None:
        return "the last sentence has no end" if _size(fragment) >= LEAST_FRAGMENT_WORDS else None
    return "the last line has no end" if _size(line) >= LEAST_LINE_WORDS and _is_prose(above) else None


def _after_last_sentence(line: str) -> str | None:
    """Text after the last sentence that ends in a line; None if no sentence does."""
    fragment = None
    for end in SENTENCE_END.finditer(line):
        word, text_after = end[1], line[end.end() :]
        is_end = word is None or (len(word) > 2 and not word.isdigit() and word.lower() not in NO_SENTENCE_END)
        if is_end and not text_after[:1].islower():
            fragment = text_after
    return fragment


def _size(text: str) -> int:
    """Number of words; in scripts without spaces, two characters count as 1.5 words, a rough average."""
    return max(len(text.split()), len(UNSPACED_LETTER.findall(text)) * 2 // 3)


def _is_prose(above: str) -> bool:
    """Whether at least half of the lines, without bullets and headings, end with a mark, and at least one does."""
    lines = [line.rstrip() for line in above.splitlines() if line.strip() and not MARKED_LINE.match(line)]
    ended = sum(line.rstrip(CLOSERS)[-1:] in tuple(MARKS) for line in lines)
    return ended > 0 and ended * 2 >= len(lines)


@lru_cache(maxsize=1)
def _unfinished_words() -> frozenset[str]:
    return frozenset(read_phrases("unfinished"))
