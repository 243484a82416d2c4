"""Sentences about a comparison, for the terminal and the report."""

from collections.abc import Iterable, Iterator, Sequence
from math import nan

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.chance import Chance, is_significant
from gradebook.rubrics.statistics.comparison import CorrectedFigures, PassFigures, WinFigures
from gradebook.rubrics.statistics.intervals import LEVEL
from gradebook.rubrics.statistics.paired import adjust_step_down
from gradebook.rubrics.statistics.power import Margin, detectable_effect
from gradebook.rubrics.statistics.rare_values import unseen_share
from gradebook.rubrics.statistics.rule_parser import RELEASE_MARGIN, RELEASE_RULE
from gradebook.rubrics.statistics.rules import CATEGORY, OVERALL
from gradebook.rubrics.statistics.spread import SpreadFigures
from gradebook.tasks.agreement.preferences import EQUAL
from gradebook.tasks.comparing.figures import ComparedRow, worst_first
from gradebook.tasks.system.number_format import (
    difference_interval_words,
    interval_words,
    p_relation,
    rate_words,
    score_words,
    signed_words,
)

MOST_NAMED = 6
WORSE, BETTER, NO_CHANGE = "worse", "better", "no"


def overall_row(rows: Sequence[ComparedRow]) -> ComparedRow | None:
    """Row of the overall score; None if the rubrics differ."""
    return next((row for row in rows if row.scope == OVERALL), None)


def row_name(row: ComparedRow) -> str:
    """Display name of a row, with a mark if it is a penalty, where less is better."""
    return f"{row.name} (penalty)" if row.is_penalty else row.name


def outcome_word(row: ComparedRow) -> str:
    """Change beyond chance as one word: worse, better or no; a dash if there are too few pairs for a test."""
    return {Chance.BELOW: WORSE, Chance.ABOVE: BETTER, Chance.WITHIN: NO_CHANGE}.get(row.outcome, "–")


def direction_words(rows: Sequence[ComparedRow]) -> tuple[str, str]:
    """Labels of rising and falling scores; a rising score of a penalty is not better."""
    return ("Rose", "Fell") if any(row.is_penalty for row in rows) else ("Better", "Worse")


def regression_sentence(rows: Sequence[ComparedRow]) -> str | None:
    """Rows that got worse beyond chance; None if there are none."""
    return _beyond_chance("Worse", [row for row in worst_first(rows) if row.is_regression])


def improvement_sentence(rows: Sequence[ComparedRow]) -> str | None:
    """Rows that got better beyond chance; None if there are none."""
    best_first = sorted(rows, key=lambda row: (row.scope != OVERALL, -row.merit_diff))
    return _beyond_chance("Better", [row for row in best_first if row.is_improvement])


def unchanged_sentence(rows: Sequence[ComparedRow]) -> str:
    """Statement that nothing changed beyond chance, with the detectable difference, or why a test is impossible."""
    if not any(row.figures.n for row in rows):
        return "No case has a score on both sides."
    is_paired, overall = all(row.is_paired for row in rows), overall_row(rows)
    unknown = ", and overall scores are not compared as the rubrics differ" if overall is None else ""
    if all(row.is_unchanged for row in rows):
        pairs = counted(max(row.figures.n + row.counts.unscored_count for row in rows), "pair")
        return f"No output changed: A and B have the same outputs with the same verdicts in {pairs}{unknown}."
    if any(row.outcome is Chance.UNKNOWN and row.is_left_open for row in rows):
        return f"Missing scores leave open what changed: {_left_open_words(rows)}."
    if is_paired and not any(row.figures.better_count + row.figures.worse_count for row in rows):
        return f"{_no_change_words(rows)}{unknown}."
    if all(row.chance is None for row in rows):
        return f"Too few {'pairs' if is_paired else 'cases on a side'} to tell a change from chance."
    power = "" if overall is None or overall.figures.detectable_diff is None else power_sentence(overall)
    return f"Nothing got worse or better beyond chance{unknown}. {power}".rstrip()


def _left_open_words(rows: Sequence[ComparedRow]) -> str:
    """Differences that are beyond chance only if the pairs without a score are left out."""
    found = [row for row in worst_first(rows) if row.outcome is Chance.UNKNOWN and row.is_left_open]
    return _first_of([f"{row_name(row)} {signed_words(row.figures.mean_diff)} without them" for row in found])


def _no_change_words(rows: Sequence[ComparedRow]) -> str:
    """Clause that no score changed, with the rows that have no score on both sides."""
    changed = "No criterion changed" if overall_row(rows) is None else "No score changed"
    without = [row_name(row) for row in rows if not row.figures.n]
    if not without:
        return changed
    return f"{changed}, but {_first_of(without)} {'has' if len(without) == 1 else 'have'} no score on both sides"


