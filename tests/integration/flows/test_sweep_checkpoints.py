"""The sweep as a command and as a flow: each undecided checkpoint is requested once."""

import json
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import UnfinishedError
from tests.support.samples import query
from tests.support.saved_checkpoints import deploy_checkpoint, write_brief_rubric, write_checkpoint


@pytest.fixture
def rubric(tmp_path: Path) -> str:
    return str(write_brief_rubric(tmp_path))


@pytest.fixture
def deployment(prefect_server: str, tmp_path: Path) -> str:
    """Deployment of the flow; each test has its own."""
    return deploy_checkpoint(tmp_path.name)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Folder with the outputs of two checkpoints."""
    folder = tmp_path / "saved"
    folder.mkdir()
    for step in (1, 2):
        write_checkpoint(folder / f"step-{step}.jsonl", step)
    return folder


@pytest.mark.server
def test_a_sweep_has_each_undecided_checkpoint_evaluated(deployment, gradebook, rubric, saved):
    words = ["suite", "sweep", saved, "--model", "m", "--rubric", rubric, "--deployment", deployment, "--json"]
    shown = gradebook(*words[:-1])
    assert [each.split() for each in shown.out.splitlines()[:1]] == [["model", "checkpoint", "step", "outputs"]]
    assert (shown.out.splitlines()[-1], shown.err) == (
        "2 checkpoints found, 2 of them without a decision",
        "the same command with --evaluate decides about them here, with --notify on a Prefect server\n",
    )
    listed, asked, again = (gradebook(*words, option).json for option in ("--list", "--notify", "--notify"))
    assert [row["flow_run"] for row in listed["undecided"]] == [None, None]
    assert [row["flow_run"]["is_new"] for row in asked["undecided"]] == [True, True]
    assert [row["flow_run"]["is_new"] for row in again["undecided"]] == [False, False]


@pytest.mark.nightly
@pytest.mark.server
def test_a_requested_checkpoint_is_not_requested_again_by_the_sweep(deployment, gradebook, rubric, saved):
    gradebook("evaluate", saved / "step-1.jsonl", "--rubric", rubric)  # so the lake has this version of the rubric
    told = ["--model", "m", "--deployment", deployment, "--json"]
    first = gradebook("suite", "notify", saved / "step-1.jsonl", "--step", "1", *told).json
    swept = gradebook("suite", "sweep", saved, "--rubric", "brief@1.0.0", "--notify", *told).json["undecided"]
    assert [row["flow_run"]["is_new"] for row in swept] == [False, True]
    assert swept[0]["flow_run"]["flow_run_id"] == first["flow_run_id"]


@pytest.mark.server
def test_the_flow_requests_readable_checkpoints_and_names_the_others(deployment, gradebook, rubric, saved):
    from prefect.client.orchestration import get_client

    from gradebook.flows.sweep_checkpoints import sweep_checkpoints

    asked = {"rubric": rubric, "place": str(saved), "model": "m", "deployment": deployment}
    swept = sweep_checkpoints(**asked)
    assert [row["flow_run"]["is_new"] for row in swept["undecided"]] == [True, True]
    with get_client(sync_client=True) as client:
        made = [client.read_flow_run(row["flow_run"]["flow_run_id"]) for row in swept["undecided"]]
    assert [run.parent_task_run_id for run in made] == [None, None]  # no subflow of the sweep
    (saved / "step-3.parquet").write_bytes(b"half a file")
    write_checkpoint(saved / "step-4.jsonl", 4)
    with pytest.raises(UnfinishedError, match=r"^4 checkpoints found, 4 of .* 1 requested now; .*: m @ 3: "):
        sweep_checkpoints(**asked)


def test_a_table_in_a_file_names_checkpoints(gradebook, rubric, saved):
    rows = "model,step,checkpoint,outputs\nm,1,,saved/step-1.jsonl\nm,,best,saved/step-2.jsonl\n"
    saved.with_name("saved.csv").write_text(rows, encoding="utf-8")
    found = gradebook("suite", "sweep", "saved.csv", "--rubric", rubric, "--json").json["undecided"]
    assert [(row["step"], row["checkpoint"], row["fault"]) for row in found] == [(1, None, None), (None, "best", None)]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"model": "m", "outputs": "o"}, "expected a model, outputs"),
        ({"model": "m", "outputs": "o", "step": 1.5}, "1.5"),
    ],
)
def test_a_table_with_an_invalid_row_is_refused(gradebook, rubric, tmp_path, row, words):
    (tmp_path / "saved.jsonl").write_text(json.dumps(row), encoding="utf-8")
    finished = gradebook("suite", "sweep", "saved.jsonl", "--rubric", rubric)
    assert (finished.code, "saved.jsonl:1: found" in finished.err, words in finished.err) == (2, True, True)


@pytest.mark.nightly
def test_a_table_of_the_lake_names_checkpoints(gradebook, rubric, saved):
    gradebook("evaluate", "saved/step-1.jsonl", "--rubric", rubric)
    never = "select distinct 'm' as model, '1' as checkpoint, dataset as outputs from runs"
    assert query(gradebook, "select count(*) as n from runs") == [{"n": 1}]
    found = gradebook("suite", "sweep", "--query", never, "--rubric", rubric, "--json").json["undecided"]
    assert [(row["checkpoint"], row["outputs"]) for row in found] == [("1", "saved/step-1.jsonl")]
