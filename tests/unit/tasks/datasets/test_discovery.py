import gzip
import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradebook.rubrics.model.errors import OutputsError
from gradebook.rubrics.model.outputs import Output
from gradebook.rubrics.model.steps import Step
from gradebook.tasks.datasets.discovery import dataset_files, digest_files, left_out_note, read_rows
from gradebook.tasks.datasets.row_parser import RowFitter

ROWS = [{"case_id": "c1", "model": "m", "output": "one"}, {"case_id": "c2", "model": "m", "output": "two"}]
COMPRESS = {"": bytes, ".gz": gzip.compress, ".zst": lambda plain: pa.compress(plain, codec="zstd", asbytes=True)}


def json_lines(rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def csv_text(rows) -> bytes:
    return "\n".join([",".join(rows[0]), *[",".join(row.values()) for row in rows]]).encode()


def parquet(rows) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


WRITERS = {".jsonl": json_lines, ".ndjson": json_lines, ".csv": csv_text, ".parquet": parquet}


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def read(path: Path, **column_map: str):
    return [(row.line, row.content) for row in read_rows([path], column_map)]


def fault_of(path: Path, **column_map: str) -> str:
    with pytest.raises(OutputsError) as caught:
        read(path, **column_map)
    return str(caught.value)


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("suffix", WRITERS)
def test_each_format_reads_plain_and_compressed(tmp_path, suffix, compression):
    path = written(tmp_path / f"a{suffix}{compression}", COMPRESS[compression](WRITERS[suffix](ROWS)))
    assert [content for _, content in read(path)] == ROWS


@pytest.mark.parametrize(("suffix", "first_line"), [(".jsonl", 1), (".csv", 2), (".parquet", 1)])
def test_a_row_knows_its_line(tmp_path, suffix, first_line):
    path = written(tmp_path / f"a{suffix}", WRITERS[suffix](ROWS))
    assert [line for line, _ in read(path)] == [first_line, first_line + 1]


def test_a_row_keeps_its_text_and_its_file(tmp_path):
    path = written(tmp_path / "a.jsonl", json_lines(ROWS))
    first = next(read_rows([path], {}))
    assert (first.source, first.text) == (str(path), b'{"case_id": "c1", "model": "m", "output": "one"}\n')


def test_blank_lines_are_passed_over_and_counted(tmp_path):
    path = written(tmp_path / "a.jsonl", b"\n  \r\n" + json_lines(ROWS))
    assert [line for line, _ in read(path)] == [3, 4]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_a_byte_order_mark_and_windows_line_ends_are_taken(tmp_path, suffix):
    plain = WRITERS[suffix](ROWS).replace(b"\n", b"\r\n")
    path = written(tmp_path / f"a{suffix}", b"\xef\xbb\xbf" + plain)
    assert [content for _, content in read(path)] == ROWS


def test_a_csv_cell_keeps_its_line_ends_and_its_row_has_the_line_it_begins_on(tmp_path):
    path = written(tmp_path / "a.csv", b'case_id,model,output\n1,m,"a\r\nb ""c"""\n\n2,m,x\n')
    assert [(line, row["output"]) for line, row in read(path)] == [(2, 'a\r\nb "c"'), (5, "x")]


def test_a_csv_cell_may_be_longer_than_the_default_limit_of_the_csv_module(tmp_path):
    path = written(tmp_path / "a.csv", b"case_id,model,output\n1,m," + b"x" * 200_000)
    assert len(read(path)[0][1]["output"]) == 200_000


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "found text that is not JSON (unexpected end of data, at character 2), expected one JSON object"),
        (b'{"output": "\\ud800"}', "found text that is not JSON (half of a surrogate pair, \\ud800, at character 13)"),
        (b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}", "found text that is not JSON (depth limit exceeded"),
        (b'"text"', 'found the text "text", expected one JSON object'),
        (b"[1]", "found a list of 1, expected one JSON object"),
    ],
)
def test_a_line_that_is_no_object_is_a_row_with_a_reason(tmp_path, line, reason):
    path = written(tmp_path / "a.jsonl", json_lines(ROWS) + line + b"\n")
    number, content = read(path)[-1]
    assert number == 3
    assert content.startswith(reason)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"3,m", "found 2 cells, expected 3 as in the header"),
        (b"3,m,x,y", "found 4 cells, expected 3 as in the header"),
        (b'3,m,"x"y', "found a row that is not CSV (',' expected after '\"'), expected cells with commas between"),
    ],
)
def test_a_csv_line_that_is_no_row_is_one_with_a_reason(tmp_path, line, reason):
    path = written(tmp_path / "a.csv", csv_text(ROWS) + b"\n" + line + b"\n4,m,z\n")
    assert read(path)[2:] == [(4, reason), (5, {"case_id": "4", "model": "m", "output": "z"})]


