"""Cases of a suite: how they differ from real usage, by metadata, prompt length, language and topic of the prompt; and
their discrimination over the last runs of all models.
"""

import os
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.rubrics.checks.language import find_languages
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.json_values import canonical_json
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.means import TIED
from gradebook.rubrics.statistics.significance import is_significant
from gradebook.rubrics.statistics.suite import (
    ENOUGH,
    LEAST_MODELS,
    ColumnDistance,
    Items,
    StratumShare,
    cluster_vectors,
    compare_shares,
    measure_items,
)
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.comparing.expected_power import suite_scope
from gradebook.tasks.datasets.discovery import dataset_files
from gradebook.tasks.datasets.discovery import read_rows as read_file_rows
from gradebook.tasks.datasets.row_parser import read_messages
from gradebook.tasks.datasets.sample import NO_STRATUM
from gradebook.tasks.judging.replies.embedding_questions import WantedText, embedding_keys
from gradebook.tasks.judging.session.session import Money
from gradebook.tasks.judging.settings.embedder import LEXICAL, Embedder, read_embedder
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date, prepare_lake
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.ledger import settle_journals
from gradebook.tasks.methods.embeddings import Space, VectorFile, ask_vectors, lexical_space, read_static_model
from gradebook.tasks.planning.similarity import KEY, count_vectors

LENGTH, LANGUAGE, TOPIC = "(prompt length)", "(language)", "(topic)"
MOST_STRATA = 50  # values of a column: with more, numbers are cut into ranges, and texts are left out
MOST_VALUE = 100  # characters
MOST_COLUMNS = 200  # most common columns of a side, not counting those about the prompt
MOST_NAME = 40  # characters of the prompt that names a topic
STEPS = 5  # ranges of a number, each with a fifth of the traffic
MOST_LANGUAGE_CASES = 20_000
MOST_TOPIC_CASES = 2_000  # of each side: more are drawn at random
MOST_TOPIC_CHARACTERS = 20_000  # of a prompt, from its beginning
TOPICS = 12
SEED = 20_261_126
ASKED_BY = "coverage"
_NUMBER = (int, float)


@dataclass(frozen=True, slots=True)
class CoverageRequest:
    """Request for a coverage. suite, traffic: files, folders or globs of rows with a prompt.

    embedder: as of `--embedder`, None for no topics. budget_usd: of its requests.
    """

    suite: Sequence[str]
    traffic: str
    column_map: Mapping[str, str] = field(default_factory=dict)
    embedder: str | None = None
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Cases:
    """Distinct cases of a side. prompts: text of each case; columns: values of each case, None if missing.

    rare_column_count: columns that were left out, as too many are more common.
    """

    prompts: tuple[str, ...]
    columns: dict[str, list[Any]]
    bad_row_count: int
    rare_column_count: int = 0


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Texts to embed.

    wanted: texts without a vector in the ledger; request_count: requests for them; cost_usd: None if unknown.
    """

    texts: tuple[tuple[str, ...], tuple[str, ...]]
    embedder: Embedder | None
    wanted: Sequence[WantedText] = ()
    request_count: int = 0
    cost_usd: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """Comparison of suite and traffic. strata: missing ones first. distance, by_chance: means over the columns."""

    suite_count: int
    traffic_count: int
    strata: tuple[StratumShare, ...]
    columns: tuple[ColumnDistance, ...]
    notes: tuple[str, ...]

    @property
    def distance(self) -> float:
        return float(np.mean([column.distance for column in self.columns]))

    @property
    def by_chance(self) -> float:
        return float(np.mean([column.by_chance for column in self.columns]))

    @property
    def missing(self) -> tuple[StratumShare, ...]:
        """Strata that the suite lacks."""
        return tuple(stratum for stratum in self.strata if stratum.is_missing)

    def as_json(self) -> dict[str, Any]:
        return {
            "suite_count": self.suite_count,
            "traffic_count": self.traffic_count,
            "distance": self.distance,
            "distance_by_chance": self.by_chance,
            "columns": [asdict(column) for column in self.columns],
            "strata": [asdict(stratum) | {"is_missing": stratum.is_missing} for stratum in self.strata],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides read. plan: of the topics; None without an embedder."""

    suite: Cases
    traffic: Cases
    plan: TopicPlan | None


