"""Nightly run: remaining budget, and summary."""

import json
import pickle
from datetime import date
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import BudgetReached
from gradebook.rubrics.statistics.series import Series
from gradebook.tasks.operations.nightly import (
    Night,
    NightUnfinished,
    SuiteEnd,
    SuiteMean,
    budget_left,
    failed_end,
    night_text,
    published_end,
    suite_rows,
)
from gradebook.tasks.runs.request import EvaluationRequest, SeriesOfNights
from tests.support.published_runs import NOW, publish
from tests.support.samples import write_lines

RUBRIC = """
id: brief
version: 1.0.0
criteria:
  - id: brief
    description: At most 3 words.
    method: {type: check, check: length_words, settings: {max: 3}}
"""
HOSTILE = "<b>|\n# x ![y](http://z)"


def end(suite: str, cost_usd: float | None, **more: object) -> SuiteEnd:
    return SuiteEnd(suite, f"run-{suite}", cost_usd, **more)  # type: ignore[arg-type]


def asked(budget_usd: float | None) -> EvaluationRequest:
    return EvaluationRequest("outputs", "rubric", budget_usd=budget_usd)


@pytest.mark.parametrize(
    ("costs", "left"),
    [
        ([], 10.0),
        ([(2.5, 10.0), (1.5, 7.5)], 6.0),
        ([(None, 4.0)], 6.0),  # unknown, so the maximum spend counts
        ([(None, None)], 0.0),
        ([(10.5, 10.0)], 0.0),
    ],
)
def test_the_remaining_budget_is_the_budget_minus_the_suites_costs(costs, left):
    assert budget_left(10.0, [(end("a", cost), asked(budget)) for cost, budget in costs]) == left


def test_a_suite_whose_rule_was_not_checked_is_not_said_to_meet_it():
    ends = tuple(end("a", 0.0, is_met=True, has_requirement=decides) for decides in (True, False))
    assert [row[1] for row in suite_rows(Night(date(2026, 11, 1), ends, None))] == ["may ship", "no gate"]


def test_requests_that_may_have_been_billed_count_toward_the_budget_of_the_night():
    ends = [(end("a", 0.5, counted_usd=2.0), asked(4.0)), (end("b", None, counted_usd=1.0), asked(4.0))]
    assert budget_left(10.0, ends) == 7.0  # 10 - 2 - 1


def test_what_a_night_may_have_cost_beyond_its_replies_is_told():
    night = Night(date(2026, 11, 22), (end("a", 0.5, counted_usd=2.0), end("b", 0.5)), 5.0)
    assert (night.cost_usd, night.possible_usd, night.as_json()["possible_usd"]) == (1.0, 1.5, 1.5)
    assert "Spent $1.00 of $5.00. Requests without a counted reply may have cost $1.50 more, at most." in night_text(
        night
    )


def test_without_a_budget_there_is_no_limit():
    assert budget_left(None, [(end("a", 3.0), asked(None))]) is None


def test_the_sentence_names_unmet_and_failed_suites():
    ends = (end("a", 1.0, is_met=True), end("b", 0.5), end("c", 0.0, fault="endpoint\ngone"))
    night = Night(date(2026, 11, 22), ends, 5.0)
    assert night.sentence == "2 of 3 suites published; gates not met by b; not finished: c (endpoint gone)"
    assert night.brief == "2 of 3 suites published; gates not met by b; not finished: c"
    assert night.cost_usd == 1.5
    assert night.to_mend == ()  # the endpoint may come back
    assert pickle.loads(pickle.dumps(NightUnfinished(night))).night == night


def test_the_cost_of_a_nightly_run_is_unknown_if_one_suite_s_is():
    assert Night(date(2026, 11, 22), (end("a", 1.0), end("b", None)), None).cost_usd is None


def test_hostile_names_and_faults_are_text_in_the_artifact():
    means = (SuiteMean(HOSTILE, 0.5, 0.4, 0.1),)
    text = night_text(
        Night(date(2026, 11, 22), (end("a", 1.0, means=means, fault=HOSTILE),), 5.0, upkeep_fault=HOSTILE)
    )
    assert "<b>" not in text
    assert "[y]" not in text
    assert not any(line.startswith("# ") for line in text.splitlines())
    assert "| 0.500 | – | 0.400 | +0.100 | $1.00 |" in text


@pytest.mark.nightly
def test_a_rule_without_an_earlier_night_is_said_to_be_unchecked(tmp_path):
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    outputs = write_lines(tmp_path / "o.jsonl", [{"case_id": "c", "model": "m", "output": "yes"}])
    asked = {"baseline": "latest", "require": "not_worse_by(0.02)", "suite": "a", "night": date(2026, 11, 20)}
    ends = []
    for run_id, night in (("first", 20), ("again", 20), ("next", 21)):
        summary = publish(
            outputs, tmp_path / "rubric.yaml", **asked | {"run_id": run_id, "night": date(2026, 11, night)}
        )
        ends.append(published_end("a", summary, tmp_path / "lake" / "runs" / run_id / "report.html").unchecked)
    assert ends == [*["no earlier run to compare with, so --require was not checked"] * 2, None]


