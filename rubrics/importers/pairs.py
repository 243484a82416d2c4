"""Pairs of outputs with the better one labelled: annotations of AlpacaEval and Arena-Hard, LLMBar and JudgeBench.

A pair becomes two outputs of a case. The rubric has one criterion by preference against one side, and the labels are
ratings of the other side's outputs, so that a judge's preferences can be compared with them. Shapes: the READMEs of
tatsu-lab/alpaca_eval, princeton-nlp/LLMBar and ScalerLab/JudgeBench, and gen_judgment.py of lmarena/arena-hard-auto.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from gradebook.rubrics.importers.case_rows import CaseId, NonBlank, name_cases
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_rows
from gradebook.rubrics.importers.ids import identifier
from gradebook.rubrics.importers.metadata import FIRST_VERSION, FieldCounts, as_metadata, drop_empty
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.importers.results import rating_row
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.methods import BASELINE
from gradebook.rubrics.text.plain_words import quote_value

NAME = "pairs"
CRITERION = "preferred"


def _fault(value: Any, expected: str) -> ValueError:
    return ValueError(f"found {quote_value(value)}, expected {expected}")


def _of_alpaca(value: Any) -> Any:
    """Preference for the second output, 0..1, from AlpacaEval's numbers: 1 to 2, or 0 for a tie."""
    if value is None or (value == 0 and not isinstance(value, bool)):
        return None if value is None else 0.5
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 2:
        raise _fault(value, "a number from 1 to 2, or 0 for a tie")
    return value - 1


def _of_llmbar(value: Any) -> Any:
    if value not in (1, 2) or isinstance(value, bool):
        raise _fault(value, "1 or 2")
    return float(value == 1)


def _of_judgebench(value: Any) -> Any:
    scores = {"A>B": 1.0, "B>A": 0.0, "A=B": 0.5}
    if not isinstance(value, str) or value not in scores:
        raise _fault(value, f"one of {', '.join(scores)}")
    return scores[value]


class _Pair(NamedTuple):
    """Two outputs of a case. score: preference for the rated output over the other, 0..1; None without a choice."""

    case_id: str | None
    prompt: str
    rated: tuple[str, str]  # model and output
    other: tuple[str, str]
    score: float | None
    rater: str


class _Alpaca(OpenMapping):
    instruction: NonBlank
    output_1: str
    output_2: str
    generator_1: NonBlank
    generator_2: NonBlank
    preference: Annotated[float | None, BeforeValidator(_of_alpaca)] = None
    annotator: NonBlank | None = None

    @property
    def pair(self) -> _Pair:
        rated, other = (self.generator_2, self.output_2), (self.generator_1, self.output_1)
        return _Pair(None, self.instruction, rated, other, self.preference, self.annotator or "alpaca_eval")


class _LLMBar(OpenMapping):
    input: NonBlank
    output_1: str
    output_2: str
    label: Annotated[float, BeforeValidator(_of_llmbar)]

    @property
    def pair(self) -> _Pair:
        return _Pair(None, self.input, ("output_1", self.output_1), ("output_2", self.output_2), self.label, "label")


class _JudgeBench(OpenMapping):
    pair_id: CaseId
    question: NonBlank
    response_a: Annotated[str, Field(validation_alias="response_A")]
    response_b: Annotated[str, Field(validation_alias="response_B")]
    label: Annotated[float, BeforeValidator(_of_judgebench)]

    @property
    def pair(self) -> _Pair:
        rated, other = ("response_A", self.response_a), ("response_B", self.response_b)
        return _Pair(self.pair_id, self.question, rated, other, self.label, "label")


class _Game(OpenMapping):
    """One comparison of Arena-Hard; the texts of both outputs are in the judge's prompt."""

    score: str | None = None
    user_prompt: str | None = None
    prompt: Any = None

    @property
    def texts(self) -> tuple[str, str, str] | None:
        """Prompt, output A and output B; None if the judge's prompt has another form."""
        messages = self.prompt if isinstance(self.prompt, list) else []
        texts = [message.get("content") for message in messages if isinstance(message, dict)]
        match = _ARENA.search(
            next((text for text in (self.user_prompt, *reversed(texts)) if isinstance(text, str)), "")
        )
        return None if match is None else (match[1], match[2], match[3])


class _ArenaHard(OpenMapping):
    case: Annotated[CaseId, Field(validation_alias=AliasChoices("uid", "question_id"))]
    model: NonBlank
    judge: NonBlank | None = None
    baseline: NonBlank | None = None
    games: Annotated[list[_Game | None], Field(min_length=1, max_length=2)]

    @model_validator(mode="after")
    def _has_texts(self) -> Self:
        if self.games[0] is None or self.games[0].texts is None:
            expected = "expected the judge's prompt in the first game (user_prompt or prompt), with both outputs"
            raise ValueError(f"found none of the outputs' texts, {expected}")
        return self

    @property
    def pair(self) -> _Pair:
        """Pair of outputs. The baseline is A in the first game, and B in the second."""
        prompt, other, rated = (self.games[0] and self.games[0].texts) or ("", "", "")
        choices = (_BETTER.get(str(game and game.score)) for game in self.games)
        scores = [choice if position else 1 - choice for position, choice in enumerate(choices) if choice is not None]
        score = sum(scores) / len(scores) if scores else None
        names = (self.model, rated), (self.baseline or "arena_hard_baseline", other)
        return _Pair(self.case, prompt, *names, score, self.judge or "arena_hard")