def read_sides(lake: Lake, request: CoverageRequest) -> Sides:
    """Read both sides and plan their topics; nothing is asked.

    lake: stores the vectors that were paid for. Raises `InputError`.
    """
    suite = read_cases(request.suite, request.column_map)
    traffic = read_cases([request.traffic], request.column_map)
    return Sides(
        suite, traffic, None if request.embedder is None else _plan_topics(lake, request.embedder, suite, traffic)
    )


def measure_coverage(lake: Lake, request: CoverageRequest, sides: Sides) -> Coverage:
    """Compare both sides, asking for the vectors that are missing.

    Raises `EndpointUnavailable` and `BudgetReached`; replies are in the ledger.
    """
    suite, traffic = sides.suite, sides.traffic
    notes: list[str] = []
    columns = dict(_column_strata(suite, traffic, notes))
    columns[LENGTH] = _numeric_strata(
        [len(text) for text in suite.prompts], [len(text) for text in traffic.prompts], "characters"
    )
    columns[LANGUAGE] = _language_strata(suite.prompts), _language_strata(traffic.prompts)
    if sides.plan is not None:
        columns |= _topic_strata(sides.plan, _vector_space(lake, request, sides.plan, notes), notes)
    varying = {name: both for name, both in columns.items() if len({*both[0], *both[1]}) > 1}
    if not varying:
        raise InputError("cases", "the same value of every column in all cases", "a column whose values differ")
    strata, distances = compare_shares(varying)
    for name, cases in (("suite", suite), ("traffic", traffic)):
        if cases.bad_row_count:
            notes.append(f"{counted(cases.bad_row_count, 'row')} of the {name} without a prompt left out")
        if cases.rare_column_count:
            left_out = f"{cases.rare_column_count:,} rarer ones left out"
            notes.append(f"the {MOST_COLUMNS} most common columns of the {name} compared, {left_out}")
    return Coverage(len(suite.prompts), len(traffic.prompts), tuple(strata), tuple(distances), tuple(notes))


def read_cases(sources: Sequence[str], column_map: Mapping[str, str]) -> Cases:
    """Read the distinct cases of a dataset: the first row of each `case_id`, or each row without a `case_id`.

    Raises `OutputsError` for a file that can't be read, `InputError` without a case.
    """
    seen: set[str] = set()
    prompts: list[str] = []
    rows: list[dict[str, Any]] = []
    bad_row_count = 0
    files: list[Path] = [file for source in sources for file in dataset_files(source)]
    prompt_column, id_column = (column_map.get(name, name) for name in ("prompt", "case_id"))
    for raw in read_file_rows(files, {}, (prompt_column,)):
        prompt = None if isinstance(raw.content, str) else _prompt_text(raw.content.get(prompt_column))
        if prompt is None or isinstance(raw.content, str):
            bad_row_count += 1
            continue
        case_id = raw.content.get(id_column)
        if case_id is not None:
            if str(case_id) in seen:
                continue
            seen.add(str(case_id))
        prompts.append(prompt)
        rows.append(dict(_scalar_values(raw.content, {prompt_column, id_column, *OUTPUT_COLUMNS})))
    if not prompts:
        raise InputError(", ".join(sources), "no row with a prompt", f"rows with the column {prompt_column}")
    counts = Counter(name for row in rows for name in row)
    # Rows with names of their own would make a table whose size is the square of the file's.
    names = [name for name, _ in counts.most_common(MOST_COLUMNS)]
    columns = {name: [row.get(name) for row in rows] for name in names}
    return Cases(tuple(prompts), columns, bad_row_count, len(counts) - len(names))


def _prompt_text(prompt: Any) -> str | None:
    """Text of a prompt; of a conversation its messages. None for anything else, or a blank one."""
    content = read_messages(prompt) if isinstance(prompt, str) else prompt
    if isinstance(content, list):
        contents = [message.get("content") for message in content if isinstance(message, dict)]
        content = "\n".join(text if isinstance(text, str) else canonical_json(text) for text in contents if text)
    return content if isinstance(content, str) and content.strip() else None


