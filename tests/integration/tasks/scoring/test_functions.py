"""Functions of users: which may run, and what becomes of a row when one fails, hangs, eats memory or dies."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.functions import is_vectorised, is_within, vectorised
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.steps import STEPS_TYPE
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA
from gradebook.tasks.methods import function as functions
from gradebook.tasks.methods.function import FunctionPool, probe_functions, score_function
from gradebook.tasks.runs.function_settings import FunctionSettings, refuse_other_functions
from gradebook.tasks.workspace.timings import Timing

LEVELS = [{"id": "bad", "score": 0.0}, {"id": "fair", "score": 0.5}, {"id": "good", "score": 1.0}]
SOURCE = """
import ctypes, os, signal, subprocess, sys, time
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from subprocess import getoutput
from gradebook.rubrics.model.functions import vectorised

def forever():
    while True:
        pass

def hog():
    return bytearray(1 << 30)

def end_later():
    time.process_time = lambda: os._exit(4)
    return True

def recurse():
    return recurse()

def fork_and_end():
    if os.fork() == 0:
        time.sleep(60)
    os._exit(5)

BALLAST = []

class Rude(Exception):
    def __str__(self):
        raise ValueError("no words")

def rude():
    raise Rude

ACTS = {
    "raise": lambda: {}["key"],
    "rude": rude,
    "exit": lambda: sys.exit(3),
    "os._exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "loop": forever,
    "hog": hog,
    "recurse": recurse,
    "end later": end_later,
    "close": lambda: os.closerange(3, 100),
    "print": lambda: (print("said", flush=True), print(b"\\xff", file=sys.stderr), os.write(1, b"raw"), True)[-1],
    "huge": lambda: ("x" * 50_000_000, "y" * 50_000_000),
    "none": lambda: None,
    "why": lambda: (None, "no date in it"),
    "float": lambda: 4.5,
    "fraction": lambda: (0.62, "62 of 100"),
    "dict": lambda: {"level": "good"},
    "unknown": lambda: "splendid",
    "numpy": lambda: np.bool_(True),
    "number": lambda: 3,
    "pair": lambda: ("fair", "half of it"),
    "list": lambda: ["fair", 7],
    "surrogate": lambda: ("good", "\\ud800"),
    "fork": lambda: os.fork() >= 0,
    "fork and end": fork_and_end,
    "program": lambda: subprocess.run(["echo", "hi"], stdout=sys.stdout).returncode == 0,
    "arrow": lambda: pa.scalar(True),
    "arrow text": lambda: (pa.scalar("fair"), pa.scalar("half of it")),
    "keep": lambda: BALLAST.append(bytearray(80 << 20)),
    "pid": lambda: ("good", str(os.getpid())),
}

def act(row):
    return ACTS.get(row["output"], lambda: True)()

def same(row):
    return True, " ".join(str(row[name]) for name in ("case_id", "checkpoint", "sample_index", "context", "metadata"))

def brief(row, settings):
    return len(row["output"].split()) <= settings["most"]

@vectorised
def short(table):
    return pc.less(pc.utf8_length(table["output"]), 5)

@vectorised
def picky(table, settings):
    return [(settings["level"], text) for text in table["output"].to_pylist()]

@vectorised
def acting(table):
    return [ACTS.get(text, lambda: True)() for text in table["output"].to_pylist()]

@vectorised
def unordered(table):
    return {"set": {"good", "bad"}, "dict": {"good": 1, "bad": 2}, "text": "ab"}[table["output"][0].as_py()]

def steps(content):
    return ("good", str(content["steps"])) if content["steps"] > 1 else "bad"

@vectorised
def too_few(table):
    return np.array([True])

class Grader:
    @staticmethod
    def grade(row):
        return "good"

NOT_CALLABLE = 3
"""

LIGHT = """
from gradebook.rubrics.model.functions import vectorised

def act(row):
    while row["output"] == "loop":
        pass
    return True

@vectorised
def act_once(table):
    return [act({"output": text}) for text in table["output"].to_pylist()]
