"""A run as it is opened: what a repeated command means by its deadline, and what is kept when it ends early."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.scoring.judge_sessions import judging
from gradebook.tasks.stages.open_run import opened_run
from tests.support.samples import write_outputs, write_rubric

NOW = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)


@pytest.fixture
def request_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs, a rubric, a judge asked in batches and a panel, in the current folder."""
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
def test_a_deadline_that_had_passed_when_the_command_began_is_none(seconds: int, is_kept: bool):
    deadline = NOW + timedelta(seconds=seconds)
    with opened_run(wanted("batch.yaml", deadline), NOW) as run:
        assert run.request.deadline == (deadline if is_kept else None)


@pytest.mark.usefixtures("request_files")
def test_what_is_to_be_known_of_the_asking_is_kept_when_it_fails():
    with opened_run(wanted("panel.yaml"), NOW) as run:
        run.lake.journal_folder.mkdir(parents=True, exist_ok=True)
        (run.lake.journal_folder / "claims.sqlite").mkdir()
        with pytest.raises(ZeroDivisionError), judging(run, RunPlan(())):
            raise ZeroDivisionError
        assert "claims.sqlite: can't be used" in run.folder.notes[0]