def _scalar_values(content: Mapping[str, Any], excluded: set[str]) -> Iterator[tuple[str, Any]]:
    """Short texts, numbers and truth values of a row's own columns and of its metadata."""
    metadata = content.get("metadata")
    if isinstance(metadata, str):
        try:
            metadata = orjson.loads(metadata)
        except orjson.JSONDecodeError:
            metadata = None
    row_values = {name: value for name, value in content.items() if name not in excluded}
    for name, value in (row_values | (metadata if isinstance(metadata, dict) else {})).items():
        is_short = isinstance(value, str) and 0 < len(value) <= MOST_VALUE
        if is_short or (isinstance(value, _NUMBER) and np.isfinite(value)):
            yield str(name), value


def _column_strata(suite: Cases, traffic: Cases, notes: list[str]) -> Iterator[tuple[str, tuple[list[str], list[str]]]]:
    """Strata of each column that both sides have, with 2 to 50 values, or of numbers."""
    lacking = [name for name in traffic.columns if name not in suite.columns]
    left_out = []
    for name in (column for column in traffic.columns if column in suite.columns):
        side_values = suite.columns[name], traffic.columns[name]
        values = {value for side in side_values for value in side if value is not None}
        is_number = all(isinstance(value, _NUMBER) and not isinstance(value, bool) for value in values)
        if len(values) <= MOST_STRATA:
            yield (
                name,
                (
                    [_stratum_name(value) for value in side_values[0]],
                    [_stratum_name(value) for value in side_values[1]],
                ),
            )
        elif is_number:
            yield name, _numeric_strata(*side_values)
        else:
            left_out.append(name)
    if lacking:
        notes.append(f"columns that only the traffic has: {', '.join(lacking[:10])}")
    if left_out:
        notes.append(f"columns with more than {MOST_STRATA} values: {', '.join(left_out[:10])}")


def _stratum_name(value: Any) -> str:
    return NO_STRATUM if value is None else value if isinstance(value, str) else canonical_json(value)


def _numeric_strata(suite: Sequence[Any], traffic: Sequence[Any], unit: str = "") -> tuple[list[str], list[str]]:
    """Fifths of the traffic's numbers, as ranges."""
    numbers = np.array([value for value in traffic if value is not None], dtype=np.float64)
    if not numbers.size:
        return [_stratum_name(None)] * len(suite), [_stratum_name(None)] * len(traffic)
    inner = np.unique(np.quantile(numbers, np.arange(1, STEPS) / STEPS, method="higher"))
    limits = [f"{end:,.6g}" for end in inner]
    last_range = f"over {limits[-1]}"
    names = [
        f"up to {limits[0]}",
        *(f"over {low} to {high}" for low, high in pairwise(limits)),
        last_range,
    ]
    names = [f"{index + 1}: {name} {unit}".rstrip() for index, name in enumerate(names)]

    def strata(values: Sequence[Any]) -> list[str]:
        return [NO_STRATUM if value is None else names[int(np.searchsorted(inner, value))] for value in values]

    return strata(suite), strata(traffic)


def _language_strata(prompts: Sequence[str]) -> list[str]:
    """Language of each prompt, of up to 20,000."""
    codes = find_languages(pa.array(prompts[:MOST_LANGUAGE_CASES], pa.large_string())).to_pylist()
    return [code or NO_STRATUM for code in codes]


def _plan_topics(lake: Lake, embedder: str, suite: Cases, traffic: Cases) -> TopicPlan:
    parsed_embedder = read_embedder(embedder, os.environ)
    texts = _draw_texts(suite.prompts), _draw_texts(traffic.prompts)
    if parsed_embedder is None or parsed_embedder.folder is not None:
        return TopicPlan(texts, parsed_embedder)
    distinct_texts = [*dict.fromkeys([*texts[0], *texts[1]])]
    keys = embedding_keys(parsed_embedder.digest, distinct_texts)
    with VectorFile() as vectors:
        _add_stored_vectors(vectors, lake, keys)
        stored_keys = {key.decode() for key in vectors.keys.tolist()}
    pairs = zip(keys, distinct_texts, strict=True)
    wanted_texts = [WantedText(key, text, "", ASKED_BY) for key, text in pairs if key not in stored_keys]
    missing = count_vectors(len(distinct_texts), wanted_texts, parsed_embedder)
    cost = missing.estimate.cost_usd if wanted_texts else 0.0
    return TopicPlan(texts, parsed_embedder, wanted_texts, missing.request_count, cost)


