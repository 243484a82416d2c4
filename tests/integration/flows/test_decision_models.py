"""`gradebook evaluate` with a decision model, in both forms."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback_decisions import Asked, LoopbackDecisions
from tests.support.samples import query, write_lines, write_outputs

CASES = 3
OUTPUTS = 2 * CASES  # two models
RUBRIC = """
id: support
version: 1.0.0
criteria:
  - id: tone
    description: Is the reply warm?
    weight: 0.6
    levels:
      - {{id: bad, score: 0.0, description: Blames.}}
      - {{id: partial, score: 0.37, description: "Polite, but curt."}}
      - {{id: good, score: 1.0, description: Kind.}}
    method: {{type: judge}}
  - id: helps
    description: {helps}
    weight: 0.4
    levels: [{{id: "no", score: 0, description: It does not.}}, {{id: "yes", score: 1, description: It does.}}]
    method: {{type: judge}}
  - id: safe
    description: No promise is made that nobody can keep.
    gate: true
    levels: [{{id: fail, score: 0}}, {{id: pass, score: 1}}]
    method: {{type: judge}}
"""
Evaluate = Callable[..., Any]


@pytest.fixture
def server():
    with LoopbackDecisions() as decisions:
        decisions.decide = certain
        yield decisions


@pytest.fixture(params=["systemone", "decisions"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    write_outputs(tmp_path / "outputs.jsonl", count=CASES)
    write_rubric(tmp_path)
    return ("outputs.jsonl", "--rubric", "rubric.yaml")


def write_rubric(folder: Path, version: str = "1.0.0", helps: str = "Does it help?") -> None:
    text = RUBRIC.format(helps=helps).replace("1.0.0", version, 1)
    (folder / "rubric.yaml").write_text(text, encoding="utf-8")


def judge_file(server: LoopbackDecisions, form: str = "systemone", **settings: Any) -> str:
    """Write a judge file for the server; JSON is YAML."""
    own = {"model": "jev-test", "form": form, "base_url": f"{server.base_url}/v1"}
    Path("judge.yaml").write_text(json.dumps(own | settings), encoding="utf-8")
    return "judge.yaml"


def named(server: LoopbackDecisions, form: str) -> str:
    return f"{form}:{server.base_url}"


def certain(state: str, asked: Asked, _: list[Asked]) -> list[float]:
    """Probabilities by the options' texts: good 0.6, partial 0.3; yes 0.9; pass 0.8."""
    by_text = dict(zip("12345", (0.1, 0.1, 0.2, 0.2, 0.4), strict=True)) | {
        "Kind.": 0.6,
        "Polite, but curt.": 0.3,
        "Blames.": 0.1,
        "It does.": 0.9,
        "It does not.": 0.1,
    }
    return [by_text.get(text, 0.8 if text == "true" else 0.2) for text in asked.options.values()]


def verdicts(gradebook: Evaluate) -> list[dict[str, Any]]:
    return query(gradebook, "select * from verdicts order by output_id, criterion_id")


def test_all_criteria_of_an_output_ride_in_one_request_and_are_never_paid_twice(
    evaluate, gradebook, server, form, words
):
    finished = evaluate(*words, "--judge", named(server, form))
    assert finished.code == 0, finished.err
    assert (server.request_count, server.question_count) == (OUTPUTS, 3 * OUTPUTS)
    # tone 0.3 x 0.37 + 0.6 x 1 = 0.711; helps 0.9; the gate has no threshold, so its most probable level counts
    found = {(row["criterion_id"], row["level_id"], round(row["score"], 6)) for row in verdicts(gradebook)}
    assert found == {("tone", "good", 0.711), ("helps", "yes", 0.9), ("safe", "pass", 1.0)}
    stored = query(gradebook, "select distinct distribution, rationale from judgments where criterion_id = 'tone'")
    assert [json.loads(row["distribution"]) for row in stored] == [{"bad": 0.1, "partial": 0.3, "good": 0.6}]
    assert stored[0]["rationale"] is None
    assert evaluate(*words, "--judge", named(server, form)).code == 0
    assert server.request_count == OUTPUTS
    assert gradebook("lake", "ledger", "verify", "--json").json["finding_count"] == 0


