"""Answers to questions about claims, steps and preferences, from the ledger or from the judges."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from gradebook.tasks.judging.opinions.parts import PartList, Scale, is_unsure
from gradebook.tasks.judging.replies.list_question import ListAnswer, ListQuestion
from gradebook.tasks.judging.session.session import JudgingSession, Session
from gradebook.tasks.judging.settings.panels import (
    FIRST,
    CascadeSettings,
    Judge,
    Opinion,
    drawn_opinions,
    list_opinions,
    members_of,
    online_members,
    writer_of,
)
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.ledger.ledger import held_judgments
from gradebook.tasks.scoring.judge_shard import SavedCosts, judge_slot
from gradebook.tasks.workspace.timings import Timing

Answers = Mapping[str, ListAnswer]
Said = TypeVar("Said")


class ListAsker:
    """Asks one of a run's judges what the ledger does not answer."""

    def __init__(self, run_id: str, lake: Lake, session: JudgingSession, timing: Timing, saved: SavedCosts) -> None:
        self._run_id, self._lake, self._session = run_id, lake, session
        self._timing, self._saved = timing, saved
        self.judge_digest: str = session.settings.judge_digest

    def ask(self, questions: Iterable[ListQuestion]) -> Answers:
        """Answer by request key; equal questions are one."""
        return ask_judges([(self, questions)])

    def held(self, wanted: Sequence[str]) -> dict[str, ListAnswer]:
        """Answers of the ledger by request key."""
        answers = {
            key: ListAnswer(
                key, row["rationale"], None, 0, row["run_id"], row["cost_usd"], row["level_id"], row["evidence"]
            )
            for key, row in (held_judgments(self._lake, list(wanted)) if wanted else {}).items()
        }
        costs = {key: answer.cost_usd for key, answer in answers.items() if answer.paid_by != self._run_id}
        self._saved.count(self._timing, len(costs), costs)
        return answers

    def lease(self, questions: Iterable[ListQuestion]) -> None:
        """Lease what is going to be asked."""
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
    lake: Lake
    timing: Timing
    saved: SavedCosts

    @property
    def writer(self) -> ListAsker:
        """The one that finds claims, so that all members verify the same ones."""
        return self._asker(members_of(self.judge).index(writer_of(self.judge)))

    @property
    def has_program(self) -> bool:
        """Whether a program answers for one of the judges, a file at a time."""
        return any(each.batch_command is not None for each in online_members(self.judge))

    def ask_votes(
        self,
        criterion_id: str,
        scale: Scale,
        lists: Sequence[PartList[Said]],
        opinions: Sequence[Opinion] | None = None,
    ) -> None:
        """Add the votes on all lists; the second judge of a cascade is asked where the first one is unsure.

        opinions: the votes wanted; None: those of `list_opinions`.
        """
        judge = self.judge
        opinions = list_opinions(judge, criterion_id) if opinions is None else opinions
        if isinstance(judge, CascadeSettings):
            self._add_votes([each for each in opinions if each.judge_index == FIRST], lists)
            opinions = [each for each in opinions if each.judge_index != FIRST]
            lists = [each for each in lists if is_unsure(judge, scale, each.votes)]
        self._add_votes(opinions, lists)

    def _add_votes(self, opinions: Sequence[Opinion], lists: Sequence[PartList[Said]]) -> None:
        """Add some votes on all lists, all judges asked at once."""
        askers = {index: self._asker(index) for index in dict.fromkeys(each.judge_index for each in opinions)}
        by_judge: dict[int, list[ListQuestion]] = {index: [] for index in askers}
        asked: list[tuple[PartList[Said], Opinion, ListQuestion]] = []
        for row, opinion in drawn_opinions(self.judge, opinions, [each.output_id for each in lists]):
            question = lists[row].question(askers[opinion.judge_index].judge_digest, opinion.replicate)
            by_judge[opinion.judge_index].append(question)
            asked.append((lists[row], opinion, question))
        answers = ask_judges([(askers[index], questions) for index, questions in by_judge.items()])
        for each, opinion, question in asked:
            answer = answers[question.request_key]
            each.add(opinion, answer)

    def _asker(self, judge_index: int) -> ListAsker:
        session = self.sessions[judge_index]
        if not isinstance(session, JudgingSession):
            raise TypeError(f"found {type(session).__name__}, expected a judge that is asked over the network")
        return ListAsker(self.run_id, self.lake, session, self.timing, self.saved)


def ask_judges(asked: Iterable[tuple[ListAsker, Iterable[ListQuestion]]]) -> Answers:
    """Answers of several judges by request key, asked at the same time; a fault of one ends the asking of all."""
    answers: dict[str, ListAnswer] = {}
    missing: list[tuple[ListAsker, list[ListQuestion]]] = []
    for asker, questions in asked:
        wanted = {each.request_key: each for each in questions if each.request_key not in answers}
        known = {each.request_key for _, of_other in missing for each in of_other}  # of an equal judge
        answers |= asker.held([key for key in wanted if key not in known])
        left = [each for key, each in wanted.items() if key not in answers and key not in known]
        asker.lease(left)
        missing.append((asker, left))
    if len(missing) == 1:
        missing[0][0].ask_all(missing[0][1], answers)
        return answers
    is_stopped = threading.Event()
    with ThreadPoolExecutor(max(len(missing), 1), thread_name_prefix="asking") as threads:
        begun = [threads.submit(_ask_or_stop, asker, left, answers, is_stopped) for asker, left in missing]
    for each in begun:
        each.result()
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
