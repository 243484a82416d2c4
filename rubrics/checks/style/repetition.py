"""Check of repetition: a text caught in a loop."""

from typing import Annotated, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import (
    CheckSettings,
    CheckVerdicts,
    Example,
    RowFinding,
    gather_rows,
    register_check,
)
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, Mask, cut_text, text_column
from gradebook.rubrics.checks.style.phrases import (
    UNSPACED,
    Numbers,
    WordColumn,
    split_words,
    text_blocks,
    without_empty,
)

MOST_PERIOD = 64  # words of a phrase, or characters of a piece of a word, that may repeat in a row
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~“”‘’«»…—–、。，！？；：（）「」『』【】《》•"  # noqa: RUF001
RULES = "-=_.*#~+|/\\<>:`'\",;()[]{}…—–·•0123456789"
MOST_BASE = 1 << 31  # its square is below 2 ** 63
EACH_UNSPACED = f"({UNSPACED})"


class RepetitionSettings(CheckSettings):
    """Allowed repetition; at least one of `max_rate` and `max_run` is required."""

    n: Annotated[int, Field(ge=1, le=100, strict=True)] = 4
    """number of words in the phrases that `max_rate` limits"""
    max_rate: Annotated[float, Field(ge=0, le=1)] | None = 0.5
    """maximum share, 0 to 1, of phrases of `n` words that occurred before; null for no limit"""
    max_run: Annotated[int, Field(ge=1, strict=True)] | None = 10
    """maximum number of times in a row that the same phrase, word or piece of a word may occur; null for no limit"""

    @model_validator(mode="after")
    def _something_is_limited(self) -> Self:
        if self.max_rate is None and self.max_run is None:
            raise ValueError("found neither max_rate nor max_run, expected at least one of them")
        return self


class Run(NamedTuple):
    """Piece that is repeated in a row: number of times, start in its array, and length."""

    times: int
    start: int
    period: int


@register_check(
    "repetition",
    RepetitionSettings,
    cost="rows",
    examples=(
        Example("The cat sat on the mat, and the dog lay beside it.", True),
        Example("I am sorry. " * 12, False),
        Example("ha" * 20 + "!", False),
        Example("Call us today. We care. Call us today.", False, {"n": 3, "max_rate": 0.1}),
        Example("very very very good", False, {"max_rate": None, "max_run": 2}),
    ),
)
def repetition(shard: pa.Table, settings: RepetitionSettings) -> CheckVerdicts:
    """The output does not repeat itself more than allowed, in a row (`max_run`) or overall (`max_rate`).

    `max_rate` limits 1 - distinct / all phrases of `n` words (rep-n of Welleck et al. 2020, arXiv 1908.04319): near 0
    in prose, up to about 0.3 in lists with similar wording, over 0.7 in a loop. `max_run` limits how many times in a
    row a phrase of 1 to 64 words occurs ("I am sorry. I am sorry."), also across line ends, so that repeated lines
    count, or a piece of 1 to 64 characters inside a word ("aaaa", "hahaha").

    Words are separated by whitespace and compared without case and surrounding punctuation; in scripts without spaces
    (Chinese, Japanese, Thai, Khmer, Lao, Burmese) each character is a word. An emoji is one as well. Digits and signs
    of rules ("-----", "|---|", "0.3333333") do not count as a run inside a word. Fewer words than `n`, or none, have no
    repetition. The evidence gives the share, or the piece and its number of repetitions.
    """
    texts = text_column(shard, "output")
    return gather_rows(finding for block in text_blocks(texts) for finding in _judge(block, settings))


def _judge(texts: pa.Array, settings: RepetitionSettings) -> list[RowFinding]:
    raw = split_words(_space_unspaced(texts))
    words = _normalise(raw)
    totals, repeated = _count_repeated(words, settings.n, len(texts))
    findings = [RowFinding(True)] * len(texts)
    if settings.max_rate is not None:
        for row in np.flatnonzero(repeated > settings.max_rate * totals).tolist():
            share = f"{repeated[row] / totals[row]:.3f} of the phrases of {settings.n} words stood before"
            findings[row] = RowFinding(False, f"{share}, at most {settings.max_rate:g} allowed")
    if settings.max_run is not None:
        # A phrase of p words k times in a row repeats at least (k - 1) * p - n + 1 phrases of n words.
        is_likely = repeated > settings.max_run - settings.n
        runs = {**_piece_runs(raw, settings.max_run), **_phrase_runs(words, is_likely, settings.max_run)}
        for row, (count, piece) in runs.items():
            excerpt = cut_text(piece, EXCERPT_CHARACTERS)
            findings[row] = RowFinding(False, f"{excerpt!r} {count} times in a row, at most {settings.max_run} allowed")
    return findings


def _space_unspaced(texts: pa.Array) -> pa.Array:
    """Put spaces around each character of a script without spaces."""
    if pc.all(pc.string_is_ascii(texts)).as_py():
        return texts
    is_unspaced = pc.match_substring_regex(texts, UNSPACED)
    if not pc.any(is_unspaced).as_py():
        return texts
    return pc.replace_with_mask(
        texts, is_unspaced, pc.replace_substring_regex(texts.filter(is_unspaced), EACH_UNSPACED, r" \1 ")
    )


