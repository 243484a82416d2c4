"""Text of a new rubric file: a copy of another rubric, or a draft from answers to a few questions."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

FIRST_VERSION = "1.0.0"
MOST_WORDS = 4  # of a question, in the id of its criterion
LONGEST_ID = 56  # leaves room for a number at the end
_FILLERS = frozenset(
    "a an the is are was were do does did has have it its of to in on and or that with".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers about a new rubric. questions: one a criterion, answered with yes for a good output."""

    description: str
    questions: Sequence[str]
    pass_threshold: float | None


def id_from(words: str, taken: Sequence[str] = ()) -> str:
    """Id made of the first telling words of a text, different from those taken."""
    found = re.findall(r"[a-z0-9]+", words.lower())
    telling = [word for word in found if word not in _FILLERS] or found or ["criterion"]
    name = "_".join(telling[:MOST_WORDS])
    name = (name if name[0].isalpha() else f"c_{name}")[:LONGEST_ID].rstrip("_")
    return next(each for each in (name, *(f"{name}_{n}" for n in range(2, len(taken) + 3))) if each not in taken)


def copied_text(text: str, source: str, rubric_id: str) -> str:
    """Copy of a rubric file with another id and the first version; its comments stay."""
    (version,) = re.findall(r"^version: *(\S+)", text, re.MULTILINE)[:1]
    text = re.sub(r"^id:.*$", f"id: {rubric_id}", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^version:.*$", f"version: {FIRST_VERSION}", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^(name|owner):.*\n", "", text, flags=re.MULTILINE)
    return f"# Copied from the shipped rubric {source} {version}; edit it as you need.\n#\n{text}"


def drafted_text(rubric_id: str, answers: Answers) -> str:
    """Draft of a rubric file, with comments on what to decide next."""
    threshold = (
        "# pass_threshold: 0.7" if answers.pass_threshold is None else f"pass_threshold: {answers.pass_threshold:g}"
    )
    lines = [
        "# A rubric: criteria that a judge answers for each output, with weights. docs/rubric-keys.md has every key.",
        f"id: {rubric_id}",
        f"version: {FIRST_VERSION}  # a change of criteria, levels or weights needs another: gradebook rubric diff",
        f"description: {_quoted(answers.description)}",
        f"{threshold}  # the lowest overall score, 0 to 1, of an output that passes",
        "criteria:",
    ]
    names: list[str] = []
    for question in answers.questions:
        names.append(id_from(question, names))
        lines += _criterion(names[-1], question)
    return "\n".join(lines) + "\n"


def _criterion(name: str, question: str) -> list[str]:
    return [
        f"  - id: {name}",
        f"    description: {_quoted(question)}",
        "    weight: 1  # relative to the others; `gate: true` instead: an output that fails it fails as a whole",
        "    threshold: 1  # the score from which the criterion is met",
        "    levels:  # worst first; write what an output of each level looks like",
        '      - {id: "no", score: 0, description: "The answer to the question is no."}',
        '      - {id: "yes", score: 1, description: "The answer to the question is yes."}',
        "    method: {type: judge}  # or a check, which costs nothing: gradebook checks list",
    ]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
