"""Verdicts on criteria of the method `claims`: the claims of each output found, checked and counted."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from gradebook.rubrics.checks.grounding.citations import unread_mark
from gradebook.rubrics.model.claim_marks import score_claims_of
from gradebook.rubrics.model.methods import CITATION_MEASURES, ClaimsMethod
from gradebook.rubrics.model.opinions import OPINION_SCHEMA
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.claims import CheckedClaim, Claim, claims_of
from gradebook.rubrics.prompts.reply_parser import is_quoted
from gradebook.tasks.judging.opinions.lists import CLAIM_SCALE, ClaimVote, claim_lists
from gradebook.tasks.judging.opinions.parts import PartList, combine_parts
from gradebook.tasks.judging.replies.claim_questions import (
    ClaimUnit,
    citation_parts,
    claim_units,
    extraction_questions,
    known_claims,
)
from gradebook.tasks.judging.replies.list_question import ListQuestion
from gradebook.tasks.judging.settings.panels import Judge, Opinion, has_several, member_names
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.scoring.list_answers import ListAsker, ListJudges
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

CLAIM_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "output_id", "criterion_id", "side")),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("claim_index", "sentence", "start", "stop")),
        *(pa.field(name, pa.string(), nullable=False) for name in ("span", "claim", "kind")),
        *(pa.field(name, pa.string()) for name in ("verdict", "quote", "request_key")),
    ]
)
CLAIM_VERDICT_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "output_id", "criterion_id", "side")),
        pa.field("claim_index", pa.int64(), nullable=False),
        pa.field("judge", pa.string(), nullable=False),
        pa.field("replicate", pa.int32(), nullable=False),
        *(pa.field(name, pa.string()) for name in ("verdict", "quote", "reason", "request_key")),
    ]
)
NO_CITATION = "not_applicable: no citation, or no sentence"
NOT_APPLICABLE = "not_applicable: no claim that can be checked"
MOST_SPANS = 20  # of a verdict's evidence
GROUPS_AT_ONCE = 2  # whose claims are found, and as many that are verified
LEAST_GROUP, MOST_GROUPS = 64, 32  # texts of a group, and groups of a shard: each looks into the ledger


@dataclass(slots=True)
class _Checked:
    """Claims of one text and what was said of them. fault: reason and request key of a reply that is missing.

    votes, verdicts: by claim_index, of the claims that can be checked.
    """

    unit: ClaimUnit
    claims: list[Claim] = field(default_factory=list)
    votes: dict[int, dict[Opinion, ClaimVote]] = field(default_factory=dict)
    verdicts: dict[int, ClaimVote] = field(default_factory=dict)
    dropped_count: int = 0
    fault: tuple[str, str | None] | None = None

    @property
    def asked(self) -> list[int]:
        """claim_index of the claims that can be checked."""
        return [index for index, claim in enumerate(self.claims) if claim.kind == "verifiable"]

    @property
    def missing(self) -> tuple[str, str | None] | None:
        """Reason, and key of the question, where a claim has no verdict."""
        unsaid = (vote for vote in self.verdicts.values() if vote.said is None)
        return next(((vote.reason or "no_reply", vote.request_key) for vote in unsaid), None)

    @property
    def said(self) -> list[str]:
        """Verdicts on the claims that have one."""
        return [vote.said.verdict for vote in self.verdicts.values() if vote.said]

    def seen_by(self, opinion: Opinion) -> "_Checked":
        """The same claims by one vote alone; where it was not asked, as a cascade's second judge, by all together."""
        verdicts = {index: self.votes[index].get(opinion, vote) for index, vote in self.verdicts.items()}
        return replace(self, verdicts=verdicts)


