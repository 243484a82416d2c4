"""Sentences about a comparison, and columns of its tables and of those of a judge's noise, for the terminal and the
report.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import nan
from operator import attrgetter

from gradebook.rubrics.statistics.comparison import CorrectedFigures, PassFigures, WinFigures
from gradebook.rubrics.statistics.distributions import SpreadFigures
from gradebook.rubrics.statistics.intervals import LEVEL, unseen_share
from gradebook.rubrics.statistics.rules import CATEGORY, OVERALL, RELEASE_MARGIN, RELEASE_RULE
from gradebook.rubrics.statistics.significance import Chance, adjust_step_down, is_significant
from gradebook.rubrics.text.tables import Cells, Table, table_from, table_of
from gradebook.rubrics.text.wording import (
    counted,
    difference_interval_words,
    interval_words,
    p_relation,
    p_words,
    price_words,
    rate_words,
    score_words,
    signed_words,
    sqrt_words,
)
from gradebook.tasks.agreement.preferences import EQUAL
from gradebook.tasks.comparing.decision_study import Components, DecisionStudy, Option
from gradebook.tasks.comparing.figures import ComparedRow, are_unchanged, overall_row, worst_first

MOST_NAMED = 6
WORSE, BETTER, NO_CHANGE = "worse", "better", "no"


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
    if are_unchanged(rows):
        pairs = counted(max(row.figures.n + row.counts.unscored_count for row in rows), "pair")
        return f"No output changed: A and B have the same outputs with the same verdicts in {pairs}{unknown}."
    if left_open := _left_open_words(rows):
        return f"Missing scores leave open what changed: {left_open}."
    if is_paired and not any(row.figures.better_count + row.figures.worse_count for row in rows):
        return f"{_no_change_words(rows)}{unknown}."
    if all(row.chance is None for row in rows):
        return f"Too few {'pairs' if is_paired else 'cases on a side'} to tell a change from chance."
    power = "" if overall is None or overall.figures.detectable_diff is None else power_sentence(overall)
    return f"Nothing got worse or better beyond chance{unknown}. {power}".rstrip()


def _left_open_words(rows: Sequence[ComparedRow]) -> str:
    """Differences that are beyond chance only if the pairs without a score are left out."""
    open_rows = [
        row for row in worst_first(rows) if row.outcome is Chance.UNKNOWN and row.is_left_open and row.figures.n
    ]
    return _first_of([f"{row_name(row)} {signed_words(row.figures.mean_diff)} without them" for row in open_rows])


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
    """Remarks on rows whose means leave out pairs, or scores: counts by side, and bounds of the difference."""
    remarks = ((row.name, _left_out_words(row)) for row in rows if row.counts.unscored_count or row.open_figures)
    yield from merge_equal_remarks(remarks)


def _left_out_words(row: ComparedRow) -> str:
    pair_count = row.figures.n + row.counts.unscored_count
    sentence = f"{row.figures.n:,} of {pair_count:,} pairs have both scores."
    if not row.is_paired:
        sentence = f"{row.figures.n:,} of {counted(pair_count, 'output')} have a score."
    ends = row.open_figures
    if ends is None:
        return sentence
    score = "a score" if row.counts.unscored_count else "a part of the score"
    lacking = f"{row.counts.missing_a_count:,} lack {score} in A and {row.counts.missing_b_count:,} in B"
    between = f"B - A is between {signed_words(ends.least_diff)} and {signed_words(ends.most_diff)}"
    return f"{sentence} {lacking}: {between}, whatever the missing scores are."


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
    remarks = ((row.name, remark) for row in rows for remark in (row.conflict, row.caution) if remark)
    yield from (f"{remark}." for remark in merge_equal_remarks(remarks))


def merge_equal_remarks(remarks: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Remarks on named things, in order; a remark on several of them once. remarks: name and remark."""
    names: dict[str, list[str]] = {}
    for name, remark in remarks:
        names.setdefault(remark, []).append(name)
    yield from (f"{', '.join(remark_names)}: {remark}" for remark, remark_names in names.items())


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
    steadier = {Chance.ABOVE: "A is steadier", Chance.BELOW: "B is steadier"}.get(spread.outcome)
    interval = interval_words(spread.sd_ratio_low, spread.sd_ratio_high)
    return (
        f"{steadier or 'Neither is steadier beyond chance'}: SD {spread.sd_a:.3f} in A, {spread.sd_b:.3f} in B; ratio "
        f"{score_words(spread.sd_ratio)}, 95% interval {interval} over {counted(case_count, 'case')}."
    )


def win_sentence(wins: WinFigures) -> str:
    """Wins, losses and ties of B, pair by pair."""
    ties = f" up to {wins.tie_margin:.3f}, the judge's noise" if wins.tie_margin > EQUAL else ""
    interval = interval_words(wins.win_rate_low, wins.win_rate_high, rate_words)
    return (
        f"B wins {wins.win_count:,}, loses {wins.loss_count:,} and ties{ties} {wins.tie_count:,}: win rate, ties "
        f"as half, is {rate_words(wins.win_rate)} ({interval})."
    )