def _draw_texts(prompts: Sequence[str]) -> tuple[str, ...]:
    """The beginnings of up to 2,000 prompts, always the same."""
    if len(prompts) > MOST_TOPIC_CASES:
        positions = np.random.default_rng(SEED).choice(len(prompts), MOST_TOPIC_CASES, replace=False)
        prompts = [prompts[index] for index in np.sort(positions).tolist()]
    return tuple(prompt[:MOST_TOPIC_CHARACTERS] for prompt in prompts)


def _vector_space(lake: Lake, request: CoverageRequest, plan: TopicPlan, notes: list[str]) -> Space:
    """Vectors of the texts; replies are settled into the ledger, also after a failure."""
    if plan.embedder is None:
        return lexical_space([*plan.texts[0], *plan.texts[1]])
    if plan.embedder.folder is not None:
        return read_static_model(plan.embedder.folder)
    with VectorFile() as vectors:
        _add_stored_vectors(vectors, lake, embedding_keys(plan.embedder.digest, [*plan.texts[0], *plan.texts[1]]))
        if plan.wanted:
            run_id = f"{ASKED_BY}-{os.getpid()}-{secrets.token_hex(6)}"
            money = Money(request.budget_usd, planned_usd=plan.cost_usd)
            prepare_lake(lake)
            try:
                note = ask_vectors(lake, plan.embedder, plan.wanted, vectors, run_id, money)
                notes += [note] if note else []
            finally:
                settle_journals(lake, notes)
        return vectors.space(plan.embedder.digest)


def _add_stored_vectors(vectors: VectorFile, lake: Lake, keys: Sequence[str]) -> None:
    if lake.is_there:
        vectors.add_held(lake, np.unique(np.array(keys, KEY)))


