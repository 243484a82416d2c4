import json
import re
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.errors import OutputsError
from gradebook.rubrics.model.outputs import QUARANTINE_SCHEMA, SHARD_SCHEMA, Output, output_id
from gradebook.tasks.datasets.ingest import Ingested, ingest_outputs, refuse_bad_rows
from gradebook.tasks.datasets.row_parser import RowFitter


def row(case_id="c1", **columns):
    return {"case_id": case_id, "model": "m", "output": "yes"} | columns


def json_lines(folder: Path, *rows, name="a.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in rows))
    return path


def ingest(path: Path, **settings) -> Ingested:
    return ingest_outputs("run1", [path], path.parent / "run", **settings)


def stored(ingested: Ingested) -> list[dict]:
    return pa.concat_tables([pq.read_table(shard, schema=SHARD_SCHEMA) for shard in ingested.shards]).to_pylist()


def only_row(path: Path, **settings) -> dict:
    (stored_row,) = stored(ingest(path, **settings))
    return stored_row


def quarantined(folder: Path) -> list[dict]:
    return pq.read_table(folder / "run" / "quarantine.parquet").to_pylist()


def refusal(path: Path, **settings) -> str:
    with pytest.raises(OutputsError) as caught:
        ingest(path, **settings)
    return str(caught.value)


def test_a_row_is_stored_under_its_id_with_every_column(tmp_path):
    columns = {
        "checkpoint": 100,
        "sample_index": 2,
        "prompt": "Why?",
        "reference": "no",
        "context": ["x", "y"],
        "metadata": {"b": 1, "a": 2},
        "criteria": [{"id": "tone", "description": "?", "method": {"type": "judge"}}],
        "cluster": 3,
    }
    own = '[{"description":"?","id":"tone","method":{"type":"judge"}}]'
    expected = Output("7", "m", "100", 2, "Why?", "yes", "no", ["x", "y"], '{"a":2,"b":1}', own, "3")
    stored_row = only_row(json_lines(tmp_path, row(7, **columns)))
    assert stored_row == {"output_id": output_id(expected), **expected._asdict()}


def test_absent_columns_are_null_and_the_sample_index_is_zero(tmp_path):
    stored_row = only_row(json_lines(tmp_path, row()))
    assert {
        column: value for column, value in stored_row.items() if value is not None and column != "output_id"
    } == row(sample_index=0)


def test_a_summary_counts_rows_outputs_and_models(tmp_path):
    path = json_lines(tmp_path, row("c1", model="b"), row("c1", model="b"), row("c2", model="a"), "{")
    ingested = ingest(path, max_bad_rate=0.5)
    assert ingested == Ingested(
        shards=(str(tmp_path / "run/shards/shard-00000.parquet"),),
        row_count=4,
        output_count=2,
        duplicate_count=1,
        quarantined_count=1,
        extra_columns=(),
        models=("a", "b"),
    )


def test_shards_have_the_promised_schema(tmp_path):
    ingested = ingest(json_lines(tmp_path, row()))
    assert pq.read_schema(ingested.shards[0]).equals(SHARD_SCHEMA)


def test_an_empty_output_is_kept(tmp_path):
    assert only_row(json_lines(tmp_path, row(output="")))["output"] == ""


@pytest.mark.nightly
def test_an_output_of_ten_megabytes_with_nul_characters_is_kept(tmp_path):
    output = "é\0" * 5_000_000
    assert only_row(json_lines(tmp_path, row(output=output)))["output"] == output


def test_the_first_of_duplicates_stays_across_shards(tmp_path):
    # shards of two: c1 c2 | c1 c3 | c3 c2 | c4; the second loses c1, the third is left empty
    path = json_lines(tmp_path, *[row(case) for case in ["c1", "c2", "c1", "c3", "c3", "c2", "c4"]])
    ingested = ingest(path, shard_rows=2)
    assert [one["case_id"] for one in stored(ingested)] == ["c1", "c2", "c3", "c4"]
    assert [Path(shard).name[6:11] for shard in ingested.shards] == ["00000", "00001", "00003"]
    assert (ingested.output_count, ingested.duplicate_count) == (4, 3)


def test_duplicates_within_a_shard_are_dropped(tmp_path):
    ingested = ingest(json_lines(tmp_path, row("c1"), row("c1"), row("c2")), shard_rows=2)
    assert ([one["case_id"] for one in stored(ingested)], ingested.duplicate_count) == (["c1", "c2"], 1)


def test_shards_in_a_folder_whose_name_looks_like_a_glob_lose_their_duplicates(tmp_path):
    folder = tmp_path / "run[1]*"
    path = json_lines(tmp_path, row("c1"), row("c2"), row("c1"))
    assert ingest_outputs("run1", [path], folder, shard_rows=1).duplicate_count == 1


def test_a_file_given_twice_is_stored_once(tmp_path):
    path = json_lines(tmp_path, row("c1"), row("c2"))
    ingested = ingest_outputs(
        "run1", [path, json_lines(tmp_path, row("c1"), row("c2"), name="b.jsonl")], tmp_path / "run"
    )
    assert (ingested.output_count, ingested.duplicate_count) == (2, 2)


def test_a_shard_is_full_at_its_bytes(tmp_path):
    ingested = ingest(json_lines(tmp_path, *[row(str(case)) for case in range(4)]), shard_bytes=6)  # "yes" twice
    assert [pq.read_metadata(shard).num_rows for shard in ingested.shards] == [2, 2]


def test_a_row_that_does_not_fit_goes_to_quarantine_with_its_line_reason_and_text(tmp_path):
    path = json_lines(tmp_path, row(), "", row("c2", output=None))
    ingest(path, max_bad_rate=0.5)
    assert quarantined(tmp_path) == [
        {
            "run_id": "run1",
            "source": str(path),
            "line": 3,
            "reason": "output: found null, expected text",
            "row": '{"case_id": "c2", "model": "m", "output": null}',
        }
    ]


def test_the_text_of_a_quarantined_row_is_cut(tmp_path):
    ingest(json_lines(tmp_path, row(), "é" * 3_000), max_bad_rate=0.5)
    assert quarantined(tmp_path)[0]["row"] == "é" * 2_000


def test_a_quarantined_row_of_parquet_is_kept_as_json(tmp_path):
    pq.write_table(pa.Table.from_pylist([row(), row("c2", output=None)]), tmp_path / "a.parquet")
    ingest(tmp_path / "a.parquet", max_bad_rate=0.5)
    assert quarantined(tmp_path)[0]["row"] == '{"case_id":"c2","model":"m","output":null}'


def test_metadata_that_nests_too_deep_is_quarantined(tmp_path):
    deep = '{"case_id": "c2", "model": "m", "output": "x", "metadata": {"a": ' + "[" * 500 + "]" * 500 + "}}"
    ingest(json_lines(tmp_path, row(), deep), max_bad_rate=0.5)
    assert quarantined(tmp_path)[0]["reason"].startswith("found values that can't be kept as JSON (Recursion limit")


def test_an_empty_quarantine_is_written(tmp_path):
    ingest(json_lines(tmp_path, row()))
    assert pq.read_table(tmp_path / "run/quarantine.parquet").schema.equals(QUARANTINE_SCHEMA)
    assert quarantined(tmp_path) == []


def test_too_many_bad_rows_are_refused_by_file_and_line(tmp_path):
    path = json_lines(tmp_path, row(), row("c2", output=3), row("c3"), row("c4", model=None))
    assert refusal(path).splitlines() == [
        f"{path}: found 2 of 4 rows that do not fit, expected at most a share of 0.01 (--max-bad-rate)",
        f"{path}:2: output: found the number 3, expected text",
        f"{path}:4: model: found null, expected text (not empty)",
    ]


def test_the_limit_itself_is_not_too_many(tmp_path):
    # 29 of 100 is exactly 0.29
    path = json_lines(tmp_path, *[row(str(case), output=None if case < 29 else "x") for case in range(100)])
    assert ingest(path, max_bad_rate=0.29).quarantined_count == 29


def test_rows_that_are_all_bad_are_refused_whatever_the_limit(tmp_path):
    path = json_lines(tmp_path, row(output=None))
    assert refusal(path, max_bad_rate=1).startswith(f"{path}: found 1 of 1 rows that do not fit, expected outputs")


def test_no_rows_at_all_are_refused(tmp_path):
    path = json_lines(tmp_path, "", "")
    assert refusal(path) == f"{path}: found no rows, expected outputs"


def test_a_refused_dataset_leaves_nothing_in_the_folder(tmp_path):
    refusal(json_lines(tmp_path, row(), row("c2", output=None)), shard_rows=1)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_finished_ingest_is_not_read_again(tmp_path):
    path = json_lines(tmp_path, row("c1"), row("c2"))
    first = ingest(path)
    path.unlink()
    assert ingest(path) == first


def test_a_finished_ingest_is_found_where_its_folder_was_moved(tmp_path):
    ingest(json_lines(tmp_path, row()))
    moved = (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert ingest_outputs("run1", [], moved).shards == (str(moved / "shards/shard-00000.parquet"),)


def test_an_ingest_that_was_killed_starts_anew(tmp_path):
    leftover = tmp_path / "run/shards/shard-00009.parquet"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    assert len(stored(ingest(json_lines(tmp_path, row())))) == 1
    assert not leftover.exists()


def test_nothing_temporary_is_left(tmp_path):
    ingest(json_lines(tmp_path, row("c1"), row("c1"), row("c2")), shard_rows=1)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["ingest.json", "quarantine.parquet", "shards"]


def test_progress_counts_every_row(tmp_path):
    counts: list[int] = []
    ingest(json_lines(tmp_path, *[row(str(case)) for case in range(2_500)]), advance=counts.append)
    assert counts == [1_000, 1_000, 500]


def test_rows_keep_their_order(tmp_path):
    ingested = ingest(json_lines(tmp_path, *[row(f"{case:03d}") for case in range(100)]), shard_rows=7)
    cases = [one["case_id"] for one in stored(ingested)]
    assert all(earlier < later for earlier, later in pairwise(cases))


def test_a_shard_of_thousands_keeps_their_order_and_drops_late_repeats(tmp_path):
    rows = [row(f"c{number}") for number in range(2_500)]
    ingested = ingest(json_lines(tmp_path, *rows, *rows[:3]))
    assert (len(ingested.shards), ingested.duplicate_count) == (1, 3)
    assert [each["case_id"] for each in stored(ingested)] == [each["case_id"] for each in rows]


@pytest.mark.parametrize(
    ("rows", "notes"),
    [
        ([row(prompt="Hi"), row("c2", prompt="Hi")], []),
        (
            [row(prompt="How do I return it?", output="Within 30 days, by post."), row("c2", prompt="Hi")]
            + [row(name, prompt="How do I return it?", output="Within 30 days, by post.") for name in ("c3", "c4")],
            [
                (
                    "3 cases with the prompt and output of another id, such as c1 and c3: intervals and tests count "
                    "copies as one `cluster`, unless their rows name another one"
                )
            ],
        ),
        ([row(), row("c2", output=" ")], ["1 of 2 outputs came out empty, and are scored as empty answers"]),
        ([row(), row(output="no", sample_index=1), row(model="n")], []),
        (
            [row(), row(output="no", sample_index=0)],
            ["1 case id with several outputs of one model and sample_index, such as c1: number them"],
        ),
        (
            [row(prompt="Hi"), row("c2")],
            ["1 of 2 outputs came out without a prompt: a judge does not see what was asked"],
        ),
        (
            [row(prompt="Hi"), row(prompt="Ho", model="n"), row(model="o"), row("c2", prompt="Hi")],
            [
                "1 of 4 outputs came out without a prompt: a judge does not see what was asked",
                "1 case id with several prompts, such as c1: their outputs are compared as one case",
            ],
        ),
    ],
)
def test_outputs_that_may_not_be_what_was_meant_are_noted_with_counts(tmp_path, rows, notes):
    assert ingest(json_lines(tmp_path, *rows)).notes == tuple(notes)


def test_copies_of_a_case_get_one_cluster_unless_their_rows_name_one(tmp_path):
    text = {"prompt": "How do I return it?", "output": "Within 30 days, by post."}
    rows = [row("c3", **text), row("c1", **text), row("c2", prompt="Hi"), row("c4", cluster="own", **text)]
    rows += [row("c3", model="n", prompt="How long?", output="A month, from the day on which it came.")]
    rows += [row("c5", model="n", prompt="How long?", output="A month, from the day on which it came.")]
    clusters = [
        (each["case_id"], each["cluster"]) for each in stored(ingest(json_lines(tmp_path, *rows), shard_rows=1))
    ]
    copies = [(name, "copies of c1") for name in ("c3", "c1")]
    assert clusters == [*copies, ("c2", None), ("c4", "own"), *[(name, "copies of c1") for name in ("c3", "c5")]]


def test_values_that_json_lacks_are_noted(tmp_path):
    path = json_lines(tmp_path, row(metadata={"loss": float("nan")}), row("c2", metadata={"seed": 2**70}))
    ingested = ingest(path)
    assert [each["metadata"] for each in stored(ingested)] == ['{"loss":null}', f'{{"seed":"{2**70}"}}']
    assert ingested.notes == (
        "1 row with NaN or Infinity, read as null",
        "1 row with a number of more than 64 bits, kept as text",
    )


def test_unknown_columns_are_named_in_the_summary(tmp_path):
    assert ingest(json_lines(tmp_path, row(seed=3), row("c2", topic="bees"))).extra_columns == ("seed", "topic")


def test_a_csv_file_and_its_twin_in_json_lines_are_the_same_outputs(tmp_path):
    (tmp_path / "a.csv").write_text("case_id,model,output\nc1,m,yes\n")
    files = [tmp_path / "a.csv", json_lines(tmp_path, row())]
    assert ingest_outputs("run1", files, tmp_path / "run").duplicate_count == 1


FILES = {
    "good": ([row("c1"), row("c2")], {}),
    "no rows": ([], {}),
    "a wrong column": ([row("c1")], {"column_map": {"output": "answer"}}),
    "one bad row of three": ([row("c1"), row("c2"), row("c3", output=None)], {}),
    "one bad row of three, allowed": ([row("c1"), row("c2"), row("c3", output=None)], {"max_bad_rate": 0.5}),
    "bad rows that further rows make few": ([row("c0", output=None)] + [row(f"c{n}") for n in range(1, 1002)], {}),
}


@pytest.mark.parametrize(("rows", "settings"), FILES.values(), ids=list(FILES))
def test_a_look_at_the_first_rows_refuses_what_the_ingest_refuses_and_nothing_else(tmp_path, rows, settings):
    path = json_lines(tmp_path, *rows)
    column_map, max_bad_rate = settings.get("column_map", {}), settings.get("max_bad_rate", 0.01)
    look = partial(refuse_bad_rows, [path], RowFitter(column_map), column_map, max_bad_rate)
    try:
        ingest(path, **settings)
    except OutputsError as error:
        with pytest.raises(OutputsError, match=f"^{re.escape(str(error))}$"):
            look()
    else:
        look()


def test_a_look_at_the_first_rows_reads_no_further(tmp_path):
    path = json_lines(tmp_path, *[row(f"c{n}", output=None) for n in range(2000)])
    refuse_bad_rows([path], RowFitter({}), {}, 0.01)  # whether 1,000 bad rows are too many depends on the others


def test_a_file_of_bad_rows_is_read_until_no_good_rows_could_make_them_few(tmp_path):
    # 1,000 rows of 3 bytes; 2,997,000 bytes more would be 149,850 good rows of 20 bytes: 0.7%. After 2,000: 1.3%
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n" * 1_000_000)
    assert refusal(path).startswith(f"{path}: found 2000 of the first 2000 rows that do not fit, expected outputs\n")


@pytest.mark.nightly
@pytest.mark.parametrize("count", [999, 1_001])
def test_columns_that_no_row_has_are_named_once_however_many_rows_there_are(tmp_path, count):
    path = json_lines(tmp_path, *({"idx": number, "answer": "y"} for number in range(count)))
    said = refusal(path).splitlines()
    assert [line.partition("; expected ")[2].partition(":")[0] for line in said] == ["case_id", "model", "output"]
    assert "found the columns idx, answer; expected output" in said[2]
    assert "--map output=answer" in said[2]


def test_good_rows_behind_a_thousand_bad_ones_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"case_id,model,output\n" + b"x\n" * 1000 + b"a,m,\n" * 101_000)
    ingested = ingest(path)
    assert (ingested.quarantined_count, ingested.output_count) == (1000, 1)


def test_families_of_nearly_equal_prompts_without_a_cluster_are_noted_but_not_a_template(tmp_path):
    topics = [
        "refunds of a broken kettle",
        "the opening hours in Basel",
        "a lost parcel from Lyon",
        "changing a password",
    ]
    asked = [
        f"{start} about {topic}, which I need to know by Friday?" for topic in topics for start in ("Hi, what", "What")
    ]
    alike = [row(f"c{number}", prompt=prompt * 2) for number, prompt in enumerate(asked)]
    unlike = [row(f"d{number}", prompt=f"{number * 7919:x} " * 12) for number in range(1, 5)]
    noted = "8 of the first 12 cases have nearly the prompt of another case"
    assert ingest(json_lines(tmp_path, *alike, *unlike)).notes[0].startswith(noted)
    template = [
        row(f"c{number}", prompt="Summarise this text in one sentence, please, number " + "x" * number)
        for number in range(20)
    ]
    (tmp_path / "one").mkdir()
    assert ingest(json_lines(tmp_path / "one", *template)).notes == ()
