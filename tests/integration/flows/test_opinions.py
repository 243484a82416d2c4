"""`gradebook evaluate` with several opinions per verdict: real flows, real endpoints, a real lake."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.loopback_judge import LoopbackJudge
from tests.support.samples import query, write_outputs, write_rubric

CASES = 6
COUNT = 2 * CASES  # two models, one judged criterion
PRICES = "prices: {input_usd: 1.0, output_usd: 1.0}\n"


@pytest.fixture
def words(tmp_path: Path, judge: LoopbackJudge) -> tuple[str, ...]:
    write_outputs(tmp_path / "outputs.jsonl", count=CASES)
    write_rubric(tmp_path / "rubric.yaml")
    return ("outputs.jsonl", "--rubric", "rubric.yaml", "--judge", "judge.yaml")


@pytest.fixture
def other():
    """A second endpoint."""
    with LoopbackJudge() as server:
        yield server


Asked = tuple[int, int]  # requests to `judge` and to `other`


@pytest.fixture(scope="module")
def kept() -> dict[str, tuple[Path, Asked]]:
    """Lake and number of requests of the first `evaluated` of each name."""
    return {}


@pytest.fixture
def evaluated(evaluate, judge, other, words, kept, tmp_path: Path, tmp_path_factory) -> Callable[[str], Asked]:
    """Evaluate with judge.yaml, or copy the lake of an earlier test of that name; returns the number of requests."""

    def call(name: str) -> Asked:
        if name in kept:
            shutil.copytree(kept[name][0], tmp_path / "lake")
        else:
            finished = evaluate(*words)
            assert finished.code == 0, finished.err
            folder = shutil.copytree(tmp_path / "lake", tmp_path_factory.mktemp(name) / "lake")
            kept[name] = folder, (judge.request_count, other.request_count)
        return kept[name][1]

    return call


def write_judge(folder: Path, text: str, **members: tuple[str, LoopbackJudge]) -> None:
    """Write a judge file and its members' files, with their settings and endpoints."""
    (folder / "judge.yaml").write_text(text, encoding="utf-8")
    for name, (settings, server) in members.items():
        written = f"model: {name}\nbase_url: {server.base_url}\n{PRICES}{settings}\n"
        (folder / f"{name}.yaml").write_text(written, encoding="utf-8")


def count(gradebook, sql):
    (row,) = query(gradebook, f"select count(*) n from {sql}")
    return row["n"]


# -------- replicates
@pytest.mark.slow
def test_three_replicates_are_asked_stored_and_combined(evaluated, gradebook, tmp_path):
    write_judge(tmp_path, "model: m\nreplicates: 3")
    assert evaluated("thrice") == (3 * COUNT, 0)
    assert count(gradebook, "(select distinct request_key from judgments)") == 3 * COUNT
    held = query(
        gradebook,
        "select max(abs(v.score - o.mean)) as miss, count(*) n from verdicts v join "
        "(select output_id, avg(score) mean from opinions where criterion_id = 'clarity' group by output_id) o "
        "using (output_id) where v.criterion_id = 'clarity'",
    )
    assert held == [{"miss": pytest.approx(0), "n": COUNT}]


def test_a_judge_that_flips_is_reported(evaluated, gradebook, tmp_path):
    write_judge(tmp_path, "model: m\nreplicates: 3")
    evaluated("thrice")
    rows = query(gradebook, "select n, opinion_count, flip_rate, judge_variance, agreement_rate from judge_noise")
    assert [(row["n"], row["opinion_count"], row["agreement_rate"]) for row in rows] == [(CASES, 3 * CASES, None)] * 2
    assert any(row["flip_rate"] > 0 and row["judge_variance"] > 0 for row in rows)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_second_run_with_replicates_sends_no_request(evaluated, evaluate, judge, words, tmp_path):
    write_judge(tmp_path, "model: m\nreplicates: 3")
    evaluated("thrice")
    asked = judge.request_count
    again = evaluate(*words)
    assert (again.code, again.json["cost_usd"], judge.request_count) == (0, 0, asked)


@pytest.mark.nightly
@pytest.mark.slow
def test_more_replicates_ask_only_for_the_new_ones(evaluated, evaluate, judge, words, tmp_path):
    write_judge(tmp_path, "model: m")
    assert evaluated("once") == (COUNT, 0)
    asked = judge.request_count
    write_judge(tmp_path, "model: m\nreplicates: 3")
    assert evaluate(*words).code == 0
    assert judge.request_count == asked + 2 * COUNT


@pytest.mark.nightly
def test_swapped_levels_are_measured_but_count_in_no_verdict(evaluate, gradebook, judge, words, tmp_path):
    write_judge(tmp_path, "model: m\nswap_share: 1")
    assert evaluate(*words).code == 0
    assert judge.request_count == 2 * COUNT
    off = "opinions o join verdicts v using (output_id, criterion_id) where not o.is_swapped and o.score <> v.score"
    assert count(gradebook, off) == 0
    assert count(gradebook, "judge_noise where swap_flip_rate is not null and n = 0") == 2


