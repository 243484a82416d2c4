"""Readers of what others write, given mutated and inflated files: a sentence or a value, in bounded time and memory."""

import gc
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.importers.ratings.grading import scales_of_rubric
from gradebook.rubrics.importers.ratings.sheets import Naming
from gradebook.rubrics.importers.registry import FORMAT_NAMES, find_format
from gradebook.rubrics.model.errors import GradebookError
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.rubrics.prompts.reply_parser import read_reply
from gradebook.tasks.agreement.outcomes import OutcomeFile, read_outcomes
from gradebook.tasks.datasets.ingest import ingest_outputs
from gradebook.tasks.judging.replies.completion import read_completion
from gradebook.tasks.judging.replies.journal import Journal, read_journal
from gradebook.tasks.judging.replies.judgment_row import TOKEN_COLUMNS
from gradebook.tasks.judging.replies.recorded_judge import read_replies
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import connect, prepare_lake
from gradebook.tasks.ledger.ledger import settle_journals
from gradebook.tasks.operations.suite_cases import read_cases
from gradebook.tasks.operations.suites import read_suites
from gradebook.tasks.ratings.evaluation_file import read_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile, read_sheets
from gradebook.tasks.system.processes import call_in_child, limit_memory
from tests.support import agent_traces
from tests.support.cpu_budget import slowness
from tests.support.nightly import nightly
from tests.support.samples import RUBRIC

