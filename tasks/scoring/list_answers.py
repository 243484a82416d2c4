"""Answers to questions about claims, steps and preferences, from the ledger or from the judge."""

from collections.abc import Iterable, Mapping

from gradebook.tasks.judging.replies.list_question import ListAnswer, ListQuestion
from gradebook.tasks.judging.session.session import JudgingSession
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.ledger.ledger import held_judgments
from gradebook.tasks.workspace.timings import Timing


class ListAsker:
    """Asks a run's judge what the ledger does not answer."""

    def __init__(self, run_id: str, lake: Lake, session: JudgingSession, timing: Timing) -> None:
        self._run_id, self._lake, self._session, self._timing = run_id, lake, session, timing
        self.judge_digest: str = session.settings.judge_digest

    def ask(self, questions: Iterable[ListQuestion]) -> Mapping[str, ListAnswer]:
        """Answer by request key; equal questions are one."""
        wanted = {question.request_key: question for question in questions}
        answers = {
            key: ListAnswer(
                key, row["rationale"], None, 0, row["run_id"], row["cost_usd"], row["level_id"], row["evidence"]
            )
            for key, row in (held_judgments(self._lake, list(wanted)) if wanted else {}).items()
        }
        for answer in answers.values():
            if answer.paid_by != self._run_id:
                self._timing.replayed_count += 1
                saved = self._timing.saved_usd
                known = saved is not None and answer.cost_usd is not None
                self._timing.saved_usd = (saved or 0.0) + (answer.cost_usd or 0.0) if known else None
        missing = [question for key, question in wanted.items() if key not in answers]
        self._session.lease_also(question.request_key for question in missing)

        def keep(answer: ListAnswer) -> None:
            answers[answer.request_key] = answer

        self._session.ask(missing, keep)
        return answers
