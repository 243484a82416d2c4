"""Plan of criteria judged by claims, steps or pairs: which replies the ledger has, and what the others cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from gradebook.rubrics.model.methods import ClaimsMethod, PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import Taxonomy
from gradebook.rubrics.prompts.claims import Claim, claims_of, verdicts_of
from gradebook.rubrics.prompts.step_marks import StepCriterion, marks_of
from gradebook.tasks.judging.money.prices import prompt_bytes
from gradebook.tasks.judging.opinions.claims import ClaimVote, has_unsure, read_vote
from gradebook.tasks.judging.opinions.steps import StepVote, is_window_unsure
from gradebook.tasks.judging.replies.claim_questions import (
    ClaimUnit,
    claim_packs,
    claim_units,
    extraction_questions,
    known_claims,
    verification_question,
)
from gradebook.tasks.judging.replies.list_question import ListQuestion
from gradebook.tasks.judging.replies.step_questions import StepUnit, step_criterion, step_questions, step_unit
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import (
    FIRST,
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
    """Counts of the requests that such criteria take, shard by shard."""

    def __init__(
        self, ledger: duckdb.DuckDBPyConnection, folder: RunFolder, judge: Judge, taxonomy: Taxonomy | None
    ) -> None:
        """ledger: with the view held_judgments. folder: of the run, with its pairs of answers."""
        self._ledger, self._folder, self._judge, self._taxonomy = ledger, folder, judge, taxonomy
        self._claims_of_sentence = _claims_of_sentence(ledger)
        self._seen: set[str] = set()  # keys of requests of an earlier criterion, which are sent once

    def count(self, criterion: Criterion, shards: Sequence[str]) -> Mapping[int, ListCount]:
        """Requests for one criterion, by the judge's member that is asked; recorded replies hold no lists."""
        if criterion.is_stepwise:
            return self._count_steps(criterion, shards)
        writer = writer_of(self._judge)
        if not isinstance(writer, JudgeSettings):
            return {}
        place = members_of(self._judge).index(writer)
        if isinstance(criterion.method, PreferenceMethod):
            return {place: self._count_preferences(criterion, writer.judge_digest, shards)}
        return self._count_claims(criterion, writer.judge_digest, place, shards)

    def _count_claims(
        self, criterion: Criterion, digest: str, place: int, shards: Sequence[str]
    ) -> dict[int, ListCount]:
        """Requests of a criterion of claims. digest, place: of the judge that finds the claims, whom others follow.

        Raises `TypeError` for a criterion of another method.
        """
        method = criterion.method
        if not isinstance(method, ClaimsMethod):
            raise TypeError(f"{criterion.id}: found the method {method.type}, expected claims")
        opinions = step_opinions(self._judge, criterion.id)
        found = {index: ListCount() for index in (place, *(opinion.judge_index for opinion in opinions))}
        for shard in shards:
            units = [
                unit
                for output_id, case in read_cases(shard)
                for unit in claim_units(method, output_id, case)
                if unit.reason is None
            ]
            known, unknown = self._found_claims(criterion, method, digest, units, found[place])
            packs = [(unit, pack) for unit, claims in known for pack in claim_packs(claims)]
            self._count_claim_votes(criterion.id, method, packs, opinions, found)
            for unit in unknown:
                self._guess(unit, opinions, found)
        return found

    def _count_preferences(self, criterion: Criterion, digest: str, shards: Sequence[str]) -> ListCount:
        found = ListCount()
        for index, shard in enumerate(shards):
            pairs = read_pairs(self._folder, criterion.id, shard, index)
            self._add([question for pair in pairs for question in pair.questions(criterion, digest)], found)
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

    def _found_claims(
        self, criterion: Criterion, method: ClaimsMethod, digest: str, units: Sequence[ClaimUnit], found: ListCount
    ) -> tuple[list[tuple[ClaimUnit, list[Claim]]], list[ClaimUnit]]:
        """Texts with the claims to verify, as far as they are known, and the other texts."""
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

    def _count_claim_votes(
        self,
        criterion_id: str,
        method: ClaimsMethod,
        packs: Sequence[tuple[ClaimUnit, Sequence[Claim]]],
        opinions: Sequence[Opinion],
        found: Mapping[int, ListCount],
    ) -> None:
        """Add the questions that verify packs of claims; the second judge's where the first one is unsure, or not asked
        yet.
        """
        judge = self._judge
        votes: list[list[dict[Opinion, ClaimVote]]] = [[{} for _ in pack] for _, pack in packs]  # of the ledger
        asked: dict[int, list[tuple[int, Opinion, ListQuestion, bool]]] = {index: [] for index in found}
        for index, wanted in asked.items():
            digest = members_of(judge)[index].judge_digest
            of_judge = [opinion for opinion in opinions if opinion.judge_index == index]
            for row, opinion in drawn_opinions(judge, of_judge, [unit.output_id for unit, _ in packs]):
                is_open = False
                if isinstance(judge, CascadeSettings) and _is_second(opinion, opinions):
                    is_open = not all(votes[row])
                    if not is_open and not has_unsure(judge.when, votes[row]):
                        continue
                question = verification_question(
                    *packs[row], criterion_id, digest, opinion.replicate, can_abstain=method.can_abstain
                )
                wanted.append((row, opinion, question, is_open))
            held = self._add([question for _, _, question, _ in wanted], found[index])
            for row, opinion, question, is_open in wanted:
                text = held.get(question.request_key)
                found[index].at_most_count += is_open and text is None
                for of_claim, said in zip(votes[row], verdicts_of(text) if text else (), strict=False):
                    of_claim[opinion] = read_vote(said, question.request_key)

    def _guess(self, unit: ClaimUnit, opinions: Sequence[Opinion], counts: Mapping[int, ListCount]) -> None:
        """Add the requests that verify the claims of a text before they are known."""
        sentence_count = sum(len(window.sentences) for window in unit.windows)
        usual = Claim(0, 0, 0, USUAL_CLAIM, USUAL_CLAIM, "verifiable")
        packs = claim_packs([usual] * round(sentence_count * self._claims_of_sentence))
        if not packs:
            return
        question = verification_question(unit, packs[0], "", "")
        byte_count = len(packs) * prompt_bytes(question.render(), question.schema)
        for _, opinion in drawn_opinions(self._judge, opinions, [unit.output_id]):
            found = counts[opinion.judge_index]
            found.request_count += len(packs)
            found.byte_count += byte_count
            if isinstance(self._judge, CascadeSettings) and _is_second(opinion, opinions):
                found.at_most_count += len(packs)

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
