"""A run that stops when its comparison with a baseline is decided, from the request to the lake."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.comparing.compare import compare_runs
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import open_database, query
from gradebook.tasks.published.status import read_status
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.site import read_home
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages import pipeline
from gradebook.tasks.stages.preview import preview_run
from tests.support.loopback_judge import LoopbackJudge, level_reply
from tests.support.preference_judge import write_preference
from tests.support.published_runs import NOW, publish
from tests.support.samples import write_lines, write_rubric

CASES = 60
SHARE = {"base": 0.9, "worse": 0.3, "alike": 0.9, "nearly": 0.8}  # of clear answers


@dataclass(frozen=True)
class Stopped:
    """A lake with a stopped run, its summary, and the number of requests that it sent."""

    folder: Path
    summary: RunSummary
    request_count: int


@pytest.fixture(scope="module")
def judge() -> Iterator[LoopbackJudge]:
    with LoopbackJudge() as server, pytest.MonkeyPatch.context() as patched:
        server.writer = read_level
        patched.setenv("OPENAI_BASE_URL", server.base_url)
        patched.setenv("OPENAI_API_KEY", "none")
        yield server


@pytest.fixture(scope="module")
def base(judge: LoopbackJudge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lake with the published run `base`."""
    folder = tmp_path_factory.mktemp("base")
    evaluate(folder, "base")
    return folder


