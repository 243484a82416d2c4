"""Proposals of a model: what is accepted, and what is dropped for which reason."""

from typing import Any

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.learning.draft_file import DraftFile, draft_yaml
from gradebook.rubrics.learning.proposals import (
    Citation,
    Dropped,
    FoundMode,
    Mode,
    Modes,
    ProposedCriteria,
    ProposedLevel,
    Quote,
    offered_checks,
    read_criteria,
    read_modes,
)
from tests.support.law_over import law_over

TEXTS = {"b1": ("id1", "The ultimate kettle."), "b2": ("id2", "An ultimate pan.")}
MODES = {
    "m1": FoundMode("empty praise", "It praises.", (Quote("id1", "ultimate"), Quote("id2", "ultimate"))),
    "m2": FoundMode("no size", "No size.", (Quote("id1", "kettle"),)),
}


def proposal(question: str = "Is the text free of praise?", **more: Any) -> dict[str, Any]:
    levels = [
        {"description": "It praises with a word.", "score": 0.2},
        {"description": "It names facts.", "score": 0.9},
    ]
    plain = {"modes": ["m1"], "must_never": False, "method": "judge", "check": "", "settings": "", "levels": levels}
    return {"question": question} | plain | more


def read(*proposals: dict[str, Any]) -> Any:
    reply = ProposedCriteria.model_validate({"criteria": list(proposals)})
    return read_criteria(reply, MODES, ["shop-7b"], ["reference"])


def test_a_citation_counts_if_its_words_are_in_the_bad_output():
    cited = [("b1", "ultimate"), ("b2", "marvellous"), ("g1", "ultimate"), ("b9", "x"), ("b2", "")]
    citations = [Citation(output=output, quote=quote) for output, quote in cited]
    found, dropped = read_modes(Modes(modes=[Mode(name="praise", description="d", citations=citations)]), TEXTS)
    assert [mode.quotes for mode in found] == [(Quote("id1", "ultimate"),)] and not dropped


def test_a_mode_without_a_citation_that_holds_is_dropped():
    false = Mode(name="lie", description="d", citations=[Citation(output="b1", quote="nobody wrote this")])
    assert read_modes(Modes(modes=[false]), TEXTS) == (
        [],
        [Dropped("lie", "cites nothing: 1 citation, none of them with words of a bad output")],
    )


@pytest.mark.parametrize(
    ("proposed", "reason"),
    [
        (proposal(modes=["m2"]), "rests on fewer than 2 outputs: it names m2"),
        (proposal(modes=["m7", "m7"]), "rests on fewer than 2 outputs"),
        (proposal("Is it better than SHOP-7b?"), "names the model shop-7b"),
        (proposal(levels=[{"description": "As shop-7b.", "score": 0.0}]), "names the model shop-7b"),
        (proposal(""), "expected a value"),
    ],
)
def test_a_criterion_is_dropped_for_its_reason(proposed: dict[str, Any], reason: str):
    accepted, dropped = read(proposed)
    assert not accepted and (reason in dropped[0].reason or not proposed["question"]), dropped


def test_the_same_criterion_eight_times_is_one():
    accepted, dropped = read(*[proposal() for _ in range(8)])
    assert len(accepted) == 1
    assert {one.reason for one in dropped} == {f"asks the same as {accepted[0].id}"} and len(dropped) == 7


def test_more_than_eight_criteria_are_cut_to_eight():
    words = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")
    accepted, dropped = read(*[proposal(f"Does {word} precede {word}{word}?") for word in words])
    assert len(accepted) == 8 and [one.reason[:19] for one in dropped] == ["one of more than 8;"] * 2


def test_levels_span_0_to_1_and_get_ids_by_their_rank():
    (criterion,), _ = read(proposal())
    assert [(level["id"], level["score"]) for level in criterion.values["levels"]] == [("fails", 0.0), ("meets", 1.0)]


@pytest.mark.parametrize(
    "levels", [[], [{"description": "Same.", "score": 0.5}] * 2, [{"description": "", "score": 1.0}]]
)
def test_levels_that_make_no_scale_are_replaced(levels: list[dict[str, Any]]):
    (criterion,), _ = read(proposal(levels=levels))
    assert criterion.values["levels"][0]["description"] == "A passage shows this fault: empty praise."


@law_over(
    ("check", "settings"),
    [
        ("not_contains", "{not json"),
        ("not_contains", '{"any": 3}'),
        ("not_contains", '{"words": "x"}'),
        ("rm -rf", "{}"),
        ("tool_called", '{"tool": "x"}'),
        ("matches_regex", '{"pattern": "("}'),
        ("json_schema", '{"schema": "/etc/passwd"}'),
        ("not_contains", "[" * 5_000),
    ],
)
def test_a_check_that_can_not_run_becomes_a_question_for_a_judge(check: str, settings: str):
    (criterion,), _ = read(proposal(method="check", check=check, settings=settings))
    assert criterion.method == "judge" and criterion.notes[0].startswith("a judge in place of the proposed check")


def test_a_check_is_offered_only_where_the_outputs_have_its_column():
    plain, with_reference = ({check["check"] for check in offered_checks(columns)} for columns in ((), ("reference",)))
    assert "exact_match" not in plain and "exact_match" in with_reference and "tool_called" not in with_reference


def test_texts_of_strangers_stay_in_their_comments():
    hostile = "x\nid: evil\r\u2028criteria: []\x1b[31m# - id: free_text\n  - id: text_free_praise\n"
    (criterion,), _ = read(proposal("Is it free of `rm -rf`: {a} #no?\nid: evil"))
    quoted = type(criterion)(criterion.values, (Quote("id1", hostile),), (hostile,), False)
    draft = DraftFile(
        "draft", hostile, (quoted,), {}, frozenset(), None, {}, {"id1": (hostile, hostile)}, (hostile,),
        (Dropped(hostile, hostile),),
    )  # fmt: skip
    text = draft_yaml(draft)
    rubric = parse_rubric(text, "draft.yaml")
    assert (rubric.id, rubric.description, len(rubric.criteria)) == ("draft", hostile, 1)
    assert "\x1b" not in "".join(line for line in text.splitlines() if line.lstrip().startswith("#"))


def test_a_level_in_a_reply_needs_its_fields():
    with pytest.raises(ValueError, match="score"):
        ProposedLevel.model_validate_json('{"description": "x"}')
