"""Format of OpenAI graders: the testing criteria of an eval, a multigrader, or graders alone.

Shapes: https://platform.openai.com/docs/guides/graders. A grader compares or shows `{{ sample.output_text }}`, which is
the output; a field `{{ item.NAME }}` that it compares with is the row's reference. The code of a python grader is not
run: it is refused.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, field_validator, model_validator

from gradebook.rubrics.importers.case_rows import NonBlank
from gradebook.rubrics.importers.foreign_file import OpenMapping, Reading, open_json
from gradebook.rubrics.importers.ids import LEVEL_ID, DistinctIds
from gradebook.rubrics.importers.metadata import FIRST_VERSION, FieldCounts, as_metadata, drop_empty, plain_number
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.json_values import Row, drop_none
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT
from gradebook.rubrics.text.plain_words import Place, quote_value, unknown_word

NAME = "openai-graders"
COSINE = "cosine"
MEASURES: dict[str, Row] = {
    "fuzzy_match": {"check": "edit_similarity"},
    "bleu": {"check": "bleu"},
    "rouge_l": {"check": "rouge_l"},
    **{f"rouge_{n}": {"check": "rouge_n", "settings": {"n": n}} for n in range(1, 5)},
}
_NOT_MEASURED = ("gleu", "meteor", "rouge_5")
_LARGEST_SCORE = 1e9  # largest end of a score's range
LONGEST_FORMULA = 2000  # characters of a formula


class Message(OpenMapping):
    """Message to the grading model."""

    role: str
    content: Any

    @property
    def text(self) -> str:
        """Texts of the message; pictures and sounds have none."""
        contents = self.content if isinstance(self.content, list) else [self.content]
        texts = (part.get("text") if isinstance(part, dict) else part for part in contents)
        return "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())


class Grader(OpenMapping):
    """Keys of every grader."""

    type: str
    name: str | None = None


class Compared(Grader):
    """Grader that compares two texts."""

    input: str
    reference: str


class StringCheck(Compared):
    """Grader by equality, inequality or containment."""

    operation: Literal["eq", "ne", "like", "ilike"]


class TextSimilarity(Compared):
    """Grader by a measure of similarity."""

    evaluation_metric: str
    pass_threshold: Annotated[float, Field(ge=0, le=1)] | None = None

    @field_validator("evaluation_metric")
    @classmethod
    def _is_measured(cls, name: str) -> str:
        if name in _NOT_MEASURED:
            raise ValueError(
                f"found {name!r}, which is not measured here, expected another one, such as bleu or rouge_l"
            )
        if name not in (*MEASURES, COSINE):
            raise ValueError(f"found {quote_value(name)}, expected {unknown_word(name, (*MEASURES, COSINE))}")
        return name


class Asked(Grader):
    """Grader that asks a model."""

    input: Annotated[list[Message], Field(min_length=1)]
    model: str | None = None
    sampling_params: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _has_a_text(self) -> Self:
        if not self.text:
            raise ModelFault("invalid", "found no text in the messages, expected a question", "input")
        return self

    @property
    def text(self) -> str:
        """Text of all messages."""
        return "\n\n".join(text for message in self.input if (text := message.text.strip()))


class ScoreModel(Asked):
    """Grader that asks for a number within a range."""

    range: tuple[float, float] = (0, 1)
    pass_threshold: float | None = None

    @field_validator("range", mode="before")
    @classmethod
    def _list_as_pair(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else (0, 1) if value is None else value

    @model_validator(mode="after")
    def _threshold_in_range(self) -> Self:
        lowest, highest = self.range
        if not -_LARGEST_SCORE <= lowest < highest <= _LARGEST_SCORE:
            raise ModelFault("invalid", f"found {lowest:g} and {highest:g}, expected the lower number first", "range")
        if self.pass_threshold is not None and not lowest <= self.pass_threshold <= highest:
            message = f"found {self.pass_threshold:g}, expected a score from {lowest:g} to {highest:g}"
            raise ModelFault("invalid", message, "pass_threshold")
        return self


class LabelModel(Asked):
    """Grader that asks for one of several labels."""

    labels: Annotated[list[NonBlank], Field(min_length=2, max_length=100)]
    passing_labels: Annotated[list[str], Field(min_length=1)]

    @model_validator(mode="after")
    def _some_labels_pass(self) -> Self:
        if len(set(self.labels)) < len(self.labels):
            raise ModelFault("invalid", "found a label twice, expected each once", "labels")
        strange = [label for label in self.passing_labels if label not in self.labels]
        if strange:
            raise ModelFault(
                "invalid", f"found {quote_value(strange[0])}, expected one of the labels", "passing_labels"
            )
        if len(set(self.passing_labels)) == len(self.labels):
            raise ModelFault("invalid", "found every label, expected one that does not pass", "passing_labels")
        return self


class Multi(OpenMapping):
    """Graders by name, and the formula that combines their scores."""

    name: str | None = None
    graders: Annotated[dict[str, Any], Field(min_length=1)]
    calculate_output: Annotated[str, Field(min_length=1, max_length=LONGEST_FORMULA)]


SHAPES: dict[str, type[Grader]] = {
    "string_check": StringCheck,
    "text_similarity": TextSimilarity,
    "score_model": ScoreModel,
    "label_model": LabelModel,
}


_EXPECTED = "expected a weighted sum of the graders, such as 0.7 * a + 0.3 * b: write it as one"
_CONSTANT = ""  # name of the part without a grader

Terms = Mapping[str, float]


def formula_weights(formula: str, names: Sequence[str]) -> dict[str, float]:
    """Weight of each grader in a formula that is a weighted sum; 0 for a grader that it does not name.

    Nothing is evaluated but numbers, names, brackets, `+`, `-`, `*` and `/`. Raises `ValueError` for other formulas.
    """
    try:
        tree = ast.parse(formula.strip(), mode="eval")
        terms = _terms(tree.body, frozenset(names))
    except (SyntaxError, RecursionError, MemoryError, OverflowError, ZeroDivisionError):
        raise ValueError(f"found {formula[:60]!r}, {_EXPECTED}") from None
    if abs(terms.get(_CONSTANT, 0)) > 0:
        raise ValueError(f"found {formula[:60]!r}, which adds a number of its own, {_EXPECTED}")
    return {name: terms.get(name, 0.0) for name in names}


def _terms(node: ast.expr, names: frozenset[str]) -> Terms:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return {_CONSTANT: float(number)}
        case ast.Name(id=name):
            if name not in names:
                raise ValueError(f"found {name!r}, expected one of the graders {', '.join(sorted(names))}")
            return {name: 1.0}
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=inner):
            return _scaled(_terms(inner, names), -1 if isinstance(sign, ast.USub) else 1)
        case ast.BinOp(left=left, op=operator, right=right):
            combined = _combined(operator, _terms(left, names), _terms(right, names))
            if combined is not None:
                return combined
    raise ValueError(f"found {ast.unparse(node)[:60]!r}, {_EXPECTED}")


def _combined(operator: ast.operator, left: Terms, right: Terms) -> Terms | None:
    """Terms of both sides combined; None for an operation whose result is no weighted sum."""
    match operator:
        case ast.Add() | ast.Sub():
            signed = right if isinstance(operator, ast.Add) else _scaled(right, -1)
            return {name: left.get(name, 0.0) + signed.get(name, 0.0) for name in (*left, *signed)}
        case ast.Mult() if left.keys() <= {_CONSTANT}:
            return _scaled(right, left[_CONSTANT])
        case ast.Mult() if right.keys() <= {_CONSTANT}:
            return _scaled(left, right[_CONSTANT])
        case ast.Div() if right.keys() <= {_CONSTANT}:
            return _scaled(left, 1 / right[_CONSTANT])
    return None


def _scaled(terms: Terms, factor: float) -> Terms:
    return {name: factor * value for name, value in terms.items()}


_OUTPUT = re.compile(r"\s*+\{\{\s*+sample\.output_text\s*+\}\}\s*+")
_FIELD = re.compile(r"\s*+\{\{\s*+item\.([^{}\s]++)\s*+\}\}\s*+")
_SLOT = re.compile(r"\{\{\s*+(sample\.output_text|(?:item|sample)\.[^{}\s]++)\s*+\}\}")
_BRACES = re.compile(r"\{\{|\{%|\{#|\}\}|%\}|#\}")
_WORDS = {
    "eq": "The output is {}.",
    "ne": "The output is not {}.",
    "like": "The output contains {}.",
    "ilike": "The output contains {}, in any case.",
}
_BELOW_ONE = 0.9999995  # upper bound of `edit_similarity` for two different texts
_MOST_POINTS = 10  # points of a scale with a point for each whole number
_CODE = "python", "endpoint"
_UNSUPPORTED = (
    "gradebook runs no code of a file: write this test as a check or a function of your own (method: function), and "
    "remove the grader"
)
_Entry = tuple[str | None, Place, Any]
_Found = tuple[Row, list[_Entry], dict[str | None, float | int]]


@dataclass(slots=True)
class _Open:
    """Import of one rubric in progress: its source, stored fields, and the item's field that graders compare with."""

    reading: Reading
    kept: FieldCounts = field(default_factory=FieldCounts)
    reference: str | None = None