MOST_CPU_S = 5.0  # where `slowness` is 1; readers take up to 2, one whose time grows as the square takes minutes
MOST_MEMORY = 200_000_000
LARGE = 1_000_000
RUBRIC_TEXT = RUBRIC.format(version="1.0.0", weight=1)
RATED = parse_rubric(RUBRIC_TEXT, "r.yaml")
ROW = {"case_id": "a", "model": "m", "output": "o", "metadata": {"a": [1, None]}, "context": ["x"], "criteria": []}
REPLY = {"evidence": ["tea"], "rationale": "why", "level": "B"}
COMPLETION = {
    "choices": [{"message": {"content": json.dumps(REPLY)}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 9},
    "model": "m",
}
RECORDED = {"case_id": "a", "model": "m", "criterion_id": "c", "level": "good", "distribution": {"good": 1.0}}
RATING = {"case_id": "a", "model": "m", "criterion_id": "clarity", "level_id": "clear", "rater": "ann"}
MARK = {"step": 1, "label": "wrong", "error_type": "x", "severity": "minor", "rationale": "r"}
STEPS = {"trace_id": "t", "annotator": "ann", "timestamp": "2026-11-20T10:00:00Z", "annotations": [MARK]}
CLAIMS = {"output_id": "b" * 32, "rater": "ann", "rated_at": "2026-11-20", "claims": [{"claim": "c", "verdict": None}]}
OUTCOME = {"name": "n", "value": 1.5, "case_id": "a", "model": "m", "day": "2026-11-20"}
CASE = {"case_id": "a", "prompt": "Why?", "topic": "t", "metadata": {"a": [1, None]}, "steps": [{"kind": "tool"}]}
COUNTS = ("prompt_bytes", *TOKEN_COLUMNS, "replicate", "attempts")
PAID = dict.fromkeys(JUDGMENT_SCHEMA.names, "x") | dict.fromkeys(COUNTS, 1)
PAID |= {
    "distribution": '{"x":1.0}',
    "cost_usd": 0.25,
    "latency_ms": 1.5,
    "asked_at": datetime(2026, 11, 20, tzinfo=UTC),
}
JOURNAL = {"request_key": "a" * 32, "output_id": "b" * 32, "criterion_id": "c", "judge": "j", "cost_usd": 0.1}
SUITES = "lake: sqlite:lake/catalog.sqlite\nbudget_usd: 5\nsuites:\n  - {id: a, outputs: 'o/*.jsonl', rubric: r.yaml}\n"
JUDGE = "model: m\nbase_url: http://localhost/v1\nmax_in_flight: 4\nprices: {input_usd: 1, output_usd: 2}\n"
EXAMPLES = Path(__file__).parents[2] / "unit/rubrics/importers/examples"
WORDS = (
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"null", b"1e999", b"-0", b"[", b"{", b'"', b"\\u0000", b"\\ud800", b"\n"),
    *(b"&a", b"*a", b"<<: ", b"!!python/object", b"---", b"? ", b": ", b",,", b'""', b"9" * 400, b"NaN", b"\r"),
    b"\xef\xbb\xbf",
)
UNITS = (
    *(b"x", b"[", b"{", b'{"a":', b"[],", b"{},", b"0,", b'"a":1,', b"a\n", b"\n", b",", b'"', b"- a\n", b"- [a]\n"),
    *(b"- {", b"- - "),
)


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def read_outputs(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ingest_outputs("run", [path], Path(folder))


def read_reply_of(path: Path) -> None:
    read_reply(path.read_bytes().decode("utf-8", "replace"), "stop", None, {"A": "bad", "B": "good"}, "a cup of tea")


def read_rating_sheets(path: Path) -> None:
    scales = scales_of_rubric(RATED)
    read_sheets(RatingFile(path), Naming({}, None, lambda name: scales.find(name) is not None))


def read_journal_of(path: Path) -> None:
    for _ in read_journal(path, 1000, lambda _broken: None):
        pass


# Reader, name of its file, and a file that it takes.
READERS: dict[str, tuple[Callable[[Path], object], str, bytes]] = {
    "outputs": (read_outputs, "o.jsonl", line(ROW) * 3),
    "outputs csv": (read_outputs, "o.csv", b'case_id,model,output,metadata\na,m,"o ""x""\n y","{""a"": 1}"\n'),
    "traces": (read_outputs, "t.jsonl", line(agent_traces.otlp_messages())),
    "sessions": (read_outputs, "c.jsonl", b"".join(map(line, agent_traces.claude_code()))),
    "log": (read_outputs, "i.json", line(agent_traces.inspect_json())),
    "rubric": (lambda path: parse_rubric(path.read_bytes(), "r.yaml"), "r.yaml", RUBRIC_TEXT.encode()),
    "reply": (read_reply_of, "reply", line(REPLY)),
    "completion": (lambda path: read_completion(path.read_bytes(), 1.0), "completion", line(COMPLETION)),
    "recorded": (read_replies, "r.jsonl", line(RECORDED)),
    "ratings": (lambda path: read_ratings(path, RATED), "r.jsonl", line(RATING)),
    "rating sheets": (read_rating_sheets, "r.json", line([{"case_id": "a", "annotations": [{"result": [1]}]}])),
    "step sheets": (read_rating_sheets, "r.jsonl", line(STEPS)),
    "claim sheets": (read_rating_sheets, "r.jsonl", line(CLAIMS)),
    "outcomes": (lambda path: read_outcomes(OutcomeFile(str(path))), "u.jsonl", line(OUTCOME) * 2),
    "cases": (lambda path: read_cases([str(path)], {}), "c.jsonl", line(CASE) * 2),
    "journal": (read_journal_of, "j.jsonl", line(JOURNAL) * 2),
    "suites": (read_suites, "s.yaml", SUITES.encode()),
    "judge": (lambda path: read_judge(str(path), {}), "j.yaml", JUDGE.encode()),
}

# Lines that are faults, each of another kind; a file of them is told by its first, in bounded time.
BAD_LINES = (
    *(b'{"a":1}\n', b"1\n", b"{}\n", b'""\n', b"a:\n", b"- id: a\n", b"- {}\n", b"a,b\n", b"1 \n", b"[1] \n"),
    *(b'{"case_id":"a","model":"m","output":1}\n', b'{"case_id":1,"model":[],"criterion_id":{},"rater":[]}\n'),
    *(b'{"case_id":"a","model":"m","criterion_id":"q","rater":"r","score":1}\n', b'{"crc32":1,"a":1}\n'),
    *(line(RECORDED), line(RATING), line(REPLY), line(dict.fromkeys(JOURNAL) | {"a" * 80: 1})),
)
# Rows and traces of nothing but small parts.
ROWS = tuple(
    ('{"case_id":"a","model":"m","output":"o","COLUMN":[ENTRIES]}'.replace("COLUMN", column), entry)
    for column, entry in (("criteria", "{},"), ("context", "0,"), ("prompt", "[],"), ("steps", '{"kind":"x"},'))
)
TRACES = (
    *(
        ('{"resourceSpans":[{"scopeSpans":[{"spans":[ENTRIES]}]}]}', entry)
        for entry in ("{},", '{"traceId":"t","spanId":"s"},', '{"traceId":"t","spanId":"s","parentSpanId":"s"},')
    ),
    (
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"t","spanId":"s","attributes":[ENTRIES]}]}]}]}',
        '{"key":"gen_ai.prompt.0.tool_calls.1.a.b.c.d","value":{"kvlistValue":{"values":[]}}},',
    ),
    ('{"id":"t","observations":[ENTRIES]}', '{"id":"s","parentObservationId":"s"},'),
    ('{"id":"t","run_type":"llm","inputs":{},"child_runs":[ENTRIES]}', "{},"),
    ('{"info":{"trace_id":"t"},"data":{"spans":[ENTRIES]}}', "{},"),
    ('{"schema_version":"ATIF-v1.5","steps":[ENTRIES]}', '{"source":"agent","tool_calls":[{}]},'),
    ('{"version":2,"eval":{},"samples":[ENTRIES]}', '{"messages":[{}]},'),
    ('{"version":2,"eval":{},"samples":[{"messages":[ENTRIES]}]}', '{"role":"tool","content":[{"type":"tool_use"}]},'),
)
HEADS = {"suites": b"suites:\n", "rubric": RUBRIC_TEXT.encode(), "outputs csv": b"case_id,model,output\n"}