def test_a_criterion_whose_text_changed_asks_its_own_question_alone(evaluate, server, words, tmp_path):
    assert evaluate(*words, "--judge", named(server, "systemone")).code == 0
    write_rubric(tmp_path, "1.1.0", helps="Does it help at once?")
    finished = evaluate(*words, "--judge", named(server, "systemone"))
    assert finished.code == 0, finished.err
    assert (server.request_count, server.question_count) == (2 * OUTPUTS, 4 * OUTPUTS)
    assert {len(body["questions"]) for body in server.bodies[OUTPUTS:]} == {1}


def test_a_model_that_reads_all_questions_together_is_asked_all_again(evaluate, server, words, tmp_path):
    server.is_joint = True
    judge = judge_file(server, reads_together=True)
    assert evaluate(*words, "--judge", judge).code == 0
    write_rubric(tmp_path, "1.1.0", helps="Does it help at once?")
    assert evaluate(*words, "--judge", judge).code == 0
    assert {len(body["questions"]) for body in server.bodies} == {3}


def test_no_score_weight_id_or_other_model_reaches_the_service(evaluate, server, form, words):
    assert evaluate(*words, "--judge", named(server, form)).code == 0
    sent = json.dumps([{key: value for key, value in body.items() if key != "model"} for body in server.bodies])
    assert not [word for word in ("0.37", "0.6", "tone", "partial", "support") if word in sent]


@pytest.mark.parametrize(
    ("settings", "score", "level"),
    [
        ({"verdict": "mode"}, 1.0, "good"),
        ({"verdict": "threshold", "verdict_probability": 0.8}, 0.37, "partial"),  # partial or better: 0.9
        # (0.37 sqrt(0.3) + sqrt(0.6)) / (sqrt(0.1) + sqrt(0.3) + sqrt(0.6))
        (
            {"recalibration": {"version": "v1", "temperatures": {"tone": 2.0}}},
            pytest.approx((0.37 * 0.3**0.5 + 0.6**0.5) / (0.1**0.5 + 0.3**0.5 + 0.6**0.5)),
            "good",
        ),
    ],
)
def test_verdict_by_a_rule_asks_nothing_again(evaluate, gradebook, server, words, settings, score, level):
    assert evaluate(*words, "--judge", judge_file(server)).code == 0
    assert evaluate(*words, "--judge", judge_file(server, **settings), "--run-id", "ruled").code == 0
    assert server.request_count == OUTPUTS
    rows = query(
        gradebook, "select distinct level_id, score from verdicts where run_id = 'ruled' and criterion_id = 'tone'"
    )
    assert rows == [{"level_id": level, "score": score}]


def test_dry_run_counts_requests_that_ride_and_no_output(evaluate, server, words):
    prices = {"input_usd": 1.0, "output_usd": 1000.0}
    planned = evaluate(*words, "--judge", judge_file(server, prices=prices), "--dry-run").json
    assert sum(each["request_count"] for each in planned["criteria"]) == OUTPUTS
    assert sum(each["completion_tokens"] for each in planned["criteria"]) == 0
    finished = evaluate(*words, "--judge", "judge.yaml", "--budget-usd", "1")
    assert finished.code == 0, finished.err
    assert finished.json["cost_usd"] == pytest.approx(server.input_tokens / 1e6)
    assert planned["cost_usd"] == pytest.approx(finished.json["cost_usd"], rel=0.8)  # 4 bytes a token are assumed


