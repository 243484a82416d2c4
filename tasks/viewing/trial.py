"""Trial of a changed rubric on ten cases of a run, without a new run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from gradebook.rubrics.model.conditions import unmet_words
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.methods import compares_with_baseline
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.scores import ScoreRule
from gradebook.rubrics.prompts.prompt import criterion_digest
from gradebook.rubrics.text.wording import counted, price_words, score_words
from gradebook.tasks.comparing.sides import question_changes
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.stored_run import read_stored_run
from gradebook.tasks.rewards.outputs import CriterionScore, ReadOutput, stored_outputs
from gradebook.tasks.rewards.scorer import RubricScorer, ledger_id_of, score_stored
from gradebook.tasks.viewing.cases import CaseFilters, baseline_of

MOST_CASES = 10
MOST_TRIALS = 20  # of a server, each at its whole budget
DEADLINE_S = 120.0
STORED, JUDGED, COMPUTED = "the run's verdicts", "the judge", "computed"
_PAID = "select count(*), coalesce(sum(cost_usd), 0), count(*) - count(cost_usd) from judgments where run_id = ?"
_OWN = "select count(*) from case_criteria where run_id = ?"


@dataclass(frozen=True, slots=True)
class TrialCell:
    """Verdict on a criterion before and after: a level, or a score where there is none; "–" where unscored.

    share: the score after, 0..1. note: why there is no score, or the judge's reason for another one.
    """

    before: str
    after: str
    share: float | None
    is_changed: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class TrialRow:
    """Output of a case with its overall scores before and after, and a cell a criterion. address: of the case."""

    case_id: str
    model: str
    address: str
    before: str
    after: str
    cells: tuple[TrialCell, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """Levels of some cases of a run before and after a change.

    criteria: id and source of the verdicts after the change. summary: what was asked and what it cost, in sentences.
    """

    run_id: str
    criteria: tuple[tuple[str, str], ...]
    rows: tuple[TrialRow, ...]
    summary: tuple[str, ...]


class Trials:
    """Trials of a server, one at a time. budget_usd: maximum spend of one; all together have 20 times that."""

    def __init__(self, lake: Lake, judge: str | None, budget_usd: float) -> None:
        self._lake, self._judge, self._budget_usd = lake, judge, budget_usd
        self._spent_usd = 0.0
        self._lock = Lock()

    def run(self, rubric: Rubric, run_id: str) -> Trial:
        """Score cases of a run by a rubric. Criteria that ask the same keep the run's verdicts; the rest is scored.

        Replies of the judge go to the ledger, and a later run uses them. Raises `InputError` for a run that is not
        there, for a judge or a function that can't be used, and while another trial is at work.
        """
        if not self._lock.acquire(blocking=False):
            raise InputError("try", "another trial that is at work", "its end: try again then")
        try:
            return self._run(rubric, run_id)
        finally:
            self._lock.release()

    def _run(self, rubric: Rubric, run_id: str) -> Trial:
        with connect_up_to_date(self._lake, is_pinned=True) as connection:
            run = read_stored_run(connection, self._lake, run_id)
            chosen = read_rows(connection, query("viewing/tried_outputs"), run_id=run_id, most=MOST_CASES)
            output_ids = [row["output_id"] for row in chosen]
            cells = read_rows(connection, query("viewing/output_cells"), run_id=run_id, output_ids=output_ids)
            outputs = stored_outputs(connection, output_ids)
            has_own = bool(connection.execute(_OWN, [run_id]).fetchone() != (0,))
        before = {(row["output_id"], row["criterion_id"]): row for row in cells}
        scored = {criterion_id for _, criterion_id in before}
        olds = {criterion.id: criterion for criterion in run.rubric.criteria}
        changed = [
            criterion
            for criterion in rubric.criteria
            if criterion.id not in scored
            or criterion.id not in olds
            or not _asks_the_same(olds[criterion.id], criterion, run.rubric, rubric)
        ]
        after = {
            (output_id, criterion.id): _reused(before.get((output_id, criterion.id)), olds[criterion.id], criterion)
            for criterion in rubric.criteria
            if criterion not in changed
            for output_id in output_ids
        }
        fresh, sentences = self._score(rubric, changed, outputs, baseline_of(run.row))
        after |= fresh
        rows = [_row(run_id, rubric, row, before, after, has_own=has_own) for row in chosen]
        if has_own:
            sentences += ("These cases have criteria of their own: no overall score is computed here.",)
        if removed := [name for name in olds if name not in {criterion.id for criterion in rubric.criteria}]:
            sentences += (f"Left out: {', '.join(removed)}.",)
        if len(outputs) < len(chosen):
            sentences += (f"{counted(len(chosen) - len(outputs), 'output')} no longer as judged: not scored anew.",)
        sources = tuple((criterion.id, _source(criterion, criterion in changed)) for criterion in rubric.criteria)
        return Trial(run_id, sources, tuple(rows), sentences)

    def _score(
        self, rubric: Rubric, criteria: Sequence[Criterion], outputs: Sequence[ReadOutput], baseline: str | None
    ) -> tuple[dict[tuple[str, str], CriterionScore], tuple[str, ...]]:
        """Verdicts on criteria by output and criterion, and sentences on what was asked."""
        if not criteria or not outputs:
            return {}, ("No criterion asks anything new: nothing was asked, $0.",)
        is_asked = any(criterion.method.is_asked for criterion in criteria)
        left_usd = MOST_TRIALS * self._budget_usd - self._spent_usd
        judge = self._judge if is_asked and left_usd > 0 else None
        comparing = baseline if any(compares_with_baseline(criterion.method) for criterion in criteria) else None
        with RubricScorer(
            _alone(rubric, criteria),
            judge,
            deadline_s=DEADLINE_S,
            budget_usd=None if judge is None else min(self._budget_usd, left_usd),
            lake=self._lake if judge or comparing else None,
            baseline=comparing,
        ) as scorer:
            scores = score_stored(scorer, outputs)
        verdicts = {(score.output_id, name): verdict for score in scores for name, verdict in score.criteria.items()}
        if not is_asked:
            return verdicts, ("No judge was needed: nothing was asked, $0.",)
        if self._judge is None:
            return verdicts, ("No judge was asked: start the server with --judge to try judged criteria.",)
        if judge is None:
            return verdicts, ("The budget of all trials of this server is spent: nothing was asked.",)
        sentences = self._paid(scorer, criteria)
        if any(_is_budget_reached(verdict) for verdict in verdicts.values()):
            sentences += ("The budget of a trial did not suffice: start the server with a larger --try-budget-usd.",)
        return verdicts, sentences

    def _paid(self, scorer: RubricScorer, criteria: Sequence[Criterion]) -> tuple[str, ...]:
        """Sentence on the questions to the judge and their price, by the ledger."""
        with connect_up_to_date(self._lake) as connection:
            row = connection.execute(_PAID, [ledger_id_of(scorer)]).fetchone() or (0, 0.0, 0)
        count, cost_usd, unpriced_count = row
        self._spent_usd += cost_usd
        names = ", ".join(criterion.id for criterion in criteria if criterion.method.is_asked)
        price = price_words(cost_usd) + (" and what has no price" if unpriced_count else "")
        asked = f"{scorer.judge} gave {counted(count, 'new reply', 'new replies')} on {names}: {price}"
        return (f"{asked}, at most {price_words(self._budget_usd)} a trial. A later run uses these replies.",)


def _asks_the_same(old: Criterion, new: Criterion, old_rubric: Rubric, new_rubric: Rubric) -> bool:
    """Whether old verdicts hold: only weight, gate, threshold, or the scores of levels that a judge named changed."""
    if old.applies != new.applies:
        return False
    if not question_changes(old, new, old_rubric, new_rubric):
        return True
    is_judged = old.method.type == new.method.type == "judge" and old.method == new.method
    return is_judged and criterion_digest(old) == criterion_digest(new)


def _reused(verdict: Row | None, old: Criterion, new: Criterion) -> CriterionScore:
    """Verdict of the run, with the level's score in the new text."""
    unscored = CriterionScore(new.id, new.description, new.method.type, None)
    if verdict is None:
        return unscored
    scores = [{level.id: level.score for level in criterion.ranked_levels} for criterion in (old, new)]
    score, level_id = verdict["score"], verdict["level_id"]
    if level_id in scores[0] and score == scores[0][level_id]:
        score = scores[1].get(level_id)
    return unscored._replace(score=score, level_id=level_id, reason=verdict["reason"])