def test_a_quote_that_never_closes_is_fatal_for_it_swallows_good_rows(tmp_path):
    path = written(tmp_path / "a.csv", csv_text(ROWS) + b'\n3,m,"x\n4,m,z\n')
    assert fault_of(path).startswith(f"{path}:4: found quotes unclosed by line 5 (unexpected end of data), expected")


_WRAPPED = {"case_id": "c1", "model": "m", "output": "one", "data": [{"a": 1}]}


@pytest.mark.parametrize(
    ("document", "rows"),
    [
        (ROWS, ROWS),
        ({"data": ROWS}, ROWS),
        ({"version": 3, "results": {"results": ROWS, "stats": [{}]}}, ROWS),
        (ROWS[0], ROWS[:1]),
        (_WRAPPED, [_WRAPPED]),
        ([*ROWS, 7], [*ROWS, "found the number 7, expected one JSON object"]),
    ],
)
@pytest.mark.parametrize("indent", [None, 0, 2])
def test_one_json_document_is_rows(tmp_path, document, rows, indent):
    path = written(tmp_path / "a.json", b"\xef\xbb\xbf" + json.dumps(document, indent=indent).encode())
    assert read(path) == list(enumerate(rows, start=1))


def test_an_object_that_begins_on_the_first_line_is_read_over_lines(tmp_path):
    path = written(tmp_path / "a.json", b'{"case_id": "c1",\n"model": "m", "output": "one"}\n')
    assert read(path) == [(1, ROWS[0])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b'{\n"id": 1, "runs": {"all of": [{}, {}]}, "one": [{}]}',
            """.runs."all of" are the rows, jq -c '.runs."all of"[]' {path} > rows.jsonl; if it is one row, jq -c .""",
        ),
        (
            b'{\n"a": 1\n}\n{\n"a": 2\n}',
            "character 1), expected one list, or one object a line, as jq writes several: jq -c . {path} > rows.jsonl",
        ),
        (b"[{},", "expected one list, or one object a line, as jq writes several: jq -c . {path} > rows.jsonl"),
    ],
)
def test_another_document_is_one_fault_with_the_ways_out(tmp_path, content, message):
    path = written(tmp_path / "a.json", content)
    assert message.format(path=path) in fault_of(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_text_that_is_not_utf8_is_fatal_with_its_line_and_byte(tmp_path, suffix):
    path = written(tmp_path / f"a{suffix}", WRITERS[suffix](ROWS).replace(b"c2", b"c\xe9"))
    number, byte = {".jsonl": (2, 15), ".csv": (3, 2)}[suffix]  # {"case_id": "c is 14 bytes long, c is one
    found = f"{path}:{number}: found the byte 0xe9 at byte {byte} of the line, expected UTF-8: "
    assert (
        fault_of(path) == f"{found}if it is Windows' encoding, iconv -f WINDOWS-1252 -t UTF-8 {path} > utf8-{path.name}"
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_utf_16_is_fatal_with_the_command_that_converts_it(tmp_path, suffix, encoding):
    path = written(tmp_path / f"a{suffix}", WRITERS[suffix](ROWS).decode().encode(encoding))
    name = {"utf-16": "UTF-16", "utf-16-le": "UTF-16LE"}[encoding]
    hint = f"iconv -f {name} -t UTF-8 {path} > utf8-{path.name}"
    assert fault_of(path) == f"{path}:1: found {name}, expected UTF-8: {hint}"


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize(("compression", "name"), [(".gz", "gzip"), (".zst", "zstd")])
def test_a_stream_that_is_cut_off_is_fatal(tmp_path, suffix, compression, name):
    whole = COMPRESS[compression](WRITERS[suffix](ROWS))
    path = written(tmp_path / f"a{suffix}{compression}", whole[:-5])
    assert fault_of(path) == (
        f"{path}: found a {name} stream that is cut off or damaged (Truncated compressed stream), "
        f"expected whole {name}, as the name says"
    )


def test_plain_text_under_a_compressed_name_is_fatal(tmp_path):
    path = written(tmp_path / "a.jsonl.gz", json_lines(ROWS))
    assert "found a gzip stream that is cut off or damaged (zlib inflate failed" in fault_of(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", parquet(ROWS)[:-10]])
def test_a_broken_parquet_file_is_fatal(tmp_path, content):
    path = written(tmp_path / "a.parquet", content)
    assert fault_of(path).startswith(f"{path}: found a Parquet file that can't be read after row 0 (")


def test_text_of_parquet_that_is_not_utf8_is_fatal(tmp_path):
    no_text = pa.array([b"\xed\xa0\x80"]).view(pa.string())  # the bytes of a lone surrogate
    pq.write_table(pa.table({"case_id": ["c"], "model": ["m"], "output": no_text}), tmp_path / "a.parquet")
    assert "can't be read after row 0 ('utf-8' codec can't decode" in fault_of(tmp_path / "a.parquet")


@pytest.mark.parametrize(("suffix", "place"), [(".jsonl", ""), (".csv", ":1"), (".parquet", "")])
def test_a_required_column_that_no_row_has_is_fatal_with_a_hint(tmp_path, suffix, place):
    rows = [{"case_id": row["case_id"], "model": "m", "response": row["output"]} for row in ROWS]
    path = written(tmp_path / f"a{suffix}", WRITERS[suffix](rows))
    assert fault_of(path) == (
        f"{path}{place}: found the columns case_id, model, response; "
        "expected output: name the column that holds it, --map output=response"
    )


def test_a_json_line_without_a_required_column_is_left_to_be_judged_alone(tmp_path):
    path = written(tmp_path / "a.jsonl", json_lines([*ROWS, {"case_id": "c3"}]))
    assert read(path)[2] == (3, {"case_id": "c3"})


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_map_to_a_column_that_is_not_there_is_fatal(tmp_path, suffix):
    path = written(tmp_path / f"a{suffix}", WRITERS[suffix](ROWS))
    assert fault_of(path, prompt="question").endswith("expected question, which --map prompt=question names")


def test_a_map_of_an_unknown_column_is_fatal_before_anything_is_read(tmp_path):
    assert fault_of(tmp_path / "none.jsonl", answer="x").startswith("--map answer=x: found answer, expected one of")


def test_a_file_that_went_away_is_fatal(tmp_path):
    assert "No such file" in fault_of(tmp_path / "a.jsonl")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_an_empty_file_has_no_rows(tmp_path, suffix):
    assert read(written(tmp_path / f"a{suffix}", b"")) == []


def test_one_file_is_a_dataset(tmp_path):
    path = written(tmp_path / "a.json", b"")
    assert dataset_files(str(path)) == (path,)


def test_a_folder_gives_its_outputs_sorted_and_nothing_else(tmp_path):
    names = ["b.CSV", "a.jsonl.gz", "c.ndjson", "d.parquet.zst", ".hidden.jsonl", "notes.md", "settings.json"]
    for name in names:
        written(tmp_path / name, b"")
    assert [path.name for path in dataset_files(str(tmp_path))] == ["a.jsonl.gz", "b.CSV", "c.ndjson", "d.parquet.zst"]


def test_a_glob_gives_its_matches_sorted(tmp_path):
    for name in ["b.jsonl", "a.jsonl", "c.csv"]:
        written(tmp_path / name, b"")
    assert [path.name for path in dataset_files(f"{tmp_path}/*.jsonl")] == ["a.jsonl", "b.jsonl"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    path = written(tmp_path / "a[1].jsonl", b"")
    assert dataset_files(str(path)) == (path,)


def test_json_files_that_a_folder_leaves_out_are_named(tmp_path):
    assert left_out_note(str(tmp_path)) is None
    for name in ("a.jsonl", "b.json", "c.JSON", ".d.json"):
        written(tmp_path / name, b"{}")
    assert str(left_out_note(str(tmp_path))).startswith("b.json and 1 other file not read")
    assert left_out_note(str(tmp_path / "a.jsonl")) is None
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(OutputsError, match=r"for its .json files, which may be settings, give the glob '.*/\*.json'"):
        dataset_files(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.jsonl", "found a path that is not there, expected a file, a folder or a glob of outputs"),
        ("*.jsonl", "found a glob that matches no file, expected a file, a folder or a glob of outputs"),
        (
            "notes.md",
            "found the suffix .md, expected .jsonl, .ndjson, .csv, .tsv or .parquet, alone or with .gz or .zst",
        ),
        ("", "found a folder without outputs, expected files that end in .jsonl, .ndjson, .csv, .tsv or .parquet"),
    ],
)
def test_what_names_no_outputs_is_fatal(tmp_path, name, message):
    written(tmp_path / "notes.md", b"")
    with pytest.raises(OutputsError) as caught:
        dataset_files(f"{tmp_path}/{name}")
    assert message in str(caught.value)


def test_a_digest_is_that_of_the_digests_of_the_files(tmp_path):
    path = written(tmp_path / "a.jsonl", b"abc")
    assert digest_files([path]) == hashlib.sha256(hashlib.sha256(b"abc").digest()).hexdigest()


def test_a_digest_changes_with_the_order_of_the_files(tmp_path):
    first, second = written(tmp_path / "a.csv", b"a"), written(tmp_path / "b.csv", b"b")
    assert digest_files([first, second]) != digest_files([second, first])


def test_a_digest_does_not_change_with_a_name(tmp_path):
    assert digest_files([written(tmp_path / "a.csv", b"a")]) == digest_files([written(tmp_path / "b.csv", b"a")])


def test_a_digest_of_a_file_that_is_not_there_is_fatal(tmp_path):
    with pytest.raises(OutputsError, match="No such file"):
        digest_files([tmp_path / "a.csv"])


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ";"), (".csv", "\t"), (".tsv", "\t"), (".tsv", ",")])
def test_the_header_says_what_stands_between_cells(tmp_path, suffix, delimiter):
    lines = [("case_id", "model", "output"), ("c1", "m", '"1,5; a\tb"'), ("c2", "m", "two")]
    path = written(tmp_path / f"a{suffix}", "\n".join(map(delimiter.join, lines)).encode())
    assert [content["output"] for _, content in read(path)] == ["1,5; a\tb", "two"]