def night_of(folder: Path, suite: str, day: int, case: str) -> str | None:
    """Publish a suite's run with its own outputs; returns the baseline's run id."""
    rows = [{"case_id": f"{case}{number}", "model": "m", "output": f"{suite} {day}"} for number in range(3)]
    outputs = write_lines(folder / f"{suite}-{day}.jsonl", rows)
    run_id = f"{suite}-{day}-{len(list((folder / 'lake').glob('runs/*')))}"
    asked = {"run_id": run_id, "baseline": "latest", "suite": suite, "night": date(2026, 11, day)}
    summary = publish(outputs, folder / "rubric.yaml", **asked)
    found: str | None = json.loads(summary.run["settings"])["baseline_run_id"]
    return found


@pytest.mark.nightly
@pytest.mark.slow
def test_a_suite_is_compared_with_its_own_earlier_run_only(tmp_path):
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    asked = [("a", 20, "c"), ("b", 20, "d"), ("a", 21, "c"), ("b", 21, "d")]
    assert [night_of(tmp_path, *each) for each in asked] == [None, None, "a-20-0", "b-20-1"]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_repeated_nightly_run_is_compared_with_the_same_earlier_one(tmp_path):
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    assert [night_of(tmp_path, "a", day, "c") for day in (20, 21, 21, 20, 22)] == [
        *(None, "a-20-0", "a-20-0"),
        None,  # no earlier run
        "a-21-2",
    ]


def test_a_suite_whose_report_failed_after_its_publication_names_its_run_and_what_it_cost(tmp_path):
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    outputs = write_lines(tmp_path / "o.jsonl", [{"case_id": "c", "model": "m", "output": "yes"}])
    publish(outputs, tmp_path / "rubric.yaml", run_id="a-1", trigger="nightly")
    lake = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    request = EvaluationRequest(str(outputs), "rubric.yaml", lake=lake, run_id="a-1", trigger="nightly")
    found = failed_end("a", request, NOW, OSError("no room for the report"))
    assert (found.run_id, found.cost_usd, found.fault) == ("a-1", 0.0, "unexpected OSError: no room for the report")


def test_a_suite_that_reached_its_budget_names_the_key_of_the_suites_file(tmp_path):
    request = EvaluationRequest("o.jsonl", "rubric.yaml", lake=f"sqlite:{tmp_path}/none.sqlite", trigger="nightly")
    ends = [
        failed_end(suite, request, NOW, BudgetReached(f"budget: go on with {words}"))
        for suite, words in (("a", "--budget-usd 0.0057"), ("b", "a larger --budget-usd"))
    ]
    told = ("`budget_usd: 0.0057` in the suites file", "a larger `budget_usd` in the suites file")
    assert [found.fault for found in ends] == [f"budget: go on with {words}" for words in told]
    other = end("c", 0.0, fault="budget: of another kind, by its words alone")
    assert Night(date(2026, 11, 22), (*ends, other), None).to_mend == ("a", "b")


@pytest.mark.nightly
def test_a_series_of_looks_widens_the_comparison_of_each_night(tmp_path):
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    summaries = {}
    for name, series in (("plain", None), ("series", SeriesOfNights(Series(0.05, "bonferroni", 2)))):
        for day, last in ((20, "no"), (21, "a longer answer of many words"), (22, "no")):
            rows = [
                {"case_id": f"c{place}", "model": "m", "output": f"{('yes', last)[place % 2]} {day}"}
                for place in range(12)
            ]
            outputs = write_lines(tmp_path / f"{day}.jsonl", rows)
            asked = {"baseline": "latest", "fail_if": "mean_diff < 0 and p < 0.05", "suite": name, "series": series}
            run_id, night = f"{name}-{day}", date(2026, 11, day)
            summaries[run_id] = publish(outputs, tmp_path / "rubric.yaml", run_id=run_id, night=night, **asked)
    plain, wide = (summaries[f"{name}-21"].comparison.figures[0] for name in ("plain", "series"))
    assert wide["p"] == pytest.approx(2 * plain["p"])
    assert wide["diff_low"] < plain["diff_low"]
    notes = [summaries[f"series-{day}"].run["notes"] for day in (20, 21, 22)]
    assert [len(each) for each in notes] == [1, 1, 1]
    assert notes[1][0].startswith("look 1 of the series (alpha 0.05 a month, bonferroni): level 0.025, 0.025 left")
    assert notes[2][0].startswith("look 2 of the series (alpha 0.05 a month, bonferroni): level 0.025, 0 left")
    again = publish(tmp_path / "22.jsonl", tmp_path / "rubric.yaml", run_id="again", night=date(2026, 11, 22), **asked)
    assert again.run["notes"][0].startswith("look 2 ")  # the same night spends no more
    december = publish(tmp_path / "22.jsonl", tmp_path / "rubric.yaml", run_id="next", night=date(2026, 12, 1), **asked)
    assert december.run["notes"][0].startswith("look 1 ")