@pytest.fixture(scope="module")
def stopped(base: Path, judge: LoopbackJudge, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """The same with the run `worse`, which stopped."""
    folder = Path(shutil.copytree(base, tmp_path_factory.mktemp("stopped"), dirs_exist_ok=True))
    asked = judge.request_count
    summary = evaluate(folder, "worse", baseline="base", stop="looks=6")
    return Stopped(folder, summary, judge.request_count - asked)


@pytest.fixture
def folder(base: Path, tmp_path: Path) -> Path:
    """Copy of the lake with `base` alone."""
    return Path(shutil.copytree(base, tmp_path, dirs_exist_ok=True))


def read_level(body: dict[str, Any]) -> str:
    """Reply with the level that the output names."""
    is_clear = "level: clear" in body["messages"][-1]["content"]
    return level_reply(body, "It is understood at first reading." if is_clear else "It can't be understood.")


def evaluate(folder: Path, name: str, cases: range = range(CASES), **request: Any) -> RunSummary:
    clear = SHARE[name] * 10
    rows = [
        {
            "case_id": f"c{case}",
            "model": "m",
            "output": f"{name} {case}, level: {'clear' if case % 10 < clear else 'unclear'}",
        }
        for case in cases
    ]
    write_lines(folder / f"{name}.jsonl", rows)
    asked = {"judge": "gpt-4o-mini", "run_id": name} | request
    return publish(folder / f"{name}.jsonl", write_rubric(folder / "rubric.yaml"), **asked)


def lake_in(folder: Path) -> Lake:
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


def rows_of(folder: Path, select: str) -> tuple[Row, ...]:
    with connect(lake_in(folder), read_only=True) as connection:
        return read_rows(connection, select)


def stopping_of(folder: Path, run_id: str) -> Row:
    (row,) = rows_of(folder, f"select settings from runs where run_id = '{run_id}'")
    return dict(json.loads(row["settings"])["stopping"])


@pytest.mark.nightly
def test_a_stopped_run_asks_no_further_judgment_and_has_no_gap(stopped):
    run, found = stopped.summary.run, stopping_of(stopped.folder, "worse")
    stopped_at = found["stopped_at"]
    assert stopped_at == run["stopped_at"] == run["output_count"] == stopped.request_count
    assert (stopped_at < CASES, found["case_count"], found["pairs"][0]["decision"]) == (True, CASES, "worse")
    counts = "count(*) as n, count(score) as scored, count(distinct output_id) as outputs"
    assert rows_of(stopped.folder, f"select {counts} from verdicts where run_id = 'worse'") == (
        {"n": 2 * stopped_at, "scored": 2 * stopped_at, "outputs": stopped_at},
    )
    assert stopped.summary.is_met
    assert not any("not compared" in note for note in run["notes"])


def test_a_stopped_run_says_so(stopped):
    brief = stopping_of(stopped.folder, "worse")["brief"]
    assert brief == f"stopped after {stopped.summary.run['stopped_at']} of 60 cases: worse"
    assert brief in stopped.summary.verdict.sentence
    lake = lake_in(stopped.folder)
    assert read_status(lake, NOW, 7).last_published[0]["stopped"] == brief
    with connect(lake, read_only=True) as connection:
        line = next(line for line in read_home(connection, lake).runs if line.run_id == "worse")
    assert line.models[0].changed == "a run that stopped early"
    assert rows_of(stopped.folder, "select stopped_at from score_history order by version") == (
        {"stopped_at": None},
        {"stopped_at": stopped.summary.run["stopped_at"]},
    )


def test_a_dry_run_gives_the_expected_share_of_cases_by_the_past_spread(stopped):
    asked = {"judge": "gpt-4o-mini", "baseline": "base", "stop": "looks=6"}
    rubric, lake = str(stopped.folder / "rubric.yaml"), f"sqlite:{stopped.folder}/lake/catalog.sqlite"
    _, plan = preview_run(EvaluationRequest(str(stopped.folder / "worse.jsonl"), rubric, lake=lake, **asked))
    shares = [share for _, share in plan.stop.expected]
    assert (plan.stop.sd_source, plan.stop.case_count) == ("of the last comparison", CASES)
    assert 1 >= shares[0] > shares[-1] > 0.5  # a difference of 0.1 is small beside so few cases


def test_the_effect_has_the_interval_of_the_looks_at_once_and_later(stopped):
    (pair,) = stopping_of(stopped.folder, "worse")["pairs"]
    select = "select diff_low, diff_high from run_comparisons where run_id = 'worse' and scope = 'overall'"
    (row,) = rows_of(stopped.folder, select)
    assert (row["diff_low"], row["diff_high"]) == pytest.approx((pair["low"], pair["high"]))
    found = compare_runs(lake_in(stopped.folder), "base", "worse")
    assert found.models[0].overall.figures.diff_high == pytest.approx(pair["high"])
    assert "p and intervals allow for its looks" in found.banner


@pytest.mark.nightly
def test_a_run_that_decides_nothing_judges_every_case_and_latest_is_no_stopped_run(stopped, judge):
    summary = evaluate(stopped.folder, "alike", baseline="latest", stop="looks=3")
    assert (summary.run["output_count"], summary.run["stopped_at"]) == (CASES, None)
    found = stopping_of(stopped.folder, "alike")
    assert (found["brief"], found["baseline_run_id"]) == ("--stop looks=3 judged all 60 cases: undecided", "base")


@pytest.mark.nightly
@pytest.mark.parametrize("damaged", [None, "blocks/plan.json", "blocks/shards/*.parquet"])
def test_an_interrupted_run_takes_the_same_looks_and_pays_for_nothing_twice(
    stopped, folder, judge, monkeypatch, damaged: str | None
):
    take, asked = pipeline.analyse_block, judge.request_count

    def killed(run: Any, ingested: Any, block: int) -> bool:
        if block == 1:
            raise KeyboardInterrupt
        return take(run, ingested, block)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "analyse_block", killed)
        with pytest.raises(KeyboardInterrupt):
            evaluate(folder, "worse", baseline="base", stop="looks=6")
    assert judge.request_count - asked == 20  # two blocks of ten
    if damaged is not None:
        next((folder / "lake/runs/worse").glob(damaged)).write_bytes(b"{")
    evaluate(folder, "worse", baseline="base", stop="looks=6")
    assert stopping_of(folder, "worse") == stopping_of(stopped.folder, "worse")
    assert judge.request_count - asked == stopped.request_count


@pytest.mark.nightly
@pytest.mark.parametrize("rule", ["looks=5,pocock", "always"])
def test_every_rule_stops_a_run(folder, judge, rule):
    asked = judge.request_count
    summary = evaluate(folder, "worse", baseline="base", stop=rule)
    assert summary.run["stopped_at"] == judge.request_count - asked < CASES


@pytest.mark.nightly
def test_a_run_stopped_by_its_suite_tells_these_cases_from_new_ones(folder, judge):
    asked = judge.request_count
    summary = evaluate(folder, "nearly", baseline="base", stop="suite")
    stopped_at = judge.request_count - asked
    assert stopped_at < CASES
    brief = f"stopped after {stopped_at} of 60 cases: worse on these 60 cases"
    unsure = (
        "no overall difference from base beyond chance on new cases, but 50 cases can only show one of 0.205 or more"
    )
    assert f"; {unsure}; {brief}." in summary.verdict.sentence
    banner = f"nearly {brief}; p and intervals are of new cases and allow for its looks."
    assert compare_runs(lake_in(folder), "base", "nearly").banner == banner