def test_a_row_that_is_not_csv_names_the_delimiter(tmp_path):
    path = written(tmp_path / "a.tsv", b'case_id\tmodel\toutput\nc1\tm\t"a"b\n')
    assert "expected cells with tabs between" in read(path)[0][1]


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]


def answered(content, **fields):
    return [*CHAT, {"role": "assistant", "content": content, **fields}]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_the_last_of_the_messages_is_the_output_and_the_others_are_the_prompt(tmp_path, suffix):
    messages = answered("So.")
    row = {"case_id": "c1", "model": "m", "messages": messages}
    content = f'case_id,model,messages\nc1,m,"{json.dumps(messages).replace(chr(34), chr(34) * 2)}"\n'.encode()
    path = written(tmp_path / f"a{suffix}", content if suffix == ".csv" else WRITERS[suffix]([row]))
    assert read(path)[0][1] == {"case_id": "c1", "model": "m", "prompt": CHAT, "output": "So."}


def test_conversations_without_ids_are_named_by_prompt_and_file(tmp_path):
    rows = [{"messages": answered("So.")}, {"messages": answered("No.")}, {"messages": answered("So.")[1:]}]
    found = [content for _, content in read(written(tmp_path / "gpt-4.1.jsonl", json_lines(rows)))]
    assert {row["model"] for row in found} == {"gpt-4.1"}
    assert found[0]["case_id"] == found[1]["case_id"] != found[2]["case_id"]


