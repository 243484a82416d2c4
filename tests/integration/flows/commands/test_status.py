"""`gradebook status`: running, interrupted, published and failed runs."""

import fcntl
import json
import shlex
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.published.status import read_status
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.runs.resume_command import command_to_resume, store_command
from gradebook.tasks.system.files import write_text
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.published_runs import publish
from tests.support.samples import write_outputs, write_rubric

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a lake with one published run, without a judge."""
    folder = tmp_path_factory.mktemp("published")
    publish(write_outputs(folder / "outputs.jsonl"), write_rubric(folder / "rubric.yaml"), run_id="first")
    write_text(folder / "lake" / "runs" / "first" / "published.json", "{}")
    return folder / "lake"


@pytest.fixture
def lake(published: Path, tmp_path: Path) -> Path:
    """Copy of `published`."""
    return Path(shutil.copytree(published, tmp_path / "lake"))


@pytest.fixture
def unfinished(lake: Path) -> RunFolder:
    """Folder of a run that started a minute ago, with 6 of 24 verdicts and 2 sent requests."""
    folder = RunFolder(lake / "runs" / "second")
    folder.path.mkdir()
    begun_at = (NOW - timedelta(minutes=1)).isoformat()
    folder.identity_file.write_text(json.dumps({"run_id": "second", "fingerprint": "f", "created_at": begun_at}))
    folder.lock_file.touch()
    store_command(folder, EvaluationRequest("new outputs.jsonl", "rubric.yaml", judge="gpt-4o-mini", budget_usd=2))
    folder.plan_summary_file.write_text('{"verdict_count": 24, "request_count": 12, "cost_usd": 0.6}')
    stages = [("ingest", 12), ("plan", 12), ("score", 6)]
    folder.timings_file.write_text("".join(json.dumps({"stage": s, "row_count": n}) + "\n" for s, n in stages))
    folder.budget_file.write_text(
        '{"ticket":1,"worst_usd":0.2}\n{"ticket":1,"cost_usd":0.1}\n{"ticket":2,"worst_usd":0.2}\n'
    )
    return folder


@pytest.fixture
def held(unfinished: RunFolder) -> Iterator[RunFolder]:
    """The same run, with its folder locked as by its process."""
    with unfinished.lock_file.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield unfinished


def write_failure(lake: Path, run_id: str, digest: str, reason: str = "the budget is used up") -> None:
    """Insert a failed run whose outputs have that digest."""
    query = (
        "insert into runs by name select * "
        "replace (? as run_id, 'failed' as status, ? as reason, "
        "? as dataset_digest, null::bigint as version, ?::timestamptz as finished_at, created_at - interval 1 hour as "
        "created_at) from runs where run_id = 'first'"
    )
    values = [run_id, reason, digest, NOW]
    found = find_lake(f"sqlite:{lake}/catalog.sqlite")
    commit(found, f"run {run_id} failed", lambda connection, _version: connection.execute(query, values))


def test_the_last_run_of_each_rubric_is_shown_with_its_verdict_and_the_size_of_the_lake(gradebook, lake: Path):
    shown = gradebook("status", "--json")
    (last,) = shown.json["last_published"]
    assert (shown.code, last["run_id"]) == (0, "first")
    assert (last["is_met"], len(last["unmet"]) > 0) == (False, True)  # its `clarity` was not judged
    assert shown.json["sizes"]["version_count"] >= 1 and shown.json["sizes"]["catalog_bytes"] > 0


def test_a_review_is_not_the_last_run_of_a_rubric_that_has_another(gradebook, lake: Path):
    review = "select * replace ('later' as run_id, 'review' as trigger, version + 1 as version) from runs"
    commit(
        find_lake(f"sqlite:{lake}/catalog.sqlite"),
        "a review",
        lambda connection, _version: connection.execute(f"insert into runs by name {review}"),
    )
    assert [row["run_id"] for row in gradebook("status", "--json").json["last_published"]] == ["first"]


def test_a_run_in_progress_shows_its_stage_progress_and_cost(gradebook, held: RunFolder):
    shown = gradebook("status", "--json")
    (run,) = shown.json["at_work"]
    assert (shown.code, run["stage"], run["done_rate"]) == (0, "score", 0.25)  # 6 of 24
    # One request was answered for 0.1, of the 0.2 that were reserved; the other one may cost 0.2.
    assert (run["judged_count"], run["planned_count"], run["cost_usd"], run["possible_usd"]) == (1, 12, 0.1, 0.2)


def test_a_run_that_is_published_but_still_at_work_shows_its_rubric(gradebook, held: RunFolder):
    assert " starting " in gradebook("status").out  # its row is not yet written
    row = "insert into runs by name select * replace ('second' as run_id) from runs where run_id = 'first'"
    found = find_lake(f"sqlite:{held.path.parents[1]}/catalog.sqlite")
    commit(found, "second", lambda connection, _version: connection.execute(row))
    assert gradebook("status", "--json").json["at_work"][0]["rubric_id"] == "short_answer"


def test_an_interrupted_run_shows_its_resume_command_and_alarms(gradebook, unfinished: RunFolder):
    shown = gradebook("status")
    assert shown.code == 1
    words = (
        "gradebook evaluate 'new outputs.jsonl' --rubric rubric.yaml --judge gpt-4o-mini --budget-usd 2 --run-id second"
    )
    assert f"&& {words}" in shown.out


def test_a_run_interrupted_more_than_a_day_ago_does_not_alarm(unfinished: RunFolder):
    lake = find_lake(f"sqlite:{unfinished.path.parents[1]}/catalog.sqlite")
    later = read_status(lake, NOW + timedelta(days=2), days=7)
    assert ([run.run_id for run in later.interrupted], later.is_alarming) == (["second"], False)


def test_the_alarm_of_a_long_run_counts_from_its_last_change(unfinished: RunFolder):
    lake = find_lake(f"sqlite:{unfinished.path.parents[1]}/catalog.sqlite")
    begun = {"run_id": "second", "fingerprint": "f", "created_at": (NOW - timedelta(days=3)).isoformat()}
    unfinished.identity_file.write_text(json.dumps(begun))  # its other files are new
    assert read_status(lake, datetime.now(UTC), days=7).is_alarming


@pytest.mark.nightly
def test_a_lake_of_an_earlier_gradebook_is_refused_with_the_upgrade_command(gradebook, lake: Path):
    found = find_lake(f"sqlite:{lake}/catalog.sqlite")
    commit(found, "an earlier gradebook", lambda connection, _version: connection.execute("drop table case_criteria"))
    shown = gradebook("status")
    assert (shown.code, "a lake of an earlier gradebook, without case_criteria" in shown.err) == (2, True), shown.err
    assert gradebook("doctor", "--mend").code in {0, 1}
    assert gradebook("status").code == 0


def test_a_failed_run_is_listed_with_its_reason_and_alarms(gradebook, lake: Path):
    write_failure(lake, "broken", "other outputs")
    shown = gradebook("status")
    assert shown.code == 1
    assert shown.out.startswith("failed broken, short_answer 1.0.0: the budget is used up\n\npublished last\n")


@pytest.mark.parametrize(
    ("reason", "resumed_with"),
    [
        ("budget: 2 of 2 are spent; to go on, run the same command with --budget-usd 0.0057", "0.0057"),
        ("budget: 2 of 2 are spent; to go on, run the same command with a larger --budget-usd", "USD"),
        ("interrupted", "2"),
    ],
)
def test_a_run_that_reached_its_budget_is_not_resumed_with_the_same(gradebook, unfinished, lake, reason, resumed_with):
    write_failure(lake, "second", "other outputs", reason)
    assert f" --budget-usd {resumed_with} --run-id second " in gradebook("status").out


def test_a_failure_that_a_later_run_replaced_is_not_listed(gradebook, lake: Path):
    digest = gradebook("sql", "select dataset_digest from runs", "--format", "json").json[0]["dataset_digest"]
    write_failure(lake, "broken", digest)
    assert gradebook("status").code == 1
    # published later, by a machine whose clock is an hour behind the failure
    again = (
        "insert into runs by name select * replace ('again' as run_id, created_at - interval 2 hours as created_at) "
    )
    found = find_lake(f"sqlite:{lake}/catalog.sqlite")
    commit(found, "again", lambda connection, _version: connection.execute(f"{again} from runs where run_id = 'first'"))
    shown = gradebook("status", "--json")
    assert (shown.code, shown.json["failures"]) == (0, [])


def test_status_does_not_block_a_run_from_starting(gradebook, held: RunFolder, unfinished: RunFolder):
    assert len(gradebook("status", "--json").json["at_work"]) == 1
    with unfinished.lock_file.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        (("sqlite:far/c.sqlite", None), "--lake sqlite:{here}/far/c.sqlite"),
        (("sqlite:c.sqlite", "far"), "--lake sqlite:{here}/c.sqlite --data {here}/far"),
        (("postgres:dbname=a host=b", "s3://bucket/d"), "--lake 'postgres:dbname=a host=b' --data s3://bucket/d"),
    ],
)
def test_the_resume_command_names_the_lake(unfinished: RunFolder, tmp_path, monkeypatch, named, shown):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADEBOOK_WORK", "work")
    lake_words = find_lake(*named).words(is_absolute=True)
    assert command_to_resume(unfinished, lake_words).endswith(f"--run-id second {shown.format(here=tmp_path)}")


OTHERS = {"dataset": "nightly-suite", "trigger": "nightly"}


def test_other_runs_resume_by_their_own_command(unfinished: RunFolder):
    store_command(unfinished, EvaluationRequest("o.jsonl", "r.yaml", **OTHERS))
    assert command_to_resume(unfinished, ()) == "the same command or flow run again (nightly)"


def typed_again(gradebook, lake: Path, stopped_at: str, monkeypatch, *words: str) -> Any:
    """Interrupt a command and run the resume command of `gradebook status`; returns the run id and the outcome."""
    with monkeypatch.context() as interrupted:
        interrupted.setattr(stopped_at, interrupt)
        assert gradebook(*words).code == 3
    (run,) = [each for each in gradebook("status", "--json").json["failures"] if each["go_on"]]
    assert run["reason"] == "interrupted"
    folder, _, again = run["go_on"].partition(" && ")
    assert folder == f"cd {lake.parent}"
    return run["run_id"], gradebook(*shlex.split(again)[1:], "--json")


def interrupt(*_words: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.nightly
def test_an_interrupted_review_resumes_with_the_command_of_status(gradebook, lake: Path, tmp_path, monkeypatch):
    (tmp_path / "a reply.txt").write_text("{}")
    words = ("review", "a reply.txt", "--rubrics", "json_record", "--allow-unscored")
    run_id, ended = typed_again(gradebook, lake, "gradebook.tasks.stages.pipeline.publish_run", monkeypatch, *words)
    assert ended.code in {0, 1}, ended.err
    assert [each["run_id"] for each in ended.json["evaluations"]] == [run_id]


@pytest.mark.nightly
def test_an_interrupted_rescore_resumes_with_the_command_of_status(gradebook, lake: Path, tmp_path, monkeypatch):
    write_rubric(tmp_path / "heavier.yaml", version="2.0.0", weight=3)
    words = ("rubric", "reweigh", "first", "--rubric", "heavier.yaml")
    run_id, ended = typed_again(gradebook, lake, "gradebook.tasks.stages.pipeline.publish_run", monkeypatch, *words)
    assert ended.code in {0, 1}, ended.err
    assert ended.json["run_id"] == run_id


def test_status_of_no_lake_is_refused(gradebook):
    shown = gradebook("status")
    assert (shown.code, "found no lake there" in shown.err) == (2, True)


@pytest.mark.parametrize("words", [("--days", "0"), ("--watch", "--json")])
def test_invalid_options_of_status_are_refused(gradebook, lake: Path, words: tuple[str, ...]):
    assert gradebook("status", *words).code == 2
