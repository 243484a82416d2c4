"""The journal: nothing paid for is lost, nothing half-written is read."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gradebook.rubrics.model.errors import LakeError, UnfinishedError
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.judging.replies.journal import BrokenLine, Journal, read_journal, settled_journals
from gradebook.tasks.judging.replies.judgment_row import TOKEN_COLUMNS

ASKED_AT = datetime(2026, 11, 20, 12, 0, 0, 250_000, tzinfo=UTC)


def make_judgment(**changes: Any) -> dict[str, Any]:
    names = ("prompt_bytes", *TOKEN_COLUMNS, "replicate", "attempts")
    numbers = dict.fromkeys(names, 1)
    texts = dict.fromkeys(JUDGMENT_SCHEMA.names, "x")
    return texts | numbers | {"cost_usd": None, "distribution": None, "latency_ms": 1.5, "asked_at": ASKED_AT} | changes


WRITER = """
import sys
from pathlib import Path
from gradebook.tasks.judging.replies.journal import Journal
journal = Journal(Path(sys.argv[1]), "run")
journal.append({"judgment_id": "x"})
print(journal.path, flush=True)
sys.stdin.read()
"""


def write(folder: Path, *judgments: dict[str, Any]) -> Path:
    with Journal(folder, "run") as journal:
        for judgment in judgments:
            journal.append(judgment)
    return journal.path


def read(path: Path, row_count: int = 100) -> pa.Table:
    return pa.concat_tables(read_journal(path, row_count))


def test_a_judgment_comes_back_as_it_was_written(tmp_path: Path):
    path = write(tmp_path, make_judgment(reply="a\nb"))
    assert read(path).to_pylist() == [make_judgment(reply="a\nb")]


def test_the_table_has_the_schema_of_judgments(tmp_path: Path):
    assert read(write(tmp_path, make_judgment())).schema == JUDGMENT_SCHEMA


def test_a_judgment_is_on_disk_before_the_journal_is_closed(tmp_path: Path):
    with Journal(tmp_path, "run") as journal:
        journal.append(make_judgment())
        assert read(journal.path).num_rows == 1


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_is_left_out(tmp_path: Path, cut: int):
    path = write(tmp_path, make_judgment(), make_judgment())
    os.truncate(path, path.stat().st_size - cut)
    assert read(path).num_rows == 1


@pytest.mark.parametrize("line", ["{", "[]", '{"judgment_id": "x"}', ""])
def test_any_other_broken_line_is_named(tmp_path: Path, line: str):
    path = write(tmp_path, make_judgment())
    path.write_text(path.read_text() + line + "\n" + path.read_text())
    with pytest.raises(LakeError, match=r"\.jsonl:2: "):
        read(path)


@pytest.mark.parametrize("change", [{"attempts": "many"}, {"asked_at": "noon"}, {"judge": None}, {"replicate": 2**40}])
def test_a_value_of_another_type_is_named(tmp_path: Path, change: dict[str, Any]):
    path = write(tmp_path, make_judgment(), make_judgment(**change))
    with pytest.raises(LakeError, match=r"\.jsonl:2: "):
        read(path)


def test_a_journal_is_read_some_lines_at_a_time(tmp_path: Path):
    path = write(tmp_path, *(make_judgment() for _ in range(5)))
    assert [table.num_rows for table in read_journal(path, 2)] == [2, 2, 1]


def test_a_broken_line_of_a_later_batch_is_named(tmp_path: Path):
    path = write(tmp_path, *(make_judgment() for _ in range(4)), make_judgment(attempts="many"))
    with pytest.raises(LakeError, match=r"\.jsonl:5: "):
        read(path, 2)


def test_a_run_of_lines_that_are_too_short_is_one_broken_line_and_those_around_it_are_read(tmp_path: Path):
    path = write(tmp_path, make_judgment(), make_judgment())
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"\n" * 3000 + second + b"{}\n" + b"\n")
    broken: list[BrokenLine] = []
    assert sum(table.num_rows for table in read_journal(path, 1000, broken.append)) == 2
    assert [text for _, text in broken] == [b"\n" * 3000, b"{}\n\n"]
    assert str(broken[1][0]).startswith(f"{path}:3003: found 2 lines that are too short")


def test_a_journal_with_a_living_writer_is_not_settled(tmp_path: Path):
    with Journal(tmp_path, "run") as journal:
        journal.append(make_judgment())
        assert list(settled_journals(tmp_path)) == []


def test_a_journal_is_settled_once_its_writer_is_gone(tmp_path: Path):
    path = write(tmp_path, make_judgment())
    assert list(settled_journals(tmp_path)) == [path]


def test_an_empty_journal_leaves_nothing_behind(tmp_path: Path):
    write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_folder_has_no_journals(tmp_path: Path):
    assert list(settled_journals(tmp_path / "none")) == []


def test_a_closed_journal_takes_nothing_more(tmp_path: Path):
    journal = Journal(tmp_path, "run")
    journal.close()
    with pytest.raises(UnfinishedError, match="closed"):
        journal.append(make_judgment())


def test_a_journal_is_settled_once_its_writer_was_killed(tmp_path: Path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        path = Path(writer.stdout.readline().strip())
        before = list(settled_journals(tmp_path))
        writer.send_signal(signal.SIGKILL)
    assert (before, list(settled_journals(tmp_path))) == ([], [path])


def test_a_journal_that_is_being_settled_is_left_to_whoever_does(tmp_path: Path):
    first, second = write(tmp_path, make_judgment()), write(tmp_path, make_judgment())
    sweeps = settled_journals(tmp_path), settled_journals(tmp_path)
    assert {next(sweeps[0]), next(sweeps[1])} == {first, second}
    assert [list(sweep) for sweep in sweeps] == [[], []]  # each passes by what the other holds, or held


def test_a_journal_that_vanished_is_passed_by(tmp_path: Path):
    first, second = sorted((write(tmp_path, make_judgment()), write(tmp_path, make_judgment())))
    sweep = settled_journals(tmp_path)
    assert next(sweep) == first
    second.unlink()
    assert list(sweep) == []


def test_a_journal_of_an_earlier_gradebook_has_fewer_columns(tmp_path: Path):
    earlier = {name: value for name, value in make_judgment().items() if name not in ("service_tier", "prompt_bytes")}
    table = read(write(tmp_path, earlier))
    assert (table["service_tier"].to_pylist(), table["prompt_bytes"].to_pylist()) == ([None], [None])