"""


@pytest.fixture(autouse=True, scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package my_checks in the current folder."""
    folder = tmp_path_factory.mktemp("current")
    (folder / "my_checks").mkdir()
    (folder / "my_checks" / "__init__.py").write_text(SOURCE, encoding="utf-8")
    (folder / "json.py").write_text("raise RuntimeError", encoding="utf-8")  # neither stands in for a library
    (folder / "tasks.py").write_text("raise RuntimeError", encoding="utf-8")
    (folder / "light.py").write_text(LIGHT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder / "my_checks"


SETTINGS = FunctionSettings(allow=("my_checks", "light"), row_time_limit_s=20.0, memory_limit_mb=256)


@pytest.fixture(scope="module")
def pool(package: Path) -> Iterator[FunctionPool]:
    """One for all tests: a process is started anew where a test ended one."""
    with FunctionPool(SETTINGS, package / "log") as opened:
        yield opened


def shard(*outputs: str) -> pa.Table:
    count = len(outputs)
    texts = pa.nulls(count, pa.string())
    columns = {
        "output_id": [f"id{n}" for n in range(count)],
        "case_id": [f"c{n}" for n in range(count)],
        "model": ["m"] * count,
        "checkpoint": texts,
        "sample_index": pa.array([0] * count, pa.int32()),
        "cluster": pa.nulls(count, pa.string()),
        "steps": pa.nulls(count, STEPS_TYPE),
        "prompt": texts,
        "output": pa.array(outputs, pa.string()),
        "reference": texts,
        "context": pa.nulls(count, pa.list_(pa.string())),
        "metadata": pa.array(['{"day": 1}'] * count, pa.string()),
    }
    return pa.table(columns)


def criterion(name: str = "my_checks:act", levels: Any = LEVELS, **settings: Any) -> Criterion:
    method = {"type": "function", "function": name} | ({"settings": settings} if settings else {})
    return Criterion.model_validate({"id": "own", "description": "Is it so?", "method": method, "levels": levels})


def scored(pool: FunctionPool | None, rows: pa.Table, **of_criterion: Any) -> pa.Table:
    return score_function("run", criterion(**of_criterion), rows, pool, Timing("score"))


def rubric(*names: str) -> Rubric:
    methods = [{"type": "function", "function": name} for name in names]
    criteria = [{"id": f"c{n}", "description": "Is it so?", "method": method} for n, method in enumerate(methods)]
    return Rubric.model_validate({"id": "r", "version": "1.0.0", "criteria": criteria})


# -------- verdicts
@pytest.mark.parametrize(
    ("output", "level", "evidence"),
    [
        ("anything", "good", None),  # True is the highest level
        ("", "good", None),
        ("numpy", "good", None),
        ("arrow", "good", None),
        ("arrow text", "fair", "half of it"),
        ("program", "good", None),
        ("pair", "fair", "half of it"),
        ("list", "fair", "7"),
        ("surrogate", "good", "?"),
        ("print", "good", None),
    ],
)
def test_a_level_that_a_function_returns_is_the_verdict(pool, output, level, evidence):
    verdicts = scored(pool, shard(output))
    assert verdicts.schema == VERDICT_SCHEMA
    assert verdicts.select(["level_id", "evidence", "reason"]).to_pylist() == [
        {"level_id": level, "evidence": evidence, "reason": None}
    ]


def test_a_function_may_take_the_output_s_json_object_alone(pool):
    method = {"type": "function", "function": "my_checks:steps", "takes": "content"}
    of_content = Criterion.model_validate({"id": "own", "description": "d", "method": method, "levels": LEVELS})
    rows = shard('{"steps": 2}', '{"steps": 1}', "two steps", "[1]")
    verdicts = score_function("run", of_content, rows, pool, Timing("score"))
    assert verdicts["level_id"].to_pylist() == ["good", "bad", None, None]
    reason = "function not called: found an output that is no JSON object, which `takes: content` needs"
    assert verdicts["reason"].to_pylist() == [None, None, reason, reason]


def test_a_whole_number_names_a_level_of_a_scale(pool):
    levels = [{"id": 1, "score": 0}, {"id": 3, "score": 1}]
    assert scored(pool, shard("number"), levels=levels)["level_id"].to_pylist() == ["3"]


def test_a_fraction_is_the_score_itself(pool):
    (row,) = scored(pool, shard("fraction")).to_pylist()
    assert (row["level_id"], row["score"], row["evidence"]) == ("fair", 0.62, "62 of 100")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("raise", "function raised KeyError: 'key'"),
        ("rude", "function raised Rude"),
        ("exit", "function raised SystemExit: 3"),
        ("os._exit", "function's process ended (exit code 3)"),
        ("kill", "function's process died (signal 9)"),
        ("segfault", "function's process died (signal 11)"),
        ("hog", "function ran out of memory"),
        ("recurse", "function raised RecursionError: maximum recursion depth exceeded"),
        ("fork and end", "function's process ended (exit code 5)"),
        ("close", "function's process ended (exit code 1)"),
        ("none", "the function can't tell"),
        ("float", "function returned the score 4.5, expected 0 to 1"),
        ("dict", "function returned a dict, expected a level id, a score, True, False or None"),
        ("unknown", "unknown_level: 'splendid', expected one of bad, fair, good"),
        ("huge", f"unknown_level: '{'x' * 59}…', expected one of bad, fair, good"),
    ],
)
def test_a_row_that_fails_is_unscored_with_the_reason_and_the_others_go_on(pool, output, reason):
    verdicts = scored(pool, shard("before", output, "after"))
    assert verdicts["level_id"].to_pylist() == ["good", None, "good"]
    assert verdicts["score"].to_pylist() == [1.0, None, 1.0]
    assert verdicts["reason"].to_pylist() == [None, reason, None]