def score_claims(folder: RunFolder, criterion: Criterion, shard: str, shard_index: int, judges: ListJudges) -> pa.Table:
    """Check the claims of a shard's outputs: `VERDICT_SCHEMA`, one row per output, in the shard's order.

    Writes the claims to the run's folder, as `CLAIM_SCHEMA`, the votes on them, as `CLAIM_VERDICT_SCHEMA`, and, where
    the judge gives several, the scores by each vote, as `OPINION_SCHEMA`. Replies in the ledger are not asked for
    again. Raises `TypeError` for a criterion of another method, and as `JudgingSession.ask`; replies until then are in
    the journal.
    """
    method = criterion.method
    if not isinstance(method, ClaimsMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected claims")
    outputs = {
        output_id: [_Checked(unit) for unit in claim_units(method, output_id, case)]
        for output_id, case in read_cases(shard)
    }
    checked = [each for units in outputs.values() for each in units if each.unit.reason is None]
    _check_claims(checked, criterion.id, method, judges)
    claims, votes = _claim_tables(folder.run_id, criterion.id, checked, judges.judge)
    write_parquet(folder.detail_file("claims", criterion.id, shard_index), claims)
    write_parquet(folder.detail_file("claim_verdicts", criterion.id, shard_index), votes)
    if has_several(judges.judge):
        opinions = _opinions(folder.run_id, criterion.id, method, outputs, judges.judge)
        write_parquet(folder.detail_file("opinions", criterion.id, shard_index), opinions)
    judges.timing.row_count = len(outputs)
    return _verdicts(folder.run_id, criterion, method, outputs)


def _check_claims(checked: Sequence[_Checked], criterion_id: str, method: ClaimsMethod, judges: ListJudges) -> None:
    """Find and verify the claims of texts in groups: while one group is verified, the claims of the next are found.

    A judge's program, which takes minutes to start, gets all at once.
    """

    def find(group: Sequence[_Checked]) -> None:
        _find_claims(group, criterion_id, method, judges.writer)

    def verify(group: Sequence[_Checked], found: Future[None]) -> None:
        found.result()
        _verify_claims([each for each in group if each.fault is None], criterion_id, method, judges)

    size = min(max(LEAST_GROUP, -(-len(checked) // MOST_GROUPS)), -(-len(checked) // GROUPS_AT_ONCE))
    size = max(len(checked) if judges.has_program else size, 1)
    groups = [checked[first : first + size] for first in range(0, len(checked), size)]
    with ThreadPoolExecutor(GROUPS_AT_ONCE) as finders, ThreadPoolExecutor(GROUPS_AT_ONCE) as verifiers:
        found = [finders.submit(find, group) for group in groups]
        try:
            for _ in verifiers.map(verify, groups, found):
                pass  # raises the first fault
        finally:
            finders.shutdown(cancel_futures=True)


def _find_claims(checked: Sequence[_Checked], criterion_id: str, method: ClaimsMethod, asker: ListAsker) -> None:
    asked: list[tuple[_Checked, list[ListQuestion]]] = []
    for each in checked:
        known = known_claims(method, each.unit)
        if known is None:
            asked.append((each, list(extraction_questions(each.unit, criterion_id, asker.judge_digest))))
        else:
            each.claims = list(known)
    answers = asker.ask(question for _, questions in asked for question in questions)
    for each, questions in asked:
        for window, question in zip(each.unit.windows, questions, strict=True):
            answer = answers[question.request_key]
            if answer.text is None:
                each.fault = each.fault or (answer.reason or "no_reply", question.request_key)
                continue
            claims, dropped_count = claims_of(answer.text, window)
            each.claims += claims
            each.dropped_count += dropped_count


def _verify_claims(checked: Sequence[_Checked], criterion_id: str, method: ClaimsMethod, judges: ListJudges) -> None:
    lists: list[PartList[CheckedClaim]] = []
    for each in checked:
        each.votes = {index: {} for index in each.asked}
        claims, votes = [each.claims[index] for index in each.votes], [*each.votes.values()]
        lists += claim_lists(method, criterion_id, each.unit, claims, votes)
    judges.ask_votes(criterion_id, CLAIM_SCALE, lists)
    votes_of_all = [votes for each in checked for votes in each.votes.values()]
    combined = iter(combine_parts(judges.judge, CLAIM_SCALE, votes_of_all))
    for each in checked:
        each.verdicts = {index: next(combined) for index in each.votes}


def _claim_tables(
    run_id: str, criterion_id: str, checked: Sequence[_Checked], judge: Judge
) -> tuple[pa.Table, pa.Table]:
    """Claims with their verdicts, and each vote on them."""
    claims: list[dict[str, Any]] = []
    votes: list[dict[str, Any]] = []
    names = member_names(judge)
    counts: Counter[tuple[str, str]] = Counter()  # by output and side, which citations divide
    for each in checked:
        unit = each.unit
        first = counts[unit.output_id, unit.side]
        counts[unit.output_id, unit.side] += len(each.claims)
        of_text = {"run_id": run_id, "output_id": unit.output_id, "criterion_id": criterion_id, "side": unit.side}
        for index, claim in enumerate(each.claims):
            placed = of_text | {"claim_index": first + index}
            words = {"span": claim.span, "claim": claim.text, "kind": claim.kind}
            where = {"sentence": claim.sentence, "start": claim.start, "stop": claim.stop}
            claims.append(placed | where | words | _said_of(each.verdicts.get(index)))
            for opinion, vote in each.votes.get(index, {}).items():
                whose = {"judge": names[opinion.judge_index], "replicate": opinion.replicate, "reason": vote.reason}
                votes.append(placed | whose | _said_of(vote))
    return (
        pa.Table.from_pylist(claims, schema=CLAIM_SCHEMA),
        pa.Table.from_pylist(votes, schema=CLAIM_VERDICT_SCHEMA),
    )


def _said_of(vote: ClaimVote | None) -> dict[str, str | None]:
    if vote is None:
        return {}
    verdict, quote = (vote.said.verdict, vote.said.quote or None) if vote.said else (None, None)
    return {"verdict": verdict, "quote": quote, "request_key": vote.request_key}


def _opinions(
    run_id: str,
    criterion_id: str,
    method: ClaimsMethod,
    outputs: Mapping[str, Sequence[_Checked]],
    judge: Judge,
) -> pa.Table:
    """Scores of the outputs by each vote alone, as `OPINION_SCHEMA`; claims have no levels."""
    rows = []
    names = member_names(judge)
    for output_id, units in outputs.items():
        votes = [votes for each in units for votes in each.votes.values()]
        for opinion in dict.fromkeys(chain.from_iterable(votes)):
            score, reason, _ = _score(method, [each.seen_by(opinion) for each in units])
            keys = [vote.request_key for of_claim in votes if (vote := of_claim.get(opinion))]
            rows.append(
                {
                    "run_id": run_id,
                    "output_id": output_id,
                    "criterion_id": criterion_id,
                    "judge": names[opinion.judge_index],
                    "replicate": opinion.replicate,
                    "is_swapped": False,
                    "request_key": keys[0],
                    "status": "unscored" if score is None else "scored",
                    "score": score,
                    "reason": reason,
                }
            )
    return pa.Table.from_pylist(rows, schema=OPINION_SCHEMA)


def _verdicts(
    run_id: str, criterion: Criterion, method: ClaimsMethod, outputs: Mapping[str, Sequence[_Checked]]
) -> pa.Table:
    scores: list[float | None] = []
    reasons: list[str | None] = []
    keys: list[str | None] = []
    for units in outputs.values():
        score, reason, key = _score(method, units)
        scores.append(score)
        reasons.append(reason)
        keys.append(key)
    return verdict_table(
        run_id,
        criterion,
        pa.array(list(outputs), pa.string()),
        pa.nulls(len(outputs), pa.string()),
        pa.array(scores, pa.float64()),
        reasons=pa.array(reasons, pa.string()),
        evidence=pa.array([_evidence(units) for units in outputs.values()], pa.string()),
        rationales=pa.array([_words(units) for units in outputs.values()], pa.string()),
        request_keys=pa.array(keys, pa.string()),
    )


def _score(method: ClaimsMethod, units: Sequence[_Checked]) -> tuple[float | None, str | None, str | None]:
    """Score of an output, or the reason why there is none and the key of the question that lacks its answer."""
    for each in units:
        if each.unit.reason is not None:
            return None, each.unit.reason, None
        if fault := each.fault or each.missing:
            return None, *fault
    if method.measure in CITATION_MEASURES:
        score = _citation_score(method, units)
        return score, NO_CITATION if score is None else None, None
    if empty := next((each for each in units if not each.asked), None):
        return None, _nothing_to_check(empty), None
    return _measured(method, units), None, None


def _nothing_to_check(checked: _Checked) -> str:
    """Reason why a text has no claim that can be checked."""
    if checked.claims or not checked.dropped_count:
        return NOT_APPLICABLE
    return f"invented_claims: the judge found {checked.dropped_count}, of words that the {checked.unit.side} lacks"


def _measured(method: ClaimsMethod, units: Sequence[_Checked]) -> float:
    if method.measure == "passages":
        return _passages_score(units[0])
    verdicts: dict[str, list[str]] = {each.unit.side: each.said for each in units}
    score = score_claims_of(method.measure, verdicts)
    if score is None:
        raise TypeError(f"{method.measure}: found no score of verdicts on claims")
    return score


def _passages_score(checked: _Checked) -> float:
    """Average precision of the passages: one is relevant if it holds the quote that supports a claim."""
    said = [vote.said for vote in checked.verdicts.values() if vote.said]
    quotes = [each.quote for each in said if each.verdict == "supported"]
    source = checked.unit.source
    ranks = [rank for rank, each in enumerate(source, 1) if any(is_quoted([quote], each) for quote in quotes)]
    return sum(place / rank for place, rank in enumerate(ranks, 1)) / len(ranks) if ranks else 0.0


def _citation_score(method: ClaimsMethod, units: Sequence[_Checked]) -> float | None:
    """Citation recall or precision as by Gao et al. (2023, ALCE); None without sentences, or without citations.

    Recall: share of the sentences that the passages they cite support together. Precision: share of the citations
    whose sentence is supported, and that support it alone or that the others can't do without.
    """
    cited: dict[int, tuple[int, ...]] = {}
    is_supported: dict[tuple[int, tuple[int, ...]], bool] = {}
    for each in units:
        for claim in each.unit.claims or ():
            cited.setdefault(claim.sentence, each.unit.cited)  # the first is of all that the sentence cites
            is_supported[claim.sentence, each.unit.cited] = each.said == ["supported"]
    if method.measure == "citation_recall":
        return sum(is_supported[number, all_of] for number, all_of in cited.items()) / len(cited) if cited else None
    good_count = citation_count = 0
    for number, all_of in cited.items():
        parts = citation_parts(all_of)
        alone, without = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        citation_count += len(alone) or len(all_of)
        if is_supported[number, all_of]:
            pairs = zip(alone, without, strict=True)
            needed = [is_supported[number, one] or not is_supported[number, others] for one, others in pairs]
            good_count += sum(needed) if alone else 1
    return good_count / citation_count if citation_count else None


def _evidence(units: Sequence[_Checked]) -> str | None:
    """Words of the output whose claims are not supported, as a JSON list; None if there are none."""
    spans = [
        each.claims[index].span
        for each in units
        if each.unit.side == "output"
        for index, vote in sorted(each.verdicts.items())
        if vote.said and vote.said.verdict != "supported"
    ]
    return json.dumps(spans[:MOST_SPANS], ensure_ascii=False) if spans else None


_NAMES = {
    "supported": "supported",
    "contradicted": "contradicted",
    "not_in_source": "not in the source",
    "unverified": "with a quote that the source lacks",
}


def _words(units: Sequence[_Checked]) -> str | None:
    """Rationale: "output: 4 of 6 claims supported, 1 contradicted, 1 not in the source; left out: 2 opinion"."""
    sentences = []
    for side in ("output", "reference"):
        of_side = [each for each in units if each.unit.side == side]
        counts: Counter[str] = Counter(chain.from_iterable(each.said for each in of_side))
        uncited = [each.unit.text for each in of_side if each.unit.is_uncited]
        if not counts:
            sentences += [f"{side}: {_uncited_words(uncited)}"] if uncited else []
            continue
        parts = [f"{counts['supported']} of {counts.total()} claims supported"]
        parts += [f"{counts[name]} {words}" for name, words in _NAMES.items() if name != "supported" and counts[name]]
        kinds = Counter(claim.kind for each in of_side for claim in each.claims)
        others = [f"{kinds[kind]} {kind}" for kind in ("opinion", "ambiguous") if kinds[kind]]
        dropped_count = sum(each.dropped_count for each in of_side)
        others += [f"{dropped_count} with words that the text lacks"] if dropped_count else []
        others += [f"{len(uncited)} without a source"] if uncited else []
        sentences.append(f"{side}: {', '.join(parts)}" + (f"; left out: {', '.join(others)}" if others else ""))
    return "; ".join(sentences) or None


def _uncited_words(texts: Sequence[str]) -> str:
    """Rationale of an output without a citation of its context; names a mark that is not read as one."""
    mark = unread_mark(" ".join(texts))
    unread = f"; citations are read in brackets, [1], so {mark!r} is none" if mark else ""
    return f"no sentence of {len(texts)} cites a passage of the context{unread}"
