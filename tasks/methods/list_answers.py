"""Methods whose judges are asked about parts of outputs: claims, steps, pairs of answers."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.judging.opinions.parts import PartList, Scale, is_unsure
from gradebook.tasks.judging.replies.list_questions import ListAnswer, ListQuestion, asked_judge
from gradebook.tasks.judging.session.session import JudgingSession, Session
from gradebook.tasks.judging.settings.judge import FIRST, Judge, Opinion
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.ledger.ledger import held_judgments
from gradebook.tasks.methods.judge_shard import SavedCosts, judge_slot
from gradebook.tasks.methods.method import NO_JUDGE, ScoringMethod, ScoringSetup, leave_unscored
from gradebook.tasks.planning.estimates import ListCount, ListPlanner, OpinionEstimate
from gradebook.tasks.planning.plan import MethodPlan, Planning
from gradebook.tasks.workspace.timings import Timing

Answers = Mapping[str, ListAnswer]
Said = TypeVar("Said")


class ListAsker:
    """Asker of one of a run's judges, for questions that the ledger does not answer."""

    def __init__(
        self, run_id: str, lake: Lake | None, session: JudgingSession, timing: Timing, saved: SavedCosts
    ) -> None:
        """lake: lake with earlier replies in its ledger; None: no earlier replies."""
        self._run_id, self._lake, self._session = run_id, lake, session
        self._timing, self._saved = timing, saved
        self.judge = asked_judge(session.settings)

    def ask(self, questions: Iterable[ListQuestion]) -> Answers:
        """Answers by request key; equal questions are asked once."""
        return ask_judges([(self, questions)])

    def stored_answers(self, wanted: Sequence[str]) -> dict[str, ListAnswer]:
        """Answers of the ledger by request key."""
        judgments = held_judgments(self._lake, list(wanted)) if wanted and self._lake is not None else {}
        answers = {
            key: ListAnswer(
                key, row["rationale"], None, 0, row["run_id"], row["cost_usd"], row["level_id"], row["evidence"]
            )
            for key, row in judgments.items()
        }
        costs = {key: answer.cost_usd for key, answer in answers.items() if answer.paid_by != self._run_id}
        self._saved.count(self._timing, len(costs), costs)
        return answers

    def lease(self, questions: Iterable[ListQuestion]) -> None:
        """Lease questions before they are asked."""
        self._session.lease_also(question.request_key for question in questions)

    def ask_all(self, questions: Iterable[ListQuestion], answers: dict[str, ListAnswer]) -> None:
        """Ask the judge and add its answers. Raises as `JudgingSession.ask`."""

        def keep(answer: ListAnswer) -> None:
            answers[answer.request_key] = answer

        with judge_slot(self._session.settings):
            self._session.ask(questions, keep)


@dataclass(frozen=True, slots=True)
class ListJudges:
    """Judges of a run that are asked about parts of outputs. sessions: of the judge's members, in order."""

    run_id: str
    judge: Judge
    sessions: tuple[Session, ...]
    lake: Lake | None
    timing: Timing
    saved: SavedCosts

    @property
    def writer(self) -> ListAsker:
        """Asker of the member that extracts the claims, so that all members verify the same claims."""
        return self._asker(self.judge.writer_index)

    @property
    def has_program(self) -> bool:
        """Whether one of the judges is a program, which answers a whole file at a time."""
        return any(settings.batch_command is not None for settings in self.judge.online)

    def ask_votes(
        self,
        criterion_id: str,
        scale: Scale,
        lists: Sequence[PartList[Said]],
        opinions: Sequence[Opinion] | None = None,
    ) -> None:
        """Add the votes on all lists; the second judge of a cascade is asked only if the first is unsure.

        opinions: the votes wanted; None: those of `Judge.list_votes`.
        """
        judge = self.judge
        opinions = judge.list_votes(criterion_id) if opinions is None else opinions
        if judge.when is not None:
            self._add_votes([opinion for opinion in opinions if opinion.judge_index == FIRST], lists)
            opinions = [opinion for opinion in opinions if opinion.judge_index != FIRST]
            lists = [part_list for part_list in lists if is_unsure(judge.when, scale, part_list.votes)]
        self._add_votes(opinions, lists)

    def _add_votes(self, opinions: Sequence[Opinion], lists: Sequence[PartList[Said]]) -> None:
        """Add these votes on all lists; all judges are asked concurrently."""
        askers = {index: self._asker(index) for index in dict.fromkeys(opinion.judge_index for opinion in opinions)}
        by_judge: dict[int, list[ListQuestion]] = {index: [] for index in askers}
        votes: list[tuple[PartList[Said], Opinion, ListQuestion]] = []
        for row, opinion in self.judge.drawn_votes(opinions, [part_list.output_id for part_list in lists]):
            question = lists[row].question(askers[opinion.judge_index].judge, opinion.replicate)
            by_judge[opinion.judge_index].append(question)
            votes.append((lists[row], opinion, question))
        answers = ask_judges([(askers[index], questions) for index, questions in by_judge.items()])
        for part_list, opinion, question in votes:
            answer = answers[question.request_key]
            part_list.add(opinion, answer)

    def _asker(self, judge_index: int) -> ListAsker:
        session = self.sessions[judge_index]
        if not isinstance(session, JudgingSession):
            raise TypeError(f"found {type(session).__name__}, expected a judge that is asked over the network")
        return ListAsker(self.run_id, self.lake, session, self.timing, self.saved)