def read_openai_graders(text: str, path: str) -> Imported:
    """Import graders as a rubric, or the evals of a list as one rubric each. Raises `RubricError` with every fault."""
    reading = open_json(text, path)
    names = DistinctIds("rubric")
    first, *others = [_import(_Open(reading), names) for reading in _evals_in(reading)]
    if not others:
        return first
    rubrics = [rubric for imported in (first, *others) for rubric in imported.rubrics]
    kept_phrases = (
        f"{rubric['id']}: {sentence}"
        for rubric, imported in zip(rubrics, (first, *others), strict=True)
        for sentence in imported.kept
    )
    return replace(first, others=tuple(rubrics[1:]), kept=tuple(kept_phrases))


def _evals_in(reading: Reading) -> list[Reading]:
    """Parts that become one rubric each: the evals of a page of the API, else the whole file."""
    evals = reading.value.get("data") if isinstance(reading.value, dict) else None
    if not isinstance(evals, list):
        return [reading]
    if not evals:
        reading.stop(("data",), "found an empty list, expected evals")
    return [reading.within(("data", index), entry) for index, entry in enumerate(evals)]


def _import(one: _Open, names: DistinctIds) -> Imported:
    head, entries, weights = _graders_in(one)
    ids = DistinctIds()
    criteria = []
    for key, place, entry in entries:
        grader = _fit(one.reading, entry, place)
        if grader is not None:
            criterion_id = ids.take(key or grader.name or grader.type)
            criteria.append({**_criterion(grader, criterion_id, one, place), **drop_none({"weight": weights.get(key)})})
    one.reading.stop_at_faults()
    title = head.pop("name", None)
    is_named = isinstance(title, str) and title.strip() != ""
    rubric: Row = {
        "id": names.take(title if is_named else PurePath(one.reading.path).stem),
        "version": FIRST_VERSION,
        **({"description": title} if is_named else {}),
        "criteria": criteria,
        **as_metadata(NAME, one.kept.note_all("", drop_empty(head, ("object", "type")))),
    }
    return one.reading.finish(rubric, one.kept)


