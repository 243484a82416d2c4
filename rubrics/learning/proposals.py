"""Failure modes and criteria as a model proposes them, and the rules that accept them.

A proposal is untrusted text: a citation counts if its words are in the output, a criterion if it parses as one.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gradebook.rubrics.checks.registry import FAMILIES, REQUIRED, describe_check, find_check
from gradebook.rubrics.files.dump import question_id, values_yaml
from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.lint.findings import LintFinding
from gradebook.rubrics.lint.linting import lint_text
from gradebook.rubrics.lint.texts import content_words
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.reply_parser import is_quoted
from gradebook.rubrics.text.wording import counted

LEAST_CITED = 2  # fewest cited outputs of a criterion
MOST_CRITERIA = 8
SHARED_WORDS = 0.8  # share of common words of two questions that count as the same
LEVEL_IDS = {
    2: ("fails", "meets"),
    3: ("fails", "partly", "meets"),
    4: ("fails", "mostly_fails", "mostly_meets", "meets"),
}
_NO_FAMILIES = ("Steps", "Audio", "IFEval", "Rubrics", "Dialogue")
_NEEDED = {"Answers": "reference", "Grounding": "context"}  # family of checks -> the column that it needs


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Mark(_Reply):
    """Whether one output fails, by the model's own reading."""

    why: str
    fails: bool


class Citation(_Reply):
    """Output that shows a failure mode, with a quote."""

    output: str
    quote: str


class Mode(_Reply):
    """Failure mode named from contrasted outputs."""

    name: str
    description: str
    citations: list[Citation]


class Modes(_Reply):
    """Failure modes of one batch of outputs."""

    modes: list[Mode] = Field(max_length=20)


class ProposedLevel(_Reply):
    """Level of a proposed criterion."""

    description: str
    score: float


class ProposedCriterion(_Reply):
    """Criterion that groups failure modes. settings: of the check, a JSON object as text."""

    question: str
    modes: list[str]
    must_never: bool
    method: Literal["check", "judge", "people"]
    check: str
    settings: str
    levels: list[ProposedLevel]


class ProposedCriteria(_Reply):
    """All criteria of a draft."""

    criteria: list[ProposedCriterion] = Field(max_length=40)


MARK_INSTRUCTIONS = """
You read one output of a language model for the people who train it. MATERIAL is one JSON object: `output` is the text,
`prompt`, `context` and `reference`, where given, are what it answered, what it could draw on and an answer known to be
good, and `notes`, where given, is what the people want.

Say whether the output fails: whether a user, or the people, would have to correct it. First `why`, one sentence that
points at words of the output; then `fails`, true or false.
"""

MODES_INSTRUCTIONS = """
You read outputs of language models for the people who train them, to find out how they fail. MATERIAL is one JSON
object: `bad` has outputs that failed and `good` has outputs that did not, each with an `id`, its `output`, and where
given `prompt`, `context`, `reference` and a `note` on its fault or merit. `notes`, where given, is what the people
want.

Name the failure modes: what several of the bad outputs do and the good ones do not. Be specific: "states a size that
is not in the context", never "unhelpful" or "unclear". Name one fault in each mode, in words that another reader would
apply in the same way. Do not name models or cases.

Each mode has `name` (two to five words), `description` (one sentence) and `citations`: for each bad output that shows
it, two or more where there are, the `output` (its id) and a `quote`, words copied exactly from that output's text that
show the fault, or beside which something is missing. No modes is a valid reply.
"""

