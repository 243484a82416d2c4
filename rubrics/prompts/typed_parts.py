"""Preferences, steps and claims as typed questions for decision models: the states, the questions and their answers.

The answers come to what a judge that writes would have replied: a level, marks of steps, or verdicts on claims. The
most probable option counts. Such a judge gives no quotes; in place of a rationale it has the probabilities.
"""

import json
from collections.abc import Mapping, Sequence

from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.levels import BETTER, SAME, WORSE
from gradebook.rubrics.model.methods import PreferenceMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.decisions import (
    MOST_OPTIONS,
    TypedQuestion,
    guided,
    level_kind,
    level_options,
    read_answers,
    shuffled_options,
)
from gradebook.rubrics.prompts.preference import OUTCOMES, preference_levels, preference_shown
from gradebook.rubrics.prompts.prompt import Case, Messages
from gradebook.rubrics.prompts.prompt_text import CODES, read_sections, shown_json
from gradebook.rubrics.prompts.reply_parser import ReadReply
from gradebook.rubrics.prompts.step_marks import StepCriterion, steps_shown
from gradebook.rubrics.text.wording import counted

PARTS_PROMPT = "decisions_parts_v1"
_VERDICTS = ("contradicted", "not_in_source", "supported")  # worst first


def _state(section: str, content: object) -> Messages:
    sections = read_sections(PARTS_PROMPT)
    text = "\n\n".join((sections[section], sections["system"], f"CASE\n{shown_json(content)}"))
    return [{"role": "user", "content": text}]


def _choice(name: str, instructions: str, texts: Mapping[str | None, str], key: str) -> TypedQuestion:
    """A choice in an order that the key draws. texts: by level id, None for "can't tell"."""
    return TypedQuestion(name, "choice", instructions, shuffled_options(texts, key))


def _spread(read: ReadReply) -> str:
    """Probabilities in words, the most probable first: "71% better, 20% same, 9% worse"; under 0.5% left out."""
    ranked = sorted((read.distribution or {}).items(), key=lambda share: -share[1])
    return ", ".join(f"{share:.0%} {level_id}" for level_id, share in ranked if share >= 0.005)


def _unread(reads: Sequence[ReadReply]) -> ReadReply | None:
    """First answer that has no usable distribution."""
    return next((read for read in reads if read.status not in ("scored", "abstained")), None)


# -------- preferences
def render_pair_state(case: Case, other: str, *, is_swapped: bool) -> Messages:
    """State with both answers. case: of the output; other: the answer that it is compared with."""
    return _state("preference", preference_shown(case, other, is_swapped=is_swapped))


def preference_question(criterion: Criterion, key: str, *, is_swapped: bool) -> TypedQuestion:
    """Question which of two answers is better, with three options: the first, the second, neither."""
    levels = preference_levels(is_swapped=is_swapped)
    texts: dict[str | None, str] = dict(zip(levels, OUTCOMES, strict=True))
    instructions = guided(criterion, criterion.method_as(PreferenceMethod).guidance)
    return _choice(f"q1_{key[:12]}", instructions, texts, key)


def read_preference(text: str | None, questions: Sequence[TypedQuestion]) -> ReadReply:
    """Level of the output; a tie where two outcomes are equally probable. questions: only one."""
    (read,) = read_answers(text, questions)
    if read.status != "scored":
        return read
    masses = read.distribution or {}
    likeliest = [level for level in (WORSE, SAME, BETTER) if masses[level] == max(masses.values())]
    level = likeliest[0] if len(likeliest) == 1 else SAME
    return ReadReply("scored", level, rationale=_spread(read), distribution=masses)


# -------- steps
def questions_of_step(asked: StepCriterion) -> int:
    """Count of the questions about one step: its level, and of an error which one and how grave."""
    return 1 + (len(asked.errors) > 1) + (len(asked.severities) > 1)


def steps_fault(asked: StepCriterion, most_options: int = MOST_OPTIONS) -> str | None:
    """Why a decision model can't be asked about steps; None if it can."""
    most = min(most_options, MOST_OPTIONS, len(CODES))
    for name, count in (("error", len(asked.errors)), ("severity", len(asked.severities))):
        if count > most:
            found = counted(count, name, "severities" if name == "severity" else None)
            return f"found {found} in the taxonomy, expected at most {most} for a decision model"
    return None