def mutated(seed: bytes, dice: random.Random) -> bytes:
    """A file with one to five pieces cut, doubled, swapped or replaced."""
    content = seed
    for _ in range(dice.randint(1, 5)):
        start = dice.randrange(len(content) + 1)
        end = min(len(content), start + dice.choice((0, 1, 2, 8, 40)))
        piece = dice.choice((b"", content[start:end] * 2, dice.choice(WORDS), content[start:end][::-1]))
        content = content[:start] + piece + content[end:]
    return content


def inflated(seed: bytes, name: str) -> Iterator[bytes]:
    """Files of a megabyte: a text, a list, a nest, a line, a key or an alias that repeats.

    A unit repeats alone, within or after the seed: for a reader in one of these places, for the readers in each.
    """
    for place, unit in enumerate(UNITS, list(READERS).index(name)):
        text = unit * (LARGE // len(unit))
        yield (text, seed[: len(seed) // 2] + text + seed[len(seed) // 2 :], seed + text)[place % 3]
    yield seed * (LARGE // len(seed))
    yield b"9" * LARGE
    yield b"a: &a [x]\nb: [" + b"*a," * (LARGE // 3) + b"]\n"
    yield b"".join(b"k%d: v\n" % number for number in range(LARGE // 12))
    for form, entry in ROWS if name == "outputs" else TRACES if name in ("traces", "log") else ():
        yield form.replace("ENTRIES", (entry * (LARGE // len(entry)))[:-1]).encode()
    for bad in BAD_LINES:
        yield HEADS.get(name, b"") + bad * (LARGE // len(bad))


def long_lists(document: Any, whole: Any = None) -> Iterator[bytes]:
    """The document with each of its lists in turn a megabyte long, of small entries that are mostly wrong."""
    if isinstance(document, list):
        kept = document[:]
        for entry in (b"{}", b"1,[]"):
            document[:] = ["ENTRIES"]
            text = json.dumps(whole or document, default=str).encode()
            yield text.replace(b'"ENTRIES"', b",".join([entry] * (LARGE // (len(entry) + 1))))
        document[:] = kept
    for part in document[:1] if isinstance(document, list) else document.values() if isinstance(document, dict) else ():
        yield from long_lists(part, whole or document)


def spent_on(reader: Callable[[Path], object], path: Path) -> float:
    """CPU seconds of one more reading."""
    began = time.process_time()
    with suppress(Exception):
        reader(path)
    return time.process_time() - began


def offenders(reader: Callable[[Path], object], path: Path, contents: Iterator[bytes]) -> Iterator[str]:
    """Contents that crash the reader or take too long."""
    for content in contents:
        path.write_bytes(content)
        began = time.process_time()
        with suppress(GradebookError):
            try:
                reader(path)
            except GradebookError:
                raise
            except (Exception, MemoryError) as error:  # noqa: BLE001 - reported
                yield f"{type(error).__name__} {str(error)[:200]}: {content[:200]!r} of {len(content)} bytes"
        spent = time.process_time() - began
        # Busy or slow machines: the better of two readings, in units of the machine's speed.
        if spent > MOST_CPU_S and (spent := min(spent, spent_on(reader, path)) / slowness()) > MOST_CPU_S:
            yield f"{spent:.1f} s: {content[:200]!r} of {len(content)} bytes"


@pytest.mark.parametrize(
    ("name", "kind"), nightly((name, kind) for name in READERS for kind in ("mutated", "inflated"))
)
def test_no_reader_crashes_or_takes_5_s_of_cpu_or_200_mb(tmp_path, name, kind):
    reader, file, seed = READERS[name]
    reader_takes_it = tmp_path / file
    reader_takes_it.write_bytes(seed)
    if name != "journal":  # its line lacks columns
        reader(reader_takes_it)
    dice = random.Random(f"{name} 27")  # noqa: S311 - the same inputs each night
    contents = (mutated(seed, dice) for _ in range(200)) if kind == "mutated" else inflated(seed, name)

    def work() -> None:
        limit_memory(MOST_MEMORY)
        gc.freeze()  # the objects of the test run are none of the reader's: looking through them was half of its CPU
        assert list(offenders(reader, tmp_path / file, contents)) == []

    call_in_child(work, 300)


@pytest.mark.parametrize("name", nightly(FORMAT_NAMES))
def test_no_importer_of_rubrics_takes_5_s_of_cpu_or_200_mb(tmp_path, name):
    found = find_format(name)
    example = next(EXAMPLES.glob(f"{name}.*"))
    text = example.read_text(encoding="utf-8")
    first = text.partition("\n")[0] if example.suffix == ".jsonl" else text

    def work() -> None:
        gc.freeze()  # what other tests left is not the reader's to collect
        limit_memory(MOST_MEMORY)
        path = tmp_path / f"r{example.suffix}"
        contents = (content + b"\n" for content in long_lists(yaml.safe_load(first)))
        assert list(offenders(lambda path: found.read(path.read_text("utf-8"), str(path)), path, contents)) == []

    found.read(text, str(example))
    call_in_child(work, 300)


# -------- journals of a lake: lines of its own run and of another
def disturbed(lines: list[bytes], others: list[bytes], dice: random.Random) -> bytes:
    """A journal with lines cut, doubled, moved, joined, of another run or with changed bits, one to six times."""
    content = list(lines)
    for _ in range(dice.randint(1, 6)):
        at, other = dice.randrange(len(content)), dice.randrange(len(content))
        line = content[at]
        place = dice.randrange(max(1, len(line) - 1))
        changed = {
            "cut": [line[:place] + b"\n"],
            "double": [line, line],
            "swap": [content[other]],
            "join": [line[:place] + content[other][place:]],
            "foreign": [dice.choice(others), line],
            "bit": [line[:place] + bytes([line[place] ^ 1 << dice.randrange(8)]) + line[place + 1 :]],
            "zeros": [line[:place] + b"\0" * dice.choice((1, 8, 4096)) + line[place:]],
            "word": [line[:place] + dice.choice(WORDS) + line[place:]],
        }
        kind = dice.choice([*changed])
        content[at : at + 1] = changed[kind]
        if kind == "swap":
            content[other] = line
    return b"".join(content)[: dice.choice((None, None, -1, -30))]


@pytest.mark.nightly
def test_a_damaged_journal_loses_no_whole_reply_and_brings_no_other(tmp_path):
    lake = find_lake(f"sqlite:{tmp_path}/catalog.sqlite")
    prepare_lake(lake)
    dice = random.Random("journals 27")  # noqa: S311 - the same inputs each night
    for trial in range(60):
        rows = [
            PAID | {"judgment_id": f"{trial}-{run}-{number}", "run_id": run, "reply": f'{number} "ä"'}
            for run in ("r", "other")
            for number in range(6)
        ]
        with Journal(tmp_path / "written", "r") as journal:
            journal.append(*rows)
        lines = journal.path.read_bytes().splitlines(keepends=True)
        damaged = disturbed(lines[:6], lines[6:], dice)
        path = lake.journal_folder / f"r.{trial}.aa.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(damaged)
        kept = [each + b"\n" for each in damaged.split(b"\n")[:-1]]  # the last one was being written
        notes: list[str] = []
        settle_journals(lake, notes)
        with connect(lake, read_only=True) as connection:
            found = (
                connection.execute("from judgments where judgment_id like ?", [f"{trial}-%"])
                .to_arrow_table()
                .to_pylist()
            )
        whole = [row for row, each in zip(rows, lines, strict=True) if each in kept]
        assert sorted(found, key=rows.index) == whole, damaged
        is_broken = any(each not in lines for each in kept)
        assert (len(notes), path.with_name(f"{path.name}.broken").exists()) == (is_broken, is_broken), damaged
        assert not path.exists()
