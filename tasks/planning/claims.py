"""Plan of criteria judged by lists, of claims or of steps: which replies the ledger has, and what the others cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from gradebook.rubrics.model.methods import ClaimsMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import Taxonomy
from gradebook.rubrics.prompts.claims import CLAIMS_AT_ONCE, Claim, claims_of
from gradebook.rubrics.prompts.step_marks import StepCriterion, marks_of
from gradebook.tasks.judging.money.prices import prompt_bytes
from gradebook.tasks.judging.opinions.steps import StepVote, is_window_unsure
from gradebook.tasks.judging.replies.claim_questions import (
    ClaimUnit,
    claim_units,
    extraction_questions,
    known_claims,
    verification_questions,
)
from gradebook.tasks.judging.replies.list_question import ListQuestion
from gradebook.tasks.judging.replies.step_questions import StepUnit, step_criterion, step_questions, step_unit
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import (
    THEN,
    CascadeSettings,
    Judge,
    Opinion,
    drawn_opinions,
    members_of,
    step_opinions,
    writer_of,
)
from gradebook.tasks.lake.sql import query
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.planning.estimates import Estimate, History, estimate_questions, held_rationales

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
    at_most_count: int = 0  # of the requests: sent only where the first judge of a cascade is unsure

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
    """Counts of the requests that criteria judged by lists take, shard by shard."""

    def __init__(self, ledger: duckdb.DuckDBPyConnection, judge: Judge, taxonomy: Taxonomy | None) -> None:
        """ledger: with the view held_judgments."""
        self._ledger, self._judge, self._taxonomy = ledger, judge, taxonomy
        self._claims_of_sentence = _claims_of_sentence(ledger)
        self._seen: set[str] = set()  # keys of requests of an earlier criterion, which are sent once

    def count(self, criterion: Criterion, shards: Sequence[str]) -> Mapping[int, ListCount]:
        """Requests for one criterion, by the judge's member that is asked; recorded replies hold no lists."""
        if criterion.is_stepwise:
            return self._count_steps(criterion, shards)
        writer = writer_of(self._judge)
        if not isinstance(writer, JudgeSettings):
            return {}
        return {members_of(self._judge).index(writer): self._count_claims(criterion, writer.judge_digest, shards)}

    def _count_claims(self, criterion: Criterion, digest: str, shards: Sequence[str]) -> ListCount:
        """Requests of a criterion of claims. Raises `TypeError` for a criterion of another method."""
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
            verified = list(self._verified(criterion, method, digest, units, found))
            self._add([question for questions in verified for question in questions], found)
        return found

    def _count_steps(self, criterion: Criterion, shards: Sequence[str]) -> dict[int, ListCount]:
        opinions = step_opinions(self._judge, criterion.id)
        found = {opinion.judge_index: ListCount() for opinion in opinions}
        asked = step_criterion(criterion, self._taxonomy)
        for shard in shards:
            self._count_votes(asked, [step_unit(asked, *case) for case in read_cases(shard, with_steps=True)], found)
        return found

    def _count_votes(self, asked: StepCriterion, units: Sequence[StepUnit], found: Mapping[int, ListCount]) -> None:
        """Add the votes on some outputs' steps; the second judge's where the first one is unsure, or not asked yet."""
        judge, opinions = self._judge, step_opinions(self._judge, asked.criterion.id)
        scores = {level.id: level.score for level in asked.criterion.ranked_levels}
        firsts: dict[tuple[int, int], list[StepVote | None]] = {}  # by output and window; None: not asked yet
        for index in found:
            of_judge = [each for each in opinions if each.judge_index == index]
            digest = members_of(judge)[index].judge_digest
            is_second = isinstance(judge, CascadeSettings) and index == THEN
            wanted: list[tuple[int, int, Opinion, ListQuestion, bool]] = []
            for row, opinion in drawn_opinions(judge, of_judge, [unit.output_id for unit in units]):
                for place, question in enumerate(step_questions(asked, units[row], digest, opinion.replicate)):
                    is_needed = self._is_needed(asked, firsts.get((row, place), [])) if is_second else True
                    if is_needed is not False:
                        wanted.append((row, place, opinion, question, is_needed is None))
            held = self._add([question for *_, question, _ in wanted], found[index])
            for row, place, opinion, question, is_open in wanted:
                text = held.get(question.request_key)
                if text is None:
                    found[index].step_count += len(units[row].windows[place])
                    found[index].at_most_count += is_open
                marks = {} if text is None else {int(each[0].step): each for each in marks_of(text, scores)}
                vote = None if text is None else StepVote(opinion, question.request_key, marks)
                firsts.setdefault((row, place), []).append(vote)

    def _is_needed(self, asked: StepCriterion, firsts: Sequence[StepVote | None]) -> bool | None:
        """Whether a cascade's second judge is asked about a window; None while votes of the first one are missing."""
        votes = [each for each in firsts if each is not None]
        if len(votes) < len(firsts):
            return None
        judge, levels = self._judge, asked.criterion.ranked_levels
        return is_window_unsure(judge, levels, votes) if isinstance(judge, CascadeSettings) else True

    def _verified(
        self, criterion: Criterion, method: ClaimsMethod, digest: str, units: Sequence[ClaimUnit], found: ListCount
    ) -> Iterator[list[ListQuestion]]:
        """Questions that verify the claims that are known; the others are added to `found` as an estimate."""
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