def test_an_id_under_another_name_is_asked_for_instead_of_made(tmp_path):
    path = written(tmp_path / "a.jsonl", json_lines([{"id": "c1", "messages": answered("So.")}]))
    assert "--map case_id=id" in fault_of(path)
    assert read(path, case_id="id")[0][1]["output"] == "So."


def test_nothing_of_an_answer_is_lost(tmp_path):
    calls = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    answers = [(None, {"tool_calls": calls}), ("So.", {"tool_calls": calls}), (parts, {}), (None, {"refusal": "No."})]
    rows = [{"messages": answered(content, **fields)} for content, fields in answers]
    found = [content for _, content in read(written(tmp_path / "a.jsonl", json_lines(rows)))]
    assert [row["output"] for row in found[1:]] == ["So.", "a\nb", "No."]
    assert json.loads(found[0]["output"]) == {"tool_calls": calls} == found[1]["answer"]


@pytest.mark.parametrize("messages", [CHAT, [], "Why?", [1], None])
def test_a_conversation_without_an_answer_is_refused_with_its_line(tmp_path, messages):
    path = written(tmp_path / "a.jsonl", json_lines([{"messages": messages}]))
    ((line, reason),) = read(path)
    assert (line, reason[:16]) == (1, "messages: found ")


@pytest.mark.parametrize("last", [{"role": "user", "content": "###STOP###"}, {"role": "tool", "content": "ok"}])
def test_a_run_that_ends_without_its_answer_has_the_assistants_last_text(tmp_path, last):
    messages = [*TOOLED, last]
    path = written(tmp_path / "a.jsonl", json_lines([{"case_id": "c1", "model": "m", "messages": messages}]))
    ((_, found),) = read(path)
    assert (found["prompt"], found["output"]) == (CHAT, "Taken.")
    assert found["steps"][-1]["output"] == last["content"]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_a_model_that_rows_do_not_name_is_given(tmp_path, suffix):
    rows = [{"case_id": "c1", "model": "", "output": "one"}, ROWS[1]]
    path = written(tmp_path / f"a{suffix}", WRITERS[suffix](rows))
    bare = written(tmp_path / f"b{suffix}", WRITERS[suffix]([{"case_id": "c3", "output": "x"}]))
    chat = written(tmp_path / "c.jsonl", json_lines([{"messages": answered("So.")}]))
    found = [raw.content["model"] for raw in read_rows([path, bare, chat], {}, model="given")]
    assert found == ["given", "m", "given", "given"]


