"""Identity of rubric versions: a canonical text, its digest, and differences in words."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import ValidationError

from gradebook.rubrics.model.digests import digest_of
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.rubric import Criterion, Overall, Rubric
from gradebook.rubrics.text.plain_words import Place, describe, place_text

LARGEST_EXACT = 2**53  # each whole number up to this is a float, so 1 and 1.0 have one text
MOST_SHOWN = 60

ABSENT = object()


def canonical_body(rubric: Rubric) -> str:
    """Canonical JSON text of a rubric: sorted keys, no defaults, 1.0 written as 1.

    Formatting, key order and comments of the YAML have no effect. Defaults are omitted so that a later gradebook with
    more keys gives an old rubric the same text. Raises `RubricError` for values that JSON cannot represent: nan, or
    metadata nested too deeply.
    """
    try:
        body = _json(rubric.model_dump(by_alias=True, exclude_defaults=True))
        body.encode()  # half of a surrogate pair is not valid text
    except (ValueError, RecursionError) as error:
        found = "too deep a nesting" if isinstance(error, RecursionError) else f"a value that JSON can't hold ({error})"
        raise RubricError((Fault(rubric.id, None, f"found {found}, expected values that JSON can hold"),)) from None
    return body


def rubric_digest(rubric: Rubric) -> str:
    """Digest of the canonical body, 32 hex digits. Raises `RubricError` as `canonical_body`."""
    return digest_of(canonical_body(rubric))


def question_digest(question: Criterion | Overall) -> str:
    """Digest of what a person is asked: name, description and levels from the worst to the best; 32 hex digits.

    A person's rating belongs to this text. Method, weight, threshold and the levels' scores are excluded.
    """
    name = question.label if isinstance(question, Overall) else question.name
    levels = [[level.id, level.label, level.description, list(level.indicators)] for level in question.ranked_levels]
    return digest_of(_json([name, question.description, levels]))


def rubric_from_body(body: str) -> Rubric:
    """Rubric from a canonical body. Raises `RubricError` if this gradebook does not know its content."""
    try:
        return Rubric.model_validate(json.loads(body, parse_constant=_refuse_constant))
    except ValidationError as error:
        messages = [_body_fault(fault) for fault in error.errors(include_url=False)]
    except (ValueError, RecursionError) as error:
        found = "endless nesting" if isinstance(error, RecursionError) else f"no JSON ({error})"
        messages = [f"found {found}, expected a rubric's canonical body"]
    raise RubricError(tuple(Fault("rubric body", None, message) for message in messages))


def describe_difference(old: Rubric, new: Rubric) -> list[str]:
    """Describe each change in one line: "criteria[tone].weight: 0.4 -> 0.5". Empty only for equal digests."""
    return [difference.sentence for difference in find_differences(old, new)]


@dataclass(frozen=True, slots=True)
class Difference:
    """One change.

    path: keys and ids that lead to it, ("criteria", "tone", "weight"). old, new: `ABSENT` for a missing side.
    """

    path: tuple[str, ...]
    old: Any
    new: Any
    sentence: str


def find_differences(old: Rubric, new: Rubric) -> list[Difference]:
    """Find all changes, with their paths. Lists of entries with ids are compared by id, then by order."""
    return list(_differences((), "", old.model_dump(by_alias=True), new.model_dump(by_alias=True)))


def _body_fault(fault: Any) -> str:
    place: Place = fault["loc"]
    if fault["type"] == "extra_forbidden":
        around = f"{place_text(place[:-1])}: " if len(place) > 1 else ""
        return f"{around}found the unknown key {place[-1]!r}, expected those of this gradebook (a later one has more)"
    return describe(fault, place, ())[1]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"found {name}, expected a finite number")


def _json(value: Any) -> str:
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_EXACT:
        return int(value)
    return value


def _differences(path: tuple[str, ...], place: str, old: Any, new: Any) -> Iterator[Difference]:
    if ABSENT not in (old, new) and _json(old) == _json(new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            here = f"{place}.{key}".removeprefix(".")
            yield from _differences((*path, key), here, old.get(key, ABSENT), new.get(key, ABSENT))
    elif _has_ids(old) and _has_ids(new):
        yield from _list_differences(path, place, old, new)
    else:
        shown = _excerpts(_without_gaps(path, old), _without_gaps(path, new))
        yield Difference(path, old, new, f"{place}: {' -> '.join(shown)}")


def _has_ids(value: Any) -> bool:
    """Whether it is a list of categories, criteria or levels. Lists within settings and metadata are not tuples."""
    if not isinstance(value, tuple) or not all(isinstance(entry, dict) and "id" in entry for entry in value):
        return False
    return len({entry["id"] for entry in value}) == len(value)


def _list_differences(path: tuple[str, ...], place: str, old: Any, new: Any) -> Iterator[Difference]:
    olds, news = ({entry["id"]: entry for entry in entries} for entries in (old, new))
    for entry_id in dict.fromkeys([*olds, *news]):
        here = f"{place}[{entry_id}]"
        if entry_id not in news:
            yield Difference((*path, entry_id), olds[entry_id], ABSENT, f"{here}: removed")
        elif entry_id not in olds:
            yield Difference((*path, entry_id), ABSENT, news[entry_id], f"{here}: added")
        else:
            yield from _differences((*path, entry_id), here, olds[entry_id], news[entry_id])
    before, after = [key for key in olds if key in news], [key for key in news if key in olds]
    if before != after:
        yield Difference(path, before, after, f"{place}: order {', '.join(before)} -> {', '.join(after)}")


def _without_gaps(path: tuple[str, ...], value: Any) -> Any:
    """Drop unset keys of a scale, overall row or notes; anything else is returned unchanged."""
    match path:
        case ("overall",) | ("notes",) | ("overall", "scale") | ("criteria", _, "scale"):
            return _filled(value)
    return value


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(entry) for key, entry in value.items() if entry not in (None, "", (), {})}
    return [_filled(entry) for entry in value] if isinstance(value, tuple) else value


def _excerpts(old: Any, new: Any) -> tuple[str, str]:
    """Excerpts of both values; long ones start shortly before the first difference."""
    texts = [_shown(old), _shown(new)]
    shared = next((place for place, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, shared - MOST_SHOWN // 3) if max(map(len, texts)) > MOST_SHOWN else 0
    first, second = (_excerpt(text, start) for text in texts)
    return first, second


def _shown(value: Any) -> str:
    if value is ABSENT or value is None:
        return "absent" if value is ABSENT else "none"
    return value if isinstance(value, str) else _json(value)


def _excerpt(text: str, start: int) -> str:
    cut = text[start : start + MOST_SHOWN]
    return f"{'...' if start else ''}{cut}{'...' if start + MOST_SHOWN < len(text) else ''}"
