"""Rubrics based on others: `extends` names them, and `use` takes over a criterion and overrides some of its keys."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gradebook.rubrics.model.errors import ModelFault
from gradebook.rubrics.model.rubric import Category, Criterion, Rubric
from gradebook.rubrics.text.plain_words import Place, place_text, shown, unknown_word

Values = dict[str, Any]
FindRubric = Callable[[str], Rubric]
MOST_EXTENDED = 20


@dataclass(slots=True)
class Composed:
    """Rubric values with inherited parts written out. found: (place, message, rule) of each fault."""

    values: Values
    found: list[tuple[Place, str, str]] = field(default_factory=list)


def compose(values: Values, find_rubric: FindRubric) -> Composed:
    """Write out the criteria that a rubric file takes from the rubrics it extends.

    find_rubric: a name or path -> the rubric; raises `ModelFault` if there is none.
    """
    composed = Composed(dict(values))
    names = composed.values.pop("extends", None)
    if names is None:
        composed.found += list(_uses_of_nothing(values))
        return composed
    bases = _find_bases(names, find_rubric, composed)
    if "criteria" not in values:
        taken = [_values_of(criterion) for base in bases for criterion in base.criteria]
        composed.values["criteria"] = taken or ([_stand_in(0)] if composed.found else [])
    elif isinstance(values["criteria"], list):
        composed.values["criteria"] = [
            _written_out(entry, ("criteria", index), bases, composed) for index, entry in enumerate(values["criteria"])
        ]
    _take_categories(composed, bases)
    _take_schemas(composed, bases)
    if taxonomy := next((base.taxonomy for base in bases if base.taxonomy), None):
        composed.values.setdefault("taxonomy", taxonomy.model_dump(exclude_defaults=True))
    return composed


def _find_bases(names: Any, find_rubric: FindRubric, composed: Composed) -> list[Rubric]:
    bases = []
    listed = names if isinstance(names, list) else [names]
    composed.found += _list_faults(listed)
    for index, name in enumerate(listed[:MOST_EXTENDED]):
        place: Place = ("extends", index) if isinstance(names, list) else ("extends",)
        if not isinstance(name, str) or not name:
            found = f"{place_text(place)}: found {shown(name)}, expected a rubric's name or file"
            composed.found.append((place, found, "unknown-rubric"))
            continue
        if name in listed[:index]:
            found = f"{place_text(place)}: found {shown(name)} again, expected each name once"
            composed.found.append((place, found, "unknown-rubric"))
            continue
        try:
            bases.append(find_rubric(name))
        except ModelFault as fault:
            composed.found.append((place, f"{place_text(place)}: {fault}", fault.rule))
    return bases


def _list_faults(names: list[Any]) -> Iterator[tuple[Place, str, str]]:
    if not names:
        yield ("extends",), "extends: found an empty list, expected a rubric's name or file", "unknown-rubric"
    if len(names) > MOST_EXTENDED:
        words = f"extends: found {len(names)} names, expected at most {MOST_EXTENDED}"
        yield ("extends",), words, "unknown-rubric"


def _written_out(entry: Any, place: Place, bases: list[Rubric], composed: Composed) -> Any:
    """The entry itself, or the criterion it uses with the entry's keys on top; a key set to null is removed."""
    if not isinstance(entry, dict) or "use" not in entry:
        return entry
    wanted = entry["use"]
    own = {key: value for key, value in entry.items() if key != "use"}
    owners = [base for base in bases if wanted in [criterion.id for criterion in base.criteria]]
    if len(owners) != 1:
        composed.found.append(((*place, "use"), _use_words((*place, "use"), wanted, bases, owners), "unknown-use"))
        return _stand_in(place[-1]) | own
    taken = _values_of(owners[0].criterion(wanted))
    if {"levels", "scale"} & own.keys():
        taken = {key: value for key, value in taken.items() if key not in ("levels", "scale")}
    if own.get("gate") is True:
        taken.pop("weight", None)
    return {key: value for key, value in (taken | own).items() if value is not None}


