"""An output as examples show it: its conversation and pictures, its evidence marked."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from gradebook.rubrics.model.conditions import unmet_words
from gradebook.rubrics.model.errors import OutputsError
from gradebook.rubrics.prompts.chat import read_chat, readable_message
from gradebook.rubrics.prompts.media import Medium, Place
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.prompt import Case
from gradebook.rubrics.prompts.reply_parser import read_requirements, requirement_line
from gradebook.rubrics.statistics.release import TOLERANCE
from gradebook.rubrics.text.wording import spread_words
from gradebook.tasks.datasets.discovery import dataset_files, dataset_folders
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.reporting.rendering import (
    MOST_SHOWN,
    Segment,
    judge_quotes,
    laid_out_json,
    quotes_of,
    segments_of,
    visible,
    whole_text,
)

MOST_PICTURE_CHARACTERS = 700_000  # of an image as base64 text: 500 kB
MOST_PAGE_CHARACTERS = 4_000_000  # of all images of a page
MOST_PICTURES = 8  # of a prompt or an answer


@dataclass(frozen=True, slots=True)
class Picture:
    """Image with its placeholder in the text. address: a `data:` address; None: `reason` says why it is not shown."""

    placeholder: str
    address: str | None
    reason: str = ""


class PictureBudget:
    """Budget for images on a page, in characters of base64 text."""

    def __init__(self) -> None:
        self._left = MOST_PAGE_CHARACTERS

    def pictures(self, case: Case, place: Place) -> tuple[Picture, ...]:
        """Images in the prompt or the output of a case, or the reason why there is none to show."""
        if case.media_fault is not None:
            return (Picture("", None, case.media_fault),) if place == "prompt" else ()
        images = [medium for medium in case.media if medium.kind == "image" and medium.place == place]
        return tuple(map(self._picture, images[:MOST_PICTURES]))

    def _picture(self, medium: Medium) -> Picture:
        if medium.address is not None:
            return Picture(medium.placeholder, None, f"{medium.address} (not loaded)")
        try:
            address: str = medium.parts[1]["image_url"]["url"]
        except UnreadableMedia as fault:
            return Picture(medium.placeholder, None, str(fault))
        if len(address) > min(MOST_PICTURE_CHARACTERS, self._left):
            return Picture(medium.placeholder, None, f"{medium.name} (too large for this page)")
        self._left -= len(address)
        return Picture(medium.placeholder, address)


def folders_of(dataset: str | None) -> tuple[Path, ...]:
    """Folders of a dataset's files, where its images lie; none if the files no longer exist."""
    try:
        return dataset_folders(dataset_files(dataset or ""))
    except OutputsError:
        return ()


MOST_ROLE = 60  # characters of a role's name
MOST_TURNS = 20  # turns shown; of a longer conversation the first and the last ones
FIRST_TURNS = 2
LEAST_SHOWN = 300  # characters shown of each turn, at least


@dataclass(frozen=True, slots=True)
class Turn:
    """Message of one side. role: system, user, ...; None if the prompt is a plain text."""

    role: str | None
    segments: tuple[Segment, ...]
    left_out: int = 0  # number of turns that this entry replaces


def turns_of(prompt: str | None) -> tuple[Turn, ...]:
    """Turns of a prompt: one without a role if it is a plain text, none if there is no prompt."""
    if not prompt:
        return ()
    messages = _chat(prompt) or [(None, prompt)]
    most = MOST_SHOWN if sum(len(text) for _, text in messages) <= MOST_SHOWN else _share(len(messages))
    turns = [Turn(role, segments_of(text, most=most)) for role, text in _ends(messages)]
    if len(messages) > MOST_TURNS:
        turns.insert(FIRST_TURNS, Turn(None, (), left_out=len(messages) - MOST_TURNS))
    return tuple(turns)


