"""What makes two rubrics the same version: a canonical text, its digest, and the difference in words."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from rubrics.errors import Fault, RubricError
from rubrics.model import Rubric
from rubrics.plain_words import describe

DIGEST_BYTES = 16
LARGEST_EXACT = 2**53  # up to here each whole number is a float, so 1 and 1.0 can be one text
MOST_SHOWN = 60

_ABSENT = object()


def canonical_body(rubric: Rubric) -> str:
    """The rubric as JSON text: keys sorted, defaults left out, 1.0 written 1.

    Formatting, key order and comments of the YAML do not show in it. Defaults are left out so that a later gradebook,
    which knows more keys, gives an old rubric the same text.
    """
    return _json(rubric.model_dump(by_alias=True, exclude_defaults=True))


def rubric_digest(rubric: Rubric) -> str:
    """BLAKE2b of the canonical body in UTF-8, 32 hex digits."""
    return hashlib.blake2b(canonical_body(rubric).encode(), digest_size=DIGEST_BYTES).hexdigest()


def rubric_from_body(body: str) -> Rubric:
    """The rubric of a canonical body. Raises `RubricError` where this gradebook does not know what it says."""
    try:
        return Rubric.model_validate(json.loads(body))
    except ValidationError as error:
        described = [describe(fault, fault["loc"], ())[1] for fault in error.errors(include_url=False)]
        raise RubricError(tuple(Fault("rubric body", None, message) for message in described)) from None


def describe_difference(old: Rubric, new: Rubric) -> list[str]:
    """What changed, a line each: "criteria[tone].weight: 0.4 -> 0.5". Empty only where the digests agree."""
    return list(_differences("", old.model_dump(by_alias=True), new.model_dump(by_alias=True)))


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


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    if _ABSENT not in (old, new) and _json(old) == _json(new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _differences(f"{place}.{key}".removeprefix("."), old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif _has_ids(old) and _has_ids(new):
        yield from _list_differences(place, old, new)
    else:
        yield f"{place}: {' -> '.join(_excerpts(old, new))}"


def _has_ids(value: Any) -> bool:
    """Criteria and levels: the model's own lists are tuples, those within settings and metadata stay lists."""
    return isinstance(value, tuple) and all(isinstance(entry, dict) for entry in value)


def _list_differences(place: str, old: Any, new: Any) -> Iterator[str]:
    olds, news = ({entry["id"]: entry for entry in entries} for entries in (old, new))
    for entry_id in dict.fromkeys([*olds, *news]):
        here = f"{place}[{entry_id}]"
        if entry_id not in news:
            yield f"{here}: removed"
        elif entry_id not in olds:
            yield f"{here}: added"
        else:
            yield from _differences(here, olds[entry_id], news[entry_id])
    before, after = [key for key in olds if key in news], [key for key in news if key in olds]
    if before != after:
        yield f"{place}: order {', '.join(before)} -> {', '.join(after)}"


def _excerpts(old: Any, new: Any) -> tuple[str, str]:
    """Both values, long ones from shortly before the first difference."""
    texts = [_shown(old), _shown(new)]
    shared = next((place for place, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, shared - MOST_SHOWN // 3) if max(map(len, texts)) > MOST_SHOWN else 0
    first, second = (_excerpt(text, start) for text in texts)
    return first, second


def _shown(value: Any) -> str:
    if value is _ABSENT or value is None:
        return "absent" if value is _ABSENT else "none"
    return value if isinstance(value, str) else _json(value)


def _excerpt(text: str, start: int) -> str:
    cut = text[start : start + MOST_SHOWN]
    return f"{'...' if start else ''}{cut}{'...' if start + MOST_SHOWN < len(text) else ''}"
