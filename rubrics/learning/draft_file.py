"""A drafted rubric as a YAML file, with comments: where each criterion came from, and what its trial showed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.learning.proposals import DraftCriterion, Dropped, lint_warnings, one_line, rubric_text
from gradebook.rubrics.learning.trial import Figures, is_shown, separation
from gradebook.rubrics.text.wording import price_words

MOST_QUOTES = 4  # quotes in the comment of a criterion
MOST_DROPPED = 40
EQUAL = "Equal weights: nothing in the outputs says which criterion counts more. Decide it."
BY_DIFFERENCE = "By how far the criterion sets good outputs apart from bad ones in the draft's trial."


@dataclass(frozen=True, slots=True)
class DraftFile:
    """Content of a draft's file. weights: None for equal weights. outputs: cited output's id -> (case, model)."""

    rubric_id: str
    description: str
    criteria: tuple[DraftCriterion, ...]
    figures: Mapping[str, Figures]
    gates: frozenset[str]
    weights: Mapping[str, float] | None
    costs_usd: Mapping[str, float]  # criterion id -> cost of one verdict
    outputs: Mapping[str, tuple[str, str]]
    notes: tuple[str, ...]
    dropped: tuple[Dropped, ...]


def draft_yaml(draft: DraftFile) -> str:
    """The file: a comment on the whole, then the rubric with a comment above each criterion."""
    text = rubric_text(draft.rubric_id, draft.description, [_values(draft, one) for one in draft.criteria])
    for criterion in draft.criteria:
        lines = "".join(f"  # {one_line(line)}\n" for line in _comments(draft, criterion))
        start = f"  - id: {criterion.id}\n"
        before, _, after = text.partition(f"\n{start}")
        text = f"{before}\n{lines}{start}{after}"
    head = [
        "A draft: read it, change it, lint it, then evaluate with it. Nothing is registered.",
        *(f"- {note}" for note in draft.notes),
        *(f"- dropped {one.name}: {one.reason}" for one in draft.dropped[:MOST_DROPPED]),
        *(f"- lint: {finding.place}: {finding.message}" for finding in lint_warnings(text)),
    ]
    return "".join(f"# {one_line(line)}\n" for line in head) + text


def _values(draft: DraftFile, criterion: DraftCriterion) -> dict[str, Any]:
    """Criterion as in a file: a gate, or a weight with its reason."""
    values = dict(criterion.values)
    if criterion.id in draft.gates:
        weighting: dict[str, Any] = {"gate": True}
        values.pop("threshold", None)
    elif draft.weights is None:
        weighting = {"weight": 1, "rationale": EQUAL}
    else:
        weighting = {"weight": draft.weights[criterion.id], "rationale": BY_DIFFERENCE}
    head = {name: values.pop(name) for name in ("id", "description")}
    return head | weighting | values


def _comments(draft: DraftFile, criterion: DraftCriterion) -> Iterator[str]:
    yield f"From: {'; '.join(criterion.modes)}."
    for quote in criterion.quotes[:MOST_QUOTES]:
        case_id, model = draft.outputs.get(quote.output_id, ("?", "?"))
        yield f'- case {one_line(case_id, 60)}, model {one_line(model, 60)}: "{one_line(quote.text, 160)}"'
    figures = draft.figures.get(criterion.id)
    if figures is None:
        yield "Not tried: only people can score it."
        return
    doubt = (
        "" if is_shown(figures) or criterion.id in draft.gates else " Too few outputs to show that it separates them."
    )
    yield f"Trial: {separation(figures)}.{doubt}"
    if figures.twice_count:
        cost_usd = draft.costs_usd.get(criterion.id)
        yield (
            f"The judge gave the same level twice on {figures.same_count} of {figures.twice_count} outputs"
            + ("." if cost_usd is None else f"; a verdict cost about {price_words(cost_usd)}.")
        )
    if criterion.id in draft.gates:
        yield "A gate, as the model named a fault that must never happen; no good output of the trial failed it."
