"""Criteria as typed questions for decision models, which answer with a probability per option and write no text.

A question and its answer are the same in all wire forms here: a predicate (true or false), a choice among options, or a
score on levels from worst to best.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import JudgeMethod, Sees
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.distributions import read_distribution
from gradebook.rubrics.prompts.prompt import (
    Case,
    Messages,
    case_content,
    criterion_digest,
    level_meaning,
    seeing_digest,
    template_of,
)
from gradebook.rubrics.prompts.prompt_text import CODES, LETTERS, read_sections, shuffle_labels
from gradebook.rubrics.prompts.reply_parser import MOST_FOUND, MOST_RATIONALE_LENGTH, ReadReply, clean_text
from gradebook.rubrics.text.wording import counted

DECISIONS_PROMPT = "decisions_v1"
MOST_SCORE_LEVELS = 10  # levels of a question of the kind `score`, in every wire form
MOST_OPTIONS = 255  # options of a choice, in the wire form with the highest limit
TRUE, FALSE = "true", "false"
# Ids of levels, worst first, of a criterion that is a statement, which is true or false.
_STATEMENTS = frozenset({("fail", "pass"), ("no", "yes"), ("false", "true"), ("unmet", "met"), ("not_met", "met")})
# Services round probabilities to two decimals, so that a sum has an error of up to 0.005 per option.
_ROUNDING, _LEAST_OFF, _MOST_OFF = 0.005, 0.01, 0.05

Kind = Literal["predicate", "choice", "score"]
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Option:
    """Option of a question. name: its name in answers; for a score its index. level_id: None for "can't be judged"."""

    name: str
    level_id: str | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """One criterion of one output as a question.

    name: drawn by the key, so that answers about another state have unknown names. options: for a predicate false and
    true; for a score from worst to best; for a choice in an order drawn by the key.
    """

    name: str
    kind: Kind
    instructions: str
    options: tuple[Option, ...]


def kind_of(criterion: Criterion) -> Kind:
    """Kind of a criterion's question.

    A statement with plain levels (fail and pass, no and yes) is a predicate; three to ten levels with different scores
    are a score; everything else is a choice, also two levels with descriptions, as the question may ask for either.
    """
    return level_kind(criterion.ranked_levels, can_abstain=_can_abstain(criterion))


def _can_abstain(criterion: Criterion) -> bool:
    return isinstance(criterion.method, JudgeMethod) and criterion.method.can_abstain


def level_kind(levels: Sequence[Level], *, can_abstain: bool = False) -> Kind:
    """Kind of a question about levels. levels: worst first."""
    if can_abstain:  # only a choice can have this option
        return "choice"
    if len(levels) == 2:
        is_plain = not any(level.description or level.label or level.indicators for level in levels)
        return "predicate" if is_plain and (levels[0].id, levels[1].id) in _STATEMENTS else "choice"
    are_ordered = len({level.score for level in levels}) == len(levels)
    return "score" if are_ordered and len(levels) <= MOST_SCORE_LEVELS else "choice"


def question_fault(criterion: Criterion, most_options: int = MOST_OPTIONS) -> str | None:
    """Reason why a decision model can't be asked a criterion; None if it can."""
    if isinstance(criterion.method, JudgeMethod) and criterion.method.examples:
        return "found `examples`, expected none: a decision model is shown no other outputs; say it in `guidance`"
    if criterion.hears_audio:
        return "found `hears_audio`, expected a judge that takes sounds: a decision model takes text and images"
    most = min(most_options, MOST_OPTIONS, len(CODES))
    if criterion.scale is None and len(criterion.levels) < min(most, MOST_SCORE_LEVELS):  # without their order
        return None
    count = len(criterion.ranked_levels) + _can_abstain(criterion)
    if kind_of(criterion) == "choice" and count > most:
        return f"found {counted(count, 'option')}, expected at most {most} for a decision model"
    return None