def test_from_chat_reads_a_run_beside_its_output(tmp_path):
    row = {"case_id": "c1", "model": "m", "output": "Mine.", "messages": [*answered("So."), CHAT[1]]}
    path = written(tmp_path / "a.jsonl", json_lines([row]))
    (found,) = (raw.content for raw in read_rows([path], {}, trace_format="chat"))
    assert (found["prompt"], found["output"]) == (CHAT, "Mine.")
    assert [step["output"] for step in found["steps"]] == ["So.", "Why?"]


def test_messages_beside_an_output_or_mapped_ones_stay_as_they_are(tmp_path):
    row = {"case_id": "c1", "model": "m", "output": "So.", "messages": CHAT}
    path = written(tmp_path / "a.jsonl", json_lines([row]))
    assert read(path)[0][1] == read(path, prompt="messages")[0][1] == row


CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"room": 1}'}}
TOOLED = [
    *CHAT,
    {"role": "assistant", "content": None, "tool_calls": [CALL, CALL | {"id": "2"}]},
    {"role": "tool", "tool_call_id": "2", "content": "free", "is_error": True},
    {"role": "tool", "tool_call_id": "1", "content": "taken"},
    {"role": "tool", "tool_call_id": "9", "name": "odd", "content": "?"},
    {"role": "user", "content": "Well?"},
    {"role": "assistant", "content": "Taken.", "name": "bot"},
]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_conversation_with_results_of_tools_has_steps(tmp_path, suffix):
    row = {"case_id": "c1", "model": "m", "messages": TOOLED}
    ((_, found),) = read(written(tmp_path / f"a{suffix}", WRITERS[suffix]([row])))
    assert (found["prompt"], found["output"]) == (CHAT, "Taken.")
    fitted = RowFitter({}).fit(found, "jsonl")
    assert isinstance(fitted, Output)
    assert fitted.steps == (
        Step("model", output=""),
        Step("tool", "look", '{"room": 1}', "taken", parent_index=0),
        Step("tool", "look", '{"room": 1}', "free", "free", parent_index=0),
        Step("tool", "odd", output="?"),
        Step("user", output="Well?"),
        Step("model", output="Taken.", agent="bot"),
    )


def test_a_conversation_without_tools_and_one_with_own_steps_keep_them(tmp_path):
    rows = [{"messages": answered("So.")}, {"messages": TOOLED, "steps": [{"kind": "agent"}]}]
    plain, own = (content for _, content in read(written(tmp_path / "a.jsonl", json_lines(rows))))
    assert "steps" not in plain
    assert own["steps"] == [{"kind": "agent"}]


def test_results_of_another_evaluator_are_told_from_rows_and_the_import_is_named(tmp_path):
    path = tmp_path / "results.json"
    path.write_text('{"results": {"results": [{"vars": {}, "response": {"output": "x"}}]}}')
    with pytest.raises(OutputsError) as caught:
        list(read_rows((path,), {}))
    hint = str(caught.value).splitlines()[0]
    assert "found results.results, as in files of promptfoo" in hint
    assert f"gradebook rubric import {path} -o FOLDER reads them" in hint
