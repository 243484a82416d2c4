"""Remarks on the figures of a comparison: conflicts, rough figures, distributions, rules. One template per case."""

from gradebook.rubrics.statistics.comparison import Caution, Conflict, PairFigures, caution_of, conflict_of
from gradebook.rubrics.statistics.distributions import DistributionPair, Dominance, Gap
from gradebook.rubrics.statistics.intervals import Interval
from gradebook.rubrics.statistics.rules import RuleFigure
from gradebook.rubrics.statistics.significance import is_significant

_CONFLICTS = {
    Conflict.FEWER_BUT_LARGER: "{mean}, but {counts}: the {few} are fewer but larger{chance}",
    Conflict.MEAN_ALONE: (
        "{mean} and {counts}; the mean alone tells A from B, the ranks do not (Wilcoxon p = {ranks:.2g})"
    ),
    Conflict.RANKS_ALONE: (
        "{mean} and {counts}; the ranks alone tell A from B, the mean does not (Wilcoxon p = {ranks:.2g})"
    ),
}
_CAUTIONS = {
    Caution.FEW_AGAINST: "{against} of {units} {way}: the interval and p allow for rare {size} that so few can't show",
    Caution.UNSEEN: "{units} are too few to show rare heavy {size}: the interval and p allow for them",
    Caution.SKEWED: (
        "the differences are too skewed ({skewness:+.1f}) for t on {units}: the interval and p allow for it"
    ),
    Caution.FEW_CASES: "only {cases:,} cases with several pairs: the interval holds less often than 95%",
}
_DOMINANCES = {
    Dominance.unknown: "A side has no score, so the distributions can't be compared.",
    Dominance.equal: "Both have the same distribution of scores.",
    Dominance.neither: "Neither dominates: at or below {b_more} B has more of its outputs, at or below {a_more} A has.",
    Dominance.b: "Here B dominates A: at no score does it have more of its outputs at or below, and at {a_more} fewer.",
    Dominance.a: "Here A dominates B: at no score does it have more of its outputs at or below, and at {b_more} fewer.",
}


def conflict_words(figures: PairFigures) -> str | None:
    """Conflict between the mean and the count of wins, as a clause; None if they agree."""
    conflict = conflict_of(figures)
    if conflict is None:
        return None
    difference = figures.mean_diff or 0.0
    is_chance = not (is_significant(figures.p) or is_significant(figures.p_wilcoxon))
    return _CONFLICTS[conflict].format(
        mean=f"the mean {'rose' if difference > 0 else 'fell'} by {abs(difference):.3g} (p = {figures.p:.2g})",
        counts=f"{figures.better_count:,} are better and {figures.worse_count:,} worse",
        few="losses" if figures.better_count > figures.worse_count else "gains",
        chance="; neither is more than chance" if is_chance else "",
        ranks=figures.p_wilcoxon,
    )


def caution_words(figures: PairFigures) -> str | None:
    """Clause on why interval and p are wider than those of a t-test, or only approximate; None if neither."""
    caution = caution_of(figures)
    if caution is None:
        return None
    is_up = (figures.mean_diff or 0.0) > 0
    return _CAUTIONS[caution].format(
        units=f"{figures.case_count:,} {'pairs' if figures.case_count == figures.n else 'cases'}",
        against=(figures.fallen_case_count if is_up else figures.risen_case_count) or "none",
        way="fell" if is_up else "rose",
        size="losses" if is_up else "gains",
        skewness=figures.skewness,
        cases=figures.case_count,
    )


def dominance_sentence(pair: DistributionPair) -> str:
    """Dominance of a side, with the scores of the largest distances between the curves."""
    if not pair.scores.size:
        return _DOMINANCES[Dominance.unknown]
    a_more, b_more = (_gap_words(pair.widest_gap(is_b_more=is_b_more)) for is_b_more in (False, True))
    return _DOMINANCES[pair.dominance].format(a_more=a_more, b_more=b_more)


def _gap_words(gap: Gap) -> str:
    return f"{gap.score:.3g} (A {100 * gap.share_a:.1f}%, B {100 * gap.share_b:.1f}%)"


def unknown_figure_words(figure: RuleFigure) -> str:
    """Text on a rule's unknown figure: its name, with its range if known; `criterion to compare` if there is none."""
    if figure.name is None:
        return f"{figure.scope} to compare"
    return figure.name if figure.value is None else f"{figure.name} ({_value_words(figure.value)})"


def figure_words(figure: RuleFigure) -> str:
    """Figure that a rule used: `mean_diff = -0.03`."""
    return f"{figure.name} = {_value_words(figure.value)}"


def _value_words(value: float | Interval | None) -> str:
    if isinstance(value, Interval):
        return f"{value.low:.4g} to {value.high:.4g}"
    return "unknown" if value is None else f"{value:.4g}"
