"""Rubrics as YAML text: a rubric that parses to the same version, a copy, and a draft of a new one.

A draft is made from answers to a few questions.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from gradebook.rubrics.files.versions import LARGEST_EXACT
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.json_values import HALF_PAIR
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.plain_words import Place, place_text
from gradebook.rubrics.text.yaml_lines import DEEPEST, PLAIN_NUMBER

WIDEST = 110  # maximum columns of a mapping or list on one line
WIDEST_TEXT = 120  # maximum columns of a text before it is folded

_TAG = "tag:yaml.org,2002:"
_NO_LIMIT = 1_000_000_000
# Texts that other YAML parsers, but not PyYAML, read as a number or a bool: 1e5, 0o17, y.
_LOOKS_LIKE_A_VALUE = re.compile(
    r"0o[0-7]+|0x[0-9a-f]+|[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|[-+]?\.(?:inf|nan)|[yn]", re.IGNORECASE
)
_WORD = r"[^\s\x00-\x1f\x7f-\x9f\ufeff]+"
_LINE = rf"{_WORD}(?: +{_WORD})*"
_FOLDABLE = re.compile(rf"{_WORD}(?: {_WORD})*")
_LITERAL = re.compile(rf"{_LINE}(?:\n+ *{_LINE})+\n?|{_LINE}\n")
_BREAK = re.compile("[\n\x85\u2028\u2029]")


def rubric_yaml(rubric: Rubric) -> str:
    """Rubric as YAML, keys in the model's order, without defaults; `parse_rubric` restores the same digest.

    Raises `RubricError` if the metadata has a value that YAML cannot represent: nan, or more than 50 levels of nesting.
    """
    return values_yaml(_dump(rubric))


def rubric_values(rubric: Rubric) -> dict[str, Any]:
    """Rubric as plain values under the file's keys, without defaults."""
    values: dict[str, Any] = _with_lists(_dump(rubric))
    return values


def _dump(rubric: Rubric) -> dict[str, Any]:
    return rubric.model_dump(by_alias=True, exclude_defaults=True)


def _with_lists(value: Any) -> Any:
    """Convert the model's tuples to lists."""
    if isinstance(value, dict):
        return {key: _with_lists(entry) for key, entry in value.items()}
    return [_with_lists(entry) for entry in value] if isinstance(value, list | tuple) else value


def values_yaml(values: dict[str, Any]) -> str:
    """Plain values as YAML: short lists and mappings on one line, long texts folded.

    Raises `RubricError` with every value that the parser would refuse.
    """
    faults = tuple(Fault("rubric", None, message) for message in _unwritable(values, ()))
    if faults:
        raise RubricError(faults)
    return _serialise(_block_mapping(values, (), 0))


def _serialise(node: yaml.Node) -> str:
    text: str = yaml.serialize(node, Dumper=_Writer, allow_unicode=True, width=_NO_LIMIT)
    return text


