"""Plan of criteria judged by claims, steps or pairs: which replies the ledger has, and what the others cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import duckdb

from gradebook.rubrics.model.methods import ClaimsMethod, PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.taxonomy import Taxonomy
from gradebook.rubrics.prompts.claims import Claim, claims_of
from gradebook.tasks.judging.money.prices import prompt_bytes
from gradebook.tasks.judging.opinions.lists import CLAIM_SCALE, claim_lists, step_lists, step_scale
from gradebook.tasks.judging.opinions.parts import PartList, Scale, is_unsure
from gradebook.tasks.judging.replies.claim_questions import (
    ClaimUnit,
    claim_packs,
    claim_units,
    extraction_questions,
    known_claims,
    verification_question,
)
from gradebook.tasks.judging.replies.list_question import ListAnswer, ListQuestion
from gradebook.tasks.judging.replies.step_questions import step_criterion, step_unit
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import (
    THEN,
    CascadeSettings,
    Judge,
    Opinion,
    drawn_opinions,
    is_at_most,
    list_opinions,
    members_of,
    writer_of,
)
from gradebook.tasks.lake.sql import query
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.planning.estimates import Estimate, History, estimate_questions, held_rationales
from gradebook.tasks.planning.preferences import PREFERENCE_SCALE, preference_opinions, read_pairs
from gradebook.tasks.workspace.folder import RunFolder

Said = TypeVar("Said")
USUAL_CLAIM = "x" * 100
USUAL_TOKENS_OF_STEP = 80.0  # a quote, a sentence, a label and an error
USUAL_CLAIMS_OF_SENTENCE = 1.5  # until the lake has claims


@dataclass(slots=True)
class ListCount:
    """Requests of a criterion. replayed_count: replies in the ledger; request_count: the others, partly estimated."""

    replayed_count: int = 0
    request_count: int = 0
    byte_count: int = 0
    reply_tokens: float = 0  # usual ones of all replies together, where the parts of each are known
    at_most_count: int = 0  # of the requests: sent only where the first judge of a cascade is unsure

    def estimate(self, history: History, judge: JudgeSettings, criterion_id: str) -> Estimate:
        """Estimate of the requests' cost by the judge's past."""
        usual = self.reply_tokens / self.request_count if self.request_count and self.reply_tokens else None
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
        if isinstance(criterion.method, PreferenceMethod):
            return self._count_preferences(criterion, shards)
        writer = writer_of(self._judge)
        if not isinstance(writer, JudgeSettings):
            return {}
        place = members_of(self._judge).index(writer)
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
        opinions = list_opinions(self._judge, criterion.id)
        found = {index: ListCount() for index in (place, *(opinion.judge_index for opinion in opinions))}
        for shard in shards:
            units = [
                unit
                for output_id, case in read_cases(shard)
                for unit in claim_units(method, output_id, case)
                if unit.reason is None
            ]
            known, unknown = self._found_claims(criterion, method, digest, units, found[place])
            packs = (claim_lists(method, criterion.id, unit, claims, [{} for _ in claims]) for unit, claims in known)
            self._count_votes(opinions, CLAIM_SCALE, [*chain.from_iterable(packs)], found)
            for unit in unknown:
                self._guess(unit, opinions, found)
        return found

    def _count_preferences(self, criterion: Criterion, shards: Sequence[str]) -> dict[int, ListCount]:
        opinions = preference_opinions(self._judge, criterion.id)
        found = {opinion.judge_index: ListCount() for opinion in opinions}
        for index, shard in enumerate(shards):
            pairs = [pair for pair in read_pairs(self._folder, criterion.id, shard, index) if pair.is_asked]
            lists = [each for pair in pairs for each in pair.lists(criterion, ({}, {}))]
            self._count_votes(opinions, PREFERENCE_SCALE, lists, found)
        return found

    def _count_steps(self, criterion: Criterion, shards: Sequence[str]) -> dict[int, ListCount]:
        opinions = list_opinions(self._judge, criterion.id)
        found = {opinion.judge_index: ListCount() for opinion in opinions}
        asked = step_criterion(criterion, self._taxonomy)
        for shard in shards:
            units = (step_unit(asked, *case) for case in read_cases(shard, with_steps=True))
            lists = [
                each
                for unit in units
                for each in step_lists(asked, unit, {step: {} for steps in unit.windows for step in steps})
            ]
            self._count_votes(opinions, step_scale(asked), lists, found, tokens_of_part=USUAL_TOKENS_OF_STEP)
        return found

    def _count_votes(
        self,
        opinions: Sequence[Opinion],
        scale: Scale,
        lists: Sequence[PartList[Said]],
        found: Mapping[int, ListCount],
        *,
        tokens_of_part: float = 0,
    ) -> None:
        """Add the votes on lists; the second judge's where the first one is unsure, or not asked yet."""
        judge = self._judge
        waiting: set[int] = set()  # lists that a cascade's first judge is not asked about yet
        for index in sorted(found):
            of_judge = [each for each in opinions if each.judge_index == index]
            digest = members_of(judge)[index].judge_digest
            second = judge if isinstance(judge, CascadeSettings) and index == THEN else None
            wanted = [
                (row, opinion, lists[row].question(digest, opinion.replicate))
                for row, opinion in drawn_opinions(judge, of_judge, [each.output_id for each in lists])
                if second is None or row in waiting or is_unsure(second, scale, lists[row].votes)
            ]
            held = self._add([question for *_, question in wanted], found[index])
            for row, opinion, question in wanted:
                if question.request_key in held:
                    key = question.request_key
                    lists[row].add(opinion, ListAnswer(key, held[key], None, 0, None, None))
                    continue
                found[index].reply_tokens += tokens_of_part * len(lists[row].votes)
                if second is not None:
                    found[index].at_most_count += row in waiting
                else:
                    waiting.add(row)

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
            if is_at_most(self._judge, opinion, opinions):
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


def _claims_of_sentence(ledger: duckdb.DuckDBPyConnection) -> float:
    """Claims to verify for each sentence, as earlier runs found them."""
    try:
        ((found,),) = ledger.execute(query("planning/claims_of_sentence")).fetchall()
    except duckdb.CatalogException:  # no lake yet, or one of an earlier gradebook
        return USUAL_CLAIMS_OF_SENTENCE
    return USUAL_CLAIMS_OF_SENTENCE if found is None else float(found)
