"""`gradebook doctor`: findings in a damaged lake, and fixes."""

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import LakeError
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.judging.replies.journal import Journal
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake
from gradebook.tasks.operations.doctor import examine
from gradebook.tasks.operations.doctor import examine as files
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.lock import claim_run
from tests.support.nightly import nightly

NOW = datetime(2026, 11, 20, tzinfo=UTC)
FIRST = "output_id in (select min(output_id) from outputs)"
JUDGMENT = dict.fromkeys(JUDGMENT_SCHEMA.names) | {
    **dict.fromkeys(("judgment_id", "run_id", "request_key", "output_id", "criterion_id", "judge"), "x"),
    **dict.fromkeys(("prompt_digest", "status"), "scored"),
    **dict.fromkeys(("replicate", "prompt_tokens", "cached_tokens", "completion_tokens", "attempts"), 1),
    "level_id": "clear",
    "cost_usd": 0.25,
    "latency_ms": 1.0,
    "asked_at": NOW,
}


@pytest.fixture
def lake(judged_run, tmp_path: Path) -> Lake:
    return find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")


@pytest.fixture
def doctor(gradebook, monkeypatch):
    """Exit code, and findings that are not ok, by check."""

    def call(*words):
        finished = gradebook("doctor", "--json", *words)
        findings = [each for each in json.loads(finished.out)["findings"] if each["severity"] != "ok"]
        assert all(each["mend"] for each in findings if each["severity"] == "problem")
        told = {each["check"]: "" for each in findings}
        for each in findings:
            told[each["check"]] += each["found"]
        return finished.code, told

    return call


def execute(lake: Lake, *statements: str) -> None:
    def body(connection, _version):
        for statement in statements:
            connection.execute(statement)

    commit(lake, "harm", body)


def add_running(lake: Lake, run_id: str) -> RunFolder:
    """Run as left by a killed process."""
    with claim_run(lake.root / "runs", "print", run_id, NOW) as claim:
        execute(lake, f"insert into runs (run_id, status) values ('{run_id}', 'running')")
    return claim.folder


def table_file(lake: Lake, table: str) -> Path:
    (path,) = (Path(lake.data_path) / "main" / table).rglob("*.parquet")
    return path


@pytest.mark.parametrize("words", [(), ("--deep",)])
def test_an_intact_lake_has_no_problems(lake, doctor, words):
    before = Path(lake.address).read_bytes()
    assert doctor(*words) == (0, {})
    assert Path(lake.address).read_bytes() == before


def test_a_missing_lake_is_reported(gradebook):
    for words in ((), ("--mend",)):
        finished = gradebook("doctor", *words)
        assert (finished.code, "found no lake there" in finished.err) == (2, True)


def test_the_terminal_shows_one_line_for_each_finding(lake, gradebook, doctor):
    table_file(lake, "outputs").unlink()
    finished = gradebook("doctor")
    assert finished.code == 1
    assert f"problem  files: outputs: {lake.data_path}/main/outputs/" in finished.out
    assert "         fix: restore the file from a backup" in finished.out
    assert finished.out.endswith("problems\n") or finished.out.endswith("1 problem\n")