def test_what_a_function_can_not_tell_may_have_evidence(pool):
    (row,) = scored(pool, shard("why")).to_pylist()
    assert (row["status"], row["reason"], row["evidence"]) == ("unscored", "the function can't tell", "no date in it")


def test_a_function_sees_the_row_with_its_context_and_metadata_read(pool):
    assert scored(pool, shard("x"), name="my_checks:same")["evidence"].to_pylist() == ["c0 None 0 [] {'day': 1}"]


def test_settings_are_the_second_argument(pool):
    verdicts = scored(pool, shard("a b", "a b c"), name="my_checks:brief", most=2)
    assert verdicts["level_id"].to_pylist() == ["good", "bad"]


def test_a_method_of_a_class_is_a_function_too(pool):
    assert scored(pool, shard("x"), name="my_checks:Grader.grade")["level_id"].to_pylist() == ["good"]


def test_an_empty_shard_calls_nothing(pool):
    assert scored(pool, shard()).num_rows == 0


def test_a_function_of_another_package_leaves_its_rows_unscored(pool):
    for each in (pool, None):
        verdicts = scored(each, shard("x"), name="other:act")
        assert verdicts["reason"].to_pylist() == ["unsupported_method: function"]


def test_a_criterion_of_another_method_is_refused():
    check = {"id": "own", "description": "d", "method": {"type": "schema", "schema": {}}}
    with pytest.raises(TypeError, match="own: found the method schema, expected function"):
        score_function("run", Criterion.model_validate(check), shard("x"), None, Timing("score"))


# -------- vectorised
def test_a_vectorised_function_takes_the_whole_shard(pool):
    outputs = ["abc", "abcdef"] * 1_500  # more than the 1,000 rows that are sent at once where it is not
    assert scored(pool, shard(*outputs), name="my_checks:short")["level_id"].to_pylist() == ["good", "bad"] * 1_500


def test_a_vectorised_function_may_give_evidence_and_take_settings(pool):
    verdicts = scored(pool, shard("a", "b"), name="my_checks:picky", level="fair")
    assert verdicts.select(["level_id", "evidence"]).to_pydict() == {"level_id": ["fair"] * 2, "evidence": ["a", "b"]}


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("raise", "function raised KeyError: 'key'"),
        ("kill", "function's process died (signal 9)"),
        ("hog", "function ran out of memory"),
    ],
)
def test_a_vectorised_function_that_fails_leaves_all_its_rows_unscored(pool, output, reason):
    assert scored(pool, shard("a", output, "b"), name="my_checks:acting")["reason"].to_pylist() == [reason] * 3


@pytest.mark.nightly
def test_a_call_that_takes_too_long_is_stopped():
    settings = SETTINGS.model_copy(update={"row_time_limit_s": 0.2, "time_limit_s": 1.0})
    with FunctionPool(settings) as pool:
        rows = scored(pool, shard("a", "loop", "b"), name="light:act")
        shards = scored(pool, shard("a", "loop", "b"), name="light:act_once")
    assert rows["reason"].to_pylist() == [None, "function took more than 0.2 s", None]
    assert shards["reason"].to_pylist() == ["function took more than 1 s"] * 3


