"""Verdicts on criteria of the method `claims`: the claims of each output found, checked and counted."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gradebook.rubrics.model.methods import CITATION_MEASURES, ClaimsMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.prompts.claims import CheckedClaim, Claim, claims_of, verdicts_of
from gradebook.rubrics.prompts.reply_parser import is_quoted
from gradebook.tasks.judging.replies.claim_questions import (
    ClaimUnit,
    citation_parts,
    claim_units,
    extraction_questions,
    known_claims,
    verification_questions,
)
from gradebook.tasks.judging.replies.list_question import ListQuestion
from gradebook.tasks.judging.session.session import JudgingSession
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.scoring.list_answers import ListAsker
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

CLAIM_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "output_id", "criterion_id", "side")),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("claim_index", "sentence", "start", "stop")),
        *(pa.field(name, pa.string(), nullable=False) for name in ("span", "claim", "kind")),
        *(pa.field(name, pa.string()) for name in ("verdict", "quote", "request_key")),
    ]
)
NO_CITATION = "not_applicable: no citation, or no sentence"
NOT_APPLICABLE = "not_applicable: no claim that can be checked"
MOST_SPANS = 20  # of a verdict's evidence


@dataclass(slots=True)
class _Checked:
    """Claims of one text and what was said of them. fault: reason and request key of a reply that is missing."""

    unit: ClaimUnit
    claims: list[Claim] = field(default_factory=list)
    verdicts: dict[int, tuple[CheckedClaim, str]] = field(default_factory=dict)  # by claim_index, with request_key
    dropped_count: int = 0
    fault: tuple[str, str | None] | None = None

    @property
    def asked(self) -> list[tuple[int, Claim]]:
        """Claims that can be checked, with their claim_index."""
        return [(index, claim) for index, claim in enumerate(self.claims) if claim.kind == "verifiable"]

    def count(self, *verdicts: str) -> int:
        return sum(checked.verdict in verdicts for checked, _ in self.verdicts.values())


def score_claims(
    folder: RunFolder,
    criterion: Criterion,
    shard: str,
    shard_index: int,
    lake: Lake,
    session: JudgingSession,
    timing: Timing,
) -> pa.Table:
    """Check the claims of a shard's outputs: `VERDICT_SCHEMA`, one row per output, in the shard's order.

    Writes the claims to the run's folder, as `CLAIM_SCHEMA`. Replies in the ledger are not asked for again. Raises
    `TypeError` for a criterion of another method, and as `JudgingSession.ask`; replies until then are in the journal.
    """
    method = criterion.method
    if not isinstance(method, ClaimsMethod):
        raise TypeError(f"{criterion.id}: found the method {method.type}, expected claims")
    outputs = {
        output_id: [_Checked(unit) for unit in claim_units(method, output_id, case)]
        for output_id, case in read_cases(shard)
    }
    checked = [each for units in outputs.values() for each in units if each.unit.reason is None]
    asker = ListAsker(folder.run_id, lake, session, timing)
    _find_claims(checked, criterion.id, method, asker)
    _verify_claims(checked, criterion.id, asker)
    write_parquet(folder.claims_file(criterion.id, shard_index), _claim_table(folder.run_id, criterion.id, checked))
    timing.row_count = len(outputs)
    return _verdicts(folder.run_id, criterion, method, outputs)


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


def _verify_claims(checked: Sequence[_Checked], criterion_id: str, asker: ListAsker) -> None:
    asked = [
        (
            each,
            list(
                verification_questions(each.unit, [claim for _, claim in each.asked], criterion_id, asker.judge_digest)
            ),
        )
        for each in checked
        if each.fault is None
    ]
    answers = asker.ask(question for _, questions in asked for question in questions)
    for each, questions in asked:
        left = iter(each.asked)
        for question in questions:
            answer = answers[question.request_key]
            if answer.text is None:
                each.fault = each.fault or (answer.reason or "no_reply", question.request_key)
                break
            for said in verdicts_of(answer.text):
                each.verdicts[next(left)[0]] = said, question.request_key


def _claim_table(run_id: str, criterion_id: str, checked: Sequence[_Checked]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    counts: Counter[tuple[str, str]] = Counter()  # by output and side, which citations divide
    for each in checked:
        first = counts[each.unit.output_id, each.unit.side]
        counts[each.unit.output_id, each.unit.side] += len(each.claims)
        for index, claim in enumerate(each.claims):
            said, key = each.verdicts.get(index, (None, None))
            rows.append(
                {
                    "run_id": run_id,
                    "output_id": each.unit.output_id,
                    "criterion_id": criterion_id,
                    "side": each.unit.side,
                    "claim_index": first + index,
                    "sentence": claim.sentence,
                    "start": claim.start,
                    "stop": claim.stop,
                    "span": claim.span,
                    "claim": claim.text,
                    "kind": claim.kind,
                    "verdict": None if said is None else said.verdict,
                    "quote": said.quote if said and said.quote else None,
                    "request_key": key,
                }
            )
    return pa.Table.from_pylist(rows, schema=CLAIM_SCHEMA)


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
        if each.fault is not None:
            return None, *each.fault
    if method.measure in CITATION_MEASURES:
        score = _citation_score(method, units)
        return score, NO_CITATION if score is None else None, None
    if any(not each.asked for each in units):
        return None, NOT_APPLICABLE, None
    return _measured(method, units), None, None


def _measured(method: ClaimsMethod, units: Sequence[_Checked]) -> float:
    shares = [each.count("supported") / len(each.asked) for each in units]
    match method.measure:
        case "passages":
            return _passages_score(units[0])
        case "not_contradicted":
            return 1 - units[0].count("contradicted") / len(units[0].asked)
        case "f1":
            return 2 * shares[0] * shares[1] / sum(shares) if sum(shares) else 0.0
        case _:
            return shares[0]


def _passages_score(checked: _Checked) -> float:
    """Average precision of the passages: one is relevant if it holds the quote that supports a claim."""
    quotes = [said.quote for said, _ in checked.verdicts.values() if said.verdict == "supported"]
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
            is_supported[claim.sentence, each.unit.cited] = each.count("supported") == 1
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
        for index, (said, _) in sorted(each.verdicts.items())
        if said.verdict != "supported"
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
        counts: Counter[str] = Counter(said.verdict for each in of_side for said, _ in each.verdicts.values())
        if not counts:
            continue
        parts = [f"{counts['supported']} of {counts.total()} claims supported"]
        parts += [f"{counts[name]} {words}" for name, words in _NAMES.items() if name != "supported" and counts[name]]
        kinds = Counter(claim.kind for each in of_side for claim in each.claims)
        others = [f"{kinds[kind]} {kind}" for kind in ("opinion", "ambiguous") if kinds[kind]]
        dropped_count = sum(each.dropped_count for each in of_side)
        others += [f"{dropped_count} with words that the text lacks"] if dropped_count else []
        others += [f"{uncited} without a source"] if (uncited := sum(each.unit.is_uncited for each in of_side)) else []
        sentences.append(f"{side}: {', '.join(parts)}" + (f"; left out: {', '.join(others)}" if others else ""))
    return "; ".join(sentences) or None