def _normalise(raw: WordColumn) -> WordColumn:
    """Strip words of case and surrounding punctuation; words left empty are dropped."""
    plain = pc.utf8_lower(pc.utf8_trim(raw.vocabulary, characters=PUNCTUATION)).dictionary_encode()
    ids = plain.indices.to_numpy().astype(np.int64)
    return without_empty(WordColumn(ids[raw.ids], raw.rows, plain.dictionary))


def _count_repeated(words: WordColumn, n: int, row_count: int) -> tuple[Numbers, Numbers]:
    """(count of phrases of n words, count of phrases that occurred before in the same text): both (text,)."""
    ids, base, width = words.ids, len(words.vocabulary), 1
    while width < n and len(ids):
        step = min(width, n - width)  # two adjacent or overlapping phrases identify the longer one
        ids, base = _small(ids, base)
        ids, base = ids[: max(len(ids) - step, 0)] * base + ids[step:], base * base
        width += step
    rows = words.rows[: len(ids)]
    is_whole = rows == words.rows[len(words.rows) - len(ids) :]
    ids, base = _small(ids[is_whole], base)
    totals = np.bincount(rows[is_whole], minlength=row_count)
    distinct = pc.unique(pa.array(rows[is_whole] * base + ids)).to_numpy() // max(base, 1)
    return totals, totals - np.bincount(distinct, minlength=row_count)


def _small(values: Numbers, base: int) -> tuple[Numbers, int]:
    """Values below a base; renumbered if the product of two of them may exceed 64 bits."""
    if base <= MOST_BASE:
        return values, base
    numbered = pa.array(values).dictionary_encode()
    return numbered.indices.to_numpy().astype(np.int64), len(numbered.dictionary)


def _phrase_runs(words: WordColumn, is_likely: Mask, max_run: int) -> dict[int, tuple[int, str]]:
    """Longest run of a phrase in each likely text: number of repetitions and the phrase."""
    if not is_likely.any():
        return {}
    is_read = is_likely[words.rows]
    ids, rows = words.ids[is_read], words.rows[is_read]
    runs_by_text = {}
    for row, run in _longest_runs(rows * len(words.vocabulary) + ids, rows, max_run).items():
        piece = words.vocabulary.take(pa.array(ids[run.start : run.start + run.period]))
        runs_by_text[row] = run.times, " ".join(piece.to_pylist())
    return runs_by_text


def _piece_runs(raw: WordColumn, max_run: int) -> dict[int, tuple[int, str]]:
    """Longest run of a piece of a word in each text: number of repetitions and the piece."""
    long_ids = np.flatnonzero(pc.utf8_length(raw.vocabulary).to_numpy() > max_run)
    if not len(long_ids):
        return {}
    texts = pc.utf8_lower(raw.vocabulary.take(pa.array(long_ids)))
    points = np.frombuffer("".join(texts.to_pylist()).encode("utf-32-le"), np.uint32).astype(np.int64)
    owners = np.repeat(long_ids, pc.utf8_length(texts).to_numpy())
    keys = owners * (1 << 21) + points
    is_rule = np.isin(points, [ord(mark) for mark in RULES])
    keys[is_rule] = -1 - np.flatnonzero(is_rule)  # unequal to any other
    runs = _longest_runs(keys, owners, max_run)
    counts = np.zeros(len(raw.vocabulary), np.int64)
    counts[list(runs)] = [run.times for run in runs.values()]
    is_found = counts[raw.ids] > 0
    rows, ids = raw.rows[is_found], raw.ids[is_found]
    runs_by_text = {}
    for index in _first_best(rows, counts[ids]).tolist():
        run = runs[int(ids[index])]
        piece = "".join(map(chr, points[run.start : run.start + run.period].tolist()))
        runs_by_text[int(rows[index])] = run.times, piece
    return runs_by_text


def _longest_runs(keys: Numbers, owners: Numbers, max_run: int) -> dict[int, Run]:
    """Longest run of more than `max_run` for each owner; on ties the shortest piece, then the first.

    keys: (symbol,), different between owners. owners: (symbol,), ascending.
    """
    run_by_owner: dict[int, Run] = {}
    edges = np.flatnonzero(np.diff(owners, prepend=-1, append=-1))
    longest = int(np.diff(edges).max(initial=0))
    for period in range(1, min(MOST_PERIOD, longest // (max_run + 1)) + 1):
        matches = np.flatnonzero(keys[period:] == keys[:-period])
        if len(matches) < max_run * period:
            continue
        edges = np.flatnonzero(np.diff(matches, prepend=-2, append=len(keys) + 1) != 1)
        starts = matches[edges[:-1]]
        counts = np.diff(edges) // period + 1
        is_long = counts > max_run
        starts, counts = starts[is_long], counts[is_long]
        for best in _first_best(owners[starts], counts).tolist():
            run = Run(int(counts[best]), int(starts[best]), period)
            owner = int(owners[run.start])
            run_by_owner[owner] = max(run_by_owner.get(owner, run), run, key=lambda candidate: candidate.times)
    return run_by_owner


def _first_best(owners: Numbers, counts: Numbers) -> Numbers:
    """Index of the greatest count of each owner, the first on ties: (owner,)."""
    order = np.lexsort((-counts, owners))  # stable
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.diff(owners[order]) > 0
    best: Numbers = order[is_first]
    return best
