"""Origin of a verdict as named texts, for the terminal and the page."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from gradebook.rubrics.importers.case_rows import prompt_text
from gradebook.rubrics.model.conditions import unmet_words
from gradebook.rubrics.prompts.chat import read_chat
from gradebook.rubrics.prompts.reply_parser import read_requirements, requirement_line
from gradebook.rubrics.text.wording import counted, price_words, score_words, spread_words
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.provenance import Origin

NO_REASONS = "none: this judge gives a probability for each level and no reasons"


@dataclass(frozen=True, slots=True)
class OriginField:
    """Named text of an origin. is_shared: other verdicts may have the same one."""

    name: str
    text: str
    is_shared: bool = False


def origin_fields(origin: Origin) -> Iterator[OriginField]:
    """Texts of an origin in reading order, without empty ones."""
    return (field for field in _fields(origin) if field.text)


def _fields(origin: Origin) -> Iterator[OriginField]:
    row = origin.row
    level = f"{row['level_id']}, " if row["level_id"] else ""
    unmet = unmet_words(row["reason"])
    unscored = f"unscored, {row['reason']}" if unmet is None else f"does not apply: {unmet}"
    verdict = unscored if row["score"] is None else f"{level}{score_words(row['score'])}"
    yield OriginField("verdict", f"{row['criterion_id']} of {model_name(row)}, case {row['case_id']}: {verdict}")
    weight = "no weight (a gate)" if not row["weight"] else f"weight {row['weight']}"
    threshold = "" if row["threshold"] is None else f", threshold {row['threshold']}"
    yield OriginField("counts", f"{weight}{threshold}; output's score {output_score(row)}")
    yield OriginField("rationale", row["rationale"] or (NO_REASONS if row["distribution"] else ""))
    yield OriginField("probabilities", level_spread(row))
    yield from _evidence_fields("evidence", row["evidence"])
    if origin.asked is not None:
        other_verdict = f"{origin.asked.level_id or 'unscored'}, {score_words(origin.asked.score)}"
        why = origin.asked.rationale or origin.asked.reason or "no reasons"
        yield OriginField("another judge", f"{other_verdict}, beside the verdict: {why}")
        yield from _evidence_fields("its evidence", origin.asked.evidence)
    yield OriginField("asked", user_question(row["prompt"]), is_shared=True)
    yield OriginField("output", row["output"] or "")
    yield OriginField("criterion", row["description"] or "", is_shared=True)
    for level_row in origin.levels:
        sentence = f"{level_row['id']} ({score_words(level_row['score'])}): {level_row['description']}"
        yield OriginField("level", sentence, is_shared=True)
    yield OriginField("method", json.dumps(origin.settings, ensure_ascii=False, default=str), is_shared=True)
    if row["request_key"] is not None:
        yield from _judgment_fields(origin)
    for rating in origin.ratings:
        opinion = rating["level_id"] or score_words(rating["score"])
        yield OriginField("rating", ", ".join(filter(None, (f"{rating['rater']}: {opinion}", rating["notes"]))))
    rubric = f"{row['rubric_id']} {row['rubric_version']}, digest {row['rubric_digest']}"
    yield OriginField("rubric", rubric, is_shared=True)
    epoch = "" if row["judge_epoch"] is None else f", judge epoch {row['judge_epoch']}"
    versions = f"gradebook {row['code_version']}, table version {row['version']}{epoch}"
    yield OriginField("versions", versions, is_shared=True)
    yield OriginField("dataset", f"{row['dataset']}, digest {row['dataset_digest']}", is_shared=True)


def _evidence_fields(name: str, evidence: str | None) -> Iterator[OriginField]:
    """One field for each requirement; other evidence as it is stored."""
    requirements = read_requirements(evidence)
    for entry in requirements:
        quote = f' "{entry.quote}"' if entry.quote else ""
        yield OriginField("requirement", f"{requirement_line(entry)}{quote}")
    if not requirements:
        yield OriginField(name, evidence or "")


def _judgment_fields(origin: Origin) -> Iterator[OriginField]:
    row = origin.row
    if row["judgment_id"] is None:
        yield OriginField("judge", f"no reply in the ledger under {row['request_key']}")
        return
    payer = "by this run" if row["paid_by"] == row["run_id"] else f"by {row['paid_by']}"
    tokens = f"{row['prompt_tokens']} tokens in, {row['completion_tokens']} out"
    by = f", answered by {row['model_returned']}" if row["model_returned"] else ""
    yield OriginField("judge", f"{row['asked_judge']}{by} on {row['asked_at']:%Y-%m-%d %H:%M} UTC")
    yield OriginField("price", f"{price_words(row['cost_usd'])}, {tokens}, paid {payer}")
    yield OriginField("request", f"key {row['request_key']}, prompt file {row['prompt_digest']}")
    for message in origin.messages or ():
        content = message["content"]
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        yield OriginField("sent", text, is_shared=True)
    if origin.why_no_messages:
        yield OriginField("sent", f"not shown: {origin.why_no_messages}")
    yield OriginField("reply", row["reply"] or "")


def output_score(row: Row) -> str:
    """Score of the output, or why it has none."""
    why = row["output_unscored_reason"] if row["output_score"] is None else None
    return score_words(row["output_score"]) + (f" ({why})" if why else "")


def user_question(prompt: str | None) -> str:
    """Question of the user: of a chat the last message of the user, with the number of messages before it."""
    messages = read_chat(prompt or "")
    of_user = [index for index, message in enumerate(messages or ()) if message["role"] == "user"]
    if not messages or not of_user:
        return prompt or ""
    index = of_user[-1]
    before = f"(after {counted(index, 'message')}) " if index else ""
    return before + prompt_text([{"role": "user", "content": messages[index]["content"]}])


def level_spread(row: Row) -> str:
    """Probabilities of the levels, the largest first; empty where the judge gave none."""
    return spread_words(json.loads(row["distribution"])) if row["distribution"] else ""