def test_a_model_that_changes_in_mid_run_is_noted(evaluate, gradebook, server, form, words):
    def changing(state: str, asked: Asked, questions: list[Asked]) -> list[float]:
        server.model = "jev-test" if server.request_count <= CASES else "jev-other"
        return certain(state, asked, questions)

    server.decide = changing
    finished = evaluate(*words, "--judge", judge_file(server, form, max_in_flight=1))
    assert finished.code == 0, finished.err
    told = {row["model_returned"] for row in query(gradebook, "select distinct model_returned from judgments")}
    assert told == {"jev-test", "jev-other"}
    assert "the judge jev-test was asked, and replies name another model: jev-other" in finished.out + finished.err


def test_the_model_that_a_server_lists_is_the_identity_where_none_is_named(evaluate, gradebook, server, words):
    for model, request_count in (("julia-1", OUTPUTS), ("julia-1", OUTPUTS), ("laya", 2 * OUTPUTS)):
        server.model = model
        finished = evaluate(*words, "--judge", named(server, "systemone"))
        assert finished.code == 0, finished.err
        assert server.request_count == request_count  # another model's replies are not taken from the ledger
        assert "another model" not in finished.out + finished.err
    judges = {row["judge"] for row in query(gradebook, "select distinct judge from judgments")}
    assert judges == {"julia-1", "laya"}


def test_a_name_for_the_latest_version_is_noted_only_if_several_answer(evaluate, server, words):
    judge = judge_file(server, model="jev-latest", max_in_flight=1)
    assert "another model" not in evaluate(*words, "--judge", judge).err

    def changing(state: str, asked: Asked, questions: list[Asked]) -> list[float]:
        server.model = f"jev-1.{server.request_count % 2}"
        return certain(state, asked, questions)

    server.decide = changing
    finished = evaluate(*words, "--judge", judge_file(server, model="jev-latest", max_in_flight=1, epoch=2))
    assert "the judge jev-latest was answered by several models: jev-1.0, jev-1.1" in finished.out + finished.err


def test_a_server_without_a_decision_model_is_named_at_once(evaluate, server, words):
    server.faults = ["501"] * 100
    finished = evaluate(*words, "--judge", named(server, "systemone"))
    assert finished.code == 3
    assert "HTTP 501" in finished.err
    assert "expected a server whose model can be asked at /systemone" in finished.err
    assert server.request_count <= OUTPUTS


def test_option_texts_with_quotes_line_breaks_and_look_alikes_keep_their_levels(evaluate, gradebook, server, form):
    texts = ['He said "no"', "two\nlines", "two\nlines ", "B", "\u0412"]  # the last one is Cyrillic
    levels = [{"id": f"l{n}", "score": min(n, 3) / 3, "description": text} for n, text in enumerate(texts)]
    tone = {"id": "tone", "description": "Is it kind?", "levels": levels, "method": {"type": "judge"}}
    Path("rubric.yaml").write_text(json.dumps({"id": "odd", "version": "1.0.0", "criteria": [tone]}), encoding="utf-8")
    write_lines(Path("outputs.jsonl"), [{"case_id": "c", "model": "m", "prompt": "Why?", "output": "So."}])
    server.decide = lambda _, asked, __: [0.6 if text == "\u0412" else 0.1 for text in asked.options.values()]
    finished = evaluate("outputs.jsonl", "--rubric", "rubric.yaml", "--judge", named(server, form))
    assert finished.code == 0, finished.err
    assert [row["level_id"] for row in verdicts(gradebook)] == ["l4"]


@pytest.mark.slow
def test_three_hundred_criteria_ride_in_as_few_requests_as_may_be(evaluate, gradebook, server, tmp_path):
    write_lines(tmp_path / "outputs.jsonl", [{"case_id": "c", "model": "m", "prompt": "Why?", "output": "So."}])
    head = "id: many\nversion: 1.0.0\ncriteria:\n"
    each = "- {{id: c{0}, description: 'Is it {0}?', method: {{type: judge}}, scale: {{min: 1, max: 5}}}}\n"
    (tmp_path / "rubric.yaml").write_text(head + "".join(map(each.format, range(300))), encoding="utf-8")
    words = ("outputs.jsonl", "--rubric", "rubric.yaml", "--judge", judge_file(server, questions_per_request=128))
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    assert (server.request_count, server.question_count) == (3, 300)


