"""Ids, pages and links that somebody else put into a lake or a folder of outputs."""

import shutil
from pathlib import Path

import pytest

from gradebook.rubrics.model.errors import InputError, LakeError, OutputsError
from gradebook.tasks.datasets.discovery import dataset_files
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.site import write_site
from gradebook.tasks.workspace.folder import RunFolder
from tests.support.nightly import nightly
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: words
version: 1.0.0
criteria:
  - id: short
    description: Is it short?
    method: {type: check, check: length_words, settings: {max: 2}}
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a lake that holds the run `a`."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    publish(
        write_lines(folder / "o.jsonl", [{"case_id": "c", "model": "m", "output": "x"}]),
        folder / "rubric.yaml",
        run_id="a",
    )
    return folder / "lake"


@pytest.fixture
def lake(published: Path, tmp_path: Path) -> Lake:
    """A copy of that lake."""
    shutil.copytree(published, tmp_path / "lake")
    return find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")


# -------- a catalog
@pytest.mark.parametrize("run_id", ["../../escaped", *nightly(["/etc/cron.d/x", "a/b", "..", "", "a" * 81, "a\n"])])
def test_an_id_that_is_no_folder_s_name_is_refused_where_runs_are_read(lake, tmp_path, run_id):
    for table in ("runs", "run_scores"):
        query = f"update {table} set run_id = ?"
        commit(lake, "a test's own", lambda connection, _version, query=query: connection.execute(query, [run_id]))
    with pytest.raises(LakeError, match="lake: found a run of the id"):
        write_site(lake, tmp_path / "out")
    with pytest.raises(LakeError, match="lake: found a run of the id"):
        summarise(lake, run_id)
    with pytest.raises(LakeError, match="lake: found a run of the id"):
        RunFolder.below(lake.root, run_id)
    assert not list(tmp_path.rglob("*.html")) or (tmp_path / "out").exists() is False


def test_a_rubric_s_page_lies_in_the_site(lake, tmp_path):
    body = "update rubrics set rubric_id = '../../escaped', body = replace(body, 'words', '../../escaped')"
    commit(lake, "a test's own", lambda connection, _version: connection.execute(body))
    with pytest.raises(InputError):
        write_site(lake, tmp_path / "in" / "out")
    assert not list(tmp_path.rglob("*escaped*"))


@pytest.mark.nightly
def test_a_page_that_lies_in_the_lake_is_not_published(lake, tmp_path):
    made = RunFolder.below(lake.root, "a").report_file
    made.write_text("<body onload='alert(1)'>planted", encoding="utf-8")
    site = write_site(lake, tmp_path / "out")
    page = (tmp_path / "out" / "runs" / "a.html").read_text(encoding="utf-8")
    assert (site.report_count, "planted" in page, "Content-Security-Policy" in page) == (1, False, True)


def test_a_link_in_the_site_leads_nowhere_else(lake, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "runs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="which lies outside"):
        write_site(lake, tmp_path / "out")
    assert list((tmp_path / "elsewhere").iterdir()) == []


# -------- a folder of outputs
@pytest.mark.parametrize("outputs", ["in", "in/*.jsonl", "in/**/*.jsonl"])
def test_a_link_out_of_a_folder_of_outputs_is_refused_by_name(tmp_path, monkeypatch, outputs):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/a.jsonl").touch()
    Path("private.txt").touch()
    Path("in/b.jsonl").symlink_to("../private.txt")
    with pytest.raises(OutputsError, match=r"in/b\.jsonl: found a link out of the folder to .*private\.txt"):
        dataset_files(outputs)
    assert dataset_files("in/b.jsonl") == (Path("in/b.jsonl"),)


def test_a_link_within_a_folder_of_outputs_and_a_linked_folder_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/a.jsonl").touch()
    Path("in/b.jsonl").symlink_to("a.jsonl")
    Path("latest").symlink_to("in")
    assert len(dataset_files("latest")) == len(dataset_files("latest/*.jsonl")) == 2
