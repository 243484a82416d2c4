"""Methods and questions of dimensions, in rubrics and back.

A method becomes the closest method of a rubric, and no sentence becomes a check:
- a name in `NAMED_CHECKS`, `deterministic` or without a method, and without a rule: that check;
- `deterministic`: `function`, with the placeholder name `dimensions:ID`; its `rule` is text that nothing here decides;
- `semantic_similarity`: `similarity`; `claim_pipeline` and `groundedness`: `claims` against the context;
- `llm_judge`: `judge`; `human`: `ratings`; both with the levels not_met, partly_met and met, as the file has none;
- no method, as for a safety gate that is only named: `function`, `safety_gates:ID`.

The `rule` or `prompt` is the description if there is no other. In a prompt with slots (`{{output}}`), the slots are
replaced by their names, as the judge here sees the output separately.
"""

import re
from collections.abc import Iterable
from typing import Any

from gradebook.rubrics.importers.metadata import Kept
from gradebook.rubrics.model.methods import CheckMethod, ClaimsMethod, FunctionMethod, SimilarityMethod
from gradebook.rubrics.model.rubric import Criterion

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
}
NAMED_CHECKS = {
    **dict.fromkeys(("pii", "no_pii", "pii_leak", "pii_leakage", "no_pii_leakage"), "pii"),
    **dict.fromkeys(("profanity", "no_profanity"), "no_profanity"),
    **dict.fromkeys(("valid_json", "json_valid"), "json_valid"),
}  # checks that need no settings, by the names of dimensions and gates
LEVELLED = ("llm_judge", "human")
DIMENSIONS, GATES = "dimensions", "safety_gates"

_SLOT = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)[^{}]*\}\}|\$?\{([A-Za-z_][A-Za-z0-9_.]*)\}|\{[%#][^%#]*[%#]\}")


def named_check(name: str | None, foreign_id: str, sources: Iterable[str | None]) -> str | None:
    """Check that a dimension or gate is named after; None if a rule, a prompt or a method decides it. name: method."""
    is_named = name in (None, "deterministic") and not any(sources)
    return NAMED_CHECKS.get(re.sub(r"[\s-]+", "_", foreign_id.strip().lower())) if is_named else None


def method_of(name: str | None, criterion_id: str, check: str | None = None) -> dict[str, Any]:
    """Method of the rubric for a dimension's; for `deterministic` and for none, its named check or a placeholder."""
    if check is not None:
        return {"type": "check", "check": check}
    made = {None: f"{GATES}:{criterion_id}", "deterministic": f"{DIMENSIONS}:{criterion_id}"}
    return {"type": "function", "function": made[name]} if name in made else dict(METHODS[str(name)])


def method_name(criterion: Criterion, kept: dict[str, Any], lost: Kept) -> str | None:
    """Method of a dimension for gradebook's; None for a gate that was only named. kept: data stored by an import."""
    match criterion.method:
        case FunctionMethod() as method:
            return _function_name(method, lost, is_gate=criterion.gate)
        case CheckMethod(check=check, settings=settings, mode="strict") if not settings and "method" in kept:
            name = kept["method"]
            if named_check(name, str(kept.get("id", criterion.id)), ()) == check and (name or criterion.gate):
                return None if name is None else "deterministic"
        case ClaimsMethod(against=against):
            if against != "context":
                lost.note(f"criteria.method.against {against}")
            return "groundedness" if kept.get("method") == "groundedness" else "claim_pipeline"
        case SimilarityMethod(against=against):
            if against != "reference":
                lost.note(f"criteria.method.against {against}")
            return "semantic_similarity"
    kind = criterion.method.type
    if kind in ("judge", "ratings"):
        settings = criterion.method.model_dump(exclude_defaults=True, exclude={"type"})
        lost.note(*(f"criteria.method.{key}" for key in settings))
        return "llm_judge" if kind == "judge" else "human"
    lost.note(f"criteria.method {kind} (its settings; written as deterministic)")
    return "deterministic"


def _function_name(method: FunctionMethod, lost: Kept, *, is_gate: bool) -> str | None:
    if method.settings:
        lost.note("criteria.method.settings")
    if is_gate and method.function.startswith(f"{GATES}:"):
        return None
    if not method.function.startswith(f"{DIMENSIONS}:"):
        lost.note("criteria.method.function")
    return "deterministic"


def source_key(method: str | None) -> str:
    """Key of the sentence that states how a dimension is decided."""
    return "rule" if method == "deterministic" else "prompt"


def without_slots(text: str) -> str:
    """Prompt as a question: slots replaced by their names, template blocks removed."""
    return _SLOT.sub(lambda found: found[1] or found[2] or "", text).strip()


def words_of(name: str) -> str:
    """Name as words, for a criterion that is only named: tone_fit -> Tone fit."""
    words = re.sub(r"[_-]+", " ", name).strip() or name
    return words[0].upper() + words[1:]


def question_of(sources: dict[str, Any], method: str | None, name: str | None, foreign_id: str) -> str:
    """Question of a dimension without a description. sources: its `rule` and `prompt`."""
    source = sources.get(source_key(method)) or sources.get("rule") or sources.get("prompt") or ""
    return without_slots(str(source)) or name or words_of(foreign_id)