CRITERIA_INSTRUCTIONS = """
You write criteria for the outputs of language models. MATERIAL is one JSON object: `modes` are failure modes that were
found in outputs, each with an `id` and quotes; `checks` are programs that decide by a rule, with their settings;
`notes`, where given, is what the people want.

Group the modes into 4 to 8 criteria, fewer if there are few modes. Each criterion asks one question, is about one
fault, and no two criteria ask for the same. `modes` lists the ids that it covers. Do not name models or cases.

`method`: the first of these that can decide the question.
1. `check`: a program, if the question is about a count, a word list, a pattern or a format. `check` is its name and
   `settings` a JSON object, written as text, with its settings. Only names and settings that MATERIAL lists.
2. `judge`: a language model that reads the output, if it takes reading.
3. `people`: only if nobody but people can know, such as whether it pleased them.
With `judge` and `people`, `check` and `settings` are "".

The modes of a criterion have to come from two outputs or more together.

`question`: one question that a good output answers with yes, and that two readers would answer alike by pointing at
the text. `levels`: two or three for `judge` and `people`, none for `check`, worst first: `score` from 0 to 1, and
`description`, what a reader would see in an output of this level, in one sentence without words such as "good" or
"appropriate". `must_never`: true only for a fault that no other merit makes up for, such as a leaked secret.
"""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Proposal that was not accepted, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of an output that a proposal cites."""

    output_id: str
    text: str


@dataclass(frozen=True, slots=True)
class FoundMode:
    """Failure mode with its verified citations."""

    name: str
    description: str
    quotes: tuple[Quote, ...]


@dataclass(frozen=True, slots=True)
class DraftCriterion:
    """Accepted criterion. values: as in a rubric file, without weight and gate.

    judged: the question for a judge if the check does not separate good from bad outputs; None for other methods.
    """

    values: Mapping[str, Any]
    quotes: tuple[Quote, ...]
    modes: tuple[str, ...]
    must_never: bool
    judged: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()  # changes to the proposal

    @property
    def id(self) -> str:
        return str(self.values["id"])

    @property
    def method(self) -> str:
        return str(self.values["method"]["type"])

    @property
    def cited(self) -> frozenset[str]:
        """Outputs behind the criterion."""
        return frozenset(quote.output_id for quote in self.quotes)


def read_modes(reply: Modes, texts: Mapping[str, tuple[str, str]]) -> tuple[list[FoundMode], list[Dropped]]:
    """(modes with verified citations, dropped modes). texts: id in the request -> (id, text) of a bad output."""
    found_modes, dropped = [], []
    for mode in reply.modes:
        quotes: dict[str, Quote] = {}
        for citation in mode.citations:
            output_id, text = texts.get(citation.output, ("", ""))
            quote = citation.quote.strip()
            if output_id and quote and is_quoted([quote], text):
                quotes.setdefault(output_id, Quote(output_id, quote))
        name = one_line(mode.name) or one_line(mode.description)
        if quotes:
            found_modes.append(FoundMode(name, one_line(mode.description), tuple(quotes.values())))
        else:
            cited = counted(len(mode.citations), "citation")
            dropped.append(Dropped(name, f"cites nothing: {cited}, none of them with words of a bad output"))
    return found_modes, dropped


def one_line(text: str, most: int = 300) -> str:
    """Text on one line, without characters that control a terminal or end a comment."""
    single_line = " ".join(text.split())
    printable = "".join(letter for letter in single_line if letter.isprintable())
    return printable if len(printable) <= most else f"{printable[: most - 1]}…"


# -------- criteria
def offered_checks(columns: Collection[str]) -> list[dict[str, Any]]:
    """Checks that a model may propose, with their settings. columns: columns of the outputs."""
    names = [
        name
        for family, of in FAMILIES.items()
        if family not in _NO_FAMILIES and _NEEDED.get(family, "output") in {"output", *columns}
        for name in of
    ]
    described = [describe_check(find_check(name)) for name in names]
    return [
        {
            "check": check["name"],
            "decides": check["summary"],
            "settings": {
                setting["name"]: setting["meaning"] + (" (required)" if setting["default"] == REQUIRED else "")
                for setting in check["settings"]
            },
        }
        for check in described
    ]


def read_criteria(
    reply: ProposedCriteria, modes: Mapping[str, FoundMode], models: Collection[str], columns: Collection[str]
) -> tuple[list[DraftCriterion], list[Dropped]]:
    """(accepted criteria, most cited outputs first; dropped criteria).

    modes: by the ids of the request. models: names that no criterion may have. columns: as `offered_checks`.
    """
    accepted: list[DraftCriterion] = []
    dropped: list[Dropped] = []
    cited_counts = [len(_quotes_of(proposal, modes)) for proposal in reply.criteria]
    ranked = sorted(range(len(reply.criteria)), key=lambda index: (-cited_counts[index], index))
    offered = {check["check"] for check in offered_checks(columns)}
    for index in ranked:
        proposal = reply.criteria[index]
        name = one_line(proposal.question, 90) or f"criterion {index + 1}"
        reason = _refused(proposal, modes, models, accepted)
        criterion = None if reason else _criterion(proposal, modes, offered, [one.id for one in accepted])
        if isinstance(criterion, DraftCriterion):
            accepted.append(criterion)
        else:
            dropped.append(Dropped(name, reason or criterion or ""))
    return accepted, dropped


def _quotes_of(proposal: ProposedCriterion, modes: Mapping[str, FoundMode]) -> dict[str, Quote]:
    """First quote of each output that the criterion's modes cite."""
    quotes: dict[str, Quote] = {}
    for mode in dict.fromkeys(proposal.modes):
        for quote in modes[mode].quotes if mode in modes else ():
            quotes.setdefault(quote.output_id, quote)
    return quotes


def _refused(
    proposal: ProposedCriterion,
    modes: Mapping[str, FoundMode],
    models: Collection[str],
    accepted: Sequence[DraftCriterion],
) -> str | None:
    if len(_quotes_of(proposal, modes)) < LEAST_CITED:
        return (
            f"rests on fewer than {LEAST_CITED} outputs: it names {', '.join(proposal.modes[:5]) or 'no failure mode'}"
        )
    if model := named_model((proposal.question, *(level.description for level in proposal.levels)), models):
        return f"names the model {model}"
    if not content_words(proposal.question):
        return "asks nothing"
    for other in accepted:
        if asks_same(proposal.question, other.values["description"]):
            return f"asks the same as {other.id}"
    if len(accepted) == MOST_CRITERIA:
        return f"one of more than {MOST_CRITERIA}; those behind more outputs are kept"
    return None


