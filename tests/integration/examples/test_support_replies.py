"""The demo's files agree with each other and show what the demo is meant to show."""

import csv
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml

from gradebook.rubrics.model.methods import CheckMethod, SchemaMethod
from gradebook.rubrics.model.rubric import Rubric

DEMO = Path(__file__).parents[3] / "examples" / "support_replies"
MODELS = {"support-small", "support-large"}
JUDGED = {"policy_accuracy", "tone"}
LAKE = """
create table outputs (output_id text, output text);
create table verdicts (run_id text, output_id text, criterion_id text, score double, rationale text);
create table output_scores (run_id text, output_id text, case_id text, model text, score double, failed_gates text[]);
create table criterion_scores (run_id text, model text, criterion_id text, category text, mean double, weight double);
create table run_scores (run_id text, model text, n bigint, mean double, ci_low double, ci_high double,
    pass_rate double, gate_failure_rate double);
create view latest_run_scores as select *, 'support_replies' as rubric_id from run_scores;
create view latest_criterion_scores as from criterion_scores;
create view latest_output_scores as from output_scores;
"""


@cache
def rubric() -> Rubric:
    return Rubric.model_validate(yaml.safe_load((DEMO / "rubric.yaml").read_text("utf-8")))


def read_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DEMO / name).read_text("utf-8").splitlines()]


@cache
def outputs() -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["case_id"], row["model"]): row for row in read_lines("outputs.jsonl")}


def replies(model: str, criterion_id: str) -> list[dict[str, Any]]:
    return [row for row in read_lines("replies.jsonl") if (row["model"], row["criterion_id"]) == (model, criterion_id)]