def _graders_in(one: _Open) -> _Found:
    """(keys around the graders; (key in a multigrader, place, grader) of each grader; weights by key)."""
    value, place, head = one.reading.value, cast("Place", ()), cast("Row", {})
    for key in ("testing_criteria", "grader"):
        if isinstance(value, dict) and key in value:
            head = {name: entry for name, entry in value.items() if name != key}
            value, place = value[key], (key,)
            break
    if isinstance(value, list) and len(value) == 1 and _type_of(value[0]) == "multi":
        value, place = value[0], (*place, 0)
    if _type_of(value) == "multi":
        return _multi_in(one, value, place, head)
    if isinstance(value, dict) and "type" in value:
        return head, [(None, place, value)], {}
    if not isinstance(value, list):
        message = "expected a grader with a type, a list of graders, or an eval with testing_criteria"
        one.reading.stop(place, f"found {quote_value(value)}, {message}")
    if not value:
        one.reading.stop(place, "found an empty list, expected at least one grader")
    return head, [(None, (*place, index), entry) for index, entry in enumerate(value)], {}


def _type_of(value: Any) -> Any:
    return value.get("type") if isinstance(value, dict) else None


def _multi_in(one: _Open, value: Row, place: Place, head: Row) -> _Found:
    multi = one.reading.fit(Multi, value, place)
    if multi is None:
        one.reading.stop_at_faults()
        return {}, [], {}  # unreachable: an invalid value has a fault
    where = (*place, "calculate_output")
    try:
        weights = formula_weights(multi.calculate_output, tuple(multi.graders))
    except ValueError as error:
        one.reading.stop(where, str(error))
    if not all(isfinite(weight) and abs(weight) <= LARGEST_WEIGHT for weight in weights.values()):
        one.reading.stop(where, f"found a weight beyond {LARGEST_WEIGHT:g}, expected a smaller one")
    positive = sum(weight for weight in weights.values() if weight > 0)
    if abs(positive - 1) > 1e-6:
        one.kept.note(f"calculate_output (its weights add up to {positive:g}: scores here are divided by it)")
    entries: list[_Entry] = [(key, (*place, "graders", key), grader) for key, grader in multi.graders.items()]
    multi_head = {
        **head,
        **multi.unknown_keys,
        **drop_none({"name": multi.name}),
        "calculate_output": multi.calculate_output,
    }
    return multi_head, entries, {key: plain_number(weight) for key, weight in weights.items()}


