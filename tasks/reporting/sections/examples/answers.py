"""One model's answer on a page: its text with the evidence marked, and its verdicts beside those of another answer."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.requirements import TOLERANCE
from gradebook.tasks.reporting.drawing.marking import Segment, judge_quotes, quotes_of, segments_of, visible

MOST_SAID = 600  # characters of a rationale, and of each quote beside it
MOST_QUOTES = 6
MOST_VOICES = 12
JUDGED_BYTES = 450  # what the markup of one verdict takes
_UNSEEN = MediaFiles(())


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """An output as it was read. row: of example_outputs; prompt, text: with placeholders for pictures and sounds."""

    row: Row
    verdicts: tuple[Row, ...]
    prompt: str | None
    text: str

    @classmethod
    def of(cls, row: Row, verdicts: tuple[Row, ...]) -> Self:
        """The output of this row; lakes that keep no texts have none to show."""
        shown = _UNSEEN.show(Case(row["prompt"], row["output"] or ""))
        return cls(row, verdicts, shown.prompt, shown.output)


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer. run_id: its run, where that is not the page's; left_out: characters that are not shown."""

    name: str
    run_id: str | None
    score: float | None
    segments: tuple[Segment, ...]
    character_count: int

    @property
    def is_cut(self) -> bool:
        """Whether it is longer than what is shown."""
        return any(segment.left_out for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found of an output on one criterion. criterion: its name for people; question: what it asks.

    level: its name, empty where a verdict is a bare score; level_id: what tells it from others. why, quotes: the words
    it rests on; voices: of each who had a say. beside: the same of the other answer; is_different: the two differ.
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
    beside: "Judged | None" = None
    is_different: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """All its words that strangers chose the length of."""
        return (self.criterion, self.question, self.why, *self.quotes, *self.voices)


def answer_of(output: ReadOutput) -> Answer:
    """An output's text with the evidence of its verdicts marked."""
    evidence = [
        (_criterion_name(row), quote) for row in output.verdicts for quote in quotes_of(row["evidence"], row["method"])
    ]
    # More than was read, where the text is as it was stored: no picture or sound stood in it.
    length = (output.row["output_length"] or 0) if output.text == output.row["output"] else len(output.text)
    return Answer(cut(model_name(output.row)), None, output.row["score"], segments_of(output.text, evidence), length)


def judged_rows(output: ReadOutput, beside: ReadOutput | None, alike: Collection[str] | None) -> tuple[Judged, ...]:
    """An output's verdicts in the rubric's order, each with the other answer's on the same criterion.

    alike: the criteria that ask the same of both; None: all.
    """
    others = {} if beside is None else {row["criterion_id"]: row for row in beside.verdicts}
    judged = []
    for row in output.verdicts:
        found, other = _judged(row, output.row), others.get(row["criterion_id"])
        if beside is not None and other is not None and (alike is None or row["criterion_id"] in alike):
            found = replace(found, beside=_judged(other, beside.row), is_different=_differs(row, other))
        judged.append(found)
    return tuple(judged)


def _judged(row: Row, scores: Row) -> Judged:
    is_scored = row["score"] is not None
    quotes = judge_quotes(row["evidence"]) if row["evidence"] else ()
    is_said = row["method"] == "ratings" and bool(row["voices"])  # the evidence of ratings is who said what
    found = row["evidence"] if quotes is None and not is_said else None
    return Judged(
        criterion_id=row["criterion_id"],
        criterion=_criterion_name(row),
        question=cut(row["question"] or ""),
        is_gate=row["is_gate"],
        is_failed=row["criterion_id"] in scores["failed_gates"],
        is_penalty=bool(row["is_penalty"]),
        level_id=(row["level_id"] or "") if is_scored else "unscored",
        level=cut(row["level"] or "") if is_scored else "unscored",
        score=row["score"],
        why=cut(": ".join(words for words in (row["reason"], row["rationale"], found) if words)),
        quotes=tuple(cut(quote) for quote in (quotes or ())[:MOST_QUOTES]),
        voices=tuple(cut(voice) for voice in row["voices"][:MOST_VOICES]),
    )


def _differs(row: Row, other: Row) -> bool:
    """Whether one is scored otherwise than the other, by more than a float's last digits."""
    if row["score"] is None or other["score"] is None:
        return (row["score"] is None) != (other["score"] is None)
    return row["level_id"] != other["level_id"] or bool(abs(row["score"] - other["score"]) > TOLERANCE)


def _criterion_name(row: Row) -> str:
    return cut(row["name"] or row["criterion_id"])


def cut(text: str) -> str:
    """A short text of an input, made visible."""
    return visible(text if len(text) <= MOST_SAID else f"{text[: MOST_SAID - 1]}…")