_ARENA = re.compile(
    r"<\|User Prompt\|>\n(.*?)\n\n<\|The Start of Assistant A's Answer\|>\n(.*?)\n<\|The End of Assistant A's Answer\|>"
    r"\n\n<\|The Start of Assistant B's Answer\|>\n(.*?)\n<\|The End of Assistant B's Answer\|>",
    re.DOTALL,
)
_BETTER = {"A>>B": 1.0, "A>B": 1.0, "A=B": 0.5, "B=A": 0.5, "B>A": 0.0, "A<B": 0.0, "B>>A": 0.0, "A<<B": 0.0}

_AnyPair = _Alpaca | _LLMBar | _JudgeBench | _ArenaHard
_SHAPES: dict[str, type[_AnyPair]] = {
    "games": _ArenaHard,
    "instruction": _Alpaca,
    "pair_id": _JudgeBench,
    "input": _LLMBar,
}


def read_pairs(text: str, path: str) -> Imported:
    """Import pairs as outputs, a criterion by preference, and its ratings. Raises `RubricError` with every fault."""
    entries = open_rows(text, path)
    shaped = [(entry, shape) for entry in entries if (shape := _fit(entry))]
    entries[0].stop_at_faults()
    pairs = [shape.pair for _, shape in shaped]
    names = name_cases([(pair.case_id, pair.prompt) for pair in pairs])
    baselines = dict.fromkeys(pair.other[0] for pair in pairs)
    for (entry, _), pair in zip(shaped, pairs, strict=True):
        if len(baselines) > 1:
            message = f"found the baselines {', '.join([*baselines][:5])}, expected one: split the file by generator_1"
            entry.stop((), message)
        if pair.other[0] == BASELINE:
            entry.stop((), f"found the model {BASELINE!r}, expected another name: it stands for a run")
        if pair.rated[0] == pair.other[0]:
            entry.note((), f"found the model {pair.rated[0]!r} twice in a pair, expected two models")
    stored_fields = FieldCounts()
    rows: dict[tuple[str, str], Row] = {}
    ratings: dict[tuple[str, str, str], Row] = {}
    for (entry, shape), pair, name in zip(shaped, pairs, names, strict=True):
        extra = stored_fields.note_all("", drop_empty(shape.unknown_keys))
        for row in _outputs(pair, name, extra):
            stored_row = rows.setdefault((name, row["model"]), row)
            if stored_row["output"] != row["output"]:
                entry.note(
                    (), f"found other outputs of {row['model']} for the case {name!r}, expected one of each model"
                )
        if pair.score is not None:
            rating = rating_row({"case_id": name, "model": pair.rated[0]}, CRITERION, pair.rater, pair.score)
            if ratings.setdefault((name, pair.rated[0], pair.rater), rating)["score"] != pair.score:
                entry.note((), f"found two preferences of {pair.rater} for the case {name!r}, expected one")
    entries[0].stop_at_faults()
    finished = entries[0].within((), None).finish(_rubric(path, next(iter(baselines))), stored_fields)
    return Imported(finished.rubric, tuple(rows.values()), tuple(ratings.values()), finished.kept)


def _fit(entry: Reading) -> _AnyPair | None:
    """Validate a pair in the format that its keys indicate."""
    keys = entry.value if isinstance(entry.value, dict) else {}
    key = next((key for key in _SHAPES if key in keys), None)
    if key is None:
        entry.note((), f"found {quote_value(entry.value)}, expected a pair with games, instruction, pair_id or input")
        return None
    return entry.fit(_SHAPES[key], entry.value)


def _outputs(pair: _Pair, name: str, extra: Row) -> Iterator[Row]:
    for model, output in (pair.other, pair.rated):
        row = {"case_id": name, "model": model, "prompt": pair.prompt, "output": output}
        yield {**row, **(as_metadata(NAME, extra) if model == pair.rated[0] else {})}


def _rubric(path: str, baseline: str) -> Row:
    return {
        "id": identifier(PurePath(path).stem, "rubric"),
        "version": FIRST_VERSION,
        "description": "Which of two outputs is better.",
        "criteria": [
            {
                "id": CRITERION,
                "description": "Which output does what was asked better?",
                "weight": 1,
                "method": {"type": "preference", "against": baseline},
            }
        ],
    }


SUMMARY = "pairs of outputs with the better one labelled, as in AlpacaEval, Arena-Hard, LLMBar and JudgeBench"
FORMAT = Format(NAME, SUMMARY, ".json", "results", read_pairs)