def test_too_few_verdicts_are_none(pool):
    reason = "function raised ValueError: found 1 verdict, expected 2"
    assert scored(pool, shard("a", "b"), name="my_checks:too_few")["reason"].to_pylist() == [reason] * 2


@pytest.mark.parametrize(("output", "kind"), [("set", "set"), ("dict", "dict"), ("text", "str")])
def test_verdicts_without_an_order_are_none(pool, output, kind):
    reason = f"function raised TypeError: found a {kind}, expected a sequence with an entry for each row"
    assert scored(pool, shard(output, "b"), name="my_checks:unordered")["reason"].to_pylist() == [reason] * 2


def test_the_mark_of_a_vectorised_function_leaves_it_a_function():
    @vectorised
    def every(rows: list[int]) -> list[bool]:
        return [True for _ in rows]

    assert is_vectorised(every) and every([1]) == [True] and not is_vectorised(len)


# -------- processes
def test_rows_after_too_many_lost_processes_are_left_alone(pool, monkeypatch):
    monkeypatch.setattr(functions, "MOST_LOST", 2)
    reasons = scored(pool, shard("os._exit", "fine", "os._exit", "fine", "fine"))["reason"].to_pylist()
    ended = "function's process ended (exit code 3)"
    left = f"function not called: 2 calls of the shard ended its process, the last: {ended}"
    assert reasons == [ended, None, ended, left, left]


def test_a_process_that_ends_after_its_last_row_costs_no_verdict(pool):
    assert scored(pool, shard("a", "end later"))["level_id"].to_pylist() == ["good", "good"]


def test_a_process_that_ends_while_nothing_calls_it_is_no_fault_of_the_next_row(pool):
    (pid,) = scored(pool, shard("pid"))["evidence"].to_pylist()
    os.kill(int(pid), signal.SIGKILL)
    wait_until_gone(int(pid))
    assert scored(pool, shard("a", "b"))["level_id"].to_pylist() == ["good", "good"]


def test_a_copy_of_the_process_that_a_function_makes_answers_nothing(pool):
    levels = scored(pool, shard("fork", "none", "fork", "none", "none"))["level_id"].to_pylist()
    assert levels == ["good", None, "good", None, None]


@pytest.mark.nightly
def test_rows_for_which_a_process_has_no_room_are_told_so(pool):
    scored(pool, shard("keep"))
    assert scored(pool, shard("x" * (150 << 20)))["reason"].to_pylist() == ["function ran out of memory"]


def test_many_rows_go_through_in_order(pool):
    outputs = [f"a b{' c' * (n % 2)}" for n in range(2_000)]
    assert (
        scored(pool, shard(*outputs), name="my_checks:brief", most=2)["level_id"].to_pylist() == ["good", "bad"] * 1_000
    )


def test_a_long_row_goes_through(pool):
    assert scored(pool, shard("x" * 20_000_000, "y"))["level_id"].to_pylist() == ["good", "good"]


def test_calls_at_the_same_time_have_a_process_each(pool):
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(scored(pool, shard(*["pid"] * 300))["evidence"].to_pylist()))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(set(each)) for each in found] == [1, 1, 1]


def test_what_a_function_prints_is_in_the_log_and_not_on_stdout(pool, package, capfd):
    scored(pool, shard("print"))
    assert capfd.readouterr() == ("", "")
    log = (package / "log").read_text(encoding="utf-8")
    assert all(words in log for words in ("said", "raw", "xff"))


def test_a_process_ends_with_the_pool():
    pool = FunctionPool(SETTINGS)
    (pid,) = scored(pool, shard("pid"))["evidence"].to_pylist()
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    with pytest.raises(RuntimeError):
        scored(pool, shard("x"))


def test_a_pool_that_is_closed_during_a_call_makes_no_verdicts():
    pool, caught = FunctionPool(SETTINGS), []

    def call() -> None:
        try:
            scored(pool, shard("print", "loop"))
        except RuntimeError as error:
            caught.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    while not pool._processes._alive:
        pass
    pool.close()
    thread.join()
    assert len(caught) == 1


