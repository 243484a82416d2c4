"""Opening of a run: deadlines of repeated commands, and notes of a run that ends early."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.scoring.shards import judging
from gradebook.tasks.stages.open_run import opened_run
from gradebook.tasks.stages.pipeline import MOST_STAGES, complete_run, plan_evaluation
from gradebook.tasks.stages.submit import Stages
from tests.support.samples import write_lines, write_outputs, write_rubric

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)


@pytest.fixture
def request_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write outputs, a rubric, a judge with batch requests and a panel into the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    write_outputs(tmp_path / "outputs.jsonl", count=1)
    write_rubric(tmp_path / "rubric.yaml")
    (tmp_path / "batch.yaml").write_text("model: m\nmode: batch\n")
    (tmp_path / "panel.yaml").write_text("panel: [a, b]\n")


def wanted(judge: str, deadline: datetime | None = None) -> EvaluationRequest:
    return EvaluationRequest("outputs.jsonl", "rubric.yaml", judge=judge, deadline=deadline)


@pytest.mark.parametrize(("seconds", "is_kept"), [(-1, False), (0, False), (1, True)])
@pytest.mark.usefixtures("request_files")
def test_a_deadline_in_the_past_is_ignored(seconds: int, is_kept: bool):
    deadline = NOW + timedelta(seconds=seconds)
    with opened_run(wanted("batch.yaml", deadline), NOW) as run:
        assert run.request.deadline == (deadline if is_kept else None)


@pytest.mark.usefixtures("request_files")
def test_request_notes_are_stored_when_a_run_fails():
    with opened_run(wanted("panel.yaml"), NOW) as run:
        run.lake.journal_folder.mkdir(parents=True, exist_ok=True)
        (run.lake.journal_folder / "claims.sqlite").mkdir()
        with pytest.raises(ZeroDivisionError), judging(run, RunPlan(())):
            raise ZeroDivisionError
        assert "claims.sqlite: can't be used" in run.folder.notes[0]


# -------- a resumed run
@pytest.mark.usefixtures("request_files")
def test_a_resumed_run_counts_its_rows_once_and_its_own_criteria_are_no_gates():
    brief = {"description": "Short.", "method": {"type": "check", "check": "length_words", "settings": {"max": 9}}}
    own = [{"id": "brief", **brief}, {"id": "strict", "gate": True, **brief}]
    rows = [{"case_id": f"c{n}", "model": "m", "output": f"Answer {n}.", "criteria": own} for n in range(4)]
    write_lines(Path("own.jsonl"), rows)
    asked = EvaluationRequest("own.jsonl", "none", lake="sqlite:lake/catalog.sqlite", run_id="resumed")
    for _ in range(2):
        with opened_run(asked, NOW) as run:
            plan_evaluation(run, Stages())
    with opened_run(asked, NOW) as run:
        summary = complete_run(run, Stages())
    counts = {row["stage"]: row["row_count"] for row in summary.costs if row["stage"] in ("ingest", "plan")}
    assert counts == {"ingest": 4, "plan": 4}
    assert {row["criterion_id"]: row["is_gate"] for row in summary.criteria} == {"brief": False, "strict": True}


@pytest.mark.usefixtures("request_files")
def test_an_unfinished_run_of_a_night_is_resumed_by_its_night_alone():
    by_hand = wanted("batch.yaml")
    night = replace(by_hand, suite="answers", night=date(2026, 11, 20))
    found = []
    for asked in (night, by_hand, replace(night, night=date(2026, 11, 21)), replace(night, suite="other"), night):
        with opened_run(asked, NOW) as run:
            found.append(run.run_id)
    assert (found[-1], len(set(found))) == (found[0], 4)


# -------- many criteria
@pytest.mark.nightly
@pytest.mark.usefixtures("request_files")
def test_criteria_that_share_stages_each_have_their_verdicts():
    words = [f"word{place}" for place in range(2 * MOST_STAGES + 1)]
    check = {"type": "check", "check": "contains"}
    criteria = [
        {
            "id": word,
            "description": word,
            "weight": 1,
            "method": check | {"settings": {"any": [word], "whole_word": True}},
        }
        for word in words
    ]
    Path("many.json").write_text(json.dumps({"id": "many", "version": "1.0.0", "criteria": criteria}))
    write_lines(Path("many.jsonl"), [{"case_id": "c", "model": "m", "output": " ".join(words[1::2])}])
    with opened_run(EvaluationRequest("many.jsonl", "many.json", has_page=False), NOW) as run:
        summary = complete_run(run, Stages())
    assert {row["criterion_id"]: row["mean"] for row in summary.criteria} == {
        word: place % 2 for place, word in enumerate(words)
    }