@cache
def ratings() -> list[dict[str, str]]:
    with (DEMO / "ratings.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def texts(model: str) -> list[str]:
    return [row["output"] for row in outputs().values() if row["model"] == model]


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def is_valid_ticket(text: str) -> bool:
    method = rubric().criterion("ticket_valid").method
    assert isinstance(method, SchemaMethod)
    return is_json(text) and jsonschema.Draft202012Validator(method.json_schema).is_valid(json.loads(text))


def questions() -> list[str]:
    return [part.strip() for part in (DEMO / "questions.sql").read_text("utf-8").split(";") if part.strip()]


def mean_score(model: str, criterion_id: str) -> float:
    scores = {level.id: level.score for level in rubric().criterion(criterion_id).ranked_levels}
    levels = [row["level"] for row in replies(model, criterion_id)]
    return sum(scores[level] for level in levels) / len(levels)


def test_each_of_42_cases_has_one_output_of_each_model() -> None:
    cases = {f"c{number:02d}" for number in range(1, 43)}
    assert len(read_lines("outputs.jsonl")) == 84
    assert set(outputs()) == {(case_id, model) for case_id in cases for model in MODELS}


def test_no_two_outputs_are_the_same() -> None:
    assert len({row["output"] for row in outputs().values()}) == 84


def test_both_models_of_a_case_were_asked_the_same() -> None:
    for (case_id, _), row in outputs().items():
        other = outputs()[case_id, "support-large"]
        assert [row.get(name) for name in ("prompt", "reference", "context", "metadata")] == [
            other.get(name) for name in ("prompt", "reference", "context", "metadata")
        ]


def test_some_prompts_are_chat_messages() -> None:
    assert sum(isinstance(row["prompt"], list) for row in outputs().values()) == 8  # 4 cases, 2 models


def test_a_third_of_the_cases_have_a_reference() -> None:
    assert sum("reference" in row for row in outputs().values()) == 30  # 15 of 42 cases, 2 models


def test_the_rubric_uses_all_four_methods_and_one_gate() -> None:
    assert {criterion.method.type for criterion in rubric().criteria} == {"judge", "ratings", "schema", "check"}
    assert [criterion.id for criterion in rubric().criteria if criterion.gate] == ["no_contact_leak"]


def test_the_weights_add_up_to_one() -> None:
    # 0.35 + 0.2 + 0.1 + 0.15 + 0.1 + 0.1 = 1
    assert sum(criterion.own_weight for criterion in rubric().criteria) == pytest.approx(1)


def test_every_criterion_has_a_category() -> None:
    assert all(criterion.category for criterion in rubric().criteria)


def test_a_reply_is_recorded_for_all_but_two_judged_verdicts() -> None:
    recorded = [(row["case_id"], row["model"], row["criterion_id"]) for row in read_lines("replies.jsonl")]
    wanted = {(*key, criterion_id) for key in outputs() for criterion_id in JUDGED}
    assert len(recorded) == 166  # 42 x 2 x 2 - 2
    assert wanted - set(recorded) == {("c27", "support-small", "tone"), ("c41", "support-small", "tone")}


def test_every_reply_belongs_to_an_output_at_its_checkpoint() -> None:
    for row in read_lines("replies.jsonl"):
        assert outputs()[row["case_id"], row["model"]]["checkpoint"] == row["checkpoint"] == "2026-11-01"


def test_every_level_of_a_reply_is_a_level_of_its_criterion() -> None:
    for row in read_lines("replies.jsonl"):
        assert row["level"] in {level.id for level in rubric().criterion(row["criterion_id"]).levels}


def test_every_quote_occurs_verbatim_in_the_output() -> None:
    for row in read_lines("replies.jsonl"):
        output = outputs()[row["case_id"], row["model"]]["output"]
        assert row["evidence"], row
        assert all(quote in output for quote in row["evidence"]), row


def test_every_rationale_is_its_own() -> None:
    assert max(Counter(row["rationale"] for row in read_lines("replies.jsonl")).values()) == 1


def test_two_raters_rate_empathy_for_14_cases_of_each_model() -> None:
    slots = Counter((row["case_id"], row["model"]) for row in ratings())
    assert len(slots) == 28
    assert set(slots.values()) == {2}  # 56 rows
    assert set(slots) <= set(outputs())
    assert {(row["criterion_id"], row["rater"]) for row in ratings()} == {
        ("empathy", "rater_a"),
        ("empathy", "rater_b"),
    }


def test_raters_disagree_sometimes_and_never_by_more_than_a_level() -> None:
    steps = {level.id: step for step, level in enumerate(rubric().criterion("empathy").ranked_levels)}
    rated: dict[tuple[str, str], list[int]] = {}
    for row in ratings():
        rated.setdefault((row["case_id"], row["model"]), []).append(steps[row["level_id"]])
    assert Counter(abs(first - second) for first, second in rated.values()) == {0: 20, 1: 8}


def test_the_larger_model_is_clearly_better_on_policy() -> None:
    # large: 38 right, 4 partial: (38 + 2) / 42 = 0.952; small: 11 right, 10 partial: (11 + 5) / 42 = 0.381
    assert mean_score("support-large", "policy_accuracy") == pytest.approx(40 / 42)
    assert mean_score("support-small", "policy_accuracy") == pytest.approx(16 / 42)


def test_the_larger_model_is_clearly_better_on_tone() -> None:
    assert mean_score("support-large", "tone") - mean_score("support-small", "tone") > 0.3


def test_six_tickets_of_the_smaller_model_are_broken_three_of_them_no_json() -> None:
    assert sum(not is_valid_ticket(text) for text in texts("support-small")) == 6
    assert sum(not is_json(text) for text in texts("support-small")) == 3


def test_all_tickets_of_the_larger_model_are_valid() -> None:
    assert all(is_valid_ticket(text) for text in texts("support-large"))


@pytest.mark.parametrize(("model", "expected_count"), [("support-small", 3), ("support-large", 0)])
def test_only_the_smaller_model_leaks_contacts(model: str, expected_count: int) -> None:
    method = rubric().criterion("no_contact_leak").method
    assert isinstance(method, CheckMethod)
    assert method.settings["is_negated"] is True
    leaks = pc.match_substring_regex(pa.array(texts(model)), method.settings["pattern"])  # RE2, as the check uses
    assert pc.sum(leaks).as_py() == expected_count


def test_the_shops_own_address_is_no_leak() -> None:
    assert any("help@fernway.example" in text for text in texts("support-large"))


@pytest.mark.parametrize(("model", "expected_count"), [("support-small", 4), ("support-large", 0)])
def test_only_the_smaller_model_speaks_of_itself_as_an_ai(model: str, expected_count: int) -> None:
    method = rubric().criterion("no_ai_phrases").method
    assert isinstance(method, CheckMethod)
    phrases = method.settings["any"]
    assert sum(any(phrase in text for phrase in phrases) for text in texts(model)) == expected_count


def test_one_output_of_the_larger_model_is_too_long() -> None:
    assert [row["case_id"] for row in outputs().values() if len(row["output"].split()) > 200] == ["c29"]


def test_no_address_or_number_is_outside_the_reserved_ranges() -> None:
    written = "".join(path.read_text("utf-8") for path in (*DEMO.glob("*.jsonl"), *DEMO.glob("*.csv")))
    domains = set(re.findall(r"[\w.+-]+@([\w.-]*\w)", written))
    assert domains == {"example.com", "example.org", "fernway.example"}
    assert all(number.startswith("+1-555-01") for number in re.findall(r"\+1-\d{3}-\d{4}", written))


def test_there_are_three_questions_each_a_comment_and_a_select() -> None:
    assert len(questions()) == 3
    assert all(re.match(r"-- .+\?\nselect\n", question) for question in questions())


@pytest.mark.parametrize("question", questions())
def test_each_question_is_understood_by_a_lake_without_runs(question: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(LAKE)
        assert connection.execute(question).fetchall() == []


def test_the_worst_replies_begin_with_those_that_failed_a_gate() -> None:
    with duckdb.connect() as connection:
        connection.execute(LAKE)
        connection.execute("insert into outputs values ('a', 'x'), ('b', 'y')")
        connection.execute(
            "insert into verdicts values ('r', 'a', 'tone', 0.0, 'curt'), ('r', 'b', 'tone', 1.0, 'kind')"
        )
        connection.execute("insert into criterion_scores values ('r', 'support-small', 'tone', 'voice', 0.5, 1.0)")
        connection.execute(
            """insert into output_scores values ('r', 'a', 'c01', 'support-small', 0.0, []),
            ('r', 'b', 'c02', 'support-small', 1.0, ['leak'])"""
        )
        worst = [(row[0], row[2]) for row in connection.execute(questions()[2]).fetchall()]
    assert worst == [("c02", "failed gate: leak"), ("c01", "tone: curt")]


def test_the_second_judge_answers_the_same_questions_with_its_most_probable_level():
    rows = read_lines("decisions.jsonl")
    asked = [(row["case_id"], row["model"], row["criterion_id"]) for row in rows]
    assert asked == [(row["case_id"], row["model"], row["criterion_id"]) for row in read_lines("replies.jsonl")]
    for row in rows:
        levels = {level.id for level in rubric().criterion(row["criterion_id"]).ranked_levels}
        distribution = row["distribution"]
        assert (distribution.keys(), max(distribution, key=distribution.get)) == (levels, row["level"])
        assert sum(distribution.values()) == pytest.approx(1)
    levels = [[row["level"] for row in read_lines(name)] for name in ("decisions.jsonl", "replies.jsonl")]
    assert sum(one != other for one, other in zip(*levels, strict=True)) == 21


def test_people_rated_what_judges_score_on_every_output():
    with (DEMO / "ratings_of_judged.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rated = [(row["case_id"], row["model"], row["criterion_id"]) for row in rows]
    assert len(rated) == 2 * 84
    assert set(rated) == {(*key, criterion_id) for key in outputs() for criterion_id in JUDGED}
    for row in rows:
        assert row["level_id"] in {level.id for level in rubric().criterion(row["criterion_id"]).levels}
