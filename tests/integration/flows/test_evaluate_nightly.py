"""A nightly run from its suites file to its final state, with the outcome of each suite."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback_judge import LoopbackJudge, level_reply
from tests.support.samples import query, write_outputs, write_rubric

CHECKS = """
id: {id}
version: 1.0.0
pass_threshold: {threshold}
criteria:
  - id: length
    description: Short.
    weight: 1
    method: {{type: check, check: length_words, settings: {{max: {max}}}}}
"""
NIGHT = """
lake: sqlite:lake/catalog.sqlite
defaults: {outputs: "{date}.jsonl"}
suites:
  - {id: gone, rubric: none.yaml}
  - {id: strict, rubric: strict.yaml}
  - {id: mild, rubric: mild.yaml}
"""
JUDGED = """
budget_usd: 0.000001
defaults: {outputs: 2026-11-21.jsonl}
suites:
  - {id: judged, rubric: rubric.yaml, judge: gpt-4o-mini}
  - {id: mild, rubric: mild.yaml}
"""

WATCHED = """
suites:
  - id: watched
    outputs: many.jsonl
    rubric: rubric.yaml
    judge: judge.yaml
    anchors: {set: short_answer, per_night: 20, reference: 1, fail: true}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Outputs of two nights, two rubrics with checks only (one always fails, one always passes), and suites."""
    write_outputs(tmp_path / "2026-11-21.jsonl", models=("small",))
    write_outputs(tmp_path / "2026-11-22.jsonl", count=7, models=("small",))
    for name, threshold, most in (("strict", 1, 1), ("mild", 0.5, 50)):
        text = CHECKS.format(id=name, threshold=threshold, max=most)
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    write_rubric(tmp_path / "rubric.yaml")
    write_outputs(tmp_path / "many.jsonl", count=20, models=("small",))
    (tmp_path / "judge.yaml").write_text("{model: stub, prices: {input_usd: 1, output_usd: 1}}", encoding="utf-8")
    for name, text in (("night", NIGHT), ("judged", JUDGED)):
        (tmp_path / f"{name}.suites.yaml").write_text(text, encoding="utf-8")
    return tmp_path


async def read_night(name: str) -> tuple[Any, list[str]]:
    """State of the last flow run of that name, and its artifacts under the key of the suites file."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    chosen = FlowRunFilter(name=FlowRunFilterName(any_=[name]))
    async with get_client() as client:
        runs = await client.read_flow_runs(flow_run_filter=chosen)
        last = max(runs, key=lambda run: run.end_time)
        artifacts = await client.read_artifacts(flow_run_filter=FlowRunFilter(id={"any_": [last.id]}))
    return last.state, [str(each.data) for each in artifacts if each.key == "night-nightly"]


@pytest.mark.nightly
def test_a_failed_suite_is_named_and_its_next_night_is_compared(gradebook, folder):
    suites = folder / "night.suites.yaml"
    ended = gradebook("suite", "nightly", suites, "--date", "2026-11-21", "--json")
    assert ended.code == 3, ended.err
    assert [(end["suite"], end["is_met"], end["fault"] is None) for end in ended.json["suites"]] == [
        ("gone", False, False),
        ("strict", False, True),
        ("mild", True, True),
    ]
    rows = query(gradebook, "select rubric_id, trigger, status from runs order by all")
    assert [(row["rubric_id"], row["trigger"], row["status"]) for row in rows] == [
        ("mild", "nightly", "published"),
        ("strict", "nightly", "published"),
    ]
    assert "2 of 3 suites published; gates not met by strict; not finished: gone (" in ended.json["sentence"]
    second = gradebook(
        "suite", "nightly", suites, "--date", "2026-11-22", "--only", "mild", "--only", "strict", "--json"
    )
    assert second.code == 1, second.err
    assert [end["means"][0]["before"] for end in ended.json["suites"][1:]] == [None, None]
    (strict, mild) = (end["means"][0] for end in second.json["suites"])
    # every answer has 7 words: a limit of 1 fails all, a limit of 50 passes all
    assert (strict["mean"], strict["before"], strict["difference"]) == (0, 0, 0)  # its model never met its gates
    assert (mild["mean"], mild["before"], mild["difference"]) == (1, 1, 0)
    assert gradebook("suite", "nightly", suites, "--date", "2026-11-22", "--only", "mild").code == 0
    gone = gradebook("suite", "nightly", suites, "--date", "2026-11-22", "--only", "gone")
    told = f"mend what stopped gone, then go on with the unfinished suites alone:\n  gradebook suite nightly {suites} "
    assert (gone.code, f"{told}--date 2026-11-22 --only gone\n" in gone.err) == (2, True), gone.err


@pytest.mark.server
def test_a_night_on_a_server_ends_in_a_state_with_its_sentence_and_leaves_an_artifact(gradebook, folder):
    suites = folder / "night.suites.yaml"
    assert gradebook("suite", "nightly", suites, "--date", "2026-11-21").code == 3
    state, (artifact,) = asyncio.run(read_night("night 2026-11-21"))
    assert state.is_failed()
    assert "2 of 3 suites published; gates not met by strict; not finished: gone (" in state.message
    assert "none.yaml" in artifact
    assert gradebook("suite", "nightly", suites, "--date", "2026-11-22", "--only", "mild", "--only", "strict").code == 1
    state, (artifact,) = asyncio.run(read_night("night 2026-11-22: gates not met"))
    assert (state.name, state.is_completed()) == ("GatesNotMet", True)
    assert state.message == "2 of 2 suites published; gates not met by strict"
    assert "| mild | may ship | small | 1.000 | length 1.000 | 1.000 | +0.000 | $0 |" in artifact


