"""Plan of criteria judged by claims, steps or pairs: which replies the ledger has, and what the others cost."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import duckdb

from gradebook.rubrics.model.methods import ClaimsMethod, PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import Taxonomy
from gradebook.rubrics.prompts.claims import CLAIMS_AT_ONCE, Claim, claims_of
from gradebook.tasks.judging.money.prices import prompt_bytes
from gradebook.tasks.judging.replies.claim_questions import (
    ClaimUnit,
    claim_units,
    extraction_questions,
    known_claims,
    verification_questions,
)
from gradebook.tasks.judging.replies.list_question import ListQuestion
from gradebook.tasks.judging.replies.step_questions import step_criterion, step_questions, step_unit
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.lake.sql import query
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.planning.estimates import Estimate, History, estimate_questions, held_rationales
from gradebook.tasks.planning.preferences import read_pairs
from gradebook.tasks.workspace.folder import RunFolder

USUAL_CLAIM = "x" * 100
USUAL_TOKENS_OF_STEP = 80.0  # a quote, a sentence, a label and an error
USUAL_CLAIMS_OF_SENTENCE = 1.5  # until the lake has claims


@dataclass(slots=True)
class ListCount:
    """Requests of a criterion. replayed_count: replies in the ledger; request_count: the others, partly estimated."""

    replayed_count: int = 0
    request_count: int = 0
    byte_count: int = 0
    step_count: int = 0  # steps in the requests, of a criterion that labels steps

    def estimate(self, history: History, judge: JudgeSettings, criterion_id: str) -> Estimate:
        """Estimate of the requests' cost by the judge's past."""
        usual = (
            self.step_count / self.request_count * USUAL_TOKENS_OF_STEP
            if self.request_count and self.step_count
            else None
        )
        return estimate_questions(
            history,
            judge,
            criterion_id,
            self.request_count,
            self.byte_count,
            is_first=True,
            usual_tokens=usual,
        )


class ListPlanner:
    """Counts of the requests that such criteria take, shard by shard."""

    def __init__(
        self,
        ledger: duckdb.DuckDBPyConnection,
        folder: RunFolder,
        judge: JudgeSettings,
        taxonomy: Taxonomy | None,
    ) -> None:
        """ledger: with the view held_judgments. folder: of the run, with its pairs of answers."""
        self._ledger, self._folder, self._judge, self._taxonomy = ledger, folder, judge, taxonomy
        self._claims_of_sentence = _claims_of_sentence(ledger)
        self._seen: set[str] = set()  # keys of requests of an earlier criterion, which are sent once

    def count(self, criterion: Criterion, shards: Sequence[str]) -> ListCount:
        """Requests for one criterion. Raises `TypeError` for a criterion of another method."""
        if criterion.is_stepwise:
            return self._count_steps(criterion, shards)
        if isinstance(criterion.method, PreferenceMethod):
            return self._count_preferences(criterion, shards)
        method = criterion.method
        if not isinstance(method, ClaimsMethod):
            raise TypeError(f"{criterion.id}: found the method {method.type}, expected claims")
        found = ListCount()
        for shard in shards:
            units = [
                unit
                for output_id, case in read_cases(shard)
                for unit in claim_units(method, output_id, case)
                if unit.reason is None
            ]
            verified = list(self._verified(criterion, method, units, found))
            self._add([question for questions in verified for question in questions], found)
        return found

    def _count_preferences(self, criterion: Criterion, shards: Sequence[str]) -> ListCount:
        found = ListCount()
        for index, shard in enumerate(shards):
            pairs = read_pairs(self._folder, criterion.id, shard, index)
            digest = self._judge.judge_digest
            self._add([question for pair in pairs for question in pair.questions(criterion, digest)], found)
        return found

    def _count_steps(self, criterion: Criterion, shards: Iterable[str]) -> ListCount:
        asked, found = step_criterion(criterion, self._taxonomy), ListCount()
        for shard in shards:
            units = (step_unit(asked, *case) for case in read_cases(shard, with_steps=True))
            digest = self._judge.judge_digest
            questions = [(unit, list(step_questions(asked, unit, digest))) for unit in units]
            held = self._add([each for _, of_unit in questions for each in of_unit], found)
            found.step_count += sum(
                len(steps)
                for unit, of_unit in questions
                for steps, each in zip(unit.windows, of_unit, strict=False)
                if each.request_key not in held
            )
        return found

    def _verified(
        self, criterion: Criterion, method: ClaimsMethod, units: Sequence[ClaimUnit], found: ListCount
    ) -> Iterator[list[ListQuestion]]:
        """Questions that verify the claims that are known; the others are added to `found` as an estimate."""
        digest = self._judge.judge_digest
        known = [(unit, list(known_claims(method, unit) or ())) for unit in units]
        asked = [
            (unit, list(extraction_questions(unit, criterion.id, digest)))
            for unit in units
            if known_claims(method, unit) is None
        ]
        held = self._add([question for _, questions in asked for question in questions], found)
        if asked:
            known = []
            for unit, questions in asked:
                if all(question.request_key in held for question in questions):
                    asked_of = zip(unit.windows, questions, strict=True)
                    claims = [each for window, one in asked_of for each in claims_of(held[one.request_key], window)[0]]
                    known.append((unit, claims))
                else:
                    self._guess(unit, found)
        for unit, claims in known:
            checked = [claim for claim in claims if claim.kind == "verifiable"]
            yield list(verification_questions(unit, checked, criterion.id, digest))

    def _guess(self, unit: ClaimUnit, found: ListCount) -> None:
        """Add the requests that verify the claims of a text before they are known."""
        sentence_count = sum(len(window.sentences) for window in unit.windows)
        usual = Claim(0, 0, 0, USUAL_CLAIM, USUAL_CLAIM, "verifiable")
        claims = [usual] * round(sentence_count * self._claims_of_sentence)
        (one, *_), count = [*verification_questions(unit, claims[:CLAIMS_AT_ONCE], "", ""), None], 0
        if one is not None:
            count = -(-len(claims) // CLAIMS_AT_ONCE)
            found.byte_count += count * prompt_bytes(one.render(), one.schema)
        found.request_count += count

    def _add(self, questions: Sequence[ListQuestion], found: ListCount) -> dict[str, str]:
        """Add questions; returns the replies that the ledger has, by request key."""
        keys = dict.fromkeys(question.request_key for question in questions)
        held = held_rationales(self._ledger, keys)
        found.replayed_count += len(held)
        for question in questions:
            if question.request_key not in held and question.request_key not in self._seen:
                self._seen.add(question.request_key)
                found.request_count += 1
                found.byte_count += prompt_bytes(question.render(), question.schema)
        return held


def _claims_of_sentence(ledger: duckdb.DuckDBPyConnection) -> float:
    """Claims to verify for each sentence, as earlier runs found them."""
    try:
        ((found,),) = ledger.execute(query("planning/claims_of_sentence")).fetchall()
    except duckdb.CatalogException:  # no lake yet, or one of an earlier gradebook
        return USUAL_CLAIMS_OF_SENTENCE
    return USUAL_CLAIMS_OF_SENTENCE if found is None else float(found)
