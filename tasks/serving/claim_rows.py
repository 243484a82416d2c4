"""Claims of an output as rows of a rating sheet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradebook.rubrics.model.claim_marks import CLAIM_LEVELS, ClaimMark, describe_marks, score_marks
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import ClaimsMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.ratings.rating_store import Mark

MOST_CLAIM_ROWS = 200  # of a criterion


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """Claim of the output, or of its reference, as a row of the sheet. criterion_id: that the verdicts rate.

    quote: words of the source that the judge named, shown on request; its verdict is not shown.
    """

    criterion_id: str
    question: str
    method: ClaimsMethod
    number: int
    side: str
    claim: str
    sentence: str
    quote: str

    @property
    def ranked_levels(self) -> tuple[Level, ...]:
        """Verdicts, worst first."""
        return CLAIM_LEVELS

    @property
    def details(self) -> dict[str, str]:
        """Columns that name the claim in the table `claim_ratings`."""
        return {"criterion_id": self.criterion_id, "side": self.side, "claim": self.claim}


def claim_rows(criterion: Criterion, claims: Sequence[Mapping[str, str]]) -> dict[str, ClaimRow]:
    """Rows of the claims that a run found, by name: the criterion's id and the claim's number, from 1."""
    method = criterion.method
    if not isinstance(method, ClaimsMethod):
        return {}
    rows = (
        ClaimRow(criterion.id, criterion.description, method, number, **each)
        for number, each in enumerate(claims[:MOST_CLAIM_ROWS], 1)
    )
    return {f"{row.criterion_id}.{row.number}": row for row in rows}


def claim_scores(rows: Mapping[str, object], content: Mapping[str, str]) -> Iterator[Mark]:
    """Rating of each criterion whose claims a sheet marks: the score that the verdicts make, if they make one."""
    marks: dict[str, list[ClaimMark]] = {}
    methods: dict[str, ClaimsMethod] = {}
    known = {level.id for level in CLAIM_LEVELS}
    for name, row in rows.items():
        if isinstance(row, ClaimRow):
            chosen = content.get(f"level.{name}", "")
            mark = ClaimMark(row.side, row.claim, chosen if chosen in known else None)
            marks.setdefault(row.criterion_id, []).append(mark)
            methods[row.criterion_id] = row.method
    for criterion_id, of_criterion in marks.items():
        score = score_marks(methods[criterion_id].measure, of_criterion)
        yield Mark(criterion_id, None, score, None if score is None else describe_marks(of_criterion))
