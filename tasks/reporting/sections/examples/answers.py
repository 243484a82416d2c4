"""Answer of a model: its text with marked evidence, and its verdicts paired with those of another answer."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.requirements import TOLERANCE
from gradebook.tasks.reporting.drawing.marking import Segment, judge_quotes, quotes_of, segments_of, visible
from gradebook.tasks.reporting.sections.examples.pictures import Picture, PicturesLeft

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
        told = ((_criterion_name(row), quotes_of(row["evidence"], row["method"])) for row in self.verdicts)
        return [(name, quote) for name, quotes in told for quote in quotes]

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

    level: display name, empty for a bare score. why, quotes: reason and quoted evidence. voices: the level given by
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
    paired: "Judged | None" = None
    is_different: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts from inputs and judges, whose lengths are not bounded here."""
        return (self.criterion, self.question, self.why, *self.quotes, *self.voices)


def answer_of(output: ReadOutput, room: PicturesLeft) -> Answer:
    """Output's text with the evidence of its verdicts marked."""
    # The stored length, unless placeholders changed the text: the query may have cut a long text.
    length = (output.row["output_length"] or 0) if output.text == output.row["output"] else len(output.text)
    segments, pictures = segments_of(output.text, output.evidence), room.pictures(output.case, "output")
    return Answer(cut(model_name(output.row)), None, output.row["score"], segments, length, pictures)


def judged_rows(output: ReadOutput, other: ReadOutput | None, alike: Collection[str] | None) -> tuple[Judged, ...]:
    """Output's verdicts in the rubric's order, each paired with the other answer's verdict on the same criterion.

    alike: criteria with the same text on both sides; None: all.
    """
    others = {} if other is None else {row["criterion_id"]: row for row in other.verdicts}
    judged = []
    for row in output.verdicts:
        found, partner = _judged(row, output.row), others.get(row["criterion_id"])
        if other is not None and partner is not None and (alike is None or row["criterion_id"] in alike):
            found = replace(found, paired=_judged(partner, other.row), is_different=_differs(row, partner))
        judged.append(found)
    return tuple(judged)


def _judged(row: Row, scores: Row) -> Judged:
    is_scored = row["score"] is not None
    quotes = judge_quotes(row["evidence"]) if row["evidence"] else ()
    is_rated = row["method"] == "ratings" and bool(row["voices"])  # the voices repeat the evidence of ratings
    found = row["evidence"] if quotes is None and not is_rated else None
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
    """Whether two verdicts have different levels or scores, beyond rounding errors of floats."""
    if row["score"] is None or other["score"] is None:
        return (row["score"] is None) != (other["score"] is None)
    return row["level_id"] != other["level_id"] or bool(abs(row["score"] - other["score"]) > TOLERANCE)


def _criterion_name(row: Row) -> str:
    return cut(row["name"] or row["criterion_id"])


def cut(text: str) -> str:
    """Text cut to `MOST_QUOTED` characters, with invisible characters written out."""
    return visible(text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 1]}…")
