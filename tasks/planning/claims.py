"""Plan of criteria judged by lists, of claims or of steps: which replies the ledger has, and what the others cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from gradebook.rubrics.model.methods import ClaimsMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import Taxonomy
from gradebook.rubrics.prompts.claims import Claim, claims_of, verdicts_of
from gradebook.tasks.judging.money.prices import prompt_bytes
from gradebook.tasks.judging.opinions.claims import ClaimVote, has_unsure, read_vote
from gradebook.tasks.judging.replies.claim_questions import (
    ClaimUnit,
    claim_packs,
    claim_units,
    extraction_questions,
    known_claims,
    verification_question,
)
from gradebook.tasks.judging.replies.list_question import ListQuestion
from gradebook.tasks.judging.replies.step_questions import step_criterion, step_questions, step_unit
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import (
    FIRST,
    THEN,
    CascadeSettings,
    Judge,
    Opinion,
    drawn_rows,
    members_of,
    wanted_opinions,
    writer_of,
)
from gradebook.tasks.lake.sql import query
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.planning.estimates import estimate_questions, held_rationales
from gradebook.tasks.planning.opinion_estimates import OpinionEstimate, Past

USUAL_CLAIM = "x" * 100
USUAL_TOKENS_OF_STEP = 80.0  # a quote, a sentence, a label and an error
USUAL_CLAIMS_OF_SENTENCE = 1.5  # until the lake has claims

_Pack = tuple[ClaimUnit, Sequence[Claim]]  # claims of a text that one question verifies


@dataclass(slots=True)
class ListCount:
    """Requests of a criterion to one judge. replayed_count: replies in the ledger; request_count: the others, partly
    estimated.

    at_most_count, at_most_bytes: of those that a cascade's second judge gets only where the first is unsure.
    """

    replayed_count: int = 0
    request_count: int = 0
    byte_count: int = 0
    at_most_count: int = 0
    at_most_bytes: int = 0
    step_count: int = 0  # steps in the requests, of a criterion that labels steps

    def estimate(self, past: Past, place: int, judge: JudgeSettings, criterion_id: str) -> OpinionEstimate:
        """Estimate of the requests by the judge's past. place: of the judge among the members."""
        usual = (
            self.step_count / self.request_count * USUAL_TOKENS_OF_STEP
            if self.request_count and self.step_count
            else None
        )
        unsent_rate = 1 - past.escalated_rate
        estimate = estimate_questions(
            past.histories[place],
            judge,
            criterion_id,
            self.request_count - math.floor(self.at_most_count * unsent_rate),
            self.byte_count - math.floor(self.at_most_bytes * unsent_rate),
            is_first=True,
            usual_tokens=usual,
        )
        count = self.request_count
        return OpinionEstimate(self.replayed_count, count, count, self.at_most_count, estimate)