def _share(turn_count: int) -> int:
    return max(MOST_SHOWN // min(turn_count, MOST_TURNS), LEAST_SHOWN)


def _ends(messages: Sequence[tuple[str | None, str]]) -> Sequence[tuple[str | None, str]]:
    if len(messages) <= MOST_TURNS:
        return messages
    return [*messages[:FIRST_TURNS], *messages[FIRST_TURNS - MOST_TURNS :]]


def _chat(prompt: str) -> list[tuple[str | None, str]]:
    """Roles and texts of chat messages in JSON; none if the prompt is not a list of messages."""
    messages = read_chat(prompt) or []
    return [(visible(message["role"][:MOST_ROLE]), whole_text(_text_of(message))) for message in messages]


def _text_of(message: dict[str, Any]) -> str:
    """Message's text, followed by its other fields, such as tool calls, as JSON."""
    content = message.get("content")
    pieces = content if isinstance(content, list) else [content]
    readable = readable_message(message)
    other_fields = {
        name: value for name, value in readable.items() if name not in {"role", "content"} and value is not None
    }
    texts = [_part_text(part) for part in pieces if part is not None]
    return "\n".join([*texts, *([json.dumps(other_fields, ensure_ascii=False)] if other_fields else [])])


def _part_text(part: Any) -> str:
    """Part of a message as text: its own text, the placeholder of an image or audio, or its JSON."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        text = part.get("text", part.get(str(part.get("type"))))
        if isinstance(text, str):
            return text
    return json.dumps(part, ensure_ascii=False)


NO_REASONS = "the judge gives probabilities and no reasons:"
MOST_QUOTED = 600  # characters of a rationale, and of each quote
MOST_QUOTES = 6
MOST_VOICES = 12
JUDGED_BYTES = 450  # size of the markup of one verdict


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """Output as read from the lake.

    row: of example_outputs; case: with placeholders for its images and audio; steps: of example_steps; marks: of
    example_step_marks.
    """

    row: Row
    verdicts: tuple[Row, ...]
    case: Case
    steps: tuple[Row, ...] = ()
    marks: tuple[Row, ...] = ()

    @classmethod
    def of(
        cls,
        row: Row,
        verdicts: tuple[Row, ...],
        media: MediaFiles,
        steps: tuple[Row, ...] = (),
        marks: tuple[Row, ...] = (),
    ) -> Self:
        """Output of this row; its text is empty in a lake without texts."""
        return cls(row, verdicts, media.show(Case(row["prompt"], row["output"] or "")), steps, marks)

    @property
    def evidence(self) -> list[tuple[str, str]]:
        """Quotes of its verdicts, each with the criterion's name."""
        quoted = ((_criterion_name(row), quotes_of(row["evidence"], row["method"])) for row in self.verdicts)
        return [(name, quote) for name, quotes in quoted for quote in quotes]

    @property
    def text(self) -> str:
        return self.case.output


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a model. run_id: its run if that is not the page's run, else None."""

    name: str
    run_id: str | None
    score: float | None
    segments: tuple[Segment, ...]
    character_count: int
    pictures: tuple[Picture, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Whether a part of the text is left out."""
        return any(segment.left_out for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Judged:
    """Verdict on an output and criterion. criterion: display name; question: the criterion's description.

    level: display name, empty for a bare score. why, quotes: reason and quoted evidence. requirements: a line each,
    where the judge listed them, in place of the quotes. voices: the level given by
    each judge and rater. paired: verdict of the other answer on the criterion; is_different: whether the two differ.
    """

    criterion_id: str
    criterion: str
    question: str
    is_gate: bool
    is_failed: bool
    is_penalty: bool
    level_id: str
    level: str
    score: float | None
    why: str
    quotes: tuple[str, ...]
    voices: tuple[str, ...]
    requirements: tuple[str, ...] = ()
    paired: "Judged | None" = None
    is_different: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts from inputs and judges, whose lengths are not bounded here."""
        return (self.criterion, self.question, self.why, *self.quotes, *self.requirements, *self.voices)


def answer_of(output: ReadOutput, room: PictureBudget) -> Answer:
    """Output's text with the evidence of its verdicts marked."""
    # The stored length, unless placeholders changed the text: the query may have cut a long text.
    length = (output.row["output_length"] or 0) if output.text == output.row["output"] else len(output.text)
    segments, pictures = _marked(output.text, output.evidence), room.pictures(output.case, "output")
    return Answer(cut(model_name(output.row)), None, output.row["score"], segments, length, pictures)


def _marked(text: str, evidence: list[tuple[str, str]]) -> tuple[Segment, ...]:
    """Segments of an output; JSON is laid out, where quotes of its texts stand escaped."""
    laid_out = laid_out_json(text) if len(text) <= MOST_SHOWN else None
    if laid_out is None:
        return segments_of(text, evidence)
    escaped = [(name, json.dumps(quote, ensure_ascii=False)[1:-1]) for name, quote in evidence]
    return segments_of(laid_out, dict.fromkeys([*evidence, *escaped]), most=max(MOST_SHOWN, len(laid_out)))


def judged_rows(output: ReadOutput, other: ReadOutput | None, alike: Collection[str] | None) -> tuple[Judged, ...]:
    """Output's verdicts in the rubric's order, each paired with the other answer's verdict on the same criterion.

    alike: criteria with the same text on both sides; None: all.
    """
    others = {} if other is None else {row["criterion_id"]: row for row in other.verdicts}
    judged = []
    for row in output.verdicts:
        verdict, partner = _judged(row, output.row), others.get(row["criterion_id"])
        if other is not None and partner is not None and (alike is None or row["criterion_id"] in alike):
            verdict = replace(verdict, paired=_judged(partner, other.row), is_different=_differs(row, partner))
        judged.append(verdict)
    return tuple(judged)


def _judged(row: Row, scores: Row) -> Judged:
    is_scored, unmet = row["score"] is not None, unmet_words(row["reason"])
    requirements = read_requirements(row["evidence"])
    quotes = judge_quotes(row["evidence"]) if row["evidence"] else ()
    is_rated = row["method"] == "ratings" and bool(row["voices"])  # the voices repeat the evidence of ratings
    plain_evidence = row["evidence"] if quotes is None and not is_rated else None
    spread = None if row["rationale"] or not row.get("distribution") else spread_words(json.loads(row["distribution"]))
    hint = f"`gradebook why {row['output_id']} {row['criterion_id']} --ask JUDGE` asks another judge for its reasons"
    unreasoned = None if spread is None else f"{NO_REASONS} {spread}; {hint}"
    return Judged(
        criterion_id=row["criterion_id"],
        criterion=_criterion_name(row),
        question=cut(row["question"] or ""),
        is_gate=row["is_gate"],
        is_failed=row["criterion_id"] in scores["failed_gates"],
        is_penalty=bool(row["is_penalty"]),
        level_id=(row["level_id"] or "") if is_scored else "unscored",
        level=cut(row["level"] or "") if is_scored else "unscored" if unmet is None else "does not apply",
        score=row["score"],
        why=cut(
            ": ".join(text for text in (unmet or row["reason"], row["rationale"], plain_evidence, unreasoned) if text)
        ),
        quotes=tuple(cut(quote) for quote in (() if requirements else quotes or ())[:MOST_QUOTES]),
        requirements=tuple(cut(requirement_line(entry)) for entry in requirements[:MOST_QUOTES]),
        voices=tuple(cut(opinion) for opinion in row["voices"][:MOST_VOICES]),
    )


def _differs(row: Row, other: Row) -> bool:
    """Whether two verdicts have different levels or scores, beyond rounding errors of floats."""
    if row["score"] is None or other["score"] is None:
        return (row["score"] is None) != (other["score"] is None)
    return row["level_id"] != other["level_id"] or bool(abs(row["score"] - other["score"]) > TOLERANCE)


def _criterion_name(row: Row) -> str:
    return cut(row["name"] or row["criterion_id"])


def cut(text: str) -> str:
    """Text cut to `MOST_QUOTED` characters, with invisible characters written out."""
    return visible(text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 1]}…")
