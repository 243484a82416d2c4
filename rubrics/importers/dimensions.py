"""Rubrics of dimensions (JSON), each with a method, a weight and a threshold of 0 to 100, and named safety gates.

Weights are meant to add up to 1
(`weight_sum`), and a safety gate is a criterion with `gate: true`. A version of two numbers gets a third, 0.

A method becomes the closest method of a rubric, and no sentence becomes a check:
- a name in `NAMED_CHECKS`, `deterministic` or without a method, and without a rule: that check;
- `deterministic`: `function`, with the placeholder name `dimensions:ID`; its `rule` is text that nothing here decides,
  so that a score goes without it (`required: false`);
- `semantic_similarity`: `similarity`; `claim_pipeline` and `groundedness`: `claims` against the context;
- `llm_judge`: `judge`; `human`: `ratings`; both with the levels not_met, partly_met and met, as the file has none;
- no method, as for a safety gate that is only named: `judge` with two levels, and people's ratings before its own.

A dimension with only the name of one of the shipped `reference_dimensions` gets its question and levels.

The `rule` or `prompt` is the description if there is no other. In a prompt with slots (`{{output}}`), the slots are
replaced by their names, as the judge here sees the output separately.
"""

import math
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.importers.foreign_file import OpenMapping, indented_json, open_json
from gradebook.rubrics.importers.ids import DistinctIds, complete_version, identifier
from gradebook.rubrics.importers.metadata import (
    FIRST_VERSION,
    FieldCounts,
    as_metadata,
    drop_empty,
    imported_metadata,
    note_lost,
    plain_number,
)
from gradebook.rubrics.importers.registry import Exported, Format, Imported
from gradebook.rubrics.model.json_values import Row, drop_none
from gradebook.rubrics.model.levels import Level
from gradebook.rubrics.model.methods import CheckMethod, ClaimsMethod, FunctionMethod, JudgeMethod, SimilarityMethod
from gradebook.rubrics.model.rubric import LARGEST_WEIGHT, Criterion, Rubric, effective_weights

LEVELS: tuple[dict[str, Any], ...] = (
    {"id": "not_met", "score": 0, "description": "The output does nothing of what is asked here, or the opposite."},
    {"id": "partly_met", "score": 0.5, "description": "It does a part of it: at least one thing is missing or wrong."},
    {"id": "met", "score": 1, "description": "It does all of it, and nothing in it speaks against it."},
)
METHODS: dict[str, dict[str, Any]] = {
    "semantic_similarity": {"type": "similarity", "against": "reference"},
    "llm_judge": {"type": "judge"},
    "claim_pipeline": {"type": "claims", "against": "context"},
    "groundedness": {"type": "claims", "against": "context"},
    "human": {"type": "ratings"},
    "": {"type": "judge", "prefer": "human"},
}
GATE_LEVELS: tuple[dict[str, Any], ...] = (
    {"id": "fails", "score": 0, "description": "The output has what this gate forbids, or lacks what it demands."},
    {"id": "passes", "score": 1, "description": "Nothing in the output is against this gate."},
)
NAMED_CHECKS = {
    **dict.fromkeys(("pii", "no_pii", "pii_leak", "pii_leakage", "no_pii_leakage"), "pii"),
    **dict.fromkeys(("profanity", "no_profanity"), "no_profanity"),
    **dict.fromkeys(("valid_json", "json_valid"), "json_valid"),
}  # name of a dimension or gate -> check that needs no settings
METHODS_WITH_LEVELS = ("llm_judge", "human")
DIMENSIONS, GATES = "dimensions", "safety_gates"

