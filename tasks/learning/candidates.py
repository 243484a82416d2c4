"""Changed questions about stored outputs, asked with the prompts and request keys that runs use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.tasks.judging.prices import find_price
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.rewards.asking import NOT_ASKED, Asking
from gradebook.tasks.rewards.outputs import ReadOutput, with_unmet

ASKED_BY = "learning-candidates"  # in place of a run's id in the ledger: these verdicts belong to no run


@dataclass(slots=True)
class CandidateJudge:
    """A judge within one budget for all candidates. budget_usd: maximum spend in US dollars; None: no limit.

    question_count, spent_usd: of all calls so far; replies in the ledger are free.
    """

    lake: Lake
    judge: Judge
    rubric: Rubric
    budget_usd: float | None = None
    spent_usd: float = 0.0
    question_count: int = 0
    _keys: dict[str, list[str]] = field(default_factory=dict)  # criterion's text -> request keys

    def scores(self, criterion: Criterion, outputs: Sequence[ReadOutput]) -> Floats:
        """Scores of outputs by a criterion, (output,), NaN where unscored.

        Replies are in the ledger afterwards, also after a failure. Raises `BudgetReached` or `EndpointUnavailable`.
        """
        if not outputs:
            return np.empty(0)
        left_usd = None if self.budget_usd is None else max(self.budget_usd - self.spent_usd, 0.0)
        asking = Asking(self._rubric_to_ask(criterion), self.judge, left_usd, self.lake, name=ASKED_BY)
        keys: list[str] = []
        try:
            batch = asking.start(with_unmet(self.rubric, outputs))
            batch.done.result()
            verdicts = asking.verdicts(batch, NOT_ASKED)
            keys = [question.request_key for question in batch.asked if question.criterion_id == criterion.id]
        finally:
            asking.close()
            self.spent_usd += self.costs(asking.run_id, keys)[2]
        self.question_count += len(outputs)
        scores = [verdicts[index, criterion.id].score for index in range(len(outputs))]
        self._keys.setdefault(repr(criterion), []).extend(keys)
        return np.array([math.nan if score is None else score for score in scores])

    def price(self, criterion: Criterion, output_count: int) -> float | None:
        """Mean judging cost of an output by this criterion, US dollars, also if another run paid; None if unknown."""
        keys = self._keys.get(repr(criterion), [])
        known_count, usd, _ = self.costs("", keys)
        return usd / output_count if output_count and known_count and usd > 0 else None

    @property
    def is_priced(self) -> bool:
        """Whether the price of each model is known, so that `spent_usd` is."""
        return all(find_price(member) is not None for member in self.judge.online)

    def _rubric_to_ask(self, criterion: Criterion) -> Rubric:
        """Rubric with this criterion alone; with all judged criteria if the judge batches criteria."""
        is_together = any(self.judge.asked_as(vote).packing_rule.is_packed for vote in self.judge.votes())
        criteria = self.rubric.judged_criteria if is_together else (criterion,)
        changed_criteria = tuple(criterion if known.id == criterion.id else known for known in criteria)
        return self.rubric.model_copy(update={"criteria": changed_criteria})

    def costs(self, asked_by: str, keys: Sequence[str]) -> tuple[int, float, float]:
        """(count of keys with a known cost, cost of their replies, part paid under `asked_by`); US dollars."""
        with connect_up_to_date(self.lake) as connection:
            (row,) = read_rows(connection, query("learning/reply_costs"), asked_by=asked_by, keys=[*keys])
        return int(row["known_count"]), float(row["usd"]), float(row["own_usd"])


def refuse_unaskable(judge: Judge) -> None:
    """Raise `InputError` for a judge without a member that can be asked a new question."""
    if not judge.online:
        raise InputError("--judge", f"{judge.judge}, recorded replies alone", "a judge that can be asked")
