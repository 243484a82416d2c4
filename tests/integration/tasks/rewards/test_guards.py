"""What a reward that rises may hide, by checkpoint: another judge, criteria without a reward, length and lists."""

from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.schema import make_tables, make_views
from gradebook.tasks.lake.sql import open_database
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.page import write_report
from tests.support.new_lakes import write_copy
from tests.support.published_runs import publish
from tests.support.samples import write_lines

CHECKPOINTS = ("step-1", "step-2")
RUBRIC = """
id: reply
version: 1.0.0
criteria:
  - {id: tone, description: Is it kind?, method: {type: judge}, levels: [{id: bad, score: 0}, {id: good, score: 1}]}
  - id: plain
    description: Has no list.
    reward: false
    weight: 0
    method: {type: check, check: count_bullets, settings: {max: 1}}
"""
LENIENT = ("lenient", True)  # judge, and whether the checkpoint is the second
LIST = "Well:\n- one\n- two\n- three"


def make_runs(folder: Path) -> None:
    """Two checkpoints of 12 cases each, judged by a lenient judge; a strict one judged the first eight cases.

    Both judges agree on the first checkpoint. On the second, all of whose outputs are lists, the lenient one scores 1.
    """
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    rows = [
        {"case_id": f"c{case}", "model": "m", "checkpoint": checkpoint, "output": LIST if step else f"no {case}"}
        for step, checkpoint in enumerate(CHECKPOINTS)
        for case in range(12)
    ]
    for judge, count in (("lenient", 12), ("strict", 8)):
        outputs = write_lines(folder / f"{judge}-outputs.jsonl", [*rows[:count], *rows[12 : 12 + count]])
        replies = [
            {name: row[name] for name in ("case_id", "model", "checkpoint")}
            | {"criterion_id": "tone", "level": "good" if place % 4 == 0 or (judge, place > 11) == LENIENT else "bad"}
            for place, row in enumerate(rows)
        ]
        recorded = write_lines(folder / f"{judge}.jsonl", replies)
        publish(outputs, folder / "rubric.yaml", judge=f"replay:{recorded}", run_id=judge)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    write_copy(tmp_path, make_runs)
    return find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")


def guards(lake: Lake, checkpoint: str) -> dict[str, dict[str, Any]]:
    select = "from reward_guards where run_id = 'lenient' and checkpoint = $checkpoint"
    with connect_up_to_date(lake) as connection:
        rows = read_rows(connection, select, checkpoint=checkpoint)
    return {row["guard"]: row for row in rows}


@pytest.mark.nightly
def test_each_checkpoint_has_its_gap_to_another_judge_and_what_is_not_rewarded(lake):
    first, second = (guards(lake, checkpoint) for checkpoint in CHECKPOINTS)
    assert (first["judge"]["n"], first["judge"]["value"]) == (8, 0.0)
    assert (second["judge"]["mean"], second["judge"]["value"]) == (0.25, 0.75)
    # sd of eight gaps, six of 1: 0.4629; / sqrt(8) x 2.365 (t, 7 degrees of freedom) = 0.387
    assert second["judge"]["ci_low"] == pytest.approx(0.75 - 0.387, abs=0.002)
    assert [each["unrewarded"]["mean"] for each in (first, second)] == [1.0, 0.0]
    assert [each["list"]["mean"] for each in (first, second)] == [0.0, 1.0]
    assert second["list"]["value"] is None  # all are lists: nothing to correlate


def test_a_correlation_that_rounds_past_1_is_1_and_equal_scores_have_none():
    scores = [
        2 / 3,
        1 / 3,
        1 / 3,
        0,
        0,
        0,
        0,
        0,
        0,
        2 / 3,
        1 / 3,
        2 / 3,
    ]  # DuckDB's corr with 7 x is 1.0000000000000002
    rows = [("run", f"o{place}", "m", score) for place, score in enumerate(scores)]
    rows += [("run", f"p{place}", "flat", 0.1) for place in range(12)]
    with open_database() as connection:
        make_tables(connection)
        make_views(connection)
        connection.execute("insert into runs (run_id, status) values ('run', 'published')")
        connection.executemany("insert into output_scores (run_id, output_id, model, score) values (?, ?, ?, ?)", rows)
        texts = [
            (output_id, "word " * round(1 + 21 * score + place % 12 * (score == 0.1)))
            for place, (_, output_id, _, score) in enumerate(rows)
        ]
        connection.executemany("insert into outputs (output_id, output) values (?, ?)", texts)
        found = connection.execute(
            "select model, value, ci_low, ci_high from reward_guards where guard = 'length' order by model"
        ).fetchall()
    assert found == [("flat", None, None, None), ("m", 1.0, 1.0, 1.0)]


@pytest.mark.nightly
def test_the_report_names_them_by_checkpoint(lake, tmp_path):
    summary = summarise(lake, "lenient")
    page = write_report(lake, summary, tmp_path / "report.html").read_text(encoding="utf-8")
    section = page.partition('id="guards"')[2].partition("</section>")[0]
    assert "m @ step-2: the run&#39;s judge scores +0.750 above replay:strict.jsonl, beyond chance." in section
    assert "m @ step-2: plain, which is not rewarded, fell from 1.000 to 0.000 since m @ step-1." in section