@pytest.mark.nightly
def test_a_gate_with_a_margin_stops_when_the_margin_is_decided(folder):
    summary = evaluate(folder, "alike", baseline="base", stop="always", require="not_worse_by(0.3)")
    assert summary.is_met
    assert summary.run["stopped_at"] < CASES
    assert stopping_of(folder, "alike")["brief"].endswith(": not worse by 0.3")


@pytest.mark.nightly
def test_cases_that_the_baseline_lacks_come_last(folder, judge):
    asked = judge.request_count
    evaluate(folder, "worse", range(30, 90), baseline="base", stop="looks=6,pocock")
    assert judge.request_count - asked < 30
    (row,) = rows_of(
        folder, "select max(substr(case_id, 2)::integer) as last from output_scores where run_id = 'worse'"
    )
    assert row["last"] < CASES


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"judge": None, "allow_unscored": True, "baseline": "latest"}, "there is no --judge, and checks cost nothing"),
        ({"judge": "gpt-4o", "baseline": "latest"}, "different judges, gpt-4o-mini"),
    ],
)
def test_a_run_that_nothing_can_stop_says_why(folder, request_, reason):
    summary = evaluate(folder, "worse", stop="suite", **request_)
    assert summary.run["output_count"] == CASES
    assert any(reason in note for note in summary.run["notes"]), summary.run["notes"]


@pytest.mark.nightly
def test_preferences_between_models_can_stop(folder, judge):
    criterion = "{id: better, description: Which answer is better?, method: {type: preference, against: other}}"
    rubric = folder / "better.yaml"
    rubric.write_text(f"id: better\nversion: 1.0.0\ncriteria:\n  - {criterion}\n", encoding="utf-8")
    rows = [
        {"case_id": f"c{case}", "model": model, "prompt": "say it", "output": f"{text} {case}"}
        for case in range(4)
        for model, text in (("m", "**"), ("other", "*"))
    ]
    asked = str(write_lines(folder / "pairs.jsonl", rows)), str(rubric)
    judge.writer = write_preference
    try:
        publish(*map(Path, asked), judge="gpt-4o-mini", run_id="first")
    finally:
        judge.writer = read_level
    lake = f"sqlite:{folder}/lake/catalog.sqlite"
    again = EvaluationRequest(*asked, judge="gpt-4o-mini", baseline="first", stop="looks=2", lake=lake)
    forecast = preview_run(again)[1].stop
    assert forecast is not None
    assert (forecast.reason, forecast.baseline_run_id) == (None, "first")


def test_a_named_baseline_that_can_decide_nothing_is_refused(folder):
    with pytest.raises(InputError, match="--stop: found no case in common with base"):
        evaluate(folder, "worse", range(100, 130), stop="suite", baseline="base")


@pytest.mark.parametrize(
    ("weights", "differences"), [("cases", [0.5, 1.0, None]), ("outputs", [0.25, 0.75, 1.0, None])]
)
def test_a_look_counts_each_case_once_unless_the_rubric_weighs_outputs(tmp_path, weights, differences):
    cases = [{"case_id": case, "position": position} for position, case in enumerate("xyz")]
    (tmp_path / "order.json").write_text(json.dumps(cases))
    order = str(tmp_path / "order.parquet")
    with open_database() as connection:
        connection.execute(f"copy (from '{tmp_path / 'order.json'}') to '{order}' (format parquet)")
        connection.execute(
            "create table compared_outputs as select place, case_id, 'b' as side, true as has_partner, "
            "0.2 as score_low, 0.8 as score_high "
            "from (values (0, 'x'), (1, 'x'), (2, 'y'), (3, 'z')) as outputs (place, case_id)"
        )
        connection.execute(
            "create table compared_pairs as select place, 0.0 as score_a, score_b, true as is_pair "
            "from (values (0, 0.25), (1, 0.75), (2, 1.0), (3, null)) as pairs (place, score_b)"
        )
        rows = read_rows(connection, query("comparing/stop_pairs"), order=[order], weights=weights)
    assert [row["difference"] for row in rows] == differences
    # A missing score has its bounds, so that a look decides only what holds for any of its values.
    assert [row["least"] for row in rows] == [*differences[:-1], 0.2]
    assert [row["most"] for row in rows] == [*differences[:-1], 0.8]
