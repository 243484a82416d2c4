"""Verdicts on claims, by a judge or by people, and the score from them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import ClaimMeasure

CLAIM_LEVELS = (
    Level(id="contradicted", score=0, description="The source says otherwise."),
    Level(id="not_in_source", score=0.5, description="The source neither says nor denies it, or says only a part."),
    Level(id="supported", score=1, description="The source says it, or it follows from the source alone."),
)


class ClaimMark(NamedTuple):
    """A person's verdict on a claim.

    verdict: id of one of `CLAIM_LEVELS`; None if no verdict applies, or the mark was withdrawn. side: the text that
    makes the claim, output or reference; claim: its text, as a run found it.
    """

    side: str
    claim: str
    verdict: str | None
    rationale: str | None = None


def score_claims_of(measure: ClaimMeasure, verdicts: Mapping[str, Sequence[str]]) -> float | None:
    """Score in 0..1; None for a measure that needs more than verdicts. verdicts: by side, one or more each."""
    shares = [of_side.count("supported") / len(of_side) for of_side in verdicts.values()]
    match measure:
        case "supported" | "recall":
            return shares[0]
        case "not_contradicted":
            (of_side,) = verdicts.values()
            return 1 - of_side.count("contradicted") / len(of_side)
        case "f1" if len(shares) == 2:
            return 2 * shares[0] * shares[1] / sum(shares) if sum(shares) else 0.0
        case _:
            return None


def score_marks(measure: ClaimMeasure, marks: Sequence[ClaimMark]) -> float | None:
    """Score from a person's marks; None without an applicable mark, or as `score_claims_of`."""
    verdicts: dict[str, list[str]] = {}
    for mark in marks:
        if mark.verdict is not None:
            verdicts.setdefault(mark.side, []).append(mark.verdict)
    return score_claims_of(measure, verdicts) if verdicts else None


def describe_marks(marks: Sequence[ClaimMark]) -> str:
    """Counts of a person's marks: "4 of 6 claims supported, 1 contradicted, 1 not in source"."""
    counts = Counter(mark.verdict for mark in marks if mark.verdict is not None)
    other_counts = [
        f"{counts[name]} {name.replace('_', ' ')}" for name in ("contradicted", "not_in_source") if counts[name]
    ]
    return ", ".join([f"{counts['supported']} of {counts.total()} claims supported", *other_counts])