def named_model(texts: Iterable[str], models: Collection[str]) -> str | None:
    """First model's name that one of the texts has as a word. Short plain words, such as small, are no names."""
    text = "\n".join(texts).casefold()
    for model in models:
        if len(model) > (5 if model.isalpha() else 2) and re.search(
            rf"(?<!\w){re.escape(model.casefold())}(?!\w)", text
        ):
            return model
    return None


def asks_same(question: str, other: str) -> bool:
    """Whether two questions share most of the content words of the shorter one."""
    words, other_words = set(content_words(question)), set(content_words(other))
    least = min(len(words), len(other_words))
    return least > 0 and len(words & other_words) >= SHARED_WORDS * least


def _criterion(
    proposal: ProposedCriterion, modes: Mapping[str, FoundMode], offered: Collection[str], taken: Sequence[str]
) -> DraftCriterion | str:
    """Criterion of a proposal, or the reason to drop it. A check that can't run becomes a judge's question."""
    quotes = tuple(_quotes_of(proposal, modes).values())
    names = tuple(dict.fromkeys(modes[mode].name for mode in proposal.modes if mode in modes))
    question = one_line(proposal.question, 600)
    base = {"id": question_id(question, taken), "description": question, "threshold": 1}
    kind = "ratings" if proposal.method == "people" else "judge"
    judged = base | {"method": {"type": kind}, "levels": _levels(proposal, names)}
    notes: tuple[str, ...] = ()
    if proposal.method == "check":
        check_values = base | {"method": {"type": "check", "check": proposal.check, "settings": _settings(proposal)}}
        fault = (
            _fault(check_values)
            if proposal.check in offered
            else f"found the check {proposal.check!r}, none of those offered"
        )
        if fault is None:
            return DraftCriterion(check_values, quotes, names, proposal.must_never, judged)
        notes = (f"a judge in place of the proposed check {one_line(proposal.check, 60)}: {one_line(fault)}",)
    fault = _fault(judged)
    return fault or DraftCriterion(judged, quotes, names, proposal.must_never, notes=notes)


def _settings(proposal: ProposedCriterion) -> Any:
    try:
        return json.loads(proposal.settings or "{}")
    except (ValueError, RecursionError):
        return proposal.settings


def _levels(proposal: ProposedCriterion, names: Sequence[str]) -> list[dict[str, Any]]:
    """Levels, worst first, with scores from 0 to 1; `fails` and `meets` if the proposed levels do not differ."""
    levels = sorted(proposal.levels, key=lambda level: level.score)
    texts = [one_line(level.description, 400) for level in levels]
    scores = [level.score for level in levels]
    if len(levels) not in LEVEL_IDS or len({*scores}) < len(levels) or len({*texts}) < len(texts) or "" in texts:
        texts = [
            f"A passage shows this fault: {'; '.join(names)}.",
            f"No passage shows this fault: {'; '.join(names)}.",
        ]
        scores = [0.0, 1.0]
    low, width = scores[0], scores[-1] - scores[0]
    ids = LEVEL_IDS[len(texts)]
    return [
        {"id": level_id, "score": round((score - low) / width, 2), "description": text}
        for level_id, score, text in zip(ids, scores, texts, strict=True)
    ]


def rubric_text(rubric_id: str, description: str, criteria: Iterable[Mapping[str, Any]]) -> str:
    """A draft as YAML. Raises `RubricError` for values that no file can have."""
    head = {"id": rubric_id, "version": "0.1.0", "description": description, "require_thresholds": False}
    return values_yaml(head | {"criteria": list(criteria)})


def _fault(values: Mapping[str, Any]) -> str | None:
    """First error of the parser or lint in a criterion's values; None if the criterion is valid."""
    try:
        text = rubric_text("draft", "Draft.", [values])
    except (RubricError, TypeError, ValueError, AttributeError) as error:
        return f"can't be written: {error}"
    errors = [finding for finding in lint_text(text, "draft") if finding.severity == "error"]
    return f"lint: {errors[0].place}: {errors[0].message}" if errors else None


def parsed_criterion(values: Mapping[str, Any]) -> Criterion:
    """Criterion of accepted values."""
    return parse_rubric(rubric_text("draft", "Draft.", [values]), "draft").criteria[0]


def lint_warnings(text: str) -> tuple[LintFinding, ...]:
    """Findings about a draft that a person should decide: all but notes."""
    return tuple(finding for finding in lint_text(text, "draft") if finding.severity != "note")
