"""Vectors of the texts that a run compares: stored ones from the ledger, the others from the embedder."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.rubrics.statistics.lexical import LexicalVectors
from gradebook.tasks.judging.money.prices import embedding_price
from gradebook.tasks.judging.replies.embedding_questions import (
    VALUE_BYTES,
    EmbeddingAnswer,
    EmbeddingQuestion,
    WantedText,
    batches_of,
    vector_bytes,
)
from gradebook.tasks.judging.replies.question import Outcome
from gradebook.tasks.judging.session.session import Money, open_session
from gradebook.tasks.judging.settings.embedder import EmbedderSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.transport.probe import probe
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.ledger import held_judgments, settle_run
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.planning.similarity import ComparedTexts, similarity_criteria, wanted_texts
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.static_vectors import read_static_model
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.timings import timed


class Space(Protocol):
    """Vectors of texts, in which an inner product is a similarity."""

    def vectors(self, texts: Sequence[str]) -> Any:
        """(text, dim) of unit length, dense or sparse; a blank text, and one without a vector, is zero."""

    def fault(self, text: str) -> str | None:
        """Reason why a text has no vector; None if it has one."""


# Makes the space of a criterion from the texts of other cases.
MakeSpace = Callable[[Sequence[str]], Space]


def lexical_space(texts: Sequence[str]) -> Space:
    """Space of the wording, weighted by the frequencies of n-grams in `texts`."""
    return LexicalVectors(texts)


# 16-bit floats by their bits: twice as fast as numpy's conversion.
_VALUES = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)


class StoredVectors:
    """Vectors of a run's texts in memory, as 16-bit floats."""

    def __init__(self, vectors: Mapping[str, bytes], faults: Mapping[str, str]) -> None:
        """vectors, faults: by text, each as in `vector_bytes`. Vectors of another length than most are left out."""
        sizes = Counter(map(len, vectors.values()))
        size = max(sizes, key=sizes.__getitem__) if sizes else VALUE_BYTES
        self._length = size // VALUE_BYTES
        self._faults = faults
        kept = {text: vector for text, vector in vectors.items() if len(vector) == size}
        self._places = {text: place for place, text in enumerate(kept, 1)}
        blank = bytes(size)  # the place of texts without a vector
        self._vectors = np.frombuffer(b"".join([blank, *kept.values()]), "<f2").reshape(-1, self._length)

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(text, dim), see `Space`."""
        found = _VALUES.take(self._vectors[[self._places.get(text, 0) for text in texts]].view(np.uint16))
        lengths = np.linalg.norm(found, axis=1, keepdims=True)  # not quite 1, as 16 bits round
        np.divide(found, lengths, out=found, where=lengths > 0)
        return found

    def fault(self, text: str) -> str | None:
        """Reason of the reply that gave no vector."""
        if text in self._places or not text.strip():
            return None
        return f"no_embedding: {self._faults.get(text, f'found a vector of another length than {self._length}')}"


def embed_texts(run: Run, plan: RunPlan, compared: ComparedTexts, shards: Sequence[str]) -> MakeSpace:
    """Space of a run's similarities. Vectors that the ledger lacks are asked for, within the run's budget.

    Replies are settled into the ledger afterwards, also after a failure. Raises `EndpointUnavailable` and
    `BudgetReached`.
    """
    embedder, criteria = run.embedder, similarity_criteria(run.rubric)
    if embedder is None or not criteria:
        return lexical_space
    if not isinstance(embedder, EmbedderSettings):
        model = read_static_model(embedder.folder)
        return lambda _texts: model
    with timed(run.folder, "embed", criteria[0].id) as timing:
        wanted: dict[str, WantedText] = {}
        for criterion in criteria:
            for text in wanted_texts(criterion, compared, shards, embedder.digest):
                wanted.setdefault(text.request_key, text)
        held = held_vectors(run.lake, wanted)
        timing.row_count, timing.replayed_count = len(wanted), len(held)
        asked = [text for key, text in wanted.items() if key not in held]
        found = _ask(run, plan, embedder, asked) if asked else {}
    space = stored_space(wanted, held, found)
    return lambda _texts: space


def held_vectors(lake: Lake, wanted: Mapping[str, WantedText]) -> dict[str, bytes]:
    """Vectors of the wanted texts that the ledger has, by request key, each as in `vector_bytes`."""
    with connect_up_to_date(lake) as connection:
        connection.execute("create or replace temp view held_judgments as select * from judgments")
        connection.register("wanted_keys", pa.table({"request_key": pa.array(wanted, pa.string())}))
        return dict(connection.execute(query("scoring/held_vectors")).fetchall())


def stored_space(
    wanted: Mapping[str, WantedText], held: Mapping[str, bytes], found: Mapping[str, Outcome]
) -> StoredVectors:
    """Space of the wanted texts. held: vectors of the ledger, found: new outcomes; all by request key."""
    vectors = {wanted[key].text: vector for key, vector in held.items()}
    faults = {}
    for key, outcome in found.items():
        if outcome.rationale is not None and outcome.status == "scored":
            vectors[wanted[key].text] = vector_bytes(outcome.rationale)
        else:
            faults[wanted[key].text] = outcome.reason or "no reply"
    return StoredVectors(vectors, faults)


def _ask(run: Run, plan: RunPlan, embedder: EmbedderSettings, texts: Sequence[WantedText]) -> dict[str, Outcome]:
    """Outcomes of a run's texts by request key."""
    money = Money(run.request.budget_usd, run.folder.path / "budget.jsonl", plan.cost_high_usd)
    try:
        outcomes, note = ask_vectors(run.lake, embedder, texts, run.run_id, money, run.request.deadline)
        run.folder.add_notes([note])
    finally:
        settle_run(run.lake, run.folder)
    return outcomes


def ask_vectors(
    lake: Lake,
    embedder: EmbedderSettings,
    texts: Sequence[WantedText],
    run_id: str,
    money: Money,
    deadline: datetime | None = None,
) -> tuple[dict[str, Outcome], str | None]:
    """Outcomes by request key, and a note of the session. Replies are journaled under run_id, to be settled after.

    A text whose request fails is asked again alone: another one may be at fault.
    """
    settings = embedder.asking
    probe(settings, read_keys(settings, os.environ))
    outcomes: dict[str, Outcome] = {}

    def keep(answer: EmbeddingAnswer) -> None:
        outcomes.update(answer.outcomes)
        reporter().advance("embed", len(answer.outcomes))

    reporter().begin("embed", len(texts))
    with open_session(
        settings,
        journal_folder=lake.journal_folder,
        run_id=run_id,
        money=money,
        price=embedding_price(settings),
        deadline=deadline,
    ) as session:
        session.open_leases(partial(held_judgments, lake)).acquire(text.request_key for text in texts)
        session.ask(batches_of(texts, embedder), keep)
        failed = [text for text in texts if outcomes[text.request_key].status != "scored"]
        session.ask(_alone(failed, embedder), keep)
        note = session.note
    reporter().end("embed")
    return outcomes, note


def _alone(texts: Iterable[WantedText], embedder: EmbedderSettings) -> Iterable[EmbeddingQuestion]:
    return (EmbeddingQuestion((text,), embedder.dimensions) for text in texts) if embedder.batch_size > 1 else ()