PARENT = """
    import pyarrow.parquet as pq, sys, threading
    from gradebook.tasks.runs.function_settings import FunctionSettings
    from gradebook.tasks.methods.function import FunctionPool
    from gradebook.rubrics.model.methods import FunctionMethod
    from gradebook.tasks.workspace.timings import Timing
    pool = FunctionPool(FunctionSettings(allow=("my_checks",)))
    rows = pq.read_table("rows.parquet")
    method = FunctionMethod(type="function", function="my_checks:act")
    (pid,) = [evidence for _, evidence, _ in pool.call(method, rows.slice(0, 1), Timing("score"))]
    threading.Thread(target=pool.call, args=(method, rows.slice(1), Timing("score"))).start()
    print(pid, flush=True)
"""


def test_a_process_ends_with_the_process_that_started_it_even_inside_a_call(package):
    import pyarrow.parquet as pq

    pq.write_table(shard("pid", "loop").drop_columns(["output_id"]), package.parent / "rows.parquet")
    code = f"import sys; sys.path = {sys.path!r}\n{textwrap.dedent(PARENT)}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    wait_until_gone(pid)
    assert not is_alive(pid)


def wait_until_gone(pid: int) -> None:
    """Until the kernel has ended it, all its threads: soon, not at once."""
    with suppress(ChildProcessError):  # a child's child
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    for _ in range(1_000_000):
        if not is_alive(pid):
            break


def is_alive(pid: int) -> bool:
    """Whether the process is there, and no zombie that waits to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# -------- what may run
@pytest.mark.parametrize(
    ("module", "is_allowed"),
    [("my_checks", True), ("my_checks.text", True), ("my_checks_two", False), ("my", False), ("", False)],
)
def test_a_package_allows_what_stands_in_it(module, is_allowed):
    assert is_within(module, ["my_checks"]) is is_allowed


def test_a_dotted_prefix_allows_no_more_than_itself():
    settings = FunctionSettings(allow=("my.checks",))
    assert settings.allows("my.checks:f") and settings.allows("my.checks.text:f") and not settings.allows("my.other:f")


def test_a_function_whose_package_is_not_allowed_is_refused_but_no_placeholder_of_an_import():
    with pytest.raises(RubricError) as caught:
        refuse_other_functions(rubric("my_checks:act", "other.text:polite", "dataknobs:function_ref"), SETTINGS)
    (not_allowed,) = str(caught.value).splitlines()
    assert not_allowed.startswith("r: c1: found the function other.text:polite, whose package is not allowed, expected")
    assert "--allow-functions other, or GRADEBOOK_ALLOW_FUNCTIONS=other in the environment" in not_allowed


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("my_checks.none:f", "ModuleNotFoundError: No module named 'my_checks.none', expected a function that can be"),
        ("my_checks:none", "found no none in my_checks, expected a function"),
        ("my_checks:NOT_CALLABLE", "found a int, expected a function"),
        ("my_checks:os.system", "found a module, os, expected a function"),
        ("my_checks:getoutput", "found a function of subprocess, expected one of my_checks, light"),
        ("my_checks.broken:f", "SyntaxError"),
        ("my_checks.leaves:f", "SystemExit: 2"),
        ("my_checks.dies:f", "its import's process died (signal 9)"),
        ("my_checks..text:f", "found ModuleNotFoundError: No module named 'my_checks.'"),
    ],
)
def test_a_function_that_can_not_be_had_is_refused_before_anything_runs(package, name, fault):
    (package / "broken.py").write_text("def f(:", encoding="utf-8")
    (package / "leaves.py").write_text("import sys; sys.exit(2)", encoding="utf-8")
    (package / "dies.py").write_text("import os; os.kill(os.getpid(), 9)", encoding="utf-8")
    with pytest.raises(RubricError, match="r: c0: the function") as caught:
        probe_functions(rubric(name), SETTINGS)
    assert fault.removeprefix("found ") in str(caught.value)


def test_an_import_that_takes_too_long_is_refused(package):
    (package / "slow.py").write_text("while True: pass", encoding="utf-8")
    with pytest.raises(RubricError, match=r"its import took more than 0\.5 s"):
        probe_functions(rubric("my_checks.slow:f"), SETTINGS.model_copy(update={"time_limit_s": 0.5}))


def test_a_function_that_is_gone_since_it_was_looked_for_leaves_its_rows_unscored(pool, package):
    reasons = scored(pool, shard("a", "b"), name="my_checks:none")["reason"].to_pylist()
    assert reasons == ["function can't be imported: found no none in my_checks, expected a function"] * 2