def corrected_sentence(corrected: CorrectedFigures) -> str:
    """Overall difference corrected by people's ratings, or why there is none."""
    if corrected.corrected_diff is None:
        return f"No difference corrected by ratings: {corrected.corrected_reason}."
    interval = difference_interval_words(corrected.corrected_diff_low, corrected.corrected_diff_high)
    basis = f"95% interval {interval}" if corrected.corrected_reason is None else corrected.corrected_reason
    return f"Corrected by people's ratings, B - A is {signed_words(corrected.corrected_diff)} overall ({basis})."


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
    sentence = f"{rule}, is not met: the 95% interval begins at {low:+.3f}."
    if figures.release_power is None:
        return sentence
    share = f"{figures.release_power:.0%}"
    return f"{sentence} An equal model meets it in about {share} of comparisons with {counted(n, 'case')} like these."


def _beyond_chance(word: str, rows: Sequence[ComparedRow]) -> str | None:
    """Rows with their differences, cut to `MOST_NAMED`; without categories whose criteria are listed."""
    categories = {row.category for row in rows}
    listed = [row for row in rows if row.scope != CATEGORY or row.scope_id not in categories]
    changes = [f"{row_name(row)} {signed_words(row.figures.mean_diff)}" for row in listed]
    return f"{word} beyond chance: {_first_of(changes)}." if listed else None


def _first_of(words: Sequence[str]) -> str:
    """The first `MOST_NAMED` words, and how many more there are."""
    more = len(words) - MOST_NAMED
    return f"{', '.join(words[:MOST_NAMED])}{f' and {more:,} more' if more > 0 else ''}"


def _p_cell(name: str) -> Callable[[ComparedRow], str]:
    return lambda row: p_words(attrgetter(name)(row))


def _count_cell(name: str) -> Callable[[ComparedRow], str]:
    count_of = attrgetter(name)
    return lambda row: f"{count_of(row):,}" if row.is_paired else "–"


COMPARED: Cells[ComparedRow] = {
    "a": lambda row: score_words(row.figures.mean_a),
    "b": lambda row: score_words(row.figures.mean_b),
    "b - a": lambda row: signed_words(row.figures.mean_diff),
    "95% interval": lambda row: difference_interval_words(row.figures.diff_low, row.figures.diff_high),
    "p (mean)": _p_cell("figures.p"),
    "p (t)": _p_cell("figures.p"),
    "p (wilcoxon)": _p_cell("figures.p_wilcoxon"),
    "p adjusted": _p_cell("chance"),
    "better": _count_cell("figures.better_count"),
    "rose": _count_cell("figures.better_count"),
    "worse": _count_cell("figures.worse_count"),
    "fell": _count_cell("figures.worse_count"),
    "tied": _count_cell("figures.tied_count"),
    "pairs": _count_cell("figures.n"),
    "unscored": _count_cell("counts.unscored_count"),
    "alone": _count_cell("counts.unpaired_count"),
    "effect size": lambda row: signed_words(row.figures.effect_size, 2),
    "bootstrap": lambda row: difference_interval_words(row.figures.boot_low, row.figures.boot_high),
    "detectable": lambda row: _detectable_words(row.figures.detectable_diff),
}


def _detectable_words(difference: float | None) -> str:
    """Smallest difference that would be found; above 1 no difference would."""
    return "none" if (difference or 0) > 1 else score_words(difference)


def component_table(study: DecisionStudy) -> Table:
    """Table of the standard deviations of scores by source."""
    sources = tuple(dict.fromkeys(source for component in study.components for source in component.variances))
    numbers = (*(source.replace("_", " ").capitalize() for source in sources), "Scores")
    rows = (
        (
            component.model,
            _score_name(component),
            *(sqrt_words(component.variances.get(name)) for name in sources),
            f"{component.n:,}",
        )
        for component in study.components
    )
    return table_of("Standard deviation by source", ("Model", "Score"), numbers, rows)


def _score_name(component: Components) -> str:
    name = "overall" if component.scope == OVERALL else component.scope_id
    return f"{name} (people)" if component.kind == "rater" else name


def option_table(study: DecisionStudy) -> Table:
    """Table of designs with more cases, samples or replies, and their expected standard errors."""
    caption = "What more would gain: standard error of the mean overall score"
    return table_from(caption, {"Model": lambda option: option.model, "More": _more_words}, _OPTION, study.options)


def _more_words(option: Option) -> str:
    return option.more or "this run"


_OPTION: Cells[Option] = {
    "Cases": lambda option: f"{option.case_count:,.4g}",
    "Samples": lambda option: f"{option.sample_count:,.4g}",
    "Replicates": lambda option: f"{option.replicate_count:,.4g}",
    "Standard error": lambda option: f"{option.standard_error:.4f}",
    "Price": lambda option: "–" if option.cost_usd is None else price_words(option.cost_usd),
}