def typed_question(criterion: Criterion, request_key: str, number: int = 1) -> TypedQuestion:
    """Write a criterion as a question. number: its place in the request. The same key gives the same question."""
    sections = read_sections(DECISIONS_PROMPT)
    levels, can_abstain = criterion.ranked_levels, _can_abstain(criterion)
    kind = level_kind(levels, can_abstain=can_abstain)
    guidance = criterion.method.guidance if isinstance(criterion.method, JudgeMethod) else None
    instructions = guided(criterion, guidance, sections["predicate"] if kind == "predicate" else None)
    options = level_options(levels, kind, request_key, can_abstain=can_abstain)
    return TypedQuestion(f"q{number}_{request_key[:12]}", kind, instructions, options)


def guided(criterion: Criterion, guidance: str | None, met: str | None = None) -> str:
    """Instructions of a criterion's question. met: what true and false mean, of a predicate."""
    lines = [criterion.description if criterion.name is None else f"{criterion.name}: {criterion.description}"]
    lines += [met] if met else []
    lines += [f"{read_sections(DECISIONS_PROMPT)['guidance']} {guidance}"] if guidance else []
    return "\n".join(lines)


def level_options(
    levels: Sequence[Level], kind: Kind, request_key: str, *, can_abstain: bool = False
) -> tuple[Option, ...]:
    """Options of a question about levels, of a choice in an order that the key draws. levels: worst first."""
    if kind == "predicate":
        return (Option(FALSE, levels[0].id), Option(TRUE, levels[1].id))
    sections = read_sections(DECISIONS_PROMPT)
    texts: dict[str | None, str] = {}
    for level in levels:
        meaning = level_meaning(level)
        signs = "; ".join(meaning.get("indicators", ()))
        texts[level.id] = meaning["meaning"] + (f"\n{sections['signs']} {signs}" if signs else "")
    if can_abstain:
        texts[None] = sections["unable"]
    if kind == "score":
        return tuple(Option(str(index), level_id, text) for index, (level_id, text) in enumerate(texts.items()))
    return shuffled_options(texts, request_key)


def shuffled_options(texts: Mapping[str | None, str], key: str) -> tuple[Option, ...]:
    """Options of a choice under letters, in an order that the key draws. texts: by level id."""
    names = LETTERS if len(texts) <= len(LETTERS) else CODES
    listed = [*texts.items()]
    shuffled = [listed[int(index)] for index in shuffle_labels([*map(str, range(len(texts)))], key)]
    return tuple(Option(name, level_id, text) for name, (level_id, text) in zip(names, shuffled, strict=False))


def render_state(case: Case, criterion: Criterion) -> Messages:
    """Message with the state of the questions about an output: a description of CASE, then CASE.

    criterion: any of the asked criteria, as they share view and template. Raises `UnreadableMedia` as
    `render_messages` does.
    """
    sections, template = read_sections(DECISIONS_PROMPT), template_of(criterion)
    about = [sections["system"] if template is None else sections["template"]]
    if case.steps is not None and template is None:
        about.append(sections["steps" if case.sees == "steps" else "trajectory"])
    return [{"role": "user", "content": case_content("\n\n".join([*about, "CASE\n"]), "", case, template)}]


def decisions_prompt_digest(sees: Sees = "answer") -> str:
    """Digest of the prompt file of typed questions, 32 hex digits."""
    return seeing_digest(DECISIONS_PROMPT, sees)


def question_digest(criterion: Criterion, others: Sequence[Criterion] = ()) -> str:
    """Digest of a criterion's question, 32 hex digits.

    others: all criteria of the request, if the model reads all questions together.
    """
    digests = [f"{kind_of(batched)}|{criterion_digest(batched)}" for batched in (criterion, *others)]
    return digest_of("decision|" + "|".join(digests))


class _Unreadable(ValueError):
    """Error: the answer has another form than the question asks for; the text describes it."""


def read_answers(text: str | None, questions: Sequence[TypedQuestion]) -> list[ReadReply]:
    """Read the answers to questions, in order, each as a distribution or with its fault.

    text: JSON object of answers by the names of their questions, each with its `type`. Answers to other questions
    may be about another state, so the whole reply is then unreadable.
    """
    try:
        answers = json.loads(text or "")  # takes NaN, which some services write
    except (ValueError, RecursionError):
        answers = None
    if not isinstance(answers, dict):
        return [_unreadable("found no answers, expected one to each question")] * len(questions)
    if unasked := answers.keys() - {question.name for question in questions}:
        message = f"found answers to {', '.join(sorted(unasked))[:MOST_FOUND]}, which nobody asked"
        return [_unreadable(f"{message}: they may be about another text")] * len(questions)
    return [_read_answer(question, answers.get(question.name)) for question in questions]