def _fit(reading: Reading, entry: Any, place: Place) -> Grader | None:
    """Grader of a known type; None, with a fault, for any other value."""
    if not isinstance(entry, dict):
        reading.note(place, f"found {quote_value(entry)}, expected a grader")
        return None
    kind = entry.get("type")
    if kind in _CODE:
        reading.note((*place, "type"), f"found {kind}, expected one of {', '.join(SHAPES)}: {_UNSUPPORTED}")
        return None
    shape = SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        expected = unknown_word(kind, SHAPES) if isinstance(kind, str) else f"one of {', '.join(sorted(SHAPES))}"
        note = ", as a multi stands alone" if kind == "multi" else ""
        reading.note((*place, "type"), f"found {quote_value(kind)}, expected {expected}{note}")
        return None
    return reading.fit(shape, entry, place)


def _criterion(grader: Grader, criterion_id: str, one: _Open, place: Place) -> Row:
    stored_keys: Row = {}
    match grader:
        case Asked():
            description, columns = _question(grader.text), _judge_criterion(grader)
            stored_keys = {"input": [message.model_dump(exclude_unset=True) for message in grader.input]}
            stored_keys |= drop_none({"model": grader.model, "sampling_params": grader.sampling_params})
        case Compared():
            settings = _reference(grader, one, place)
            columns = _check_criterion(grader, settings)
            description = _statement(grader).format(repr(settings["expected"]) if settings else "the reference")
            stored_keys = {} if settings else {"reference": grader.reference}
        case _:
            description, columns = criterion_id, {}
    return {
        "id": criterion_id,
        **drop_empty({"name": grader.name if grader.name != criterion_id else None}),
        "description": description,
        "weight": 1,
        **columns,
        **as_metadata(NAME, one.kept.note_all("", drop_empty({**stored_keys, **grader.unknown_keys}))),
    }


def _statement(grader: Compared) -> str:
    """Sentence with a slot for the text that the output is compared with."""
    if isinstance(grader, TextSimilarity):
        return f"The output is like {{}}, by {grader.evaluation_metric}."
    return _WORDS[grader.operation] if isinstance(grader, StringCheck) else ""