class _Writer(yaml.SafeDumper):
    """YAML writer that indents lists, breaks only folded lines, and prefers double quotes if no escapes are needed."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def choose_scalar_style(self) -> Any:
        style = super().choose_scalar_style()
        text = str(getattr(self.event, "value", ""))
        is_free_of_escapes = "\\" not in text and '"' not in text
        is_broken = style != "|" and _BREAK.search(text)  # single quotes would turn each kind of break into \n
        return '"' if is_broken or (style == "'" and is_free_of_escapes) else style

    def write_folded(self, text: str) -> None:
        self.best_width = WIDEST_TEXT
        super().write_folded(text)
        self.best_width = _NO_LIMIT


def _unwritable(value: Any, place: Place) -> Iterator[str]:
    """Messages on values that the parser of rubric files would refuse or change."""
    if len(place) >= DEEPEST and isinstance(value, dict | list | tuple):
        yield f"{place_text(place)}: found more than {DEEPEST} levels of nesting, expected fewer"
    elif isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str | int) or isinstance(key, bool):
                yield f"{place_text(place)}: found the key {key!r}, expected text"
            else:
                yield from _unwritable(str(key), (*place, str(key)))
                yield from _unwritable(entry, (*place, str(key)))
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _unwritable(entry, (*place, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{place_text(place)}: found {value}, expected a finite number"
    elif isinstance(value, str) and HALF_PAIR.search(value):
        yield f"{place_text(place)}: found half of a surrogate pair, expected whole characters"
    elif not isinstance(value, str | int | float | None):
        expected = "text, a number, true, false, null, a list or a mapping"
        yield f"{place_text(place)}: found a value of type {type(value).__name__}, expected {expected}"


def _node(value: Any, place: Place, indent: int, column: int) -> yaml.Node:
    """Node of a value, on one line if it is short and not always written in block style.

    indent: column of its lines in block style; column: column where its single line would begin.
    """
    if not isinstance(value, dict | list | tuple):
        return _scalar(value, column)
    is_at_length = place[:1] == ("criteria",) and len(place) < 3
    if not value or not (is_at_length or _holds_lists(value)):
        flow = _flow(value)
        if _is_short(value, flow, column):
            return flow
    return _block_mapping(value, place, indent) if isinstance(value, dict) else _block_list(value, place, indent)


def _is_short(value: Any, flow: yaml.Node, column: int) -> bool:
    """Whether a value fits on the line; the first test avoids serialising long values."""
    return len(str(value)) < 3 * WIDEST and column + len(_serialise(flow).rstrip("\n")) <= WIDEST


def _flow(value: Any) -> yaml.Node:
    if isinstance(value, dict):
        pairs = [(_key(key), _flow(entry)) for key, entry in value.items()]
        return yaml.MappingNode(_TAG + "map", pairs, flow_style=True)
    if isinstance(value, list | tuple):
        return yaml.SequenceNode(_TAG + "seq", [_flow(entry) for entry in value], flow_style=True)
    return _scalar(value, 0)


def _holds_lists(value: Any) -> bool:
    """Whether a list contains mappings or lists; it then has one entry per line."""
    return not isinstance(value, dict) and any(isinstance(entry, dict | list | tuple) for entry in value)


def _block_mapping(value: dict[str, Any], place: Place, indent: int) -> yaml.MappingNode:
    pairs = []
    for key, entry in value.items():
        column = indent + len(str(key)) + 2
        pairs.append((_key(key), _node(entry, (*place, key), indent + 2, column)))
    return yaml.MappingNode(_TAG + "map", pairs, flow_style=not pairs)


def _block_list(value: Any, place: Place, indent: int) -> yaml.SequenceNode:
    entries = [_node(entry, (*place, index), indent + 2, indent + 2) for index, entry in enumerate(value)]
    return yaml.SequenceNode(_TAG + "seq", entries, flow_style=not entries)


def _key(key: str | int) -> yaml.ScalarNode:
    """Node of a key; whole numbers, as the points of a scale, have no quotes."""
    if PLAIN_NUMBER.fullmatch(str(key)):
        return yaml.ScalarNode(_TAG + "int", str(key))
    return _text(str(key))


def _scalar(value: Any, column: int) -> yaml.ScalarNode:
    if value is None:
        return yaml.ScalarNode(_TAG + "null", "null")
    if isinstance(value, bool):
        return yaml.ScalarNode(_TAG + "bool", str(value).lower())
    if isinstance(value, int | float):
        return _number(value)
    if _LITERAL.fullmatch(value):
        return yaml.ScalarNode(_TAG + "str", value, style="|")
    if column + len(value) > WIDEST_TEXT and _FOLDABLE.fullmatch(value):
        return yaml.ScalarNode(_TAG + "str", value, style=">")
    return _text(value)


def _text(text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode(_TAG + "str", text, style='"' if _LOOKS_LIKE_A_VALUE.fullmatch(text) else None)


def _number(number: float) -> yaml.ScalarNode:
    """Node of a decimal number: 1.0 as 1, as in its digest, and 1e-07 as 1.0e-07, which YAML reads as a number."""
    if isinstance(number, int) or (number.is_integer() and abs(number) <= LARGEST_EXACT):
        return yaml.ScalarNode(_TAG + "int", str(int(number)))
    digits, mark, exponent = repr(number).partition("e")
    return yaml.ScalarNode(_TAG + "float", digits + (".0" if mark and "." not in digits else "") + mark + exponent)


FIRST_VERSION = "1.0.0"
MOST_WORDS = 4  # words of a question in the id of its criterion
LONGEST_ID = 56  # characters; leaves room for a number at the end
_FILLERS = frozenset(
    "a an the is are was were do does did has have it its of to in on and or that with".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers about a new rubric. questions: one per criterion, answered with yes for a good output."""

    description: str
    questions: Sequence[str]
    pass_threshold: float | None


