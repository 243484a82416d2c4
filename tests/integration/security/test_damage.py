"""Published files of which a bit has changed: DuckDB and Arrow read most of them without an error."""

import shutil
from pathlib import Path

import pytest

from gradebook import open_lake
from gradebook.tasks.lake import data_files
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.compaction import compact_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.lake.data_files import named_files, stored_digests
from gradebook.tasks.operations.doctor.examine import examine_files
from tests.support.nightly import nightly
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: words
version: 1.0.0
criteria:
  - {id: short, description: Is it short?, weight: 1, method: {type: check, check: length_words, settings: {max: 2}}}
"""
COUNT = 201  # more rows than a catalog takes in, so that DuckDB writes a file too


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    rows = [{"case_id": f"c{n}", "model": "m", "output": f"Answer {n}, in words"} for n in range(COUNT)]
    for run_id in ("a", "b"):
        publish(write_lines(folder / "outputs.jsonl", rows), folder / "rubric.yaml", run_id=run_id)
    return folder / "lake"


@pytest.fixture
def lake(published: Path, tmp_path: Path) -> Lake:
    shutil.copytree(published, tmp_path / "lake")
    return find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")


def files_of(lake: Lake) -> list[Path]:
    """The files that the catalog names."""
    with connect(lake, read_only=True) as connection:
        return [Path(file.path) for file in named_files(connection, lake)]


def flip(path: Path, at: int) -> None:
    """Change one bit of a file; its size and times of change stay as they are."""
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def named_by_doctor(lake: Lake) -> list[str]:
    with connect(lake, read_only=True) as connection:
        found = examine_files(named_files(connection, lake), lake, stored_digests(connection), is_deep=False)
        return [each.found for each in found if each.severity != "ok"]


@pytest.mark.parametrize("is_compacted", [True, *nightly([False])])
def test_the_doctor_names_each_file_with_a_changed_bit(lake, is_compacted):
    if is_compacted:  # rows of the catalog are written to files, and files of two runs to one
        compact_lake(lake, flushed_from=1, merged_from=2)
    files = files_of(lake)
    tables = {file.relative_to(f"{lake.data_path}/main").parts[0] for file in files}
    assert tables >= {"outputs", "verdicts", "output_scores", *({"runs", "run_scores"} if is_compacted else ())}
    assert named_by_doctor(lake) == []
    for file in files:
        whole = file.read_bytes()
        footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
        for at in (0, 40, footer // 2, footer + 20, len(whole) - 12, len(whole) - 6):
            flip(file, at)
            assert f"{file}: its content is not what was published" in " ".join(named_by_doctor(lake)), at
            file.write_bytes(whole)


@pytest.mark.parametrize(
    "words",
    [
        ("sql", "select 1"),
        ("compare", "a", "b"),
        *nightly([(("report", "a", "--format", "md"),), (("lake", "rebuild", "a", "--check"),)]),
    ],
    ids=lambda words: words[0],
)
def test_a_command_that_reads_a_changed_file_names_it(gradebook, lake, words):
    (file,) = Path(f"{lake.data_path}/main/verdicts/run_id=a").iterdir()
    flip(file, file.stat().st_size // 3)
    told = gradebook(*words, "--lake", f"sqlite:{lake.address}").err
    assert f"{file}: its content is not what was published, so figures may be wrong" in told


def test_a_lake_opened_from_python_warns_of_a_changed_file(lake):
    (file,) = Path(f"{lake.data_path}/main/verdicts/run_id=a").iterdir()
    flip(file, file.stat().st_size // 3)
    with pytest.warns(UserWarning, match="so figures may be wrong") as warned:
        open_lake(f"sqlite:{lake.address}")
    assert (Path(warned[0].filename), str(file) in str(warned[0].message)) == (Path(__file__), True)


def test_a_command_compares_the_newest_files_up_to_its_bound(lake, monkeypatch):
    files = {each: Path(lake.data_path) / "main" / "verdicts" / f"run_id={each}" for each in "ab"}
    for folder in files.values():
        (file,) = folder.iterdir()
        flip(file, file.stat().st_size // 3)
    assert len(data_files.changed_newest_files(lake)) == 2
    of_a = min(path for path in files_of(lake) if path.parent.name == "output_scores")  # names begin with the time
    newest = [path for path in files_of(lake) if path != of_a and not path.name.startswith("a-")]
    monkeypatch.setattr(data_files, "MOST_BYTES", sum(path.stat().st_size for path in newest))
    assert [Path(path).parent.name for path in data_files.changed_newest_files(lake)] == ["run_id=b"]


def test_a_transaction_gives_no_digest_to_a_file_that_another_has_published(lake):
    """The file was changed after its publication, perhaps by the damage itself."""
    file = files_of(lake)[0]
    flip(file, 40)
    commit(lake, "a test's own", lambda connection, _version: connection.execute("delete from ratings") and None)
    assert len(named_by_doctor(lake)) == 1


def test_a_file_that_another_transaction_saw_unfinished_is_whole(lake):
    file = Path(lake.data_path) / "main" / "ratings" / "ducklake-x.parquet"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"half of it")
    commit(lake, "a test's own", lambda connection, _version: connection.execute("delete from ratings") and None)

    def publish_it(connection, _version):
        connection.execute(f"copy (from ratings) to '{file}' (format parquet)")
        connection.execute("call ducklake_add_data_files('lake', 'ratings', ?)", [str(file)])

    commit(lake, "a test's own", publish_it)
    assert named_by_doctor(lake) == []
    assert data_files.changed_newest_files(lake) == []


@pytest.mark.parametrize("files", ['{"../../x.parquet": "0"}', '{"/dev/zero": "0"}', "[1]", '{"main/x": {}}', "0"])
def test_digests_of_a_foreign_catalog_open_no_file_elsewhere(lake, tmp_path, files):
    (tmp_path / "x.parquet").write_bytes(b"")

    def body(connection, _version):
        extra = '{"files": ' + files + "}"
        connection.execute("delete from ratings")
        connection.execute("call lake.set_commit_message('x', 'x', extra_info => ?)", [extra])

    commit(lake, "a test's own", body)
    assert data_files.changed_newest_files(lake) == []
    assert named_by_doctor(lake) == []