def _reference(grader: Compared, one: _Open, place: Place) -> Row:
    """Setting `expected` for a reference that is a text; no setting for one that is a field of the item."""
    compared, reference, where = grader.input, grader.reference, "input"
    if _OUTPUT.fullmatch(reference):  # input and reference are swapped
        compared, reference, where = reference, compared, "reference"
    if not _OUTPUT.fullmatch(compared):
        message = "expected {{ sample.output_text }}: the whole text of the output is compared"
        one.reading.note((*place, where), f"found {quote_value(compared)}, {message}")
    field_of = _FIELD.fullmatch(reference)
    other = "reference" if where == "input" else "input"
    if field_of:
        one.reference = one.reference or field_of[1]
        if one.reference != field_of[1]:
            message = f"expected {{{{ item.{one.reference} }}}} as before: an output has one reference"
            one.reading.note((*place, other), f"found {quote_value(reference.strip())}, {message}")
    elif _BRACES.search(reference):
        one.reading.note(
            (*place, other), f"found {quote_value(reference)}, expected a text or one field, {{{{ item.NAME }}}}"
        )
    return {} if field_of else {"expected": reference}


def _check_criterion(grader: Compared, settings: Row) -> Row:
    if isinstance(grader, TextSimilarity):
        return _similarity_criterion(grader, settings)
    exact: Row = {**settings, "fold_whitespace": False}
    operation = grader.operation if isinstance(grader, StringCheck) else "eq"
    checks: dict[str, tuple[str, Row]] = {
        "eq": ("matches_reference", exact),
        "ne": ("edit_similarity", {**exact, "max": _BELOW_ONE}),
        "like": ("contains_reference", {**exact, "case_sensitive": True}),
        "ilike": ("contains_reference", exact),
    }
    check, chosen = checks[operation]
    return {"threshold": 1, "method": {"type": "check", "check": check, "settings": chosen}}


def _similarity_criterion(grader: TextSimilarity, settings: Row) -> Row:
    threshold = drop_none({"threshold": grader.pass_threshold})
    if grader.evaluation_metric == COSINE:
        return {**threshold, "method": {"type": "similarity", "against": "reference", "is_rescaled": False}}
    measure = MEASURES[grader.evaluation_metric]
    points = sorted({*(tenth / 10 for tenth in range(11)), *threshold.values()})
    levels = [{"id": f"{point:g}", "score": point} for point in points]
    check_settings = {**measure.get("settings", {}), **settings, "levels": {f"{point:g}": point for point in points}}
    return {
        **threshold,
        "levels": levels,
        "method": {"type": "check", "check": measure["check"], "settings": check_settings},
    }


def _judge_criterion(grader: Asked) -> Row:
    columns: Row = {"method": {"type": "judge"}}
    if isinstance(grader, ScoreModel):
        lowest, highest = grader.range
        columns |= _scale(lowest, highest)
        if grader.pass_threshold is not None:
            columns["threshold"] = (grader.pass_threshold - lowest) / (highest - lowest)
    elif isinstance(grader, LabelModel):
        ids = DistinctIds("level", LEVEL_ID)
        passing = set(grader.passing_labels)
        ordered: Sequence[str] = sorted(grader.labels, key=lambda label: label in passing)  # worst first
        columns["levels"] = [
            {"id": ids.take(label), "score": float(label in passing), "label": label} for label in ordered
        ]
        columns["threshold"] = 1
    return columns


def _scale(lowest: float, highest: float) -> Row:
    """Points of a range: its whole numbers, or five at equal distances."""
    is_whole = lowest == int(lowest) and highest == int(highest) and lowest >= 0
    if is_whole and 1 < highest - lowest <= _MOST_POINTS:
        return {"scale": {"min": int(lowest), "max": int(highest)}}
    ids = DistinctIds("level", LEVEL_ID)
    return {
        "levels": [
            {"id": ids.take(f"{point:g}"), "score": share, "label": f"{point:g}"}
            for share in (0.0, 0.25, 0.5, 0.75, 1.0)
            for point in [lowest + share * (highest - lowest)]
        ]
    }


def _question(text: str) -> str:
    """Text for the judge with slots as names in square brackets, because the judge sees the case separately."""
    question = _SLOT.sub(lambda slot: "[the output]" if slot[1] == "sample.output_text" else f"[{slot[1]}]", text)
    return _BRACES.sub("", question).strip() or text


SUMMARY = "graders of OpenAI's evals: string_check, text_similarity, score_model, label_model, multi"
FORMAT = Format(NAME, SUMMARY, ".json", "rubric", read_openai_graders)