def test_criteria_of_a_case_ride_in_a_request_of_their_own(evaluate, gradebook, server, words):
    own = [{"id": f"own{place}", "description": f"It is {place}.", "method": {"type": "judge"}} for place in range(2)]
    write_lines(
        Path("outputs.jsonl"), [{"case_id": "c", "model": "m", "prompt": "Why?", "output": "So.", "criteria": own}]
    )
    finished = evaluate(*words, "--judge", named(server, "systemone"))
    assert finished.code == 0, finished.err
    assert sorted(len(body["questions"]) for body in server.bodies) == [2, 3]


@pytest.mark.parametrize(
    ("replaced", "found"),
    [
        ("{type: judge, examples: [{output: Hi, level: bad}]}", "tone: found `examples`"),
        ("{type: claims}", "tone: found claims to be found in the text, expected `precision: sentence`"),
        ("{type: claims, measure: passages, precision: sentence}", "tone: found `measure: passages`"),
        ("{type: judge, hears_audio: true}", "tone: found `hears_audio`"),
    ],
)
def test_what_a_decision_model_can_not_be_asked_is_refused_before_the_run(
    evaluate, server, words, tmp_path, replaced, found
):
    text = (tmp_path / "rubric.yaml").read_text(encoding="utf-8").replace("{type: judge}", replaced, 1)
    (tmp_path / "rubric.yaml").write_text(text, encoding="utf-8")
    finished = evaluate(*words, "--judge", named(server, "systemone"))
    assert (finished.code, server.request_count) == (2, 0)
    assert found in finished.err
    assert "decision model" in finished.err or "writes no text" in finished.err


def test_settings_of_written_replies_are_refused(evaluate, server, words):
    finished = evaluate(*words, "--judge", judge_file(server, temperature=0.5))
    assert finished.code == 2
    assert "no temperature with form: systemone: a decision model writes no text" in finished.err
    assert "feedback llm" in evaluate(*words, "--judge", judge_file(server), "--feedback", "llm").err


def test_the_doctor_asks_a_typed_question(gradebook, server):
    server.decide = lambda *_: [0.02, 0.98]
    finished = gradebook("doctor", "--judge", named(server, "decisions"))
    assert "answered with probabilities, 98% for what is true, answered by loopback-1.0" in finished.out + finished.err
    server.faults = ["501"]
    assert (
        "expected a server whose model can be asked at /systemone"
        in gradebook("doctor", "--judge", named(server, "systemone")).out
    )


@pytest.mark.nightly
def test_another_judge_says_why_beside_a_verdict_that_has_no_reasons(evaluate, gradebook, server, judge, words):
    assert evaluate(*words, "--judge", named(server, "systemone"), "--run-id", "r").code == 0
    before = verdicts(gradebook)
    (output,) = {row["output_id"] for row in before[:3]}
    asked = ("why", "r", output, "tone", "--ask", "gpt-4o-mini", "--json")
    (row,) = gradebook(*asked).json["verdicts"]
    assert (row["rationale"], row["level_id"], row["asked"]["rationale"]) == (None, "good", "Because.")
    assert gradebook(*asked).json["verdicts"][0]["asked"] == row["asked"]
    assert len(judge.bodies) == 1  # paid once
    assert verdicts(gradebook) == before
    assert gradebook("why", "r", output, "--ask", "gpt-4o-mini").code == 2
    refused = gradebook("why", "r", output, "tone", "--ask", named(server, "systemone"))
    assert (refused.code, "writes its reasons" in refused.err) == (2, True)
