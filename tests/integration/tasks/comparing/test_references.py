"""The run that a word of --baseline means: six nights of a suite, of which two fail, and pinned references."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.comparing.baseline import (
    BaselineSearch,
    Choice,
    choose_baseline,
    clear_reference,
    list_references,
    pin_reference,
    refuse_baseline,
)
from gradebook.tasks.comparing.compare import ComparisonOptions, compare_runs
from gradebook.tasks.comparing.expected_power import expect_margin
from gradebook.tasks.comparing.gate import GateRule
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.published.summary import RunSummary, failed_models, summarise
from gradebook.tasks.rubric_store.versions import find_rubric
from gradebook.tasks.runs.request import BEST, LATEST_MET, REFERENCE, EvaluationRequest
from gradebook.tasks.workspace.folder import LATEST
from tests.support.published_runs import NOW, publish
from tests.support.saved_checkpoints import write_brief_rubric, write_checkpoint

pytestmark = pytest.mark.nightly
RULE = "mean_diff < -0.1"
GOOD = (12, 11, 9, 8, 12, 11)  # of 12 cases: two nights of a slow fall fail, the fifth is the mend


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    rubric = write_brief_rubric(folder)
    for day, count in enumerate(GOOD, 1):
        outputs = write_checkpoint(folder / f"{day}.jsonl", count)
        asked: dict[str, Any] = {"suite": "s", "night": date(2026, 11, day), "run_id": f"n{day}"}
        publish(outputs, rubric, baseline=LATEST_MET, fail_if=RULE, **asked)
    return folder


def lake_in(folder: Path) -> Lake:
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


def search_on(folder: Path, night: int) -> BaselineSearch:
    """Search of a run of the suite on a night."""
    with connect(lake_in(folder), read_only=True) as connection:
        ((digest,),) = connection.execute("select rubric_digest from runs where run_id = 'n1'").fetchall()
    return BaselineSearch("x", "brief", "s", f"2026-11-{night:02}", rubric_digest=digest)


def choose(folder: Path, search: BaselineSearch, asked: str) -> Choice:
    with connect(lake_in(folder), read_only=True) as connection:
        groups = folder / "groups.parquet"
        connection.execute(f"copy (select 'm' as model, null::varchar as checkpoint) to '{groups}' (format parquet)")
        return choose_baseline(connection, lake_in(folder), [str(groups)], search, asked, failed_models)


def test_a_failed_night_is_no_baseline_until_the_fall_is_mended(folder):
    nights: list[RunSummary] = [summarise(lake_in(folder), f"n{day}") for day in range(1, 7)]
    baselines = [json.loads(each.run["settings"])["baseline_run_id"] for each in nights]
    assert baselines == [None, "n1", "n2", "n2", "n2", "n5"]
    assert [each.is_met for each in nights] == [True, True, False, False, True, True]
    (first,) = nights[0].run["notes"]
    assert first == "no earlier run of brief has a model in common: no comparison, and --fail-if is not checked"
    assert "compared with n2, as 2 later runs did not meet their gates" in nights[4].run["notes"]
    # the mend is 12 of 12 against 11, not against the 8 of the failed night
    assert nights[4].comparison is not None
    assert nights[4].comparison.figures[0]["mean_diff"] == pytest.approx(1 / 12)
    # compared with the night before, the fourth would pass
    gate = compare_runs(lake_in(folder), "n3", "n4", ComparisonOptions(gate=GateRule(RULE), resample_count=0)).gate
    assert gate is not None
    assert not gate.is_failed


def test_each_word_chooses_its_run(folder):
    search = search_on(folder, 7)
    assert [choose(folder, search, word).run_id for word in (LATEST, LATEST_MET, "n3")] == ["n6", "n6", "n3"]
    best = choose(folder, search, BEST)
    assert (best.run_id, best.chosen_from) == ("n5", 4)  # the newer of two with 12 of 12; four of six met their gates
    assert choose(folder, search_on(folder, 5), LATEST_MET).run_id == "n2"
    assert choose(folder, replace(search, rubric_digest="another"), BEST) == Choice(
        None, note="no earlier run is of the same rubric version and judge"
    )
    assert choose(folder, replace(search, suite="other"), LATEST) == Choice(None)


def test_latest_prefers_a_run_over_outputs_of_the_same_name(folder):
    search = BaselineSearch("x", "brief", dataset=str(folder / "2.jsonl"))
    assert choose(folder, search, LATEST).run_id == "n2"
    assert choose(folder, replace(search, dataset="new.jsonl"), LATEST).run_id == "n6"


def test_a_pinned_reference_is_the_baseline_of_its_rubric_or_suite(folder):
    lake, search = lake_in(folder), search_on(folder, 7)
    request = EvaluationRequest("o.jsonl", "brief", baseline=REFERENCE, suite="s")
    with pytest.raises(InputError, match="--baseline: found reference, and none of brief is pinned"):
        refuse_baseline(lake, find_rubric("brief@1.0.0", lake), None, request)
    pin_reference(lake, "n1", None, NOW)
    assert choose(folder, search, REFERENCE).run_id == "n1"
    pin_reference(lake, "n3", "s", NOW)
    pin_reference(lake, "n2", "s", NOW)  # in place of n3
    others = replace(search, suite="other")
    assert [choose(folder, each, REFERENCE).run_id for each in (search, others)] == ["n2", "n1"]
    assert [(row["suite"], row["run_id"]) for row in list_references(lake)] == [(None, "n1"), ("s", "n2")]
    assert clear_reference(lake, "brief", "s")["run_id"] == "n2"
    assert choose(folder, search, REFERENCE).run_id == "n1"
    for wrong in (lambda: pin_reference(lake, "none", None, NOW), lambda: clear_reference(lake, "brief", "s")):
        with pytest.raises(InputError):
            wrong()


def test_what_a_gate_can_show_is_by_the_last_comparison_of_the_suite(folder):
    found = expect_margin(lake_in(folder), "s")
    assert (found.n, found.source) == (12, "by the differences between n5 and n6")
    # so few cases can't rule out a loss in 26% of them, 1 - 0.025^(1/12), whatever they show
    assert found.shown > 0.26
    assert found.needed_n is not None
    assert found.needed_n > 12
    of_many = expect_margin(lake_in(folder), "brief", 300)
    assert of_many.shown < found.shown
    of_look = expect_margin(lake_in(folder), "brief", 300, factor=10)  # of a series, or the best of ten runs
    assert of_look.shown > of_many.shown
    assert "at level 0.005, which the series or the choice of the best leaves" in of_look.sentence
    with pytest.raises(InputError, match="--for: found 'other', expected a suite or a rubric"):
        expect_margin(lake_in(folder), "other")


NIGHTS = {
    "one model never met its gates": ([("a",), ("a",), (), ("a",), ("a",)], [None, 1, 2, 2, 4], "b"),
    "no model ever did": ([(), (), ()], [None, 1, 2], "a and b"),
    "each did, on different nights": ([("a",), ("b",), ()], [None, 1, 1], "b"),  # a fall on night 2 stays one
    "one did once": ([("a", "b"), ("a",), ("a",)], [None, 1, 1], ""),
}


@pytest.mark.parametrize("name", NIGHTS)
def test_a_model_that_never_met_its_gates_leaves_the_others_their_baseline(tmp_path, name):
    nights, expected, failed = NIGHTS[name]
    rubric, lines, baselines = write_brief_rubric(tmp_path), [], []
    for day, good in enumerate(nights, 1):
        files = [
            write_checkpoint(tmp_path / f"{day}{model}.jsonl", 12 * (model in good), model=model) for model in "ab"
        ]
        outputs = tmp_path / f"{day}.jsonl"
        outputs.write_text("".join(file.read_text(encoding="utf-8") for file in files), encoding="utf-8")
        night = publish(outputs, rubric, baseline=LATEST_MET, suite="s", night=date(2026, 11, day), run_id=f"n{day}")
        baselines.append(json.loads(night.run["settings"])["baseline_run_id"])
        lines.append(night.verdict.lines[2])
    assert baselines == [None if night is None else f"n{night}" for night in expected]
    ends = [line.partition(" did not meet the gates of ")[2].split(";")[0].rstrip(".") for line in lines]
    assert ends[-1] == failed


OPTIONAL = """  - id: tone
    description: Is it kind?
    required: false
    method: {type: ratings}
    levels: [{id: unkind, score: 0}, {id: kind, score: 1}]
"""


def test_a_night_is_unchanged_although_nobody_rated_an_optional_criterion(tmp_path):
    rubric = write_brief_rubric(tmp_path)
    rubric.write_text(rubric.read_text(encoding="utf-8") + OPTIONAL, encoding="utf-8")
    files = [write_checkpoint(tmp_path / f"{model}.jsonl", 12 * (model == "a"), model=model) for model in "ab"]
    outputs = tmp_path / "o.jsonl"
    outputs.write_text("".join(file.read_text(encoding="utf-8") for file in files), encoding="utf-8")
    publish(outputs, rubric, run_id="first")
    lines = publish(outputs, rubric, run_id="second", baseline="first", require="not_worse_by(0.02)").verdict.lines
    assert lines == (
        "a may ship; b may not ship.",
        "b: the mean is 0.000 (needs 0.25).",
        "Every output and verdict is that of first.",
    )
