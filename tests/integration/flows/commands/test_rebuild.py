"""`gradebook lake rebuild` and `gradebook rubric reweigh` on runs that use every source of score tables."""

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.marts.models import mart_names
from gradebook.tasks.stages.rebuild import rebuild_run
from tests.support.forked import Forked
from tests.support.nightly import matrix
from tests.support.rescored_runs import LIKED, evaluate_panel, lake_of, write_rubric, write_runs
from tests.support.samples import query

EMPTY = {"run_comparisons", "audited_scores"}  # without a baseline, and without an audited cascade
FILLED = [mart for mart in mart_names() if mart not in EMPTY]
HEAVIER = {"version": "1.1.0", "weight": 3, "length": "weight: 0.6\n    threshold: 0.9", "more": ""}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the runs, created by the first test; tests that write copy it."""
    return tmp_path_factory.mktemp("rescored")


@pytest.fixture
def runs(kept: Path, evaluate: Any, gradebook: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lake with `panel` and `none`; `rescored`: `panel` with another rubric; `again`: evaluated with that rubric."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    if not (kept / "done").exists():
        assert not (kept / "lake").exists(), "it could not be made"
        write_runs(kept, evaluate)
        heavier = write_rubric(kept / "heavier.yaml", **HEAVIER)
        assert rescore(gradebook, kept, heavier, "--run-id", "rescored").code == 0
        finished = evaluate_panel(kept, evaluate, "again", heavier)
        assert finished.code == 0, finished.err
        (kept / "done").touch()
    return kept


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """Copy of the folder that a test may change."""
    return Path(shutil.copytree(runs, tmp_path / "copied"))


def rescore(gradebook: Any, folder: Path, rubric: Path, *words: str) -> Any:
    return gradebook("rubric", "reweigh", "panel", "--rubric", rubric, "--lake", lake_of(folder), "--json", *words)


def change(folder: Path, statement: str) -> None:
    """Change published rows, as gradebook itself never does."""
    commit(find_lake(lake_of(folder)), "change", lambda connection, _version: connection.execute(statement) and None)


def check(folder: Path, run_id: str) -> Any:
    return rebuild_run(find_lake(lake_of(folder)), run_id, is_checked=True)


def differing(folder: Path, run_id: str) -> dict[str, set[str]]:
    """Differing columns by mart; `?` for a missing row."""
    found: dict[str, set[str]] = {}
    for each in check(folder, run_id).checks:
        for difference in each.differences:
            found.setdefault(each.mart, set()).update(unlike(difference.published, difference.rebuilt))
    return found


def unlike(published: Any, rebuilt: Any) -> list[str]:
    if published is None or rebuilt is None:
        return ["?"]
    return [name for name, value in published.items() if value != rebuilt[name]]


# -------- rebuild
@pytest.mark.parametrize("run_id", ["panel", *matrix(["again", "rescored"])])
def test_every_rebuilt_mart_equals_the_published_one(runs, run_id):
    assert differing(runs, run_id) == {}


@pytest.mark.nightly
def test_an_equal_rebuild_exits_with_0(runs, gradebook):
    finished = gradebook("lake", "rebuild", "none", "--check", "--lake", lake_of(runs), "--json")
    assert (finished.code, finished.err, finished.json["is_equal"]) == (0, "", True)
    assert sorted(mart["mart"] for mart in finished.json["marts"]) == sorted(mart_names())
    assert all(mart["row_count"] == mart["published_count"] for mart in finished.json["marts"])
    latest = gradebook("lake", "rebuild", "--check", "--lake", lake_of(runs), "--json").json
    assert latest == gradebook("lake", "rebuild", latest["run_id"], "--check", "--lake", lake_of(runs), "--json").json
    assert latest["run_id"] == gradebook("runs", "--lake", lake_of(runs), "--json").json["runs"][0]["run_id"]


def test_the_run_with_two_judges_and_two_raters_fills_every_mart(runs):
    assert {mart for mart, count in check(runs, "panel").marts if not count} == EMPTY


@pytest.mark.nightly
def test_only_the_lake_is_read_with_the_ratings_of_that_time(copied):
    shutil.rmtree(copied / "lake/runs")
    for name in ("outputs.jsonl", "ratings.jsonl", "rubric.yaml", "judge.yaml"):
        (copied / name).unlink()
    change(copied, "insert into ratings select * replace ('eve' as rater, 0.5 as score, null as level_id) from ratings")
    assert differing(copied, "panel") == {}


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("update run_scores set sd = sd + 1e-6 where model = 'large'", {"run_scores": {"sd"}}),
        *matrix(
            [
                ("delete from criterion_scores where criterion_id = 'liked'", {"criterion_scores": {"?"}}),
                ("update output_scores set failed_gates = ['tone']", {"output_scores": {"failed_gates"}}),
                ("update opinions set score = 0.5 where judge = 'b'", {"judge_noise", "agreement"}),
                (
                    "update judgments set cost_usd = 2 * cost_usd",
                    {"run_scores": {"cost_usd"}, "stage_costs": {"cost_usd"}},
                ),
            ]
        ),
    ],
)
def test_rows_changed_from_outside_are_found(copied, statement, found):
    change(copied, statement)
    seen = differing(copied, "panel")
    assert (set(seen) if isinstance(found, set) else seen) == found


@pytest.mark.nightly
def test_a_difference_exits_with_1_and_is_shown(copied, gradebook):
    change(copied, "update verdicts set score = 0.25, level_id = null where score = 0.3 and run_id = 'panel'")
    finished = gradebook("lake", "rebuild", "panel", "--check", "--lake", lake_of(copied))
    assert (finished.code, finished.err) == (1, "")
    assert re.search(
        r"run_scores model small, checkpoint .*: mean 0\.\d+ -> 0\.\d+, .*\(published -> rebuilt\)", finished.out
    )


def test_a_changed_rubric_is_refused(copied, gradebook):
    change(copied, "update rubrics set body = replace(body, '1.1', '1.2')")
    finished = gradebook("lake", "rebuild", "panel", "--check", "--lake", lake_of(copied))
    assert (finished.code, "found another text of short_answer 1.0.0" in finished.err) == (2, True)


def test_the_tables_are_written_as_files(runs, gradebook, tmp_path):
    finished = gradebook("lake", "rebuild", "none", "--out", tmp_path / "out", "--lake", lake_of(runs), "--json")
    assert finished.code == 0
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == sorted(mart_names())


@pytest.mark.nightly
def test_existing_files_of_the_tables_are_replaced_only_with_force(runs, gradebook, tmp_path):
    kept = tmp_path / "run_scores.parquet"
    kept.write_text("mine")
    words = ("lake", "rebuild", "none", "--out", tmp_path, "--lake", lake_of(runs))
    finished = gradebook(*words)
    assert (finished.code, f"--out: found {kept} already there" in finished.err) == (2, True), finished.err
    assert ([file.name for file in tmp_path.iterdir()], kept.read_text()) == (["run_scores.parquet"], "mine")
    assert gradebook(*words, "--force").code == 0
    assert kept.read_bytes()[:4] == b"PAR1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none",), "found neither --check nor --out"),
        *matrix(
            [
                (("nobody", "--check"), "found no 'nobody'"),
                (("none", "--out", "outputs.jsonl"), "--out: can't write outputs.jsonl"),
            ]
        ),
    ],
)
def test_an_impossible_rebuild_is_refused(runs, gradebook, tmp_path, words, message):
    shutil.copy(runs / "outputs.jsonl", tmp_path)
    finished = gradebook("lake", "rebuild", *words, "--lake", lake_of(runs))
    assert (finished.code, message in finished.err) == (2, True), finished.err


# -------- rescore
def test_a_rescored_run_has_the_tables_of_an_evaluated_one(runs):
    different, empty = {}, []
    with connect(find_lake(lake_of(runs)), read_only=True) as connection:
        for table in [*FILLED, "verdicts", "opinions", "case_criteria"]:
            timed = ", wall_s, cpu_s" if table == "stage_costs" else ""
            scored = " and stage = 'score' and criterion_id is not null" if timed else ""
            shown = f"select * exclude (run_id{timed}) from {table} where run_id = '{{}}'{scored}"
            one, other = shown.format("rescored"), shown.format("again")
            apart = f"from (({one} except all {other}) union all ({other} except all {one}))"
            if rows := connection.execute(apart).fetchall():
                different[table] = rows
            if not connection.execute(f"{one} limit 1").fetchall():
                empty.append(table)
    assert (different, empty) == ({}, [])


def test_a_rescored_run_names_its_source(runs, gradebook):
    of_run = "select * from runs where run_id in ('panel', 'rescored') order by run_id"
    panel, rescored = query(gradebook, of_run, "--lake", lake_of(runs))
    assert (rescored["trigger"], rescored["cost_usd"], rescored["rubric_version"]) == ("rescore", 0, "1.1.0")
    assert rescored["notes"][:2] == [
        "rescored from panel (short_answer 1.0.0), with its verdicts; no judge was asked",
        "left out: liked",
    ]
    same = ("dataset", "dataset_digest", "judge", "output_count")
    assert [rescored[name] for name in same] == [panel[name] for name in same]
    assert json.loads(rescored["settings"])["rescored_from"] == "panel"


@pytest.mark.nightly
def test_an_unmet_threshold_exits_with_1(copied, gradebook):
    strict = write_rubric(copied / "strict.yaml", "1.0.1", pass_threshold=1)
    finished = rescore(gradebook, copied, strict)
    assert (finished.code, finished.json["is_met"], finished.json["cost_usd"]) == (1, False, 0)


@pytest.mark.nightly
def test_the_same_command_again_is_a_new_run_unless_it_names_one(copied, gradebook):
    first, second = (rescore(gradebook, copied, copied / "heavier.yaml").json for _ in range(2))
    named = rescore(gradebook, copied, copied / "heavier.yaml", "--run-id", first["run_id"]).json
    assert first["run_id"] != second["run_id"]
    assert named["version"] == first["version"] < second["version"]


@pytest.mark.nightly
@pytest.mark.server
def test_the_flow_publishes_what_the_command_does(copied, prefect_server):
    from gradebook.flows.rescore_run import rescore_run

    summary = rescore_run("panel", str(copied / "heavier.yaml"), lake=lake_of(copied))
    assert (summary.run["status"], summary.run["trigger"], summary.is_met) == ("published", "rescore", True)


OTHER = LIKED.replace("score: 0}", "score: 0.1}") + LIKED.replace("liked", "loved")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "2.0.0", "more": OTHER}, "liked: another scale of levels; loved: not in short_answer 1.0.0"),
        ({"version": "1.0.0", "weight": 9}, "found another text than the 1.0.0 that runs used or that was registered"),
        ({"version": "2.0.0", "more": LIKED.replace("liked", "brief")}, "brief: not in short_answer 1.0.0"),
    ],
)
def test_a_rubric_with_other_criteria_is_refused(runs, gradebook, tmp_path, changes, message):
    finished = rescore(gradebook, runs, write_rubric(tmp_path / "other.yaml", **changes))
    assert (finished.code, message in finished.err) == (2, True), finished.err


@pytest.mark.nightly
@pytest.mark.slow
def test_after_a_kill_while_rescoring_one_run_is_published(copied, gradebook):
    words = [
        "rubric",
        "reweigh",
        "panel",
        "--rubric",
        "heavier.yaml",
        "--run-id",
        "killed",
        "--lake",
        lake_of(copied),
        "--json",
    ]
    process = Forked(words, copied)
    while process.is_running and not (copied / "lake/runs/killed/marts").exists():
        time.sleep(0.005)
    process.kill()
    finished = rescore(gradebook, copied, copied / "heavier.yaml", "--run-id", "killed")
    assert finished.code == 0, finished.err
    replayed = {row["criterion_id"]: row["replayed_count"] for row in finished.json["costs"] if row["stage"] == "score"}
    assert replayed == {"clarity": 90, "evasion": 90, "length": 0, "(own)": 0}  # 30 outputs x 3 opinions
    assert differing(copied, "killed") == {}