def pair_sentences(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Remarks on the table of one pair of models."""
    if not all(row.is_paired for row in rows):
        return
    yield from imbalance_sentences(rows)
    yield from case_sentences(rows)
    yield from caution_sentences(rows)
    yield from outcome_sentences(rows)


def left_out_sentences(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Remarks on rows whose means leave out pairs, or scores: how many, on which side, and what that leaves open."""
    remarks = ((row.name, _left_out_words(row)) for row in rows if row.counts.unscored_count or row.open_figures)
    yield from each_once(remarks)


def _left_out_words(row: ComparedRow) -> str:
    pair_count = row.figures.n + row.counts.unscored_count
    words = f"{row.figures.n:,} of {pair_count:,} pairs have both scores."
    if not row.is_paired:
        words = f"{row.figures.n:,} of {counted(pair_count, 'output')} have a score."
    ends = row.open_figures
    if ends is None:
        return words
    score = "a score" if row.counts.unscored_count else "a part of the score"
    lacking = f"{row.counts.missing_a_count:,} lack {score} in A and {row.counts.missing_b_count:,} in B"
    between = f"B - A is between {signed_words(ends.least_diff)} and {signed_words(ends.most_diff)}"
    return f"{words} {lacking}: {between}, whatever the missing scores are."


def imbalance_sentences(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Rows of which one side lacks scores more often than the other beyond chance, by an exact test.

    The overall score first; the criteria, by Holm, only if it does not show it.
    """
    overall = overall_row(rows)
    if overall is not None and is_significant(_p_missing(overall)):
        yield _imbalance_words(overall, _p_missing(overall))
        return
    criteria = [row for row in rows if row.scope not in (OVERALL, CATEGORY) and row.open_figures is not None]
    adjusted = adjust_step_down([nan if (p := _p_missing(row)) is None else p for row in criteria])
    yield from (
        _imbalance_words(row, p) for row, p in zip(criteria, adjusted.tolist(), strict=True) if is_significant(p)
    )


def _p_missing(row: ComparedRow) -> float | None:
    return None if row.open_figures is None else row.open_figures.p_missing


def _imbalance_words(row: ComparedRow, p: float | None) -> str:
    counts, pairs = row.counts, counted(row.figures.n + row.counts.unscored_count, "pair")
    sides = sorted([(counts.missing_a_count or 0, "A"), (counts.missing_b_count or 0, "B")], reverse=True)
    (more, first), (fewer, second) = sides
    return (
        f"Scores are missing more often in {first} than in {second} ({row_name(row)}: {more:,} against {fewer:,} of "
        f"{pairs}, exact p {p_relation(p)}): what the judge refuses may be what got worse."
    )


def unchanged_words(row: ComparedRow) -> str | None:
    """How many pairs did not change for certain, if some: a clause."""
    count, pair_count = row.counts.unchanged_count, row.figures.n + row.counts.unscored_count
    if not count or count == pair_count:
        return None
    return f"{count:,} of {counted(pair_count, 'output')} {'is' if count == 1 else 'are'} the same, with the same score"


def case_sentences(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Remark that pairs share cases, if they do."""
    cases = {row.figures.case_count for row in rows if row.figures.case_count < row.figures.n}
    if cases:
        yield f"Several pairs belong to one case ({max(cases):,} cases): intervals and p count cases, not pairs."


def caution_sentences(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Remarks on rows whose mean and win count disagree, and on rough figures: a remark on several rows once."""
    remarks = ((row.name, words) for row in rows for words in (row.conflict, row.caution) if words)
    yield from (f"{words}." for words in each_once(remarks))


def each_once(remarks: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Remarks on named things, in order; a remark on several of them once. remarks: name and remark."""
    names: dict[str, list[str]] = {}
    for name, words in remarks:
        names.setdefault(words, []).append(name)
    yield from (f"{', '.join(found)}: {words}" for words, found in names.items())


def outcome_sentences(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Pass rates of both sides, which is steadier, and the detectable difference of the overall score."""
    overall = overall_row(rows)
    if overall is None:
        return
    if overall.is_unchanged:
        yield release_sentence(overall)
        return
    if overall.passes is not None and overall.passes.pass_n:
        yield pass_sentence(overall.passes)
    has_all = overall.open_figures is None  # a side that lacks its worst scores looks steadier
    if overall.spread is not None and overall.spread.sd_ratio is not None and has_all:
        yield spread_sentence(overall.spread, overall.figures.case_count)
    if overall.wins is not None and overall.wins.win_rate is not None:
        yield win_sentence(overall.wins)
    if overall.corrected is not None:
        yield corrected_sentence(overall.corrected)
    if overall.figures.detectable_diff is not None:
        yield power_sentence(overall)
    if overall.figures.diff_low is not None and overall.is_paired:
        yield release_sentence(overall)


def spread_sentence(spread: SpreadFigures, case_count: int) -> str:
    """Sentence on the side that is steadier beyond chance, by the standard deviations of the overall scores."""
    words = {Chance.ABOVE: "A is steadier", Chance.BELOW: "B is steadier"}.get(spread.outcome)
    interval = interval_words(spread.sd_ratio_low, spread.sd_ratio_high)
    return (
        f"{words or 'Neither is steadier beyond chance'}: SD {spread.sd_a:.3f} in A, {spread.sd_b:.3f} in B; ratio "
        f"{score_words(spread.sd_ratio)}, 95% interval {interval} over {counted(case_count, 'case')}."
    )


def win_sentence(found: WinFigures) -> str:
    """Wins, losses and ties of B, pair by pair."""
    ties = f" up to {found.tie_margin:.3f}, the judge's noise" if found.tie_margin > EQUAL else ""
    interval = interval_words(found.win_rate_low, found.win_rate_high, rate_words)
    return (
        f"B wins {found.win_count:,}, loses {found.loss_count:,} and ties{ties} {found.tie_count:,}: win rate, ties "
        f"as half, is {rate_words(found.win_rate)} ({interval})."
    )


def corrected_sentence(found: CorrectedFigures) -> str:
    """Overall difference corrected by people's ratings, or why there is none."""
    if found.corrected_diff is None:
        return f"No difference corrected by ratings: {found.corrected_reason}."
    interval = difference_interval_words(found.corrected_diff_low, found.corrected_diff_high)
    known = f"95% interval {interval}" if found.corrected_reason is None else found.corrected_reason
    return f"Corrected by people's ratings, B - A is {signed_words(found.corrected_diff)} overall ({known})."


def pass_sentence(passes: PassFigures) -> str:
    """Pass rates of both sides, and the outputs that pass on one side only."""
    return (
        f"Passed: {rate_words(passes.pass_rate_a)} in A, {rate_words(passes.pass_rate_b)} in B, of "
        f"{counted(passes.pass_n, 'pair')}; {passes.gained_count:,} gained and {passes.lost_count:,} lost "
        f"(McNemar p {p_relation(passes.p_mcnemar)})."
    )


def power_sentence(row: ComparedRow) -> str:
    """Smallest difference that so many pairs, or outputs of both sides, would detect."""
    figures = row.figures
    difference = f"a true overall difference of {figures.detectable_diff:.3f}"
    return f"{counted(figures.n, 'pair' if row.is_paired else 'output')} would find {difference} four times in five."


def release_sentence(row: ComparedRow) -> str:
    """Whether the overall row, of pairs, meets the default release rule, and how many cases an equal model takes."""
    figures = row.figures
    low, n = figures.diff_low or 0.0, figures.case_count
    rule = f"{RELEASE_RULE}, the default release rule"
    if row.is_unchanged:
        return (
            f"{rule}, is met by definition: no output changed. That is of these cases: of others, up to "
            f"{rate_words(float(unseen_share(n, 1.0 - LEVEL)))} may change, as far as {counted(n, 'case')} can show."
        )
    if row.open_figures is not None and row.open_figures.least_low is not None:
        worst = row.open_figures.least_low
        is_met = worst > -RELEASE_MARGIN
        if is_met or low > -RELEASE_MARGIN:
            outcome = "is met" if is_met else "is undecided"
            return (
                f"{rule}, {outcome}: with each missing score at its worst for B, the interval begins at {worst:+.3f}."
            )
    if low > -RELEASE_MARGIN:
        return f"{rule}, is met: the 95% interval begins at {low:+.3f}."
    words = f"{rule}, is not met: the 95% interval begins at {low:+.3f}."
    if figures.detectable_diff is None:
        return words
    sd = figures.detectable_diff / detectable_effect(1.0, n)  # of a case's difference
    margin = Margin(RELEASE_MARGIN)
    needed, power = margin.needed_n(0.0, sd), margin.power_of(0.0, sd, n)
    more = "" if needed is None else f", and four times in five with {needed:,}"
    return f"{words} An equal model meets it in {rate_words(power)} of comparisons with {counted(n, 'case')}{more}."


def _beyond_chance(word: str, rows: Sequence[ComparedRow]) -> str | None:
    """Rows with their differences, cut to `MOST_NAMED`; without categories whose criteria are listed."""
    categories = {row.category for row in rows}
    named = [row for row in rows if row.scope != CATEGORY or row.scope_id not in categories]
    words = [f"{row_name(row)} {signed_words(row.figures.mean_diff)}" for row in named]
    return f"{word} beyond chance: {_first_of(words)}." if named else None


def _first_of(words: Sequence[str]) -> str:
    """The first `MOST_NAMED` words, and how many more there are."""
    more = len(words) - MOST_NAMED
    return f"{', '.join(words[:MOST_NAMED])}{f' and {more:,} more' if more > 0 else ''}"