def id_from(text: str, taken: Sequence[str] = ()) -> str:
    """Id made of the first content words of a text, different from the ids in `taken`."""
    return _free_id(_content_words(text)[:MOST_WORDS], taken)


def question_id(question: str, taken: Sequence[str]) -> str:
    """Id made of a question's first content words, without the last one: a name is shorter than its question."""
    words = _content_words(question)
    return _free_id(words[: min(MOST_WORDS, max(1, len(words) - 1))], taken)


def _content_words(text: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", text.lower())
    return [word for word in words if word not in _FILLERS] or words or ["criterion"]


def _free_id(words: Sequence[str], taken: Sequence[str]) -> str:
    name = "_".join(words)
    name = (name if name[0].isalpha() else f"c_{name}")[:LONGEST_ID].rstrip("_")
    return next(
        candidate for candidate in (name, *(f"{name}_{n}" for n in range(2, len(taken) + 3))) if candidate not in taken
    )


def copied_text(text: str, source: str, rubric_id: str, weight_sum: float | None = None) -> str:
    """Copy of a rubric file with another id and the first version; its comments stay.

    weight_sum: added to it, if given.
    """
    (version,) = re.findall(r"^version: *(\S+)", text, re.MULTILINE)[:1]
    text = re.sub(r"^id:.*$", f"id: {rubric_id}", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^version:.*$", f"version: {FIRST_VERSION}", text, count=1, flags=re.MULTILINE)
    if weight_sum is not None:
        text = re.sub(r"^criteria:", f"weight_sum: {weight_sum:g}\ncriteria:", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^(name|owner):.*\n", "", text, flags=re.MULTILINE)
    return f"# Copied from the shipped rubric {source} {version}; edit it as you need.\n#\n{text}"


def drafted_text(rubric_id: str, answers: Answers) -> str:
    """Draft of a rubric file, with comments on what to decide next."""
    threshold = (
        "# pass_threshold: 0.7" if answers.pass_threshold is None else f"pass_threshold: {answers.pass_threshold:g}"
    )
    lines = [
        "# A rubric: weighted criteria that a judge answers for each output. `gradebook rubric schema` has every key.",
        f"id: {rubric_id}",
        f"version: {FIRST_VERSION}  # a change of criteria, levels or weights needs another: gradebook rubric diff",
        f"description: {_quoted(answers.description)}",
        f"{threshold}  # the lowest overall score, 0 to 1, of an output that passes",
        "require_thresholds: true  # the mean of each criterion has to reach its threshold too",
        "decide: interval  # a model may ship once the ends of intervals show it; `point`: by its estimates alone",
        "max_failure_rate: 0.05  # of a gate, to be shown: 72 outputs without a failure do",
        "criteria:",
    ]
    names: list[str] = []
    for question in answers.questions:
        names.append(question_id(question, names))
        lines += _criterion(names[-1], question)
    return "\n".join(lines) + "\n"


def _criterion(name: str, question: str) -> list[str]:
    return [
        f"  - id: {name}",
        f"    description: {_quoted(question)}",
        "    weight: 1  # relative to the others; `gate: true` instead: an output that fails it fails as a whole",
        "    rationale: a draft, weighed as the others  # why it has this weight, for people",
        "    threshold: 0.8  # the score from which an output meets the criterion, and which the mean has to reach",
        "    levels:  # worst first; write what an output of each level looks like",
        '      - {id: "no", score: 0, description: "The answer to the question is no."}',
        '      - {id: "yes", score: 1, description: "The answer to the question is yes."}',
        "    method: {type: judge}  # or a check, which costs nothing: gradebook rubric checks list",
    ]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