def _topic_strata(plan: TopicPlan, space: Space, notes: list[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Clusters of the prompts of both sides, named by the prompt in the middle of each."""
    sides = [[text for text in side if space.fault(text) is None] for side in plan.texts]
    dropped_count = sum(map(len, plan.texts)) - sum(map(len, sides))
    if dropped_count:
        notes.append(f"{dropped_count:,} prompts without a vector are in no topic")
    texts = [*sides[0], *sides[1]]
    if not all(sides):
        return {}
    codes, examples = cluster_vectors(space.vectors(texts), min(TOPICS, len(texts)))
    names = [f"{index + 1}: {' '.join(texts[example].split())[:MOST_NAME]}" for index, example in enumerate(examples)]
    topics = [names[code] for code in codes.tolist()]
    kind = LEXICAL if plan.embedder is None else plan.embedder.name
    notes.append(f"topics: {len(names)} clusters of {len(texts):,} prompts by {kind}, named by a prompt of each")
    return {TOPIC: (topics[: len(sides[0])], topics[len(sides[0]) :])}


KINDS = {"case": "cases", "criterion": "criteria"}
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Item:
    """A case or criterion. mean: over models, 0..1; others: as in `Items`, None if all models have one score.

    is_enough: whether it is one of the fewest that carry `ENOUGH` of the information.
    """

    kind: str
    name: str
    mean: float
    discrimination: float | None
    low: float | None
    high: float | None
    p_adjusted: float | None
    share: float
    is_enough: bool

    @property
    def is_negative(self) -> bool:
        """Whether better models fail it beyond chance."""
        return self.discrimination is not None and self.discrimination < 0.0 and is_significant(self.p_adjusted)


@dataclass(frozen=True, slots=True)
class SuiteItems:
    """Items of a suite, lowest discrimination first. notes: sentences on the results."""

    model_count: int
    items: tuple[Item, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "model_count": self.model_count,
            "items": [asdict(item) | {"is_negative": item.is_negative} for item in self.items],
            "notes": list(self.notes),
        }


def suite_items(lake: Lake, name: str) -> SuiteItems:
    """Measure the cases and criteria of a suite, or of a rubric if no suite has that name.

    Raises `InputError` for an unknown name, and with fewer than `LEAST_MODELS` models.
    """
    with connect_up_to_date(lake) as connection:
        rows = read_rows(connection, query("operations/item_scores"), **suite_scope(connection, name, "SUITE"))
    models = sorted({model_name(row) for row in rows})
    if len(models) < LEAST_MODELS:
        fault = f"{name}, with {counted(len(models), 'model or checkpoint', 'models and checkpoints')}"
        raise InputError("SUITE", fault, f"{LEAST_MODELS} or more in its published runs")
    items: list[Item] = []
    notes: list[str] = []
    for kind, noun in KINDS.items():
        of_kind = [row for row in rows if row["kind"] == kind]
        found_items, some_notes = _measure_kind(kind, noun, of_kind, models)
        items += found_items
        notes += some_notes
    return SuiteItems(len(models), tuple(items), tuple(notes))


def _measure_kind(kind: str, noun: str, rows: Sequence[Row], models: Sequence[str]) -> tuple[list[Item], list[str]]:
    names = sorted({row["item"] for row in rows})
    columns = {name: column for column, name in enumerate(names)}
    scores = np.full((len(models), len(names)), np.nan)
    for row in rows:
        scores[models.index(model_name(row)), columns[row["item"]]] = row["score"]
    is_whole = ~np.isnan(scores).any(axis=0)
    whole_names = [name for name, is_one in zip(names, is_whole, strict=True) if is_one]
    notes = [f"{len(names) - len(whole_names):,} of {len(names):,} {noun} lack a score of a model, and are left out"]
    measured = measure_items(scores[:, is_whole])
    if measured is None:
        return [], [f"fewer than two {noun} have a score of every model"]
    items = sorted(
        _items(kind, whole_names, measured), key=lambda item: (item.discrimination is None, item.discrimination)
    )
    bad = [item.name for item in items if item.is_negative]
    examples = f": {', '.join(bad[:MOST_NAMED])}{' and more' if len(bad) > MOST_NAMED else ''}" if bad else ""
    findings = [
        f"{len(bad):,} of {len(whole_names):,} {noun} are failed by better models beyond chance{examples}",
        f"{measured.enough_count:,} of {len(whole_names):,} {noun} carry {ENOUGH:.0%} of what tells the models apart"
        if measured.shares.any()
        else f"no sum over {noun} tells the models apart",
    ]
    is_flat = np.ptp(scores[:, is_whole], axis=0) <= TIED
    return items, [
        *findings,
        *_flat_notes(noun, whole_names, is_flat, measured.means),
        *(notes if len(whole_names) < len(names) else []),
    ]


def _flat_notes(noun: str, names: Sequence[str], is_flat: NDArray[np.bool_], means: Floats) -> Iterator[str]:
    """Sentence on items on which all models have the same score: they can't distinguish models."""
    if is_flat.any():
        at_top = int((is_flat & (means >= 1.0 - TIED)).sum())
        at_bottom = int((is_flat & (means <= TIED)).sum())
        yield (
            f"{int(is_flat.sum()):,} of {len(names):,} {noun} have one score for all models ({at_top:,} the best, "
            f"{at_bottom:,} the worst), such as {names[int(is_flat.argmax())]}: they tell no models apart, and have no "
            "discrimination"
        )


def _items(kind: str, names: Sequence[str], items: Items) -> list[Item]:
    columns = (items.discrimination, items.low, items.high, items.p)
    cells = [[None if np.isnan(value) else float(value) for value in column] for column in columns]
    is_enough = np.zeros(len(names), np.bool_)
    if items.shares.any():
        is_enough[np.argsort(-items.shares, kind="stable")[: items.enough_count]] = True
    rows = zip(names, items.means.tolist(), *cells, items.shares.tolist(), is_enough.tolist(), strict=True)
    return [Item(kind, *row) for row in rows]
