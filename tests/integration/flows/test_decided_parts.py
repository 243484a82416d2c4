"""Preferences, steps and claims asked of a decision model, in both forms."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.claims_judge import write_claims
from tests.support.loopback_decisions import Asked, LoopbackDecisions
from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import query, write_lines
from tests.support.steps_judge import write_steps

RUBRIC = """
id: parts
version: 1.0.0
taxonomy: trail
missing: skip
criteria:
  - {id: better, description: Which one helps more?, method: {type: preference, against: old}}
  - {id: steps, description: Is the step right?, method: {type: judge, unit: step}}
  - id: sourced
    description: Is it in the context?
    method: {type: claims, precision: sentence}
"""
TOOLS = [{"kind": "tool", "name": "search", "output": word} for word in ["a", "wrong: b", *"cdefghijklmn"]]
ROW = {"case_id": "c", "prompt": "Say it.", "context": ["It is so.", 'A "second" passage.']}
NEW = {"model": "new", "output": "It is so. The moon is cheese. It is not so.", "steps": TOOLS}
OLD = {"model": "old", "output": "No.", "steps": TOOLS[:1]}
Evaluate = Callable[..., Any]


def decided(state: str, asked: Asked, _: list[Asked]) -> list[float]:
    """The new answer is better; step 1 is wrong, by the error and severity last in the alphabet; claims by words."""
    text, case = asked.instructions, state.partition("CASE\n")[2]
    if text.startswith("Which"):
        chosen = "`first` is better" if '"first": "It is' in case else "`second` is better"
    elif "If this step" in text:
        chosen = max(asked.options.values())
    elif text.startswith("Step"):
        chosen = "wrong" if text.startswith("Step 1.") and "wrong: b" in case else "right"
    else:
        sign = {"moon": "The source neither", "not so": "The source says otherwise", "": "The source says it"}
        chosen = next(start for word, start in sign.items() if word in text)
    is_chosen = [option.startswith(chosen) for option in asked.options.values()]
    assert sum(is_chosen) == 1, (chosen, asked)
    rest = 0.2 / (len(is_chosen) - 1)
    return [0.8 if chosen_one else rest for chosen_one in is_chosen]


def written_parts(body: Any) -> str:
    """Reply of a judge that writes, about steps or claims."""
    return write_steps(body) if "\n\nSTEPS\n" in body["messages"][-1]["content"] else write_claims(body)


@pytest.fixture
def server():
    with LoopbackDecisions() as decisions:
        decisions.decide = decided
        yield decisions


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    write_lines(tmp_path / "outputs.jsonl", [ROW | NEW, ROW | OLD])
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    return ("outputs.jsonl", "--rubric", "rubric.yaml", "--allow-unscored")


def judge_file(server: LoopbackDecisions, form: str = "systemone", **settings: Any) -> str:
    own = {"model": "jev-test", "form": form, "base_url": f"{server.base_url}/v1"}
    Path("judge.yaml").write_text(json.dumps(own | settings), encoding="utf-8")
    return "judge.yaml"


@pytest.mark.parametrize("form", ["systemone", "decisions"])
def test_parts_of_an_output_ride_in_one_request_and_score_as_written_replies_do(
    evaluate, gradebook, server, form, words
):
    judge = judge_file(server, form, prices={"input_usd": 1.0, "output_usd": 1000.0})
    planned = evaluate(*words, "--judge", judge, "--dry-run").json
    # the pair in both orders; the steps of each output; the claims of each
    assert {each["criterion_id"]: each["request_count"] for each in planned["criteria"]} == {
        "better": 2,
        "steps": 2,
        "sourced": 2,
    }
    finished = evaluate(*words, "--judge", judge, "--budget-usd", "1")
    assert finished.code == 0, finished.err
    assert server.request_count == 6
    assert finished.json["cost_usd"] == pytest.approx(server.input_tokens / 1e6)
    assert planned["cost_usd"] == pytest.approx(finished.json["cost_usd"], rel=0.8)  # 4 bytes a token are assumed
    rows = query(
        gradebook,
        "select criterion_id, level_id, verdicts.score, rationale from verdicts join outputs using (output_id) "
        "where model = 'new' order by criterion_id",
    )
    better, sourced, steps = rows
    assert (better["level_id"], better["score"]) == ("better", 1.0)
    first, second = better["rationale"].split("\n")
    assert first.startswith("shown first: better: 80% better, 10% ")
    assert second.startswith("shown second: better: 80% better, 10% ")
    assert sourced["score"] == pytest.approx(1 / 3)
    assert sourced["rationale"] == "output: 1 of 3 claims supported, 1 contradicted, 1 not in the source"
    (mark,) = query(gradebook, "select step_index, label, rationale, quote from step_verdicts where score < 1")
    assert tuple(mark.values()) == (1, "wrong", "80% wrong, 10% partial, 10% right", None)
    assert steps["rationale"] == "14 steps judged: step 1: execution / tool_definition (medium, -5)"
    assert evaluate(*words, "--judge", judge).code == 0
    assert server.request_count == 6  # all replies are in the ledger
    assert gradebook("lake", "ledger", "verify", "--json").json["finding_count"] == 0


def test_what_reaches_the_service_has_no_level_id_score_or_model_and_both_orders_differ(evaluate, server, words):
    assert evaluate(*words, "--judge", judge_file(server)).code == 0
    sent = json.dumps(server.bodies)
    assert not any(name in sent for name in ("not_in_source", '"new"', '"old"', "0.5"))
    pairs = [body["state"].partition("CASE\n")[2] for body in server.bodies if '"second"' in body["state"][-400:]]
    assert len({pair for pair in pairs if '"first"' in pair}) == 2


def test_a_pair_with_equal_probabilities_is_a_tie(evaluate, gradebook, server, words):
    server.decide = lambda _, asked, __: [
        0.2 if text.startswith("neither") else 0.8 / (len(asked.options) - 1) for text in asked.options.values()
    ]
    assert evaluate(*words, "--judge", judge_file(server)).code == 0
    scores = query(gradebook, "select distinct score from verdicts where criterion_id = 'better'")
    assert scores == [{"score": 0.5}]


@pytest.mark.parametrize(
    ("fault", "status"),
    [("missing", "no_answer"), ("unasked", "parse_error"), ("nan", "parse_error"), ("refusal", "refused")],
)
def test_parts_without_all_their_answers_are_asked_once_more_then_unscored(
    evaluate, gradebook, server, words, fault, status
):
    server.faults = ["", "", "", *[fault] * 6]
    assert evaluate(*words, "--judge", judge_file(server, max_in_flight=1)).code == 0
    assert server.request_count == 3 + (3 if fault == "refusal" else 6)
    lost = query(gradebook, "select distinct status from judgments where status <> 'scored'")
    assert lost == [{"status": status}]
    reasons = query(gradebook, f"select count(*) as count from verdicts where reason = '{status}' and score is null")
    assert reasons[0]["count"] > 0


def test_more_parts_than_a_request_takes_are_asked_in_several(evaluate, server, words):
    finished = evaluate(*words, "--judge", judge_file(server, questions_per_request=6))
    assert finished.code == 0, finished.err
    assert max(len(body["questions"]) for body in server.bodies) == 6  # two steps, of three questions each


def test_steps_over_a_ceiling_are_unscored_and_not_sent(evaluate, gradebook, server, words):
    finished = evaluate(*words, "--judge", judge_file(server, ceilings={"request_tokens": 700}))
    assert finished.code == 0, finished.err
    (row,) = query(
        gradebook,
        "select reason from verdicts join outputs using (output_id) where model = 'new' and criterion_id = 'steps'",
    )
    assert row["reason"].startswith("too_long: found about")


@pytest.mark.parametrize(("share_below", "expected"), [(0.79, 0), (0.81, 5)])
def test_a_cascade_asks_its_second_judge_about_parts_by_the_probabilities_of_the_first(
    evaluate, server, words, share_below, expected
):
    without_pairs = [line for line in RUBRIC.splitlines() if "id: better" not in line]
    Path("rubric.yaml").write_text("\n".join(without_pairs), encoding="utf-8")
    judge_file(server)
    with LoopbackJudge() as second:
        second.writer = written_parts
        Path("then.yaml").write_text(json.dumps({"model": "m", "base_url": second.base_url}), encoding="utf-8")
        cascade = {"first": "judge.yaml", "then": "then.yaml", "when": {"share_below": share_below}}
        Path("cascade.yaml").write_text(json.dumps({"cascade": cascade}), encoding="utf-8")
        finished = evaluate(*words, "--judge", "cascade.yaml")
        assert finished.code == 0, finished.err
        # the steps of two outputs, in three windows, and the claims of each
        assert (server.request_count, second.request_count) == (5, expected)


@pytest.mark.parametrize("kind", ["panel", "cascade"])
def test_beside_a_judge_that_writes_a_request_has_no_more_questions_than_its_setting(evaluate, server, words, kind):
    without_pairs = [line for line in RUBRIC.splitlines() if "id: better" not in line]
    Path("rubric.yaml").write_text("\n".join(without_pairs), encoding="utf-8")
    judge_file(server, questions_per_request=7)
    with LoopbackJudge() as second:
        second.writer = written_parts
        Path("then.yaml").write_text(json.dumps({"model": "m", "base_url": second.base_url}), encoding="utf-8")
        members = {"panel": ["judge.yaml", "then.yaml"], "cascade": {"first": "judge.yaml", "then": "then.yaml"}}
        Path("both.yaml").write_text(json.dumps({kind: members[kind]}), encoding="utf-8")
        finished = evaluate(*words, "--judge", "both.yaml")
        assert finished.code == 0, finished.err
    assert max(len(body["questions"]) for body in server.bodies) == 6  # two steps, of three questions each
