"""What a plan leaves to be asked: open rows, and whatever is asked in one request with them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.tasks.judging.settings.judge import Packing
from gradebook.tasks.planning.shard_plan import asked_keys, open_keys
from gradebook.tasks.planning.similarity import KEY, PlannedKeys, write_planned_keys
from gradebook.tasks.workspace.folder import RunFolder

LEVELS = [{"id": "bad", "score": 0}, {"id": "good", "score": 1}]
CRITERIA = tuple(
    Criterion.model_validate({"id": name, "description": name, "method": {"type": "judge"}, "levels": LEVELS})
    for name in "abc"
)
RUBRIC = Rubric.model_construct(id="r", criteria=CRITERIA)
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("output_id", "criterion_id", "request_key", "status")),
        pa.field("judge_index", pa.int32()),
        pa.field("replicate", pa.int32()),
        pa.field("is_swapped", pa.bool_()),
    ]
)


def planned(criterion_id: str, statuses: dict[str, str | None], replicate: int = 0, judge_index: int = 0) -> pa.Table:
    rows = [
        {
            "output_id": output_id,
            "criterion_id": criterion_id,
            "request_key": f"{output_id}{criterion_id}{replicate}",
            "status": status,
            "judge_index": judge_index,
            "replicate": replicate,
            "is_swapped": False,
        }
        for output_id, status in statuses.items()
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def asked(packing: int, *tables: pa.Table) -> list[str]:
    plan = pa.concat_tables(tables)
    return sorted(asked_keys(plan, pc.is_null(plan.column("status")), RUBRIC, Packing(packing)))


HELD, OPEN = {"1": "scored"}, {"1": None}


@pytest.mark.parametrize(
    ("packing", "expected"),
    [(1, ["1b0"]), (2, ["1a0", "1b0"]), (3, ["1a0", "1b0", "1c0"])],
)
def test_the_held_parts_of_an_open_pack_are_asked_too(packing: int, expected: list[str]):
    assert asked(packing, planned("a", HELD), planned("b", OPEN), planned("c", HELD)) == expected


def test_of_other_outputs_and_opinions_nothing_is_asked():
    tables = (planned("a", {"1": "scored", "2": "scored"}), planned("a", HELD, replicate=1), planned("b", OPEN))
    assert asked(2, *tables) == ["1a0", "1b0"]


def test_what_a_row_brings_along_is_in_no_pack():
    assert asked(3, planned("a", HELD), planned("own", OPEN), planned("own too", HELD)) == ["1own0"]


def test_packs_are_of_the_criteria_that_the_judge_is_asked():
    assert asked(2, planned("b", HELD), planned("c", OPEN)) == ["1b0", "1c0"]


def test_the_open_keys_of_a_judge_are_found_over_all_plan_files(tmp_path: Path):
    folder = RunFolder(tmp_path)
    for shard_index, output_id in enumerate("12"):
        for criterion_id, status in (("a", "scored"), ("b", None)):
            file = folder.plan_file(criterion_id, shard_index)
            file.parent.mkdir(parents=True, exist_ok=True)
            tables = [planned(criterion_id, {output_id: status}, judge_index=index) for index in (0, 1)]
            pq.write_table(pa.concat_tables(tables), file)
    keys = np.array([b"of a vector"], KEY)
    planned_keys = PlannedKeys(np.ones(1, np.int64), keys, keys)
    write_planned_keys(folder.plan_file("like", 0), planned_keys)  # of the method similarity: other columns
    assert [list(open_keys(folder, RUBRIC, 1, Packing(packing))) for packing in (1, 2)] == [
        ["1b0", "2b0"],
        ["1a0", "1b0", "2a0", "2b0"],
    ]
