"""Vectors of the texts that a run compares: stored ones from the ledger, the others from the embedder."""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np

from gradebook.rubrics.statistics.lexical import LexicalVectors
from gradebook.tasks.judging.money.prices import embedding_price
from gradebook.tasks.judging.replies.embedding_questions import (
    EmbeddingAnswer,
    EmbeddingQuestion,
    WantedText,
    batches_of,
)
from gradebook.tasks.judging.session.session import Money, open_session
from gradebook.tasks.judging.settings.embedder import EmbedderSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.transport.probe import probe
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.ledger.ledger import held_judgments, settle_run
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.planning.similarity import KEY, ComparedTexts, read_planned_keys, similarity_criteria, wanted_texts
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.static_vectors import read_static_model
from gradebook.tasks.scoring.stored_vectors import VectorFile
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.timings import timed


class Space(Protocol):
    """Vectors of texts, in which an inner product is a similarity."""

    def vectors(self, texts: Any) -> Any:
        """(text, dim) of unit length, dense or sparse; a blank text, and one without a vector, is zero.

        texts: a list; for `StoredVectors` also an array of request keys, as they are planned.
        """

    def fault(self, text: Any) -> str | None:
        """Reason why a text has no vector; None if it has one."""


# Makes the space of a criterion from the texts of other cases.
MakeSpace = Callable[[Sequence[str]], Space]


def lexical_space(texts: Sequence[str]) -> Space:
    """Space of the wording, weighted by the frequencies of n-grams in `texts`."""
    return LexicalVectors(texts)


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
    with timed(run.folder, "embed", criteria[0].id) as timing, VectorFile(run.folder.path) as vectors:
        keys = np.zeros(0, KEY)
        for each, index in product(criteria, range(len(shards))):
            keys = np.union1d(keys, read_planned_keys(run.folder.plan_file(each.id, index)).wanted)
        vectors.add_held(run.lake, keys)
        missing = {key.decode() for key in np.setdiff1d(keys, vectors.keys, assume_unique=True).tolist()}
        timing.row_count, timing.replayed_count = len(keys), len(keys) - len(missing)
        texts = [text for each in criteria for text in wanted_texts(each, compared, shards, embedder.digest, missing)]
        if texts:
            _ask(run, plan, embedder, texts, vectors)
        space = vectors.space(embedder.digest)
    return lambda _texts: space


def _ask(run: Run, plan: RunPlan, embedder: EmbedderSettings, texts: Sequence[WantedText], vectors: VectorFile) -> None:
    """Ask for a run's texts, within its budget."""
    money = Money(run.request.budget_usd, run.folder.path / "budget.jsonl", plan.cost_high_usd)
    try:
        run.folder.add_notes([ask_vectors(run.lake, embedder, texts, vectors, run.run_id, money, run.request.deadline)])
    finally:
        settle_run(run.lake, run.folder)


def ask_vectors(
    lake: Lake,
    embedder: EmbedderSettings,
    texts: Sequence[WantedText],
    vectors: VectorFile,
    run_id: str,
    money: Money,
    deadline: datetime | None = None,
) -> str | None:
    """Add the vectors of texts, or the reasons why there are none; returns a note of the session.

    Replies are journaled under run_id, to be settled after. A text whose request fails is asked again alone: another
    one may be at fault.
    """
    settings = embedder.asking
    probe(settings, read_keys(settings, os.environ))

    def keep(answer: EmbeddingAnswer) -> None:
        vectors.add_outcomes(answer.outcomes)
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
        session.ask(_alone([text for text in texts if text.request_key in vectors.faults], embedder), keep)
        note = session.note
    reporter().end("embed")
    return note


def _alone(texts: Iterable[WantedText], embedder: EmbedderSettings) -> Iterable[EmbeddingQuestion]:
    return (EmbeddingQuestion((text,), embedder.dimensions) for text in texts) if embedder.batch_size > 1 else ()