@pytest.mark.nightly
def test_a_run_with_one_opinion_a_verdict_has_no_opinions(evaluated, gradebook, tmp_path):
    write_judge(tmp_path, "model: m")
    evaluated("once")
    assert (count(gradebook, "opinions"), count(gradebook, "judge_noise")) == (0, 0)


# -------- panels
@pytest.mark.nightly
@pytest.mark.slow
def test_a_panel_asks_each_of_its_judges_per_case_criteria_too(evaluate, gradebook, judge, other, words, tmp_path):
    levels = [{"id": "no", "score": 0, "description": "No."}, {"id": "yes", "score": 1, "description": "Yes."}]
    own = [{"id": "polite", "description": "Is it polite?", "method": {"type": "judge"}, "levels": levels}]
    row = {"case_id": "own", "model": "small", "output": "Thank you.", "criteria": own}
    with (tmp_path / "outputs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    write_judge(tmp_path, "panel: [a.yaml, b.yaml]", a=("", judge), b=("", other))
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    asked = COUNT + 2  # the last output has a criterion of its own
    assert (judge.request_count, other.request_count, finished.json["judge"]) == (asked, asked, "panel(a, b)")
    assert count(gradebook, "opinions where judge = 'b'") == asked
    assert count(gradebook, "opinions where criterion_id = 'polite'") == 2
    assert count(gradebook, "judge_noise where agreement_rate is not null and criterion_id = 'clarity'") == 2


@pytest.mark.nightly
@pytest.mark.slow
def test_a_panel_s_noise_is_measured_with_the_replicates_of_its_judges(
    evaluate, gradebook, judge, other, words, tmp_path
):
    write_judge(tmp_path, "panel: [a.yaml, b.yaml]", a=("replicates: 2", judge), b=("replicates: 3", other))
    finished = evaluate(*words)
    noise = gradebook("judge", "noise", finished.json["run_id"], "--draws", "20", "--json")
    assert (noise.code, noise.json["replicate_count"], noise.json["output_count"]) == (0, 2, COUNT), noise.err
    assert [row["n"] for row in noise.json["judge_noise"]] == [CASES] * 2
    of_first = "opinions join output_scores using (output_id) where replicate = 0 and model = 'small'"
    (row,) = query(gradebook, f"select avg(opinions.score) mean from {of_first}")
    twice = {row["criterion_id"]: row for row in noise.json["judged_twice"] if row["model_a"] == "small"}
    assert twice["clarity"]["mean_a"] == pytest.approx(row["mean"])


@pytest.mark.nightly
@pytest.mark.slow
def test_after_the_loss_of_a_panel_member_replies_are_stored_and_the_same_command_resumes(
    evaluate, gradebook, judge, other, words, tmp_path
):
    write_judge(tmp_path, "panel: [a.yaml, b.yaml]", a=("", judge), b=("", other))
    other.faults = ["401"] * 50
    stopped = evaluate(*words)
    assert (stopped.code, "401" in stopped.err) == (3, True)
    kept = count(gradebook, "judgments where judge = 'a'")
    assert kept == judge.answered_count
    other.faults = []
    assert evaluate(*words).code == 0
    assert (judge.answered_count, other.answered_count) == (COUNT, COUNT)


@pytest.mark.nightly
@pytest.mark.slow
def test_all_judges_share_one_budget(evaluate, gradebook, judge, other, words, tmp_path):
    write_judge(tmp_path, "panel: [a.yaml, b.yaml]", a=("", judge), b=("", other))
    stopped = evaluate(*words, "--budget-usd", "0.012")  # a request may cost about 0.008
    (row,) = query(gradebook, "select count(*) n, sum(cost_usd) usd from judgments")
    assert (stopped.code, "budget" in stopped.err) == (3, True)
    assert 0 < row["n"] < 2 * COUNT
    assert row["usd"] <= 0.012
    assert evaluate(*words).code == 0
    assert judge.answered_count + other.answered_count == 2 * COUNT


@pytest.mark.nightly
@pytest.mark.slow
def test_recorded_replies_can_be_a_panel_member(evaluate, gradebook, judge, words, tmp_path):
    rows = [
        {"case_id": f"c{case}", "model": model, "criterion_id": "clarity", "level": "clear"}
        for case in range(CASES)
        for model in ("small", "large")
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write_judge(tmp_path, "panel: [a.yaml, 'replay:x.jsonl']\naggregate: all", a=("", judge))
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    off = "verdicts v join opinions o using (output_id, criterion_id) where o.judge = 'a' and o.score <> v.score"
    assert (judge.request_count, count(gradebook, off)) == (COUNT, 0)  # recorded replies are never worse


# -------- cascades
CASCADE = "cascade: {first: cheap.yaml, then: dear.yaml, when: {disagreement: true}}"


@pytest.mark.nightly
def test_a_cascade_asks_the_expensive_judge_only_where_the_cheap_one_disagrees_with_itself(
    evaluated, gradebook, judge, other, tmp_path
):
    write_judge(tmp_path, CASCADE, cheap=("replicates: 2", judge), dear=("", other))
    asked = evaluated("cascade")
    unsure = "(select output_id from opinions where judge = 'cheap' group by 1 having count(distinct level_id) > 1)"
    unsure_count = count(gradebook, unsure)
    assert 0 < unsure_count < COUNT
    assert asked == (2 * COUNT, unsure_count)


def test_the_expensive_judge_s_opinion_is_the_verdict(evaluated, gradebook, judge, other, tmp_path):
    write_judge(tmp_path, CASCADE, cheap=("replicates: 2", judge), dear=("", other))
    evaluated("cascade")
    dear = "verdicts v join opinions o using (output_id, criterion_id) where o.judge = 'dear'"
    assert count(gradebook, f"{dear} and v.level_id = o.level_id and v.request_key = o.request_key") == count(
        gradebook, dear
    )


@pytest.mark.nightly
def test_a_second_run_of_a_cascade_sends_no_request(evaluated, evaluate, judge, other, words, tmp_path):
    write_judge(tmp_path, CASCADE, cheap=("replicates: 2", judge), dear=("", other))
    evaluated("cascade")
    asked = (judge.request_count, other.request_count)
    again = evaluate(*words)
    assert (again.code, again.json["cost_usd"]) == (0, 0)
    assert (judge.request_count, other.request_count) == asked


@pytest.mark.nightly
def test_listed_criteria_are_asked_of_the_expensive_judge_only(evaluate, judge, other, words, tmp_path):
    text = "cascade: {first: cheap.yaml, then: dear.yaml, when: {criteria: [clarity]}}"
    write_judge(tmp_path, text, cheap=("", judge), dear=("", other))
    assert evaluate(*words).code == 0
    assert (judge.request_count, other.request_count) == (0, COUNT)


@pytest.mark.nightly
def test_a_probability_below_the_threshold_asks_the_expensive_judge(evaluate, judge, other, words, tmp_path):
    # the endpoint gives its level a probability of 0.8
    text = "cascade: {first: cheap.yaml, then: dear.yaml, when: {share_below: 0.9}}"
    write_judge(tmp_path, text, cheap=("mode: logprobs", judge), dear=("", other))
    finished = evaluate(*words)
    assert finished.code == 0, finished.err
    assert (judge.request_count, other.request_count) == (COUNT, COUNT)


def test_a_plan_states_the_maximum_requests_of_a_cascade(gradebook, judge, other, words, tmp_path):
    write_judge(tmp_path, CASCADE, cheap=("replicates: 2", judge), dear=("", other))
    finished = gradebook("evaluate", *words, "--dry-run", "--json")
    (clarity, _) = finished.json["criteria"]
    assert (clarity["request_count"], clarity["at_most_count"]) == (3 * COUNT, COUNT)


def test_a_cascade_that_names_an_unknown_criterion_is_refused(gradebook, judge, other, words, tmp_path):
    text = "cascade: {first: cheap.yaml, then: dear.yaml, when: {criteria: [tone]}}"
    write_judge(tmp_path, text, cheap=("", judge), dear=("", other))
    finished = gradebook("evaluate", *words, "--dry-run")
    assert finished.code == 2
    assert "found 'tone', expected judged criteria of short_answer: clarity" in finished.err


# -------- other readers of the ledger
@pytest.mark.nightly
def test_the_ledger_of_a_cascade_with_swaps_is_verified_to_the_last_key(
    evaluate, gradebook, judge, other, words, tmp_path
):
    write_judge(tmp_path, CASCADE, cheap=("replicates: 2\nswap_share: 1", judge), dear=("", other))
    assert evaluate(*words).code == 0
    verified = gradebook("lake", "ledger", "verify", "--json")
    assert verified.code == 0, verified.out
    assert verified.json["recomputed_count"] == judge.request_count + other.request_count
    assert verified.json["finding_count"] == 0


@pytest.mark.nightly
def test_each_replicate_is_recorded_but_a_panel_is_refused(evaluate, gradebook, judge, other, words, tmp_path):
    write_judge(tmp_path, "model: m\nreplicates: 2\nswap_share: 1")
    assert evaluate(*words, "--record", "kept.jsonl").code == 0
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(row["replicate"] for row in kept) == [0] * COUNT + [1] * COUNT
    levels = {(row["output_id"], row["replicate"]): row["level"] for row in kept}
    said = query(gradebook, "select output_id, replicate, level_id from opinions where not is_swapped")
    assert {(row["output_id"], row["replicate"]): row["level_id"] for row in said} == levels
    write_judge(tmp_path, "panel: [a.yaml, b.yaml]", a=("", judge), b=("", other))
    assert gradebook("evaluate", *words, "--record", "kept.jsonl").code == 2


@pytest.mark.nightly
def test_a_judge_of_the_candidates_family_is_named(evaluate, judge, words, tmp_path):
    write_outputs(tmp_path / "outputs.jsonl", count=2, models=("gpt-4o-mini", "claude-3"))
    write_judge(tmp_path, "model: gpt-4o")
    notes = evaluate(*words).json["notes"]
    said = "the judge gpt-4o and the candidate gpt-4o-mini seem to be of one family (openai)"
    assert [note for note in notes if note.startswith(said)]
