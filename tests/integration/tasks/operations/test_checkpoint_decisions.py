"""Decisions about checkpoints: their figures, one for each checkpoint, and sweeps for undecided ones."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import InputError, OutputsError
from gradebook.rubrics.statistics.series import Series
from gradebook.tasks.comparing.baseline import pin_reference
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.datasets.discovery import dataset_files, digest_files
from gradebook.tasks.datasets.one_checkpoint import OneCheckpoint
from gradebook.tasks.datasets.row_parser import RowFitter
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.sql import declared_tables
from gradebook.tasks.lake.user_queries import run_query
from gradebook.tasks.operations.checkpoint import CheckpointDecision, Decider, checkpoint_text
from gradebook.tasks.operations.checkpoint_decisions import (
    CheckpointKey,
    approved_checkpoints,
    decide,
    find_decided,
    find_saved,
    key_of,
    list_checkpoints,
    name_checkpoint,
    query_saved,
    without_decision,
)
from gradebook.tasks.runs.request import SeriesOfNights
from tests.support.published_runs import NOW, publish
from tests.support.samples import write_lines
from tests.support.saved_checkpoints import write_brief_rubric, write_checkpoint
from tests.support.scored_lake import make_lake

RULE = "mean_diff < -0.2"
COLUMNS = declared_tables()["checkpoints"].columns


def lake_in(folder: Path):
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


def key(name: str, digest: str = "0") -> CheckpointKey:
    return CheckpointKey("m", name, "brief", "1.0.0", digest)


def decided(
    folder: Path,
    name: str,
    good_count: int,
    more: str = "",
    reference: str | None = None,
    series: SeriesOfNights | None = None,
) -> CheckpointDecision:
    """Publish a run of a checkpoint, and decide."""
    outputs = write_checkpoint(folder / f"{name}.jsonl", good_count)
    request = {
        "run_id": f"run-{name}{more}",
        "baseline": "latest",
        "fail_if": RULE,
        "checkpoint": OneCheckpoint("m", name),
        "series": series,
    }
    summary = publish(outputs, write_brief_rubric(folder), **request)
    asked = key(name, digest_files([outputs]))
    return Decider(lake_in(folder), asked, 7, GateRule(RULE), reference=reference).decide(summary, "report.html")


@dataclass(frozen=True)
class Line:
    """Decisions about successive checkpoints of one training."""

    folder: Path
    decisions: dict[str, CheckpointDecision]

    def row(self, name: str) -> Any:
        return self.decisions[name].row


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """Decisions on four checkpoints, of whose 12 outputs 12, 10, 8 and 2 are brief."""
    folder = tmp_path_factory.mktemp("line")
    counts = {"1": 12, "2": 10, "3": 8, "4": 2}
    return Line(folder, {name: decided(folder, name, count) for name, count in counts.items()})


def test_a_first_checkpoint_is_approved_if_its_rubric_is_met(line):
    row = line.row("1")
    assert (row["status"], row["reasons"], row["mean"]) == ("approved", [], 1.0)
    assert (row["latest_run_id"], row["best_run_id"], row["best_diff"]) == (None, None, None)


def test_a_checkpoint_that_the_rule_allows_is_approved_after_the_comparison_with_the_last_one(line):
    row = line.row("2")
    assert (row["status"], row["latest_run_id"], row["best_run_id"]) == ("approved", "run-1", "run-1")
    assert row["best_diff"] == pytest.approx(-1 / 6)


def test_a_slow_decline_is_found_by_comparison_with_the_best(line):
    # each step loses 1/6, which the rule allows; from the best to the third it is 1/3 in total
    row = line.row("3")
    assert (row["latest_run_id"], row["best_run_id"]) == ("run-2", "run-1")
    # the means 1 and 5/6 have the variance 1/72; 4 of 12 cases fell by 1, so the noise is (4/9 - 16/144) / 11 / 2 of it
    luck = (1 - 11 / 12) * ((4 / 12 - 16 / 144) / 11 / 2) / (1 / 72)
    assert row["best_diff"] == pytest.approx(-1 / 3 + luck)
    (reason,) = row["reasons"]
    assert reason.startswith(f"against the best, 1 (run-1): gate failed: required not ({RULE}), found ")


@pytest.mark.nightly
def test_a_series_spends_alpha_over_the_checkpoints_of_a_model(line, tmp_path):
    # Bonferroni over 4 looks: p of each comparison x 4; and x 2 where the best was chosen from two
    copied = Path(shutil.copytree(line.folder, tmp_path / "copied"))
    series = SeriesOfNights(Series(0.05, "bonferroni", 4), "branch")
    plain = decided(Path(shutil.copytree(line.folder, tmp_path / "plain")), "5", 6)
    first, second = (decided(copied, name, 6, series=series) for name in ("5", "6"))
    assert first.row["best_p"] == pytest.approx(min(1.0, 4 * plain.row["best_p"]))
    select = "select settings ->> '$.series.look' as look from runs where run_id in ('run-5', 'run-6') order by run_id"
    assert run_query(lake_in(copied), select).column("look").to_pylist() == ["1", "2"]
    assert second.row["best_p"] is not None


@pytest.mark.nightly
def test_a_reference_replaces_the_best(line, tmp_path):
    copied = Path(shutil.copytree(line.folder, tmp_path / "copied"))
    found = decided(copied, "5", 9, reference="2")
    assert (found.row["status"], found.row["best_run_id"]) == ("approved", "run-2")
    # 9 of 12 against 10 of 12, chosen from nothing; against the best, 12 of 12, the rule would refuse it
    assert found.row["best_diff"] == pytest.approx(-1 / 12)
    (reason,) = decided(copied, "6", 12, reference="9").row["reasons"]
    assert reason.endswith("found no approved checkpoint 9 that the same judge scored")


@pytest.mark.nightly
def test_a_checkpoint_is_compared_with_its_series_or_the_reference_and_no_night(tmp_path):
    rubric, lake = write_brief_rubric(tmp_path), lake_in(tmp_path)
    rows = [{"case_id": "c0", "model": name, "output": "yes"} for name in "xy"]
    publish(write_lines(tmp_path / "two.jsonl", rows), rubric, run_id="two")  # of two models, neither of which is m
    pin_reference(lake, "two", None, NOW)
    publish(write_checkpoint(tmp_path / "night.jsonl", 12), rubric, run_id="night")
    found = decided(tmp_path, "1", 11)
    assert (found.row["status"], found.row["latest_run_id"]) == ("undecided", None)
    assert found.row["reasons"][0].startswith(f"gate undecided: required not ({RULE}), found no comparison: run two ")
    pin_reference(lake, "night", None, NOW)
    again = decided(tmp_path, "1", 11, "-again")
    assert (again.row["status"], again.latest.baseline_run_id) == ("approved", "night")
    assert [row["run_id"] for row in list_checkpoints(lake)] == ["run-1-again"]
    assert decided(tmp_path, "2", 10).row["latest_run_id"] == "run-1-again"


def test_every_reason_is_listed_once(line):
    reasons = line.row("4")["reasons"]
    assert [reason.partition(":")[0] for reason in reasons] == [
        "m @ 4",  # mean 0.167, expected at least 0.25
        "gate failed",
        "against the best, 1 (run-1)",
    ]


def test_a_reason_is_listed_once_if_the_last_run_is_the_best(line):
    found = line.decisions["2"]
    assert found.best is found.latest
    assert checkpoint_text(found).count("#### ") == 2


def test_the_text_of_a_decision_has_the_status_and_the_reasons(line):
    text = checkpoint_text(line.decisions["3"])
    assert text.startswith("#### m @ 3: needs revision\n\nBy brief 1.0.0, run run-3; mean 0.667.\n\n- against the best")
    assert text.count("#### ") == 3


def test_a_decision_is_read_back_with_its_comparisons(line):
    made, lake = line.decisions["3"], lake_in(line.folder)
    asked = key_of(made.row)
    read = Decider(lake, asked, 7, GateRule(RULE)).read(find_decided(lake, asked), "report.html")
    assert (made.is_new, read.is_new) == (True, False)
    assert read.as_json() == made.as_json()


def test_the_gate_s_event_has_differences_with_intervals(line):
    told = line.decisions["3"].as_json()
    overall = told["differences"]["best"]["rows"][0]
    assert (overall["scope"], overall["mean_diff"]) == ("overall", pytest.approx(-1 / 3))
    assert overall["diff_low"] < overall["mean_diff"] < overall["diff_high"]
    # 4 of 12 cases fell by 1. A quarter of further cases that rise by 1 would make up for it: 12 cases show none of
    # them with a chance of 0.75^12 on one side. The best was chosen from two checkpoints, so p counts twice.
    assert overall["p"] == pytest.approx(2 * 2 * 0.75**12)
    assert (told["differences"]["latest"]["run_id"], told["step"], told["report"]) == ("run-2", 7, "report.html")


@pytest.mark.nightly
def test_a_checkpoint_is_never_compared_with_itself(line, tmp_path):
    copied = Path(shutil.copytree(line.folder, tmp_path / "copied"))
    assert decided(copied, "4", 3, "again").row["latest_run_id"] == "run-3"  # other outputs of the same checkpoint


@pytest.mark.nightly
def test_the_first_checkpoint_of_a_model_is_decided_by_its_rubric_alone(line, tmp_path):
    copied = Path(shutil.copytree(line.folder, tmp_path / "copied"))
    outputs = write_checkpoint(copied / "n.jsonl", 9, model="n")
    request = {"run_id": "run-n", "baseline": "latest", "fail_if": RULE, "checkpoint": OneCheckpoint("n", "1")}
    assert publish(outputs, write_brief_rubric(copied), **request).unmet == ()


def row_of(name: str, status: str = "approved", mean: float | None = 0.5, **columns: Any) -> dict[str, Any]:
    row = dict.fromkeys(COLUMNS) | {"model": "m", "checkpoint": name, "rubric_id": "brief", "rubric_version": "1.0.0"}
    row |= {"status": status, "mean": mean, "reasons": [], "run_id": f"run-{name}", "dataset_digest": "0"}
    return row | {"decided_at": NOW} | columns


def test_the_best_is_the_approved_one_with_the_highest_mean_and_never_itself(lake):
    rows = [row_of("low", mean=0.1), row_of("high", mean=0.9), row_of("none", mean=None)]
    rows.append(row_of("bad", "needs_revision", 1.0))
    for row in [*rows, row_of("n", model="n", mean=1.0), row_of("v2", rubric_version="2.0.0", mean=1.0)]:
        decide(lake, row)
    assert [row["checkpoint"] for row in approved_checkpoints(lake, key("next"))] == ["high", "low"]
    (other,) = approved_checkpoints(lake, key("high", "other outputs of it"))
    assert other["checkpoint"] == "low"


def test_an_earlier_decision_is_final(lake):
    assert find_decided(lake, key("1")) is None
    assert decide(lake, row_of("1"))["run_id"] == "run-1"
    kept = decide(lake, row_of("1", "needs_revision", run_id="later"))
    assert (kept["status"], kept["run_id"]) == ("approved", "run-1")
    assert [row["run_id"] for row in list_checkpoints(lake)] == ["run-1"]
    assert find_decided(lake, key("1", "other outputs")) is None


def test_two_concurrent_decisions_store_one(lake):
    with ThreadPoolExecutor(4) as threads:
        kept = list(threads.map(lambda number: decide(lake, row_of("1", run_id=f"run-{number}"))["run_id"], range(4)))
    assert len(set(kept)) == len(list_checkpoints(lake)) == 1


@pytest.mark.parametrize(
    ("columns", "named", "expected"),
    [
        ({"checkpoint": 1200}, {}, "1200"),
        ({"checkpoint": "a"}, {"step": 3}, "a"),
        ({"checkpoint": "a"}, {"checkpoint": "b", "step": 3}, "b"),
        ({}, {"step": 3}, "3"),
    ],
)
def test_a_checkpoint_is_named_by_its_option_its_outputs_or_its_step(tmp_path, columns, named, expected):
    outputs = write_checkpoint(tmp_path / "o.jsonl", 6, **columns)
    assert name_checkpoint(dataset_files(str(outputs)), {}, **named) == expected


def test_outputs_of_an_unnamed_checkpoint_are_refused(tmp_path):
    outputs = write_checkpoint(tmp_path / "o.jsonl", 6)
    with pytest.raises(OutputsError, match=r"o\.jsonl: found no column `checkpoint`, no --checkpoint"):
        name_checkpoint([outputs], {})


def test_rows_without_a_checkpoint_get_it_and_rows_of_another_do_not_fit():
    fitter = RowFitter({}, checkpoint=OneCheckpoint("m", "7"))
    row = {"case_id": "c", "model": "m", "output": "yes"}
    assert [fitter.fit(row | more, "jsonl").checkpoint for more in ({}, {"checkpoint": None}, {"checkpoint": 7})] == [
        *("7", "7", "7")
    ]
    assert fitter.fit(row | {"checkpoint": "8"}, "jsonl") == "found the checkpoint '8', expected '7' or none"
    assert fitter.fit(row | {"model": "n"}, "jsonl") == "found the model 'n', expected 'm'"


@pytest.mark.nightly
def test_the_same_file_of_two_checkpoints_is_two_runs(tmp_path):
    outputs, rubric = write_checkpoint(tmp_path / "o.jsonl", 6), write_brief_rubric(tmp_path)
    runs = [publish(outputs, rubric, checkpoint=OneCheckpoint("m", name)) for name in ("1", "2")]
    assert [run.scores[0]["checkpoint"] for run in runs] == ["1", "2"]


def test_a_sweep_finds_undecided_checkpoints_in_the_order_of_steps(tmp_path):
    folder = tmp_path / "saved"
    digest = digest_files([write_checkpoint(folder / "step-100.jsonl", 6)])
    decide(make_lake(tmp_path), row_of("100", dataset_digest=digest))
    for step in (1000, 200):
        write_checkpoint(folder / f"step-{step}.jsonl", 7)
    (folder / "notes.md").write_text("none of it", encoding="utf-8")
    found = find_saved(str(folder), "m")
    assert [saved.step for saved in found] == [100, 200, 1000]
    left = without_decision(lake_in(tmp_path), str(write_brief_rubric(tmp_path)), found, {})
    assert [saved.step for saved in left] == [200, 1000]


def test_a_pattern_names_model_and_checkpoint_by_the_path(tmp_path):
    write_checkpoint(tmp_path / "m" / "sft-2" / "eval.jsonl", 6)
    write_checkpoint(tmp_path / "m" / ".hidden" / "eval.jsonl", 6)
    (found,) = find_saved(str(tmp_path), None, "{model}/{checkpoint}/eval.*")
    assert (found.model, found.checkpoint, found.step) == ("m", "sft-2", None)


def test_outputs_that_cannot_be_read_stay_in_the_sweep_with_their_fault(tmp_path):
    folder = tmp_path / "saved"
    write_checkpoint(folder / "step-1.jsonl", 6)
    (folder / "step-2.parquet").write_bytes(b"half a file")
    found = without_decision(lake_in(tmp_path), str(write_brief_rubric(tmp_path)), find_saved(str(folder), "m"), {})
    assert [(saved.step, saved.fault is None) for saved in found] == [(1, True), (2, False)]


def test_a_query_names_checkpoints(lake, tmp_path):
    outputs = write_checkpoint(tmp_path / "new.jsonl", 6)
    query = f"select 'm' as model, 300 as step, '{outputs}' as outputs"
    (found,) = query_saved(lake, query)
    assert (found.model, found.checkpoint, found.step, found.outputs) == ("m", None, 300, str(outputs))
    with pytest.raises(InputError, match="--query: found the columns model, outputs, expected model, outputs, and"):
        query_saved(lake, f"select 'm' as model, '{outputs}' as outputs")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{epoch}.jsonl", r"found \{epoch\}, expected \{model\}, \{checkpoint\} and \{step\}"),
        ("outputs.jsonl", r"expected \{checkpoint\} or \{step\} in it"),
        ("{step}.jsonl", "no --model"),
    ],
)
def test_an_invalid_pattern_is_refused(tmp_path, pattern, words):
    with pytest.raises(InputError, match=words):
        find_saved(str(tmp_path), None, pattern)


def test_two_files_of_one_checkpoint_are_refused(tmp_path):
    for part in ("a", "b"):
        write_checkpoint(tmp_path / "step-7" / f"{part}.jsonl", 6)
    with pytest.raises(InputError, match=r"both of m @ 7, expected one file for each checkpoint; a --pattern"):
        find_saved(str(tmp_path), "m", "step-{step}/*.jsonl")
    (found,) = find_saved(str(tmp_path), "m", "step-{step}")
    assert found.outputs == str(tmp_path / "step-7")
