"""Method `claims`: find, verify and count the claims of each output."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.checks.grounding.citations import unread_mark
from gradebook.rubrics.model.claim_marks import score_claims_of
from gradebook.rubrics.model.methods import CITATION_MEASURES, ClaimsMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import OPINION_SCHEMA, verdict_table
from gradebook.rubrics.prompts.claims import CLAIMS_AT_ONCE, CheckedClaim, Claim, claims_of
from gradebook.rubrics.prompts.reply_parser import is_quoted
from gradebook.tasks.judging.opinions.parts import CLAIM_SCALE, ClaimVote, PartList, claim_lists, combine_parts
from gradebook.tasks.judging.prices import prompt_bytes
from gradebook.tasks.judging.replies.list_questions import (
    ClaimUnit,
    ListQuestion,
    asked_judge,
    citation_parts,
    claim_packs,
    claim_units,
    extraction_questions,
    known_claims,
    verification_question,
)
from gradebook.tasks.judging.settings.judge import Judge, Opinion
from gradebook.tasks.lake.sql import query
from gradebook.tasks.methods.list_answers import ListAsker, ListJudges, ListMethod
from gradebook.tasks.methods.method import ScoringSetup
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.planning.estimates import ListCount, ListPlanner
from gradebook.tasks.planning.plan import Planning
from gradebook.tasks.system.files import write_parquet

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
USUAL_CLAIM = "x" * 100
USUAL_CLAIMS_OF_SENTENCE = 1.5  # estimate until the lake has claims
NO_CITATION = "not_applicable: no citation, or no sentence"
NOT_APPLICABLE = "not_applicable: no claim that can be checked"
MOST_SPANS = 20  # spans in a verdict's evidence
GROUPS_AT_ONCE = 2  # groups in extraction, and as many in verification
LEAST_GROUP, MOST_GROUPS = 64, 32  # texts of a group, and groups of a shard: each group reads the ledger


@dataclass(slots=True)
class _CheckedText:
    """Claims of one text, votes and verdicts. fault: reason and request key of a missing reply.

    votes, verdicts: by claim_index, of the claims that can be checked.
    """

    unit: ClaimUnit
    claims: list[Claim] = field(default_factory=list)
    votes: dict[int, dict[Opinion, ClaimVote]] = field(default_factory=dict)
    verdicts: dict[int, ClaimVote] = field(default_factory=dict)
    dropped_count: int = 0
    fault: tuple[str, str | None] | None = None

    @property
    def verifiable(self) -> list[int]:
        """claim_index of the claims that can be checked."""
        return [index for index, claim in enumerate(self.claims) if claim.kind == "verifiable"]

    @property
    def missing(self) -> tuple[str, str | None] | None:
        """Reason and request key of the first claim without a verdict; None if all have one."""
        unsaid = (vote for vote in self.verdicts.values() if vote.said is None)
        return next(((vote.reason or "no_reply", vote.request_key) for vote in unsaid), None)

    @property
    def verdict_names(self) -> list[str]:
        """Names of the verdicts, without claims that have no verdict."""
        return [vote.said.verdict for vote in self.verdicts.values() if vote.said]

    def with_verdicts_by(self, opinion: Opinion) -> "_CheckedText":
        """Claims with the verdicts of one vote; with the combined verdict if a cascade did not ask for that vote."""
        verdicts = {index: self.votes[index].get(opinion, vote) for index, vote in self.verdicts.items()}
        return replace(self, verdicts=verdicts)


class ClaimsScoring(ListMethod):
    """Claims, found by one judge and verified by all."""

    unrecorded = "no_claims: recorded replies hold no claims"

    def count(self, planning: Planning, lists: ListPlanner, criterion: Criterion) -> dict[int, ListCount]:
        """Requests that find and verify claims; requests for claims that are not known yet are estimated."""
        writer = lists.judge.writer.as_model
        if writer is None:
            return {}
        method, writer_index = criterion.method_as(ClaimsMethod), lists.judge.writer_index
        usual_count = _claims_of_sentence(planning.ledger)
        opinions = lists.judge.list_votes(criterion.id)
        size = lists.judge.parts_at_once(criterion.id, CLAIMS_AT_ONCE)
        counts = {index: ListCount() for index in (writer_index, *(opinion.judge_index for opinion in opinions))}
        for shard in planning.shards_of(criterion):
            units = [
                unit
                for output_id, case in read_cases(shard)
                for unit in claim_units(method, output_id, case)
                if unit.reason is None
            ]
            with_claims, without_claims = _split_units(
                lists, criterion.id, method, writer.judge_digest, units, counts[writer_index]
            )
            packs = (
                claim_lists(method, criterion.id, unit, claims, [{} for _ in claims], size)
                for unit, claims in with_claims
            )
            lists.count_votes(opinions, CLAIM_SCALE, [*chain.from_iterable(packs)], counts)
            for unit in without_claims:
                _add_usual_requests(lists.judge, unit, opinions, counts, usual_count, size)
        return counts

    def score_by(
        self, judges: ListJudges, setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int
    ) -> pa.Table:
        """Check the claims of a shard's outputs.

        Details: the claims, as `CLAIM_SCHEMA`, the votes on them, as `CLAIM_VERDICT_SCHEMA`, and, for several
        votes, the scores by each vote, as `OPINION_SCHEMA`.
        """
        method, folder = criterion.method_as(ClaimsMethod), setup.folder
        outputs = {
            output_id: [_CheckedText(unit) for unit in claim_units(method, output_id, case)]
            for output_id, case in read_cases(shard)
        }
        texts = [text for output_texts in outputs.values() for text in output_texts if text.unit.reason is None]
        _check_claims(texts, criterion.id, method, judges)
        claims, votes = _claim_tables(folder.run_id, criterion.id, texts, judges.judge)
        write_parquet(folder.detail_file("claims", criterion.id, shard_index), claims)
        write_parquet(folder.detail_file("claim_verdicts", criterion.id, shard_index), votes)
        if judges.judge.has_several_votes:
            opinions = _opinions(folder.run_id, criterion.id, method, outputs, judges.judge)
            write_parquet(folder.detail_file("opinions", criterion.id, shard_index), opinions)
        judges.timing.row_count = len(outputs)
        return _verdicts(folder.run_id, criterion, method, outputs)


def _split_units(
    lists: ListPlanner,
    criterion_id: str,
    method: ClaimsMethod,
    digest: str,
    units: Sequence[ClaimUnit],
    count: ListCount,
) -> tuple[list[tuple[ClaimUnit, list[Claim]]], list[ClaimUnit]]:
    """Split texts: those with known claims, each with the claims to verify; and the other texts."""
    with_claims: list[tuple[ClaimUnit, list[Claim]]] = []
    extractions = []
    for unit in units:
        claims = known_claims(method, unit)
        if claims is None:
            extractions.append((unit, list(extraction_questions(unit, criterion_id, digest))))
        else:
            with_claims.append((unit, list(claims)))
    without_claims = []
    replies = lists.add([question for _, questions in extractions for question in questions], count)
    for unit, questions in extractions:
        if all(question.request_key in replies for question in questions):
            window_questions = zip(unit.windows, questions, strict=True)
            extracted = [
                claim
                for window, question in window_questions
                for claim in claims_of(replies[question.request_key], window)[0]
            ]
            with_claims.append((unit, [claim for claim in extracted if claim.kind == "verifiable"]))
        else:
            without_claims.append(unit)
    return with_claims, without_claims


def _add_usual_requests(
    judge: Judge,
    unit: ClaimUnit,
    opinions: Sequence[Opinion],
    counts: Mapping[int, ListCount],
    usual_count: float,
    size: int,
) -> None:
    """Add the requests that verify the claims of a text before they are known. usual_count: claims of a sentence."""
    sentence_count = sum(len(window.sentences) for window in unit.windows)
    usual = Claim(0, 0, 0, USUAL_CLAIM, USUAL_CLAIM, "verifiable")
    packs = claim_packs([usual] * round(sentence_count * usual_count), size)
    if not packs:
        return
    for _, opinion in judge.drawn_votes(opinions, [unit.output_id]):
        model, count = judge.members[opinion.judge_index].as_model, counts[opinion.judge_index]
        if model is None:
            continue
        question = verification_question(unit, packs[0], "", asked_judge(model))
        byte_count = len(packs) * prompt_bytes(question.render(), question.schema)
        count.request_count += len(packs)
        count.byte_count += byte_count
        if judge.is_conditional(opinion, opinions):
            count.at_most_count += len(packs)


def _claims_of_sentence(ledger: duckdb.DuckDBPyConnection) -> float:
    """Mean count of claims to verify per sentence in earlier runs."""
    try:
        ((mean_count,),) = ledger.execute(query("methods/claims_of_sentence")).fetchall()
    except duckdb.CatalogException:  # no lake yet, or one of an earlier gradebook
        return USUAL_CLAIMS_OF_SENTENCE
    return USUAL_CLAIMS_OF_SENTENCE if mean_count is None else float(mean_count)


def _check_claims(texts: Sequence[_CheckedText], criterion_id: str, method: ClaimsMethod, judges: ListJudges) -> None:
    """Find and verify the claims of texts in groups: while one group is verified, the claims of the next are found.

    A judge's program, which takes minutes to start, gets all texts at once.
    """

    def find(group: Sequence[_CheckedText]) -> None:
        _find_claims(group, criterion_id, method, judges.writer)

    def verify(group: Sequence[_CheckedText], finding: Future[None]) -> None:
        finding.result()
        _verify_claims([text for text in group if text.fault is None], criterion_id, method, judges)

    size = min(max(LEAST_GROUP, -(-len(texts) // MOST_GROUPS)), -(-len(texts) // GROUPS_AT_ONCE))
    size = max(len(texts) if judges.has_program else size, 1)
    groups = [texts[first : first + size] for first in range(0, len(texts), size)]
    with ThreadPoolExecutor(GROUPS_AT_ONCE) as finders, ThreadPoolExecutor(GROUPS_AT_ONCE) as verifiers:
        findings = [finders.submit(find, group) for group in groups]
        try:
            for _ in verifiers.map(verify, groups, findings):
                pass  # raises the first fault
        finally:
            finders.shutdown(cancel_futures=True)


def _find_claims(texts: Sequence[_CheckedText], criterion_id: str, method: ClaimsMethod, asker: ListAsker) -> None:
    extractions: list[tuple[_CheckedText, list[ListQuestion]]] = []
    for text in texts:
        ready_claims = known_claims(method, text.unit)
        if ready_claims is None:
            extractions.append((text, list(extraction_questions(text.unit, criterion_id, asker.judge.digest))))
        else:
            text.claims = list(ready_claims)
    answers = asker.ask(question for _, questions in extractions for question in questions)
    for text, questions in extractions:
        for window, question in zip(text.unit.windows, questions, strict=True):
            answer = answers[question.request_key]
            if answer.text is None:
                text.fault = text.fault or (answer.reason or "no_reply", question.request_key)
                continue
            claims, dropped_count = claims_of(answer.text, window)
            text.claims += claims
            text.dropped_count += dropped_count


def _verify_claims(texts: Sequence[_CheckedText], criterion_id: str, method: ClaimsMethod, judges: ListJudges) -> None:
    lists: list[PartList[CheckedClaim]] = []
    size = judges.judge.parts_at_once(criterion_id, CLAIMS_AT_ONCE)
    for text in texts:
        text.votes = {index: {} for index in text.verifiable}
        claims, votes = [text.claims[index] for index in text.votes], [*text.votes.values()]
        lists += claim_lists(method, criterion_id, text.unit, claims, votes, size)
    judges.ask_votes(criterion_id, CLAIM_SCALE, lists)
    votes_of_all = [votes for text in texts for votes in text.votes.values()]
    combined = iter(combine_parts(judges.judge, CLAIM_SCALE, votes_of_all))
    for text in texts:
        text.verdicts = {index: next(combined) for index in text.votes}


def _claim_tables(
    run_id: str, criterion_id: str, texts: Sequence[_CheckedText], judge: Judge
) -> tuple[pa.Table, pa.Table]:
    """Claims with their verdicts, and each vote on them."""
    claims: list[dict[str, Any]] = []
    votes: list[dict[str, Any]] = []
    names = judge.member_names
    counts: Counter[tuple[str, str]] = Counter()  # claims by (output, side), which may have several units
    for text in texts:
        unit = text.unit
        first_index = counts[unit.output_id, unit.side]
        counts[unit.output_id, unit.side] += len(text.claims)
        of_text = {"run_id": run_id, "output_id": unit.output_id, "criterion_id": criterion_id, "side": unit.side}
        for index, claim in enumerate(text.claims):
            identity = of_text | {"claim_index": first_index + index}
            content = {"span": claim.span, "claim": claim.text, "kind": claim.kind}
            location = {"sentence": claim.sentence, "start": claim.start, "stop": claim.stop}
            claims.append(identity | location | content | _verdict_columns(text.verdicts.get(index)))
            for opinion, vote in text.votes.get(index, {}).items():
                origin = {"judge": names[opinion.judge_index], "replicate": opinion.replicate, "reason": vote.reason}
                votes.append(identity | origin | _verdict_columns(vote))
    return (
        pa.Table.from_pylist(claims, schema=CLAIM_SCHEMA),
        pa.Table.from_pylist(votes, schema=CLAIM_VERDICT_SCHEMA),
    )


def _verdict_columns(vote: ClaimVote | None) -> dict[str, str | None]:
    if vote is None:
        return {}
    verdict, quote = (vote.said.verdict, vote.said.quote or None) if vote.said else (None, None)
    return {"verdict": verdict, "quote": quote, "request_key": vote.request_key}


def _opinions(
    run_id: str,
    criterion_id: str,
    method: ClaimsMethod,
    outputs: Mapping[str, Sequence[_CheckedText]],
    judge: Judge,
) -> pa.Table:
    """Scores of the outputs by each vote alone, as `OPINION_SCHEMA`, without levels."""
    rows = []
    names = judge.member_names
    for output_id, texts in outputs.items():
        votes = [votes for text in texts for votes in text.votes.values()]
        for opinion in dict.fromkeys(chain.from_iterable(votes)):
            score, reason, _ = _score(method, [text.with_verdicts_by(opinion) for text in texts])
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
    run_id: str, criterion: Criterion, method: ClaimsMethod, outputs: Mapping[str, Sequence[_CheckedText]]
) -> pa.Table:
    scores: list[float | None] = []
    reasons: list[str | None] = []
    keys: list[str | None] = []
    for texts in outputs.values():
        score, reason, key = _score(method, texts)
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
        evidence=pa.array([_evidence(texts) for texts in outputs.values()], pa.string()),
        rationales=pa.array([_rationale(texts) for texts in outputs.values()], pa.string()),
        request_keys=pa.array(keys, pa.string()),
    )


def _score(method: ClaimsMethod, texts: Sequence[_CheckedText]) -> tuple[float | None, str | None, str | None]:
    """(score, reason without a score, request key of the unanswered question) of an output."""
    for text in texts:
        if text.unit.reason is not None:
            return None, text.unit.reason, None
        if fault := text.fault or text.missing:
            return None, *fault
    if method.measure in CITATION_MEASURES:
        score = _citation_score(method, texts)
        return score, NO_CITATION if score is None else None, None
    if unclaimed := next((text for text in texts if not text.verifiable), None):
        return None, _nothing_to_check(unclaimed), None
    return _measured(method, texts), None, None


def _nothing_to_check(text: _CheckedText) -> str:
    """Reason why a text has no claim that can be checked."""
    if text.claims or not text.dropped_count:
        return NOT_APPLICABLE
    return f"invented_claims: the judge found {text.dropped_count}, of words that the {text.unit.side} lacks"


def _measured(method: ClaimsMethod, texts: Sequence[_CheckedText]) -> float:
    if method.measure == "passages":
        return _passages_score(texts[0])
    verdicts: dict[str, list[str]] = {text.unit.side: text.verdict_names for text in texts}
    score = score_claims_of(method.measure, verdicts)
    if score is None:
        raise TypeError(f"{method.measure}: found no score of verdicts on claims")
    return score


def _passages_score(text: _CheckedText) -> float:
    """Average precision of the passages; a passage is relevant if it contains the quote that supports a claim."""
    judgments = [vote.said for vote in text.verdicts.values() if vote.said]
    quotes = [judgment.quote for judgment in judgments if judgment.verdict == "supported"]
    source = text.unit.source
    ranks = [
        rank for rank, source_text in enumerate(source, 1) if any(is_quoted([quote], source_text) for quote in quotes)
    ]
    return sum(hit_count / rank for hit_count, rank in enumerate(ranks, 1)) / len(ranks) if ranks else 0.0


def _citation_score(method: ClaimsMethod, texts: Sequence[_CheckedText]) -> float | None:
    """Citation recall or precision as by Gao et al. (2023, ALCE); None without sentences, or without citations.

    Recall: share of the sentences that the passages they cite support together. Precision: share of the
    citations whose sentence is supported, and which support it alone or without which the others do not support it.
    """
    cited: dict[int, tuple[int, ...]] = {}
    is_supported: dict[tuple[int, tuple[int, ...]], bool] = {}
    for text in texts:
        for claim in text.unit.claims or ():
            cited.setdefault(claim.sentence, text.unit.cited)  # the first unit cites all passages of the sentence
            is_supported[claim.sentence, text.unit.cited] = text.verdict_names == ["supported"]
    if method.measure == "citation_recall":
        return sum(is_supported[number, all_of] for number, all_of in cited.items()) / len(cited) if cited else None
    good_count = citation_count = 0
    for number, all_of in cited.items():
        citation_sets = citation_parts(all_of)
        alone, without = citation_sets[: len(citation_sets) // 2], citation_sets[len(citation_sets) // 2 :]
        citation_count += len(alone) or len(all_of)
        if is_supported[number, all_of]:
            pairs = zip(alone, without, strict=True)
            needed = [is_supported[number, single] or not is_supported[number, rest] for single, rest in pairs]
            good_count += sum(needed) if alone else 1
    return good_count / citation_count if citation_count else None


def _evidence(texts: Sequence[_CheckedText]) -> str | None:
    """Spans of the output whose claims are not supported, as a JSON list; None if there are none."""
    spans = [
        text.claims[index].span
        for text in texts
        if text.unit.side == "output"
        for index, vote in sorted(text.verdicts.items())
        if vote.said and vote.said.verdict != "supported"
    ]
    return json.dumps(spans[:MOST_SPANS], ensure_ascii=False) if spans else None


_VERDICT_LABELS = {
    "supported": "supported",
    "contradicted": "contradicted",
    "not_in_source": "not in the source",
    "unverified": "with a quote that the source lacks",
}


def _rationale(texts: Sequence[_CheckedText]) -> str | None:
    """Rationale: "output: 4 of 6 claims supported, 1 contradicted, 1 not in the source; left out: 2 opinion"."""
    sentences = []
    for side in ("output", "reference"):
        of_side = [text for text in texts if text.unit.side == side]
        counts: Counter[str] = Counter(chain.from_iterable(text.verdict_names for text in of_side))
        uncited = [text.unit.text for text in of_side if text.unit.is_uncited]
        if not counts:
            sentences += [f"{side}: {_uncited_rationale(uncited)}"] if uncited else []
            continue
        phrases = [f"{counts['supported']} of {counts.total()} claims supported"]
        phrases += [
            f"{counts[name]} {label}" for name, label in _VERDICT_LABELS.items() if name != "supported" and counts[name]
        ]
        kinds = Counter(claim.kind for text in of_side for claim in text.claims)
        left_out = [f"{kinds[kind]} {kind}" for kind in ("opinion", "ambiguous") if kinds[kind]]
        dropped_count = sum(text.dropped_count for text in of_side)
        left_out += [f"{dropped_count} with words that the text lacks"] if dropped_count else []
        left_out += [f"{len(uncited)} without a source"] if uncited else []
        sentences.append(f"{side}: {', '.join(phrases)}" + (f"; left out: {', '.join(left_out)}" if left_out else ""))
    return "; ".join(sentences) or None


def _uncited_rationale(texts: Sequence[str]) -> str:
    """Rationale of an output without citations of its context; names a mark that looks like a citation."""
    mark = unread_mark(" ".join(texts))
    unread = f"; citations are read in brackets, [1], so {mark!r} is none" if mark else ""
    return f"no sentence of {len(texts)} cites a passage of the context{unread}"