_SLOT = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)[^{}]*\}\}|\$?\{([A-Za-z_][A-Za-z0-9_.]*)\}|\{[%#][^%#]*[%#]\}")


def named_check(name: str | None, foreign_id: str, sources: Iterable[str | None]) -> str | None:
    """Check with the name of a dimension or gate; None if a rule, a prompt or a method decides it.

    name: name of the method. sources: its rule and its prompt.
    """
    is_named = name in (None, "deterministic") and not any(sources)
    return NAMED_CHECKS.get(re.sub(r"[\s-]+", "_", foreign_id.strip().lower())) if is_named else None


def method_of(name: str | None, criterion_id: str, check: str | None = None) -> dict[str, Any]:
    """Rubric method for a dimension's method; `deterministic` or none gives its named check, else a placeholder."""
    if check is not None:
        return {"type": "check", "check": check}
    if name == "deterministic":
        return {"type": "function", "function": f"{DIMENSIONS}:{criterion_id}"}
    return dict(METHODS[name or ""])


def method_name(criterion: Criterion, imported: dict[str, Any], lost_fields: FieldCounts) -> str | None:
    """Dimension's method for a criterion's method; None for a gate that was only named.

    imported: data stored by an import.
    """
    match criterion.method:
        case FunctionMethod() as method:
            return _function_name(method, lost_fields, is_gate=criterion.gate)
        case CheckMethod(check=check, settings=settings, mode="strict") if not settings and "method" in imported:
            name = imported["method"]
            if named_check(name, str(imported.get("id", criterion.id)), ()) == check and (name or criterion.gate):
                return None if name is None else "deterministic"
        case ClaimsMethod(against=against):
            if against != "context":
                lost_fields.note(f"criteria.method.against {against}")
            return "groundedness" if imported.get("method") == "groundedness" else "claim_pipeline"
        case SimilarityMethod(against=against):
            if against != "reference":
                lost_fields.note(f"criteria.method.against {against}")
            return "semantic_similarity"
    kind = criterion.method.type
    if kind in ("judge", "ratings"):
        is_only_named = criterion.gate and imported.get("method", "") is None
        settings = criterion.method.model_dump(exclude_defaults=True, exclude={"type"})
        if lists_by_name(criterion.id, criterion.description):
            settings.pop("lists_requirements", None)  # an import restores it from the name
        lost_fields.note(*(f"criteria.method.{key}" for key in settings if not is_only_named))
        return None if is_only_named else "llm_judge" if kind == "judge" else "human"
    lost_fields.note(f"criteria.method {kind} (its settings; written as deterministic)")
    return "deterministic"


def _function_name(method: FunctionMethod, lost_fields: FieldCounts, *, is_gate: bool) -> str | None:
    if method.settings:
        lost_fields.note("criteria.method.settings")
    if is_gate and method.function.startswith(f"{GATES}:"):
        return None
    if not method.function.startswith(f"{DIMENSIONS}:"):
        lost_fields.note("criteria.method.function")
    return "deterministic"


def source_key(method: str | None) -> str:
    """Key of the text that states how a dimension is decided: `rule` or `prompt`."""
    return "rule" if method == "deterministic" else "prompt"


def without_slots(text: str) -> str:
    """Prompt as a question: slots replaced by their names, template blocks removed."""
    return _SLOT.sub(lambda match: match[1] or match[2] or "", text).strip()


def title_of(name: str) -> str:
    """Title made of a name, for a criterion without a description: tone_fit -> Tone fit."""
    words = re.sub(r"[_-]+", " ", name).strip() or name
    return words[0].upper() + words[1:]


def question_of(sources: dict[str, Any], method: str | None, name: str | None, foreign_id: str) -> str:
    """Question of a dimension without a description. sources: its `rule` and `prompt`."""
    source = sources.get(source_key(method)) or sources.get("rule") or sources.get("prompt") or ""
    if text := without_slots(str(source)):
        return text
    if method is None:
        return f"Does the output pass the safety gate {(name or title_of(foreign_id)).lower()!r}?"
    reference = reference_of(foreign_id)
    return reference.description if reference else name or title_of(foreign_id)


def reference_of(foreign_id: str) -> Criterion | None:
    """Shipped reference dimension of this name."""
    name = re.sub(r"[\s-]+", "_", foreign_id.strip().lower())
    return next((criterion for criterion in read_rubric("reference_dimensions").criteria if criterion.id == name), None)


def levels_of(method: str | None, description: str, foreign_id: str) -> list[dict[str, Any]]:
    """Levels for a dimension or gate: those of the reference dimension with its question. Empty: method's default."""
    if method is None:
        return [dict(level) for level in GATE_LEVELS]
    if method not in METHODS_WITH_LEVELS:
        return []
    reference = reference_of(foreign_id)
    if reference is None or description != reference.description:
        return [dict(level) for level in LEVELS]
    return [level.model_dump(exclude_defaults=True, mode="json") for level in reference.levels]


MethodName = Literal["deterministic", "semantic_similarity", "llm_judge", "claim_pipeline", "groundedness", "human"]
UNDECIDED = ("deterministic", None)
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class _Question(OpenMapping):
    id: Annotated[str, Field(min_length=1)]
    name: str | None = None
    description: str | None = None
    rule: str | None = None
    prompt: str | None = None


class _Dimension(_Question):
    method: MethodName
    weight: Annotated[float, Field(ge=0, le=LARGEST_WEIGHT, allow_inf_nan=False)]
    threshold: Percent


class _Gate(_Question):
    method: MethodName | None = None
    threshold: Percent | None = None


def _id_alone(value: Any) -> Any:
    """Convert a gate's bare name to a mapping."""
    return {"id": value} if isinstance(value, str) else value


class _File(OpenMapping):
    id: Annotated[str, Field(min_length=1)]
    name: str | None = None
    description: str | None = None
    owner: str | None = None
    version: str | None = None
    dimensions: Annotated[list[_Dimension], Field(min_length=1)]
    safety_gates: Annotated[list[Annotated[_Gate, BeforeValidator(_id_alone)]], Field(default_factory=list)]


def read_dimensions(text: str, path: str) -> Imported:
    """Import the rubric of a file of dimensions. Raises `RubricError` with every fault and its place."""
    reading = open_json(text, path)
    file = reading.fit_whole(_File)
    reading.note_repeats((entry.id for entry in file.dimensions), (DIMENSIONS,))
    reading.note_repeats((entry.id for entry in file.safety_gates), (GATES,))
    stored_fields, ids = FieldCounts(), DistinctIds()
    entries: list[_Dimension | _Gate] = [*file.dimensions, *file.safety_gates]
    criteria = [_criterion(entry, ids.take(entry.id), stored_fields) for entry in entries]
    # Every dimension has a threshold, which means nothing unless the mean has to reach it.
    head = {**_head(file, stored_fields), "weight_sum": 1, "require_thresholds": True}
    return reading.finish({**head, "criteria": criteria}, stored_fields)


def _head(file: _File, stored_fields: FieldCounts) -> Row:
    rubric_id, version = identifier(file.id, "rubric"), complete_version(file.version or FIRST_VERSION)
    renamed = {"id": None if rubric_id == file.id else file.id, "version": None if version else file.version}
    extra = stored_fields.note_all("", drop_empty({**renamed, **file.unknown_keys}))
    texts = {"name": file.name, "description": file.description, "owner": file.owner}
    return {
        "id": rubric_id,
        "version": version or FIRST_VERSION,
        **drop_empty(texts),
        **as_metadata("dimensions", extra),
    }


def _criterion(entry: _Dimension | _Gate, criterion_id: str, stored_fields: FieldCounts) -> Row:
    where = GATES if isinstance(entry, _Gate) else DIMENSIONS
    question = question_of({"rule": entry.rule, "prompt": entry.prompt}, entry.method, entry.name, entry.id)
    description = entry.description or question
    extra = _extra_content(entry, criterion_id, description)
    check = named_check(entry.method, entry.id, (entry.rule, entry.prompt))
    stored_fields.note(*(f"{where}.{key}{_remark_on(key, entry.method, check)}" for key in extra))
    levels = levels_of(entry.method, description, entry.id) if check is None else []
    is_rule = entry.method == "deterministic" and check is None
    return {
        "id": criterion_id,
        **drop_empty({"name": entry.name}),
        "description": description,
        **({"gate": True} if isinstance(entry, _Gate) else {"weight": plain_number(entry.weight)}),
        **({} if entry.threshold is None else {"threshold": entry.threshold / 100}),
        **drop_empty({"levels": levels}),
        # No method decides such a rule, so the other criteria give the score.
        **({"required": False} if is_rule and not isinstance(entry, _Gate) else {}),
        "method": method_of(entry.method, criterion_id, check) | _listing(entry, description),
        **as_metadata("dimensions", extra),
    }


def _listing(entry: _Dimension | _Gate, description: str) -> Row:
    """Setting `lists_requirements` of a judged dimension, if the reference dimension with its question has it."""
    return {"lists_requirements": True} if entry.method == "llm_judge" and lists_by_name(entry.id, description) else {}


def lists_by_name(foreign_id: str, description: str) -> bool:
    """Whether a dimension has the question of a reference dimension that lists requirements."""
    reference = reference_of(foreign_id)
    if reference is None or description != reference.description:
        return False
    return isinstance(reference.method, JudgeMethod) and reference.method.lists_requirements


def _extra_content(entry: _Dimension | _Gate, criterion_id: str, description: str) -> Row:
    """Content of a dimension or gate without a place in a criterion."""
    renamed = {"id": None if entry.id == criterion_id else entry.id}
    sources = {"rule": entry.rule, "prompt": entry.prompt}
    unasked = {key: text for key, text in sources.items() if text != description}
    # groundedness is imported like claim_pipeline; for the other two, and without a method, the criterion's is a
    # placeholder
    is_stored = entry.method in ("groundedness", *UNDECIDED)
    return {
        **({"method": entry.method} if is_stored else {}),
        **drop_empty({**renamed, **unasked, **entry.unknown_keys}),
    }


def _remark_on(key: str, method: MethodName | None, check: str | None) -> str:
    is_undecided = key == "method" and method in UNDECIDED
    if is_undecided and check is not None:
        return f" ({method or 'none'}: the check {check})"
    if is_undecided and method is None:
        return " (none: asked of a judge, and people's ratings count before its verdicts)"
    return f" ({method}: nothing here decides it)" if is_undecided else ""


MOST_DIMENSIONS = 10  # the format's own limit
METHODS_WITH_QUESTION = ("llm_judge", "deterministic")  # methods with a question of their own
DIGITS = 9  # decimals of a threshold, which remove the rounding error of 0.57 * 100
OWN_LEVELS, GATE_OWN_LEVELS = (tuple(map(Level.model_validate, levels)) for levels in (LEVELS, GATE_LEVELS))


def write_dimensions(rubric: Rubric) -> Exported:
    """Write a file of dimensions and safety gates. Returns also the content that it cannot express."""
    lost_fields, imported = FieldCounts(), imported_metadata(rubric.metadata, "dimensions")
    _note_rubric(rubric, lost_fields)
    weights = _weights(rubric, lost_fields)
    dimensions = [
        _entry(criterion, weights[criterion.id], lost_fields) for criterion in rubric.criteria if not criterion.gate
    ]
    gates = [_entry(criterion, None, lost_fields) for criterion in rubric.criteria if criterion.gate]
    if len(dimensions) > MOST_DIMENSIONS:
        lost_fields.note(f"the limit of {MOST_DIMENSIONS} dimensions: {len(dimensions)} are written")
    version = rubric.version.removesuffix(".0")
    head = drop_empty(
        {
            "id": imported.get("id", rubric.id),
            "name": rubric.name,
            "description": rubric.description,
            "owner": rubric.owner,
            "version": imported.get("version", version) if rubric.version == FIRST_VERSION else version,
            **drop_empty(imported, ("id", "version")),
        }
    )
    names_alone = [gate["id"] if [*gate] == ["id"] else gate for gate in gates]
    return Exported(indented_json({**head, "dimensions": dimensions, "safety_gates": names_alone}), lost_fields.words())


def _note_rubric(rubric: Rubric, lost_fields: FieldCounts) -> None:
    sum_key = "weight_sum" if rubric.weight_sum == 1 else ""
    keys = f"version name description owner require_thresholds {sum_key}"  # the thresholds of dimensions are required
    note_lost(rubric, "dimensions", lost_fields, keys, "name gate threshold levels required")
    optional = [criterion for criterion in rubric.criteria if not criterion.required]
    lost_fields.note(
        *("criteria.required" for criterion in optional if not isinstance(criterion.method, FunctionMethod))
    )
    lost_fields.note(
        *("criteria.levels" for criterion in rubric.criteria if criterion.levels and not _has_default_levels(criterion))
    )


def _has_default_levels(criterion: Criterion) -> bool:
    """Whether the criterion's levels are those that an import gives, so that the file can omit them."""
    imported = imported_metadata(criterion.metadata, "dimensions")
    default_levels = levels_of("llm_judge", criterion.description, str(imported.get("id", criterion.id)))
    return criterion.levels in (OWN_LEVELS, GATE_OWN_LEVELS, tuple(map(Level.model_validate, default_levels)))


def _weights(rubric: Rubric, lost_fields: FieldCounts) -> dict[str, float]:
    """Weight of each criterion, 0 or more. The weights are scaled to sum 1, unless the rubric declares that sum
    itself.
    """
    weights = effective_weights(rubric)
    if any(weight < 0 for weight in weights.values()):
        lost_fields.note("weights below 0 (written as 0)")
    positive = {criterion_id: max(0.0, weight) for criterion_id, weight in weights.items()}
    total = sum(positive.values()) or 1.0
    if rubric.weight_sum == 1 or math.isclose(total, 1):
        return positive
    lost_fields.note(f"the weights' sum, {total:g} (each is divided by it)")
    return {criterion_id: weight / total for criterion_id, weight in positive.items()}


def _entry(criterion: Criterion, weight: float | None, lost_fields: FieldCounts) -> Row:
    """Dimension, or safety gate if the weight is None."""
    imported = imported_metadata(criterion.metadata, "dimensions")
    method, threshold = method_name(criterion, imported, lost_fields), criterion.threshold
    if weight is not None and threshold is None:
        lost_fields.note("criteria without a threshold (written as 0)")
        threshold = 0
    foreign_id = str(imported.get("id", criterion.id))
    sources = {key: imported[key] for key in ("rule", "prompt") if isinstance(imported.get(key), str)}
    if criterion.description != question_of(sources, method, criterion.name, foreign_id):
        is_source = (
            not sources
            and method in METHODS_WITH_QUESTION
            and without_slots(criterion.description) == criterion.description
        )
        key = source_key(method) if is_source else "description"
        sources = {key: criterion.description, **sources}
    entry: Row = {
        "id": foreign_id,
        "name": criterion.name,
        "method": method,
        "weight": None if weight is None else plain_number(weight),
        "threshold": None if threshold is None else plain_number(round(threshold * 100, DIGITS)),
        **sources,
        **drop_empty(imported, ("id", "method", "rule", "prompt")),
    }
    return drop_none(entry)


SUMMARY = "dimensions with weights and thresholds of 0 to 100, and safety gates"
FORMAT = Format("dimensions", SUMMARY, ".json", "rubric", read_dimensions, write_dimensions)