class ListPlanner:
    """Counts of the requests that criteria judged by lists take, shard by shard."""

    def __init__(self, ledger: duckdb.DuckDBPyConnection, judge: Judge, taxonomy: Taxonomy | None) -> None:
        """ledger: with the view held_judgments."""
        self._ledger, self._judge, self._taxonomy = ledger, judge, taxonomy
        self._members = members_of(judge)
        self._writer = self._members.index(writer_of(judge))
        self._claims_of_sentence = _claims_of_sentence(ledger)
        self._seen: set[str] = set()  # keys of requests of an earlier criterion, which are sent once
        self.asked: set[int] = set()  # places of the members with requests to send

    def estimates(self, criterion: Criterion, shards: Sequence[str], past: Past) -> list[OpinionEstimate]:
        """Requests for one criterion, by judge. Raises `TypeError` for a criterion of another method."""
        counts: dict[int, ListCount] = {}
        if criterion.is_stepwise:
            counts[self._writer] = self._count_steps(criterion, shards)
        else:
            self._count_claims(criterion, shards, counts)
        self.asked |= {place for place, found in counts.items() if found.request_count}
        return [found.estimate(past, place, self._settings(place), criterion.id) for place, found in counts.items()]

    def _settings(self, place: int) -> JudgeSettings:
        settings = self._members[place]
        if not isinstance(settings, JudgeSettings):
            raise TypeError(f"{settings.judge}: recorded replies hold no lists")
        return settings

    def _count_steps(self, criterion: Criterion, shards: Iterable[str]) -> ListCount:
        asked, found = step_criterion(criterion, self._taxonomy), ListCount()
        for shard in shards:
            units = (step_unit(asked, *case) for case in read_cases(shard, with_steps=True))
            digest = self._settings(self._writer).judge_digest
            questions = [(unit, list(step_questions(asked, unit, digest))) for unit in units]
            held = self._add([each for _, of_unit in questions for each in of_unit], found)
            found.step_count += sum(
                len(steps)
                for unit, of_unit in questions
                for steps, each in zip(unit.windows, of_unit, strict=False)
                if each.request_key not in held
            )
        return found

    def _count_claims(self, criterion: Criterion, shards: Iterable[str], counts: dict[int, ListCount]) -> None:
        method = criterion.method
        if not isinstance(method, ClaimsMethod):
            raise TypeError(f"{criterion.id}: found the method {method.type}, expected claims")
        opinions = [
            opinion
            for opinion in wanted_opinions(self._judge, criterion.id)
            if not opinion.is_swapped and isinstance(self._members[opinion.judge_index], JudgeSettings)
        ]
        for place in (self._writer, *(opinion.judge_index for opinion in opinions)):
            counts.setdefault(place, ListCount())
        for shard in shards:
            units = [
                unit
                for output_id, case in read_cases(shard)
                for unit in claim_units(method, output_id, case)
                if unit.reason is None
            ]
            known, unknown = self._found_claims(criterion, method, units, counts[self._writer])
            packs = [(unit, pack) for unit, claims in known for pack in claim_packs(claims)]
            self._count_votes(criterion.id, method, packs, opinions, counts)
            for unit in unknown:
                self._guess(unit, opinions, counts)

    def _found_claims(
        self, criterion: Criterion, method: ClaimsMethod, units: Sequence[ClaimUnit], found: ListCount
    ) -> tuple[list[tuple[ClaimUnit, list[Claim]]], list[ClaimUnit]]:
        """Texts with the claims to verify, as far as they are known, and the other texts."""
        digest = self._settings(self._writer).judge_digest
        known: list[tuple[ClaimUnit, list[Claim]]] = []
        asked = []
        for unit in units:
            claims = known_claims(method, unit)
            if claims is None:
                asked.append((unit, list(extraction_questions(unit, criterion.id, digest))))
            else:
                known.append((unit, list(claims)))
        unknown = []
        held = self._add([question for _, questions in asked for question in questions], found)
        for unit, questions in asked:
            if all(question.request_key in held for question in questions):
                asked_of = zip(unit.windows, questions, strict=True)
                found_there = [each for window, one in asked_of for each in claims_of(held[one.request_key], window)[0]]
                known.append((unit, [claim for claim in found_there if claim.kind == "verifiable"]))
            else:
                unknown.append(unit)
        return known, unknown

    def _count_votes(
        self,
        criterion_id: str,
        method: ClaimsMethod,
        packs: Sequence[_Pack],
        opinions: Sequence[Opinion],
        counts: dict[int, ListCount],
    ) -> None:
        """Add the questions that verify packs of claims. The second judge of a cascade gets those of which the first is
        unsure, and while that is unknown at most all.
        """
        votes: list[list[dict[Opinion, ClaimVote]]] = [[{} for _ in pack] for _, pack in packs]
        output_ids = [unit.output_id for unit, _ in packs]
        for opinion in opinions:
            rows, maybe = self._needed(opinion, opinions, votes)
            found = counts[opinion.judge_index]
            digest = self._settings(opinion.judge_index).judge_digest
            asked = {
                row: verification_question(
                    *packs[row], criterion_id, digest, opinion.replicate, can_abstain=method.can_abstain
                )
                for row in drawn_rows(self._judge, opinion, output_ids, [*rows, *maybe])
            }
            before = found.request_count, found.byte_count
            held = self._add([asked[row] for row in maybe if row in asked], found)
            found.at_most_count += found.request_count - before[0]
            found.at_most_bytes += found.byte_count - before[1]
            held |= self._add([asked[row] for row in rows if row in asked], found)
            for row, question in asked.items():
                if question.request_key in held:
                    for of_claim, said in zip(votes[row], verdicts_of(held[question.request_key]), strict=True):
                        of_claim[opinion] = read_vote(said, question.request_key)

    def _needed(
        self, opinion: Opinion, opinions: Sequence[Opinion], votes: Sequence[Sequence[Mapping[Opinion, ClaimVote]]]
    ) -> tuple[list[int], list[int]]:
        """Rows of packs that need a vote, and rows that may need it. votes: those known, by pack and claim."""
        rows, judge = list(range(len(votes))), self._judge
        if not isinstance(judge, CascadeSettings) or not _is_second(opinion, opinions):
            return rows, []
        unknown = [row for row in rows if not all(votes[row])]
        return [row for row in rows if all(votes[row]) and has_unsure(judge.when, votes[row])], unknown

    def _guess(self, unit: ClaimUnit, opinions: Sequence[Opinion], counts: dict[int, ListCount]) -> None:
        """Add the requests that verify the claims of a text before they are known."""
        sentence_count = sum(len(window.sentences) for window in unit.windows)
        usual = Claim(0, 0, 0, USUAL_CLAIM, USUAL_CLAIM, "verifiable")
        packs = claim_packs([usual] * round(sentence_count * self._claims_of_sentence))
        if not packs:
            return
        question = verification_question(unit, packs[0], "", "")
        byte_count = len(packs) * prompt_bytes(question.render(), question.schema)
        for opinion in opinions:
            if not drawn_rows(self._judge, opinion, [unit.output_id], [0]):
                continue
            found = counts[opinion.judge_index]
            found.request_count += len(packs)
            found.byte_count += byte_count
            if isinstance(self._judge, CascadeSettings) and _is_second(opinion, opinions):
                found.at_most_count += len(packs)
                found.at_most_bytes += byte_count

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


def _is_second(opinion: Opinion, opinions: Sequence[Opinion]) -> bool:
    """Whether a vote is of a cascade's second judge, after the first was asked."""
    return opinion.judge_index == THEN and opinions[0].judge_index == FIRST


def _claims_of_sentence(ledger: duckdb.DuckDBPyConnection) -> float:
    """Claims to verify for each sentence, as earlier runs found them."""
    try:
        ((found,),) = ledger.execute(query("planning/claims_of_sentence")).fetchall()
    except duckdb.CatalogException:  # no lake yet, or one of an earlier gradebook
        return USUAL_CLAIMS_OF_SENTENCE
    return USUAL_CLAIMS_OF_SENTENCE if found is None else float(found)