def ask_judges(requests: Iterable[tuple[ListAsker, Iterable[ListQuestion]]]) -> Answers:
    """Answers of several judges by request key, asked concurrently; a fault of one judge stops all."""
    answers: dict[str, ListAnswer] = {}
    missing: list[tuple[ListAsker, list[ListQuestion]]] = []
    for asker, questions in requests:
        new_questions = {
            question.request_key: question for question in questions if question.request_key not in answers
        }
        asked_before = {
            question.request_key for _, of_other in missing for question in of_other
        }  # keys that an equal judge is asked already
        answers |= asker.stored_answers([key for key in new_questions if key not in asked_before])
        unanswered = [
            question for key, question in new_questions.items() if key not in answers and key not in asked_before
        ]
        asker.lease(unanswered)
        missing.append((asker, unanswered))
    if len(missing) == 1:
        missing[0][0].ask_all(missing[0][1], answers)
        return answers
    is_stopped = threading.Event()
    with ThreadPoolExecutor(max(len(missing), 1), thread_name_prefix="asking") as threads:
        futures = [
            threads.submit(_ask_or_stop, asker, unanswered, answers, is_stopped) for asker, unanswered in missing
        ]
    for future in futures:
        future.result()
    return answers


def _ask_or_stop(
    asker: ListAsker, questions: Sequence[ListQuestion], answers: dict[str, ListAnswer], is_stopped: threading.Event
) -> None:
    def until_stopped() -> Iterator[ListQuestion]:
        for question in questions:
            if is_stopped.is_set():
                return
            yield question

    try:
        asker.ask_all(until_stopped(), answers)
    except BaseException:
        is_stopped.set()
        raise


class ListMethod(ScoringMethod):
    """Method whose judge is not asked for one level of an output, but about its parts."""

    def plan(self, planning: Planning, criteria: Sequence[Criterion]) -> MethodPlan:
        """Count the requests of each criterion, and price them by each judge's past."""
        estimates, asked_indices = dict[str, list[OpinionEstimate]](), set[int]()
        asking = planning.asking if criteria else None
        if asking is None:
            return MethodPlan()
        members = asking.judge.members
        for criterion in criteria:
            counts = self.count(planning, asking.lists, criterion)
            asked_indices |= {index for index, count in counts.items() if count.request_count}
            opinion_estimates = [
                OpinionEstimate(
                    count.replayed_count,
                    count.request_count,
                    count.request_count,
                    count.at_most_count,
                    count.estimate(asking.past.histories[index], model, criterion.id),
                )
                for index, count in counts.items()
                if (model := members[index].as_model) is not None
            ]
            if counts:
                estimates[criterion.id] = opinion_estimates
        return MethodPlan(estimates, frozenset(asked_indices))

    def count(self, planning: Planning, lists: ListPlanner, criterion: Criterion) -> Mapping[int, ListCount]:
        """Requests for one criterion, by index of the judge's member; none for recorded replies."""
        raise NotImplementedError

    def score_shard(
        self, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Score a shard's outputs as `score_by`; leave them unscored without a judge that can be asked."""
        judged = setup.judged
        if judged is not None and judged.judge.list_votes(criterion.id):
            judges = ListJudges(setup.folder.run_id, judged.judge, setup.sessions, setup.lake, timing, judged.saved)
            return self.score_by(judges, setup, criterion, shard, shard_index)
        reason = NO_JUDGE if judged is None else self.unrecorded
        return leave_unscored(setup.folder.run_id, criterion, pq.read_table(shard, columns=["output_id"]), reason)

    def score_by(
        self, judges: ListJudges, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int
    ) -> pa.Table:
        """Score a shard's outputs by the judges' replies: `VERDICT_SCHEMA`, one row per output, in its order.

        Writes details to the run's folder. Replies in the ledger are not asked for again. Raises as
        `JudgingSession.ask`; replies until then are in the journal.
        """
        raise NotImplementedError
