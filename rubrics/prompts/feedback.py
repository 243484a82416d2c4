"""Written feedback on verdicts: the prompt, the key of the text, and the parsed reply.

The verdicts are final before a text is written, and no text changes a verdict. Untrusted text enters JSON-encoded, as
in `rubrics.prompts.prompt`. Weights are omitted, so that a changed weight needs no new text unless another output
passes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradebook.rubrics.model.json_values import digest_of, drop_none
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.prompt import Case, case_shown
from gradebook.rubrics.prompts.prompt_text import shown_json
from gradebook.rubrics.prompts.reply_parser import (
    ReadReply,
    TokenChoices,
    clean_text,
    parse_reply,
    read_ending,
    unreadable,
)

FEEDBACK_PROMPT_VERSION = "feedback_v1"
FEEDBACK_CRITERION_ID = "(feedback)"  # used in the ledger instead of a criterion id
FEEDBACK_REPLY_SCHEMA: dict[str, Any] = {
    "name": "feedback",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"feedback": {"type": "string"}},
        "required": ["feedback"],
        "additionalProperties": False,
    },
}
MOST_CRITERIA_SHOWN = 20  # criteria of a group: rows may have thousands of per-case criteria
MOST_REASONS_SHOWN = 3
_USUAL_RATIONALE = "x" * 160  # usual length of a rationale
_PROMPT_PATH = Path(__file__).parent / "texts" / f"{FEEDBACK_PROMPT_VERSION}.txt"
_OUTPUT_MARK, _SYSTEM_MARK, _GROUP_MARK = "=== output ===\n", "=== system ===\n", "=== group ===\n"
_SCORE_TOLERANCE = 1e-9  # maximum error of a float sum

Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """Verdict on one output. score: 0..1, None if unscored; `reason` gives the cause."""

    criterion: Criterion
    level_id: str | None
    score: float | None
    reason: str | None = None
    rationale: str | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class GroupCriterion:
    """Criterion over the outputs of a group. mean: 0..1, None if no output is scored."""

    criterion: Criterion
    mean: float | None
    scored_count: int
    unscored_count: int
    reasons: tuple[tuple[str, int], ...] = ()  # (reason, count of outputs), most frequent first


@dataclass(frozen=True, slots=True)
class GroupVerdicts:
    """Results of the outputs of one model and checkpoint. criteria: the weakest first."""

    output_count: int
    passed_count: int
    failed_count: int
    criteria: tuple[GroupCriterion, ...]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    feedback: str


@dataclass(frozen=True, slots=True)
class _Template:
    """Prompt file, split at its marks and slots once, so that the content of a slot cannot affect another."""

    output_system: str
    before_case: str
    before_verdicts: str
    group_system: str
    before_group: str


@lru_cache(maxsize=1)
def _template() -> _Template:
    output_system, _, remaining = _PROMPT_PATH.read_text("utf-8").partition(_OUTPUT_MARK)
    output_user, _, remaining = remaining.partition(_SYSTEM_MARK)
    group_system, _, group_user = remaining.partition(_GROUP_MARK)
    before_case, _, after_case = output_user.partition("{case}")
    return _Template(
        output_system.strip(),
        before_case,
        after_case.partition("{verdicts}")[0],
        group_system.strip(),
        group_user.partition("{verdicts}")[0],
    )


@lru_cache(maxsize=1)
def feedback_prompt_digest() -> str:
    """Digest of the prompt file, 32 hex digits."""
    return digest_of(_PROMPT_PATH.read_bytes())


def render_output_feedback(case: Case, verdicts: Sequence[ShownVerdict], is_passed: bool | None) -> Messages:
    """Write the messages that ask for feedback on one output: instructions, then the case, then its verdicts."""
    template = _template()
    content = {"passed": is_passed, "criteria": [_verdict_shown(verdict) for verdict in verdicts]}
    user = (template.before_case, shown_json(case_shown(case)), template.before_verdicts, shown_json(content))
    return _messages(template.output_system, "".join(user))


def render_group_feedback(group: GroupVerdicts) -> Messages:
    """Write the messages that ask for feedback on the outputs of one model and checkpoint; neither is named."""
    template = _template()
    content = {
        "output_count": group.output_count,
        "passed_count": group.passed_count,
        "failed_count": group.failed_count,
        "not_known_count": group.output_count - group.passed_count - group.failed_count,
        "criteria": [_criterion_shown(criterion) for criterion in group.criteria],
    }
    return _messages(template.group_system, template.before_group + shown_json(content))


def show_verdicts(
    rubric: Rubric, rows: Iterable[dict[str, Any]], own: Mapping[tuple[str, str], Criterion]
) -> dict[str, list[ShownVerdict]]:
    """Group the verdicts by output: the rubric's criteria in its order, then per-case criteria by id.

    rows: as stored in the verdicts table; own: per-case criteria, by output and criterion.
    """
    positions = {criterion.id: position for position, criterion in enumerate(rubric.criteria)}
    verdicts: dict[str, list[ShownVerdict]] = {}
    for row in rows:
        output_id, criterion_id = row["output_id"], row["criterion_id"]
        is_of_rubric = criterion_id in positions
        criterion = rubric.criteria[positions[criterion_id]] if is_of_rubric else own[output_id, criterion_id]
        fields = (row[name] for name in ("level_id", "score", "reason", "rationale", "evidence"))
        verdicts.setdefault(output_id, []).append(ShownVerdict(criterion, *fields))
    for of_output in verdicts.values():
        of_output.sort(key=lambda verdict: (positions.get(verdict.criterion.id, len(positions)), verdict.criterion.id))
    return verdicts


def feedback_key(judge_digest: str, messages: Messages) -> str:
    """Key under which a text is paid for once, 32 hex digits: judge, prompt file and shown content."""
    content = json.dumps(messages, ensure_ascii=False)
    return digest_of(f"feedback|{judge_digest}|{feedback_prompt_digest()}|{digest_of(content)}")


def read_feedback(
    text: str | None, finish_reason: str | None, refusal: str | None, _choices: TokenChoices | None = None
) -> ReadReply:
    """Read one reply: its text as the rationale, without a level. A blank text is a parse error."""
    ending = read_ending(finish_reason, refusal)
    if ending is not None:
        return ending
    reply = parse_reply(text or "", _Reply)
    if isinstance(reply, ReadReply):
        return reply
    if not reply.feedback.strip():
        return unreadable("found an empty text as `feedback`")
    feedback_text = reply.feedback.strip().replace("\x00", "")  # PostgreSQL, which may store small tables, refuses NUL
    return ReadReply("scored", rationale=clean_text(feedback_text))


def usual_byte_counts(criteria: Sequence[Criterion]) -> tuple[int, int]:
    """Bytes of a request about an output, without its case, and of a request about a group; with usual rationales."""
    verdicts = [ShownVerdict(c, c.ranked_levels[0].id, 0.0, rationale=_USUAL_RATIONALE) for c in criteria]
    reasons = ((_USUAL_RATIONALE, 1),) * MOST_REASONS_SHOWN
    group_criteria = tuple(GroupCriterion(c, 0.0, 1, 0, reasons) for c in criteria[:MOST_CRITERIA_SHOWN])
    requests = (
        render_output_feedback(Case(None, ""), verdicts, None),
        render_group_feedback(GroupVerdicts(1, 0, 0, group_criteria)),
    )
    output_bytes, group_bytes = (sum(len(message["content"].encode()) for message in messages) for messages in requests)
    return output_bytes, group_bytes


def _messages(system: str, user: str) -> Messages:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _verdict_shown(verdict: ShownVerdict) -> dict[str, Any]:
    criterion, score = verdict.criterion, verdict.score
    question = {"question": criterion.description, "kind": _kind(criterion)}
    if score is None:
        return question | {"unscored": verdict.reason or "no reason is known"}
    level = {level.id: level for level in criterion.ranked_levels}.get(verdict.level_id or "")
    return question | drop_none(
        {
            "level": _level_text(level) if level else verdict.level_id,
            "score": round(score, 4),
            "met": _is_met(criterion, score),
            "next_level": _next_level_text(criterion, score),
            "rationale": verdict.rationale,
            "evidence": verdict.evidence,
        }
    )


def _criterion_shown(group_criterion: GroupCriterion) -> dict[str, Any]:
    return {
        "question": group_criterion.criterion.description,
        "kind": _kind(group_criterion.criterion),
        "score": group_criterion.mean,
        "scored_count": group_criterion.scored_count,
        "unscored_count": group_criterion.unscored_count,
        "reasons": [{"reason": reason, "count": count} for reason, count in group_criterion.reasons],
    }


def _kind(criterion: Criterion) -> str:
    if criterion.gate:
        return "gate"
    return "penalty" if _is_penalty(criterion) else "scored"


def best_score(criterion: Criterion) -> float:
    """Best possible score: of the top level, or of the lowest level for a penalty."""
    return criterion.ranked_levels[0 if _is_penalty(criterion) else -1].score


def _is_penalty(criterion: Criterion) -> bool:
    return criterion.weight is not None and criterion.weight < 0


def _is_met(criterion: Criterion, score: float) -> bool | None:
    """Whether the criterion's own threshold is met; None if it has none."""
    mark = criterion.gate_threshold if criterion.gate else criterion.threshold
    return None if mark is None else score >= mark - _SCORE_TOLERANCE


def _next_level_text(criterion: Criterion, score: float) -> str | None:
    """Nearest better level; None at the best."""
    levels = criterion.ranked_levels
    if _is_penalty(criterion):
        better = [level for level in reversed(levels) if level.score < score - _SCORE_TOLERANCE]
    else:
        better = [level for level in levels if level.score > score + _SCORE_TOLERANCE]
    return _level_text(better[0], *better[0].indicators) if better else None


def _level_text(level: Level, *indicators: str) -> str:
    name = ": ".join(text for text in (level.label, level.description) if text) or level.id
    return f"{name} ({'; '.join(indicators)})" if indicators else name
