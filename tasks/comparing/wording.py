"""What a comparison says in sentences, in the terminal and on the report's page."""

from collections.abc import Iterator, Sequence

from rubrics.statistics.comparison import PairFigures, PassFigures
from rubrics.statistics.rules import OVERALL
from tasks.comparing.rows import ComparedRow
from tasks.wording import counted, p_words, rate_words


def overall_row(rows: Sequence[ComparedRow]) -> ComparedRow | None:
    """The row of the overall score; None where the rubrics differ."""
    return next((row for row in rows if row.scope == OVERALL), None)


def pair_sentences(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """What the table of these rows, of one pair of models, does not say of itself."""
    cases = {row.figures.case_count for row in rows if row.figures.case_count < row.figures.n}
    if cases:
        yield f"Several pairs belong to one case ({max(cases):,} cases): intervals and p count cases, not pairs."
    for row in rows:
        yield from (f"{row.name}: {words}." for words in (row.conflict, row.caution) if words)
    overall = overall_row(rows)
    if overall is None:
        return
    if overall.passes is not None and overall.passes.pass_n:
        yield pass_sentence(overall.passes)
    if overall.figures.detectable_diff is not None:
        yield power_sentence(overall.figures)


def pass_sentence(passes: PassFigures) -> str:
    """How many outputs pass on each side, and how many only on one."""
    return (
        f"Passed: {rate_words(passes.pass_rate_a)} in A, {rate_words(passes.pass_rate_b)} in B, of "
        f"{counted(passes.pass_n, 'pair')}; {passes.gained_count:,} gained and {passes.lost_count:,} lost "
        f"(McNemar p = {p_words(passes.p_mcnemar)})."
    )


def power_sentence(figures: PairFigures) -> str:
    """How small a difference so many pairs could find, where it is known."""
    difference = f"a true overall difference of {figures.detectable_diff:.3f}"
    return f"{counted(figures.n, 'pair')} would find {difference} four times in five."