def _stand_in(index: str | int) -> Values:
    """Placeholder for a criterion that cannot be found: its fault is already reported, and the rest is still
    checked.
    """
    return {"id": f"unknown_{index}", "description": "?", "method": {"type": "schema", "schema": {}}}


def _use_words(place: Place, wanted: Any, bases: list[Rubric], owners: list[Rubric]) -> str:
    if owners:
        return f"{place_text(place)}: found {wanted} in {' and '.join(base.id for base in owners)}, expected it in one"
    known = [criterion.id for base in bases for criterion in base.criteria]
    if not known:
        return f"{place_text(place)}: found {shown(wanted)}, expected a rubric that has it under `extends`"
    return f"{place_text(place)}: found {shown(wanted)}, expected {unknown_word(str(wanted), known)}"


def _uses_of_nothing(values: Values) -> Iterator[tuple[Place, str, str]]:
    for index, entry in enumerate(_listed(values, "criteria")):
        if isinstance(entry, dict) and "use" in entry:
            place = ("criteria", index, "use")
            yield place, _use_words(place, entry["use"], [], []), "unknown-use"


def _values_of(criterion: Criterion) -> Values:
    return criterion.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _listed(values: Values, key: str) -> list[Any]:
    """List under the key; empty for anything else, which the model refuses."""
    entries = values.get(key)
    return entries if isinstance(entries, list) else []


def _take_categories(composed: Composed, bases: list[Rubric]) -> None:
    """Add categories named by inherited criteria, with their ancestors, unless the file lists them."""
    if not isinstance(composed.values.get("categories") or [], list):
        return
    listed = _listed(composed.values, "categories")
    criteria = _listed(composed.values, "criteria")
    have = [entry.get("id") for entry in listed if isinstance(entry, dict)]
    wanted = [entry.get("category") for entry in criteria if isinstance(entry, dict)]
    wanted += [entry.get("parent") for entry in listed if isinstance(entry, dict)]
    added = _categories_around(wanted, have, bases)
    composed.found += _ambiguous_categories(added, bases)
    if added:
        dumped = (each.model_dump(mode="json", by_alias=True, exclude_defaults=True) for each in added.values())
        composed.values["categories"] = [*listed, *dumped]


def _categories_around(wanted: list[Any], have: list[Any], bases: list[Rubric]) -> dict[str, Category]:
    """Categories of the bases with the wanted names, by id, and their ancestors; without those in the file."""
    known = {category.id: category for base in reversed(bases) for category in base.categories}
    own = {name for name in have if isinstance(name, str)}
    added: dict[str, Category] = {}
    for name in wanted:
        above = name
        while isinstance(above, str) and above in known and above not in own and above not in added:
            added[above] = known[above]
            above = known[above].parent
    return added


def _take_schemas(composed: Composed, bases: list[Rubric]) -> None:
    """Add the bases' schemas, to which inherited criteria may refer. The file's own take precedence."""
    own = composed.values.get("schemas", {})
    is_needed = any(_is_schema_criterion(entry) for entry in _listed(composed.values, "criteria"))
    if not is_needed or not isinstance(own, dict):
        return
    taken: Values = {}
    for base in bases:
        for name, schema in base.schemas.items():
            if name not in own and taken.setdefault(name, schema) != schema:
                words = f"extends: found different schemas {shown(name)} in {base.id} and before it"
                composed.found.append(
                    (("extends",), f"{words}, expected equal ones, or one under schemas", "unsafe-schema")
                )
    if taken:
        composed.values["schemas"] = taken | own


def _is_schema_criterion(entry: Any) -> bool:
    method = entry.get("method") if isinstance(entry, dict) else None
    return isinstance(method, dict) and method.get("type") == "schema"


def _ambiguous_categories(added: dict[str, Category], bases: list[Rubric]) -> Iterator[tuple[Place, str, str]]:
    """Report added categories that another base defines differently."""
    for name, category in added.items():
        owners = [base for base in bases if name in [each.id for each in base.categories]]
        if any(each != category for base in owners for each in base.categories if each.id == name):
            whose = " and ".join(base.id for base in owners)
            words = f"extends: found different categories {shown(name)} in {whose}"
            yield ("extends",), f"{words}, expected equal ones, or one under categories", "category-tree"
