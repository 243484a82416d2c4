"""Criteria of the method `similarity` by vectors of an endpoint, of a folder, and against a baseline's outputs."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest

from gradebook.rubrics.model.errors import BudgetReached, InputError, UnfinishedError
from gradebook.tasks.judging.replies.embedding_questions import (
    embedding_keys,
    read_vectors,
    stored_vector,
    vector_bytes,
)
from gradebook.tasks.judging.replies.question import Outcome
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.ledger.verify import verify_ledger
from gradebook.tasks.methods.embeddings import VectorFile, read_halves
from gradebook.tasks.planning.similarity import (
    KEY,
    ComparedRow,
    plan_keys,
    read_planned_keys,
    write_planned_keys,
)
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages.open_run import previewed_run
from gradebook.tasks.stages.pipeline import plan_evaluation
from gradebook.tasks.stages.submit import Stages
from tests.integration.tasks.scoring.test_similarity import ROWS, RUBRIC, rows_in, verdicts_in
from tests.support.law_over import law_over
from tests.support.loopback_judge import LoopbackJudge
from tests.support.published_runs import NOW, publish
from tests.support.samples import judged_criteria, write_lines

EMBEDDER = "model: embedder\nbatch_size: 4\nmax_attempts: 1\nprices: {input_usd: 100, output_usd: 0}\n"
TEXT_COUNT = len(ROWS)  # each output is its own reference


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackJudge]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    with LoopbackJudge() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


def request_in(folder: Path, rows: list[dict[str, Any]] = ROWS, settings: str = "") -> tuple[Path, Path, str]:
    (folder / "rubric.yaml").write_text(RUBRIC.format(settings=settings), encoding="utf-8")
    (folder / "embedder.yaml").write_text(EMBEDDER, encoding="utf-8")
    return write_lines(folder / "outputs.jsonl", rows), folder / "rubric.yaml", str(folder / "embedder.yaml")


@pytest.mark.nightly
def test_each_text_is_embedded_and_paid_for_once(endpoint: LoopbackJudge, tmp_path: Path):
    outputs, rubric, embedder = request_in(tmp_path)
    asked = EvaluationRequest(
        str(outputs), str(rubric), embedder=embedder, lake=f"sqlite:{tmp_path}/lake/catalog.sqlite"
    )
    with previewed_run(asked, NOW) as run:
        plan = plan_evaluation(run, Stages(), is_preview=True)[1]
    assert plan.request_count == 2  # seven texts, four a request
    assert plan.cost_usd is not None and 0 < plan.cost_usd < 1
    publish(outputs, rubric, embedder=embedder)
    assert [len(body["input"]) for body in endpoint.bodies] == [4, 3]
    assert [verdict[0] for verdict in verdicts_in(tmp_path).values()] == pytest.approx([1] * TEXT_COUNT)
    again = publish(outputs, rubric, embedder=embedder, run_id="again")
    assert endpoint.request_count == 2
    assert again.run["cost_usd"] == 0
    kept = rows_in(tmp_path, "select distinct embedder, round(similarity, 5) from similarities")
    assert kept == [("embedder", 1.0)]
    paid = rows_in(tmp_path, "select count(*), count(distinct request_key), min(cost_usd) > 0 from judgments")
    assert paid == [(TEXT_COUNT, TEXT_COUNT, True)]
    assert verify_ledger(find_lake(asked.lake)).finding_count == 0


@pytest.mark.nightly
def test_a_judge_and_an_embedder_work_in_one_run(endpoint: LoopbackJudge, tmp_path: Path):
    outputs, rubric, embedder = request_in(tmp_path)
    rubric.write_text(rubric.read_text(encoding="utf-8") + indent(judged_criteria("kind"), "  "), encoding="utf-8")
    run = publish(outputs, rubric, judge="m", embedder=embedder, record=str(tmp_path / "kept.jsonl"))
    assert {row["criterion_id"]: row["coverage_rate"] for row in run.criteria} == {"kind": 1, "like_the_reference": 1}
    assert len((tmp_path / "kept.jsonl").read_text(encoding="utf-8").splitlines()) == len(ROWS)


@pytest.mark.nightly
def test_a_lost_endpoint_ends_the_run_and_the_same_command_resumes_it(endpoint: LoopbackJudge, tmp_path: Path):
    outputs, rubric, embedder = request_in(tmp_path)
    endpoint.faults = ["", *["401"] * 9]
    with pytest.raises(UnfinishedError):
        publish(outputs, rubric, embedder=embedder)
    endpoint.faults = []
    publish(outputs, rubric, embedder=embedder)
    assert endpoint.answered_count == 2  # each batch once, over both commands


def test_no_budget_is_exceeded(endpoint: LoopbackJudge, tmp_path: Path):
    outputs, rubric, embedder = request_in(tmp_path)
    with pytest.raises(BudgetReached):
        publish(outputs, rubric, embedder=embedder, budget_usd=1e-9)
    assert endpoint.request_count == 0


@pytest.mark.nightly
def test_one_refused_text_leaves_only_its_own_output_unscored(endpoint: LoopbackJudge, tmp_path: Path):
    outputs, rubric, embedder = request_in(tmp_path)
    endpoint.faults = ["context too long", "", "context too long"]  # its request, the other one, and it alone
    publish(outputs, rubric, embedder=embedder)
    found = [verdict[:2] for verdict in verdicts_in(tmp_path).values()]
    assert [score for score, _ in found].count(None) == 1
    assert next(reason for score, reason in found if score is None).startswith("no_embedding: endpoint_error: HTTP 400")


@law_over(
    ("embedded", "found"),
    [
        ("no JSON", "found 'no JSON', expected JSON with `data`"),
        ("", "found an empty text"),
        ("[]", "expected JSON with `data`"),
        ('{"data": []}', "found 0 vectors, expected 1"),
        ('{"data": [{"index": 1, "embedding": [1.0]}]}', "found 1 vector, expected 1 with the indexes 0 to 0"),
        ('{"data": [{"index": "0", "embedding": [1.0]}]}', "found 1 vector, expected 1 with the indexes 0 to 0"),
        ('{"data": [{"embedding": [1.0]}]}', "a list of `index` and `embedding`"),
        ('{"data": [{"index": 0, "embedding": []}]}', "found vectors of 0 numbers"),
        ('{"data": [{"index": 0, "embedding": [0.0, 0.0]}]}', "found a vector of zeros"),
        ('{"data": [{"index": 0, "embedding": [1e308, 1e308]}]}', "numbers that are too large"),
        ('{"data": [{"index": 0, "embedding": [1e400]}]}', "expected JSON with `data`"),
        ('{"data": [{"index": 0, "embedding": ["x"]}]}', "expected JSON with `data`"),
        ('{"data": [{"index": 0, "embedding": null}]}', "found an `embedding` that is no list of numbers"),
        ('{"data": [{"index": 0, "embedding": [[1.0]]}]}', "found an `embedding` that is no list of numbers"),
        ('{"data": [{"index": 0, "embedding": "AAAA"}]}', "expected JSON with `data`"),
        ('{"data": {"index": 0}}', "expected JSON with `data`"),
    ],
)
def test_a_reply_without_a_vector_for_each_text_says_what_was_found(embedded: str, found: str):
    (read,) = read_vectors(embedded, 1)
    assert read.status == "parse_error"
    assert found in str(read.rationale)


def test_vectors_are_read_in_any_order_and_from_base64():
    encoded = base64.b64encode(np.array([0, 1], "<f4").tobytes()).decode()
    body = {"data": [{"index": 1, "embedding": encoded}, {"index": 0, "embedding": [3, 0]}]}
    stored = [vector_bytes(str(read.rationale)) for read in read_vectors(json.dumps(body), 2)]
    assert [np.frombuffer(vector, "<f2").tolist() for vector in stored] == [[1, 0], [0, 1]]
    (mixed, _) = read_vectors('{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}', 2)
    assert mixed.rationale == "found vectors of 1 and 2 numbers, expected one length up to 16,384"


def test_stored_vectors_are_found_by_text_and_by_key():
    vectors = {"right": [1.0, 0.0], "up": [0.0, 1.0], "odd": [1.0, 0.0, 0.0]}
    outcomes = {text: Outcome("scored", rationale=stored_vector(np.array(each))) for text, each in vectors.items()}
    outcomes["lost"] = Outcome("unscored", reason="parse_error", rationale="found a vector of zeros")
    keys = dict(zip(outcomes, embedding_keys("d", outcomes), strict=True))
    with VectorFile() as file:
        file.add_outcomes({keys[text]: outcome for text, outcome in outcomes.items()})
        space = file.space("d")
    texts = ["up", " ", "odd", "lost", "right", "up"]
    found = [[0, 1], [0, 0], [0, 0], [0, 0], [1, 0], [0, 1]]
    assert space.vectors(texts).tolist() == found
    assert space.vectors(np.array([keys.get(text, "") for text in texts], KEY)).tolist() == found
    faults = {text: fault for text in texts if (fault := space.fault(text))}
    assert faults == {
        "odd": "no_embedding: found a vector of another length than 2",
        "lost": "no_embedding: parse_error: found a vector of zeros",
    }
    assert space.fault(keys["odd"].encode()) == faults["odd"]
    assert (space.fault(keys["up"].encode()), space.fault(b"")) == (None, None)


def test_16_bit_floats_are_read_as_numpy_reads_them():
    finite = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = finite[np.isfinite(finite)]
    read = read_halves(finite.view(np.int16))
    assert read.view(np.uint32).tolist() == finite.astype(np.float32).view(np.uint32).tolist()


def test_the_keys_of_a_shard_are_read_as_they_were_planned(tmp_path: Path):
    rows = [
        ComparedRow("a", "1", "x", ("y", "z")),
        ComparedRow("b", "2", "x", ()),
        ComparedRow("c", "3", " ", ("y",)),
    ]
    x, y, z = (key.encode() for key in embedding_keys("d", "xyz"))
    for path, planned_rows in ((tmp_path / "some.parquet", rows), (tmp_path / "none.parquet", rows[1:2])):
        planned = plan_keys(planned_rows, "d")
        write_planned_keys(path, planned)
        read = read_planned_keys(path)
        for name in ("passage_counts", "outputs", "passages"):
            assert getattr(read, name).tolist() == getattr(planned, name).tolist()
    planned = read_planned_keys(tmp_path / "some.parquet")
    assert planned.outputs.tolist() == [x, b""]
    assert planned.passages.tolist() == [y, z, y]
    assert planned.wanted.tolist() == sorted([x, y, z])


def test_vectors_are_stored_with_unit_length():
    (read,) = read_vectors('{"data": [{"index": 0, "embedding": [300000.0, 400000.0]}]}', 1)
    assert np.frombuffer(vector_bytes(str(read.rationale)), np.float16).tolist() == pytest.approx([0.6, 0.8], abs=1e-3)


def static_model(folder: Path, words: dict[str, list[float]]) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    folder.mkdir()
    model = tokenizers.models.WordLevel({"[UNK]": 0, **{word: n for n, word in enumerate(words, 1)}}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    vectors = np.array([[0.0, 0.0], *words.values()], "<f2")
    entry = {"dtype": "F16", "shape": list(vectors.shape), "data_offsets": [0, vectors.nbytes]}
    header = json.dumps({"embeddings": entry, "__metadata__": {}}).encode()
    content = len(header).to_bytes(8, "little") + header + vectors.tobytes()
    (folder / "model.safetensors").write_bytes(content)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.mark.nightly
def test_a_folder_gives_vectors_without_an_endpoint(tmp_path: Path):
    folder = static_model(tmp_path / "static", {"up": [0.0, 2.0], "right": [1.0, 0.0]})
    # "up right" is the mean (0.5, 1): its cosine with (0, 1) is 2 / sqrt(5)
    rows = [{"case_id": "a", "model": "m", "output": "up right elsewhere", "reference": "up"}]
    outputs, rubric, _ = request_in(tmp_path, rows, ", is_rescaled: false")
    publish(outputs, rubric, embedder=str(folder))
    ((score, _, _),) = verdicts_in(tmp_path).values()
    assert score == pytest.approx(2 / 5**0.5, abs=1e-6)
    broken = b"\xff" * 16
    (folder / "model.safetensors").write_bytes(broken)
    with pytest.raises(InputError, match=r"model\.safetensors: found something else, expected a file in the format"):
        publish(outputs, rubric, embedder=str(folder), run_id="b")


@pytest.mark.nightly
def test_outputs_are_compared_with_those_of_a_baseline(tmp_path: Path):
    outputs, rubric, _ = request_in(tmp_path, ROWS, ", against: baseline, is_rescaled: false")
    first = publish(outputs, rubric)
    reason = "no_baseline: nothing to compare with"
    assert {verdict[:2] for verdict in verdicts_in(tmp_path).values()} == {(None, reason)}
    changed = [{**ROWS[0], "output": "wholly other words"}, *ROWS[1:], {**ROWS[0], "case_id": "new"}]
    write_lines(outputs, changed)
    publish(outputs, rubric, run_id="later", baseline=first.run_id)
    scores = rows_in(
        tmp_path,
        "select case_id, round(verdicts.score, 1), reason from verdicts join outputs using (output_id) "
        "where run_id = 'later' order by all",
    )
    assert scores[0] == ("c0", 0.0, None)
    assert {score for _, score, _ in scores[1:-1]} == {1.0}
    assert scores[-1] == ("new", None, reason)
    with pytest.raises(InputError, match="--baseline: found 'latest'|--baseline: found latest"):
        publish(outputs, rubric, run_id="third", baseline="latest")


def test_an_embedder_that_nothing_needs_is_refused(tmp_path: Path):
    outputs = write_lines(tmp_path / "outputs.jsonl", ROWS)
    with pytest.raises(InputError, match="--embedder: found no criterion of the method similarity"):
        publish(outputs, Path("rubrics/definitions/general_answer.yaml"), embedder="lexical-model", allow_unscored=True)