def _alone(rubric: Rubric, criteria: Sequence[Criterion]) -> Rubric:
    """Rubric of some criteria, each with weight 1: their verdicts do not depend on weights, gates and thresholds."""
    plain = {"weight": None, "gate": False, "threshold": None, "category": None, "max_failure_rate": None}
    kept = tuple(criterion.model_copy(update=plain) for criterion in criteria)
    whole = {"pass_threshold": None, "weight_sum": None, "require_thresholds": False, "categories": (), "overall": None}
    return rubric.model_copy(update=whole | {"criteria": kept})


def _source(criterion: Criterion, is_changed: bool) -> str:
    if not is_changed:
        return STORED
    return JUDGED if criterion.method.is_asked else COMPUTED


def _row(
    run_id: str,
    rubric: Rubric,
    row: Row,
    before: Mapping[tuple[str, str], Row],
    after: Mapping[tuple[str, str], CriterionScore],
    *,
    has_own: bool,
) -> TrialRow:
    names = [criterion.id for criterion in rubric.criteria]
    verdicts = {name: after.get((row["output_id"], name)) for name in names}
    total = None
    if not has_own:
        scores = {name: None if verdict is None else verdict.score for name, verdict in verdicts.items()}
        unmet = {name for name, verdict in verdicts.items() if verdict and unmet_words(verdict.reason) is not None}
        total = ScoreRule(rubric).score(scores, unmet=unmet).score
    return TrialRow(
        row["case_id"],
        model_name(row),
        CaseFilters().case_address(run_id, row["case_id"]),
        score_words(row["score"]),
        score_words(total),
        tuple(_cell(before.get((row["output_id"], name)), verdicts[name]) for name in names),
    )


def _is_budget_reached(verdict: CriterionScore) -> bool:
    return (verdict.reason or "").startswith("budget_reached")


def _cell(before: Row | None, after: CriterionScore | None) -> TrialCell:
    old = "–" if before is None else _words(before["level_id"], before["score"])
    if after is None:
        return TrialCell(old, "–", None, False)
    new = _words(after.level_id, after.score)
    reason = "not asked: the budget of a trial" if _is_budget_reached(after) else after.reason
    note = (reason or "no reason given") if after.score is None else after.rationale or after.evidence or ""
    return TrialCell(old, new, after.score, new != old, note)


def _words(level_id: str | None, score: float | None) -> str:
    return "–" if score is None else level_id or score_words(score)