# -------- files
@pytest.mark.nightly
def test_folders_that_other_users_may_read_or_write_are_named_and_a_new_lake_is_private(doctor, tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("PREFECT_HOME", str(home))
    before = os.umask(0o022)
    try:
        new = find_lake(f"sqlite:{tmp_path}/new/catalog.sqlite")
        prepare_lake(new)
        assert [stat.S_IMODE(path.stat().st_mode) for path in (new.root, new.journal_folder)] == [0o700] * 2
        words = ("--lake", f"sqlite:{tmp_path}/new/catalog.sqlite")
        assert doctor(*words) == (0, {})
        new.root.chmod(0o755)
        home.mkdir()
        (home / "prefect.db").touch()
        code, found = doctor(*words)
        assert (code, list(found)) == (0, ["access"])
        said = "found mode {}, which other users of this machine may read, expected 700 or 600"
        assert f"{new.root}: {said.format('755')}" in found["access"]
        assert f"{home / 'prefect.db'}: {said.format('644')}" in found["access"]
        new.root.chmod(0o777)
        assert doctor(*words)[0] == 1
    finally:
        os.umask(before)


def test_many_small_files_are_reported_and_compacted(lake, gradebook, doctor, monkeypatch):
    monkeypatch.setattr(files, "MANY_SMALL", 2)
    code, found = doctor()
    assert (code, found) == (
        0,
        {"files": "found 2 small files, expected fewer than 2: they slow down runs and queries"},
    )
    assert "fix: gradebook lake compact" in gradebook("doctor").out


def test_a_missing_file_is_named(lake, doctor):
    path = table_file(lake, "verdicts")
    path.unlink()
    code, found = doctor()
    assert (code, found["files"]) == (1, f"verdicts: {path}: found no such file")


def test_a_file_with_another_size_is_named(lake, doctor):
    path = table_file(lake, "verdicts")
    size = path.stat().st_size
    path.unlink()  # the run's folder may hold the same file by another link
    path.write_bytes(b"PAR1")
    assert doctor()[1]["files"] == f"verdicts: {path}: found 4 bytes, expected {size:,}"


def test_changed_bytes_are_found_by_a_deep_examination(lake, doctor):
    path = table_file(lake, "verdicts")
    content = bytearray(path.read_bytes())
    path.unlink()
    content[4:400] = bytes(396)
    path.write_bytes(content)
    assert f"verdicts: {path}: can't be read: " in doctor("--deep")[1]["files"]


def test_an_orphaned_file_is_found_and_removed(lake, doctor, monkeypatch):
    monkeypatch.setattr(files, "ORPHAN_AGE_S", 0.0)  # instead of an hour
    orphan = Path(lake.data_path) / "main" / "verdicts" / "gone-shard-00000.parquet"
    orphan.write_bytes(table_file(lake, "verdicts").read_bytes())
    assert doctor() == (0, {"orphans": f"{orphan}: no version of the lake reads it"})
    with claim_run(lake.root / "runs", "print", "gone", NOW):  # it may be publishing
        assert doctor("--mend") == (0, {})
        assert orphan.exists()
    assert doctor("--mend") == (0, {})
    assert not orphan.exists()


@pytest.mark.nightly
def test_a_file_of_this_hour_may_belong_to_a_running_publication(lake, doctor):
    (Path(lake.data_path) / "main" / "verdicts" / "new-shard-00000.parquet").write_bytes(b"")
    assert doctor("--mend") == (0, {})
    assert (Path(lake.data_path) / "main" / "verdicts" / "new-shard-00000.parquet").exists()


def test_an_unreadable_catalog_is_a_finding(lake, doctor):
    Path(lake.address).write_bytes(b"no database" * 1000)
    code, found = doctor()
    assert code == 1
    assert "the lake can't be opened" in found["catalog"]


# -------- runs
def test_a_run_whose_process_is_gone_is_found_and_marked_as_failed(lake, doctor, gradebook):
    add_running(lake, "dead")
    code, found = doctor()
    assert code == 1
    assert found["running"].startswith("dead: its process is gone")
    assert doctor("--mend") == (0, {})
    (run,) = [each for each in gradebook("runs", "--json").json["runs"] if each["run_id"] == "dead"]
    assert (run["status"], run["reason"].partition(",")[0]) == (
        "failed",
        "the process died before the run finished (killed",
    )


@pytest.mark.nightly
def test_a_run_in_progress_is_not_changed(lake, doctor, gradebook):
    add_running(lake, "alive")
    with claim_run(lake.root / "runs", "print", "alive", NOW):
        assert doctor("--mend") == (0, {})
    assert "running" in gradebook("runs").out


@pytest.mark.nightly
def test_a_run_that_can_not_be_marked_as_failed_is_reported(lake, doctor, gradebook, monkeypatch):
    add_running(lake, "dead")

    def refuse(*_words: object) -> None:
        raise LakeError("the catalog can't be written, only read")

    monkeypatch.setattr("gradebook.tasks.operations.doctor.unfinished_runs.commit", refuse)
    ended = gradebook("doctor", "--mend")
    assert (ended.code, "can't be written, only read" in ended.err) == (2, True)


@pytest.mark.nightly
def test_a_run_on_another_machine_is_noted(lake, doctor):
    execute(lake, "insert into runs (run_id, status) values ('far', 'running')")
    code, found = doctor("--mend")
    assert (code, "far: " in found["running"], "in progress on another machine" in found["running"]) == (0, True, True)


@pytest.mark.nightly
def test_working_files_of_a_published_run_are_found_and_removed(lake, doctor, judged_run):
    folder = RunFolder(lake.root / "runs" / judged_run["run_id"])
    folder.plan_folder.mkdir()
    assert doctor()[1].keys() == {"folders"}
    assert doctor("--mend") == (0, {})
    assert not folder.plan_folder.exists()


def test_replies_that_are_not_in_the_ledger_are_counted_and_moved_there(lake, doctor, gradebook):
    with Journal(lake.journal_folder, "dead") as journal:
        journal.append(JUDGMENT)
        assert doctor() == (0, {})  # its writer is alive
    assert "1 reply ($0.250) not in the ledger yet" in doctor()[1]["journals"]
    assert doctor("--mend") == (0, {})
    finished = gradebook("sql", "select count(*) from judgments where run_id = 'x'", "--format", "csv")
    assert finished.out.splitlines()[1] == "1"


def test_an_unreadable_journal_is_a_problem(lake, doctor):
    lake.journal_folder.mkdir(exist_ok=True)
    (lake.journal_folder / "dead.1.a.jsonl").write_text("no judgment\n")
    code, found = doctor()
    assert (code, "dead.1.a.jsonl:1: found no JSON" in found["journals"]) == (1, True)


@pytest.mark.nightly
def test_other_fixes_are_applied_despite_an_unreadable_journal(lake, gradebook):
    add_running(lake, "dead")
    lake.journal_folder.mkdir(exist_ok=True)
    (lake.journal_folder / "dead.1.a.jsonl").write_text("no judgment\n")
    finished = gradebook("doctor", "--mend")
    aside = lake.journal_folder / "dead.1.a.jsonl.broken"
    assert f"1 line of a journal is no judgment and set aside in {aside}" in finished.out
    assert f"{aside}: 1 line of a journal that can't be read" in finished.out
    assert finished.code == 1
    (run,) = [each for each in gradebook("runs", "--json").json["runs"] if each["run_id"] == "dead"]
    assert run["status"] == "failed"


def test_a_run_that_can_not_go_on_is_named(lake, doctor):
    folder = add_running(lake, "dead")
    folder.budget_file.write_text('{"ticket":1,"worst_usd":0.5}\n{"ticket":1,"cost_usd":-100}\n')
    code, found = doctor()
    assert (code, f"{folder.budget_file}:2: found no line of a budget" in found["folders"]) == (1, True)


@pytest.mark.nightly
def test_files_that_a_run_writes_anew_are_named(lake, doctor):
    folder = add_running(lake, "dead")
    folder.quarantine_file.write_bytes(b"")
    assert f"{folder.quarantine_file}: can't be read" in doctor()[1]["folders"]


# -------- consistency of the tables
@pytest.mark.parametrize(
    ("harm", "check", "found"),
    [
        ("update runs set cost_usd = 7.0", "counts", "found $7.0 in its row, expected $"),
        ("update runs set output_count = 13", "counts", "found 12 scored outputs, expected 13"),
        *nightly(
            [
                (
                    f"delete from verdicts where criterion_id = 'length' and {FIRST}",
                    "counts",
                    "found 23 verdicts, expected 2 f",
                ),
                ("insert into runs from runs", "doubles", "2 rows, expected one"),
                ("insert into judgments from judgments", "doubles", "2 rows, expected one"),
                ("update outputs set output = 'another'", "outputs", "its content has the id "),
                ("drop view worst_outputs", "tables", "lacks worst_outputs"),
            ]
        ),
    ],
)
def test_inconsistent_tables_are_found(lake, doctor, harm, check, found):
    execute(lake, harm)
    code, findings = doctor()
    assert (code, found in findings[check]) == (1, True), findings


def test_a_missing_view_is_created_again(lake, doctor):
    execute(lake, "drop view worst_outputs")
    assert doctor("--mend") == (0, {})


@pytest.mark.nightly
def test_a_judgment_with_another_key_is_found_by_a_deep_examination(lake, doctor):
    execute(lake, f"update judgments set request_key = 'another' where {FIRST}")
    assert doctor() == (0, {})
    code, found = doctor("--deep")
    assert (code, "differences between judgments or verdicts and the ledger" in found["ledger"]) == (1, True)


# -------- the machine
@pytest.mark.nightly
def test_an_unresponsive_server_is_named_without_its_password(lake, doctor, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://user:canary@127.0.0.1:1/api")
    code, found = doctor()
    assert code == 1
    assert found["prefect server"].startswith("PREFECT_API_URL: http://127.0.0.1:1/api does not answer")


def test_a_missing_folder_of_files_is_named(lake, doctor, tmp_path):
    code, found = doctor("--data", str(tmp_path / "nowhere"))
    assert (code, found["disk"].startswith(f"{tmp_path}/nowhere: found no such folder")) == (1, True)


def test_a_nearly_full_disk_is_noted(lake, doctor, monkeypatch):
    monkeypatch.setattr(examine, "LEAST_FREE_BYTES", 2**60)
    assert "GiB free" in doctor()[1]["disk"]