def own_answers(text: str, questions: Sequence[TypedQuestion]) -> list[str]:
    """One reply text per question, with its answer alone; the whole text if it can't be read."""
    try:
        answers = json.loads(text)
    except (ValueError, RecursionError):
        answers = None
    if not isinstance(answers, dict) or answers.keys() - {question.name for question in questions}:
        return [text if len(questions) == 1 else text[:MOST_RATIONALE_LENGTH]] * len(questions)
    return [json.dumps({name: answers[name] for name in (question.name,) if name in answers}) for question in questions]


def _read_answer(question: TypedQuestion, answer: object) -> ReadReply:
    if answer is None:
        return ReadReply("no_answer", rationale="found no answer to the question in the reply")
    if isinstance(answer, dict) and answer.get("type") == "refusal":
        return ReadReply("refused")
    try:
        if not isinstance(answer, dict) or answer.get("type") != question.kind:
            raise _Unreadable(f"found {_excerpt(answer)}, expected an answer of the type {question.kind}")
        masses = _masses(question, answer)
        _refuse_contradiction(question, answer, masses)
    except _Unreadable as fault:
        return _unreadable(str(fault))
    ranked = sorted(question.options, key=lambda option: option.level_id is None)  # "can't be judged" comes last
    return read_distribution({option.level_id: masses[option.name] for option in ranked})


def _masses(question: TypedQuestion, answer: Answer) -> dict[str, float]:
    """Probability of each option."""
    if question.kind == "predicate":
        probability = _probability(answer.get("probability"))
        return {FALSE: 1.0 - probability, TRUE: probability}
    probabilities = answer.get("probabilities")
    if not isinstance(probabilities, dict):
        confidence_note = " beside a confidence, which is no probability of an option" if "confidence" in answer else ""
        raise _Unreadable(f"found no probabilities{confidence_note}, expected one for each option")
    masses = dict.fromkeys((option.name for option in question.options), 0.0)
    for name, value in probabilities.items():
        if name not in masses:
            raise _Unreadable(f"found a probability of {_excerpt(name)}, which is none of the options")
        masses[name] = _probability(value)
    total = math.fsum(masses.values())
    if abs(total - 1) > min(max(_ROUNDING * len(masses), _LEAST_OFF), _MOST_OFF) + 1e-9:
        raise _Unreadable(f"found probabilities that add up to {total:.3f}, expected 1")
    return masses


def _refuse_contradiction(question: TypedQuestion, answer: Answer, masses: Mapping[str, float]) -> None:
    """Raise `_Unreadable` if the parts of an answer contradict each other, as when options were mixed up."""
    if question.kind == "choice" and "choice" in answer:
        chosen_mass = masses.get(answer["choice"], 0.0) if isinstance(answer["choice"], str) else 0.0
        if chosen_mass < max(masses.values()) - 2 * _ROUNDING:
            raise _Unreadable(f"found the choice {_excerpt(answer['choice'])}, which is not the most probable option")
    if question.kind == "score":
        texts = {option.name: option.text for option in question.options}
        legend = answer.get("legend")
        if isinstance(legend, dict) and any(text != texts.get(name) for name, text in legend.items()):
            raise _Unreadable("found other levels in the legend, or in another order, than were asked about")
        expected = math.fsum(int(name) * mass for name, mass in masses.items())
        score = answer.get("score", expected)
        if not isinstance(score, int | float) or not abs(score - expected) <= 2 * _MOST_OFF * (len(masses) - 1):
            raise _Unreadable(f"found the score {_excerpt(score)}, expected {expected:.3g} by the probabilities")


def _probability(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:  # NaN is none
        return float(value)
    raise _Unreadable(f"found {_excerpt(value)} as a probability, expected a number from 0 to 1")


def _unreadable(found: str) -> ReadReply:
    return ReadReply("parse_error", rationale=clean_text(found, MOST_RATIONALE_LENGTH))


def _excerpt(value: object) -> str:
    return repr(value)[:MOST_FOUND]