@pytest.mark.nightly
def test_a_nightly_budget_is_not_exceeded_and_a_suite_without_costs_is_published(gradebook, judge, folder):
    ended = gradebook("suite", "nightly", folder / "judged.suites.yaml", "--json")
    assert ended.code == 3, ended.err
    judged, mild = ended.json["suites"]
    assert (judged["cost_usd"], judged["run_id"] is None, mild["fault"]) == (0, False, None)
    assert "budget" in judged["fault"]
    assert judge.request_count == 0
    kept = json.loads((folder / "lake" / "runs" / judged["run_id"] / "request.json").read_text(encoding="utf-8"))
    words = ["gradebook", "suite", "nightly", str(folder / "judged.suites.yaml"), "--only", "judged", "--date"]
    assert kept["words"][:-1] == words  # the resume command


@pytest.mark.nightly
def test_a_night_without_a_key_exits_as_an_evaluation_does(gradebook, folder, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    ended = gradebook("suite", "nightly", "judged.suites.yaml", "--only", "judged")
    assert (ended.code, "judged: https://api.openai.com/v1: found no key in OPENAI_API_KEY" in ended.out) == (2, True)
    assert query(gradebook, "select run_id from runs") == []  # as after `evaluate`


def test_a_wrong_suites_file_exits_with_2_and_creates_no_lake(gradebook, folder):
    (folder / "night.suites.yaml").write_text("suites: []", encoding="utf-8")
    ended = gradebook("suite", "nightly", "night.suites.yaml")
    assert (ended.code, (folder / "lake").exists()) == (2, False)
    assert ended.err.startswith("gradebook: night.suites.yaml:1: suites: found an empty list")


@pytest.mark.parametrize(("option", "value"), [("--only", "third"), ("--date", "tomorrow")])
def test_an_unknown_suite_or_date_exits_with_2(gradebook, folder, option, value):
    ended = gradebook("suite", "nightly", "night.suites.yaml", option, value)
    assert (ended.code, f"{option}: found '{value}'" in ended.err) == (2, True)


def test_a_dry_run_lists_the_suites_with_their_outputs_and_faults(gradebook, folder):
    ended = gradebook("suite", "nightly", "night.suites.yaml", "--date", "2026-11-22", "--dry-run", "--json")
    rows = [(row["suite"], row["output_count"], row["cost_usd"]) for row in json.loads(ended.out)["suites"]]
    assert (ended.code, (folder / "lake").exists()) == (2, False)
    assert rows == [("gone", None, None), ("strict", 7, 0), ("mild", 7, 0)]


def test_a_dry_run_notes_a_budget_that_is_too_small_for_a_suite_and_for_all(gradebook, folder):
    ended = gradebook("suite", "nightly", "judged.suites.yaml", "--dry-run")
    first, second = [line for line in ended.err.splitlines() if line.startswith("note: ")]
    assert first.startswith("note: judged: budget: a reply alone could cost")
    assert "a larger `budget_usd` in the suites file" in first
    assert second.startswith("note: budget: all suites are estimated at")


@pytest.mark.nightly
def test_a_night_says_whether_the_judge_or_the_system_changed(gradebook, folder, monkeypatch):
    with LoopbackJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        judge.writer = lambda body: level_reply(body, "It is understood at first reading.")
        suites = folder / "watched.suites.yaml"
        suites.write_text(WATCHED, encoding="utf-8")
        nights = [gradebook("suite", "nightly", suites, "--date", "2026-11-20", "--json")]
        made = gradebook("judge", "anchors", "make", nights[0].json["suites"][0]["run_id"], "--n", "20", "--json")
        assert (made.json["anchor_set"], made.json["output_count"]) == ("short_answer", 20)
        priced = gradebook("suite", "nightly", suites, "--date", "2026-11-21", "--dry-run", "--json")
        assert priced.json["suites"][0]["anchors"]["question_count"] == 20
        nights += [gradebook("suite", "nightly", suites, "--date", f"2026-11-{day}", "--json") for day in (21, 22)]
        judge.writer = lambda body: level_reply(body, "It can't be understood.")
        nights.append(gradebook("suite", "nightly", suites, "--date", "2026-11-23", "--json"))
    assert [night.code for night in nights] == [0, 0, 0, 1], [night.err for night in nights]
    said = [night.json["suites"][0]["judge"] for night in nights]
    assert said[0].startswith("the judge was not watched: anchors: found no anchor set 'short_answer' in the lake")
    taken = "the reference of judge epoch 1 of stub is stored; its later nights are compared with it (20 outputs, "
    assert said[1].startswith(taken)
    assert said[2].startswith("no sign that stub changed")
    assert said[2].endswith("neither the outputs' scores nor the anchors' moved beyond chance")
    assert said[3].startswith("the judge stub changed: it scores the same outputs differently on clarity (-1.000 from")
    assert query(gradebook, "select judge_epoch from runs order by version") == [
        {"judge_epoch": epoch} for epoch in (None, 1, 1, 2)
    ]
    status = gradebook("status")
    assert status.code == 0  # the nights are of the past
    assert "drifted" in status.out + status.err
