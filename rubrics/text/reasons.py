"""Sentences for the reasons of missing figures, one template per cause."""

from dataclasses import asdict
from typing import Any

from gradebook.rubrics.statistics.reasons import Cause, Reason
from gradebook.rubrics.text.wording import counted

_TEMPLATES = {
    Cause.NOT_TWO_RATERS: "it is of two raters, found {rater_count}",
    Cause.ONE_AGAINST_OTHERS: "it is of one rater against the others",
    Cause.MANY_LEVELS: "found more than {most} different scores, expected levels",
    Cause.FEW_COMPLETE: "fewer than 2 outputs were rated by every rater",
    Cause.EQUAL_OR_FEW: "the ratings are all equal, or too few",
    Cause.SIDE_EQUAL: "the ratings of one side are all equal",
    Cause.OTHER_SIDE_EQUAL: "the other side's ratings are all equal",
    Cause.OUTPUT_MEANS_EQUAL: "the outputs' mean ratings are all equal, or too few",
    Cause.OUTPUT_MEANS_ALIKE: "the outputs' mean ratings differ too little beside the raters' errors, or are too few",
    Cause.MANY_PAIRS: "found more than {most:,} different pairs: an interval would take too long",
    Cause.MOSTLY_EQUAL: (
        "{share:.0%} of the ratings are equal, and {varied_count} of {case_count} cases have another one: expected "
        "{least} or more for an interval"
    ),
    Cause.NO_PAIRS: "found no pairs",
    Cause.FEW_WITH_PEOPLE: "fewer than 2 outputs were scored by the judge and two people",
    Cause.NO_OTHER_RATER: "no output was rated by another rater too",
    Cause.ONE_CASE: "one case has no interval",
    Cause.FEW_CASES: "found {cases}, expected {least} or more for an interval",
    Cause.TWO_RATERS: "raters are a sample here, and two do not tell how far raters differ",
    Cause.UNDEFINED_WITHOUT_ONE: "it is undefined without some of the cases: too few or too equal ratings",
    Cause.NO_WIDTH: "it is the same without any of the cases, which tells no width",
    Cause.NO_SCORES: "found no scores, expected some",
    Cause.FEW_OUTPUTS: "too few outputs to tell how sure it is",
    Cause.NONE_RATED: "found no rated outputs",
    Cause.FEW_RATED: "found {rated}, expected {least} or more",
    Cause.RATINGS_EQUAL: "the ratings are all equal",
    Cause.STILL_WIDE: "with all {total:,} outputs rated it would still be {share:.0%} as wide",
    Cause.FEW_AT_SCORE: (
        "fewer than {least} ratings of outputs that the judge gave {low:.3g}, which are {share:.0%} of all: rate some "
        "of them, or those that --rate-next names"
    ),
    Cause.FEW_AT_SCORES: (
        "fewer than {least} ratings of outputs that the judge gave {low:.3g} to {high:.3g}, which are {share:.0%} of "
        "all: rate some of them, or those that --rate-next names"
    ),
    Cause.LEVEL_UNSEEN: (
        "found {high_count} and {low_count} outputs rated at the two levels and {unrated_count} unrated, expected some "
        "of each"
    ),
    Cause.JUDGE_BY_CHANCE: "the judge is no better than chance: sensitivity + specificity is 1 or less",
    Cause.RATERS_APART: "some raters share no output with the others",
    Cause.NEVER_BEATEN: "some models only won, or only lost, against the others",
    Cause.ONLY_TIED: "some models never lost, or never won, against the others: they only tied",
    Cause.THIN_LINK: "found {links} that join some models to the others, expected {least} or more for intervals",
    Cause.FEW_RANKED_CASES: "found {cases}, expected {least} or more for intervals",
    Cause.FEW_VOICES: "found {voices}, expected {least}",
    Cause.FEW_TWICE_LABELLED: "found {outputs} with two labels or more, expected {least}",
    Cause.LABELS_UNSURE: (
        "settled labels would be right in {stated:.0%} by their own estimate, expected {least:.0%}: these raters and "
        "judges err so often that a majority is better"
    ),
}
_COUNTED = {  # number -> name of its count with the noun, one, many
    "case_count": ("cases", "case", "cases"),
    "output_count": ("outputs", "output", "outputs"),
    "rated_count": ("rated", "rated output", "rated outputs"),
    "link_count": ("links", "case", "cases"),
    "voice_count": ("voices", "rater or judge", "raters and judges"),
}


def reason_words(reason: Reason | str | None) -> str:
    """Reason as a clause; empty without one. A text, such as a reason stored in a table, is returned as it is."""
    if not isinstance(reason, Reason):
        return reason or ""
    numbers = dict(reason.numbers)
    nouns = {
        name: counted(int(numbers[number]), one, many)
        for number, (name, one, many) in _COUNTED.items()
        if number in numbers
    }
    return _TEMPLATES[reason.cause].format(**numbers, **nouns)


def asdict_in_words(instance: Any) -> dict[str, Any]:
    """Fields of a dataclass and nested ones, as `dataclasses.asdict`, with reasons as sentences."""
    return asdict(instance, dict_factory=_in_words)


def _in_words(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: reason_words(value) if isinstance(value, Reason) else value for name, value in fields}