def render_steps_state(case: Case) -> Messages:
    """State with all steps. case: as seen with its trajectory."""
    return _state("steps", steps_shown(case))


def step_questions_of(asked: StepCriterion, steps: Sequence[int], key: str) -> tuple[TypedQuestion, ...]:
    """Questions about some steps, in order: of each its level, then error and severity where there is a choice."""
    sections, levels = read_sections(PARTS_PROMPT), asked.criterion.ranked_levels
    kind = level_kind(levels)
    meanings: dict[str, dict[str | None, str]] = {
        "error": dict(asked.error_texts.items()),
        "severity": {name: name for name in asked.severities},
    }
    questions: list[TypedQuestion] = []
    for step in steps:
        of_step = digest_of(f"{key}|{step}")
        head = f"Step {step}. "
        met = sections["met"] if kind == "predicate" else None
        instructions = head + guided(asked.criterion, asked.method.guidance, met)
        options = level_options(levels, kind, of_step)
        questions.append(TypedQuestion(f"q{len(questions) + 1}_{key[:12]}", kind, instructions, options))
        for section, texts in meanings.items():
            if len(texts) > 1:
                name = f"q{len(questions) + 1}_{key[:12]}"
                questions.append(_choice(name, head + sections[section], texts, of_step))
    return tuple(questions)


def read_step_answers(
    text: str | None, asked: StepCriterion, steps: Sequence[int], questions: Sequence[TypedQuestion]
) -> ReadReply:
    """Marks of the steps, as `read_steps` gives them. Unreadable if one answer is; error and severity are those of
    steps below the best level.
    """
    reads = read_answers(text, questions)
    if unread := _unread(reads):
        return unread
    size, best = questions_of_step(asked), asked.criterion.ranked_levels[-1].id
    marks = []
    for index, step in enumerate(steps):
        level, *others = reads[index * size : (index + 1) * size]
        is_best, named = level.level_id == best, iter(others)
        error_name, severity = (
            next(named).level_id if len(names) > 1 else next(iter(names), None)
            for names in (asked.errors, asked.severities)
        )
        error = None if is_best or error_name is None else asked.errors[error_name]
        marks.append(
            {
                "step": step,
                "level": level.level_id,
                "error_type": error.error_type if error else None,
                "error_subtype": error.error_subtype if error else None,
                "severity": None if is_best else severity,
                "rationale": _spread(level),
                "quote": None,
                "probabilities": level.distribution,
            }
        )
    return ReadReply("scored", rationale=json.dumps(marks, ensure_ascii=False))


# -------- claims
def render_source_state(source: Sequence[str]) -> Messages:
    """State with the passages that claims are checked against."""
    return _state("claims", list(source))


def claim_questions(claims: Sequence[str], key: str, *, can_abstain: bool = False) -> tuple[TypedQuestion, ...]:
    """Whether the source supports each claim: a choice of three, or of four where the judge may abstain."""
    sections = read_sections(PARTS_PROMPT)
    texts: dict[str | None, str] = {verdict: sections[verdict] for verdict in _VERDICTS}
    if can_abstain:
        texts[None] = sections["cannot_tell"]
    return tuple(
        _choice(
            f"q{number}_{key[:12]}", f"{sections['claim']}\n{shown_json(claim)}", texts, digest_of(f"{key}|{number}")
        )
        for number, claim in enumerate(claims, 1)
    )


def read_claim_answers(text: str | None, questions: Sequence[TypedQuestion]) -> ReadReply:
    """Verdicts on claims, as `read_verification` gives them, but without quotes. Unreadable if one answer is."""
    reads = read_answers(text, questions)
    if unread := _unread(reads):
        return unread
    verdicts = [
        {"verdict": read.level_id or "abstained", "quote": "", "probabilities": read.distribution} for read in reads
    ]
    return ReadReply("scored", rationale=json.dumps(verdicts))
