"""Reasons why a figure or its interval is missing. Their sentences are in `rubrics/text/reasons.py`."""

from enum import StrEnum, auto
from typing import NamedTuple


class Cause(StrEnum):
    """Cause of a missing figure. In brackets: names of its numbers in `Reason`."""

    # Of agreement.
    NOT_TWO_RATERS = auto()  # (rater_count)
    ONE_AGAINST_OTHERS = auto()
    MANY_LEVELS = auto()  # (most)
    FEW_COMPLETE = auto()
    EQUAL_OR_FEW = auto()
    SIDE_EQUAL = auto()
    OTHER_SIDE_EQUAL = auto()
    OUTPUT_MEANS_EQUAL = auto()
    OUTPUT_MEANS_ALIKE = auto()
    MANY_PAIRS = auto()  # (most)
    MOSTLY_EQUAL = auto()  # (share, varied_count, case_count, least)
    NO_PAIRS = auto()
    FEW_WITH_PEOPLE = auto()
    NO_OTHER_RATER = auto()
    # Of intervals over cases.
    ONE_CASE = auto()
    FEW_CASES = auto()  # (case_count, least)
    TWO_RATERS = auto()
    UNDEFINED_WITHOUT_ONE = auto()
    NO_WIDTH = auto()
    # Of means.
    NO_SCORES = auto()
    FEW_OUTPUTS = auto()
    NONE_RATED = auto()
    FEW_RATED = auto()  # (rated_count, least)
    RATINGS_EQUAL = auto()
    STILL_WIDE = auto()  # (total, share)
    FEW_AT_SCORE = auto()  # (least, low, share)
    FEW_AT_SCORES = auto()  # (least, low, high, share)
    LEVEL_UNSEEN = auto()  # (high_count, low_count, unrated_count)
    JUDGE_BY_CHANCE = auto()
    RATERS_APART = auto()
    # Of rankings and settled labels.
    NEVER_BEATEN = auto()
    ONLY_TIED = auto()
    FEW_RANKED_CASES = auto()  # (case_count, least)
    THIN_LINK = auto()  # (link_count, least)
    FEW_VOICES = auto()  # (voice_count, least)
    FEW_TWICE_LABELLED = auto()  # (output_count, least)
    LABELS_UNSURE = auto()  # (stated, least)


class Reason(NamedTuple):
    """Cause with its numbers by name.

    A tuple, not a dataclass: `dataclasses.asdict` gives it as a whole to its `dict_factory`.
    """

    cause: Cause
    numbers: tuple[tuple[str, float], ...] = ()


def reason_of(cause: Cause, **numbers: float) -> Reason:
    return Reason(cause, tuple(numbers.items()))
