"""Agreement of raters and judges on a published run's outputs, by all current ratings."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.agreement import Measure
from gradebook.tasks.agreement.mart import (
    LEAST_OUTPUTS,
    MOST_ONE_BY_ONE,
    Group,
    Voices,
    groups_of,
    is_crowded,
    level_table,
    measure_group,
    read_voices,
)
from gradebook.tasks.agreement.preferences import Preference, measure_preferences
from gradebook.tasks.agreement.rankings import ModelRanking, rank_run
from gradebook.tasks.agreement.statements import add_criteria_of_run, add_statements_of_run
from gradebook.tasks.agreement.steps import StepAgreement, measure_claims, measure_steps
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.offered import offered_words
from gradebook.tasks.system.shell import shell_line

_RUN = "select run_id, status, rubric_id, rubric_version, judge from runs where run_id = ?"
UNWEIGHTED = (
    "the cases were drawn by stratum and count as one each here: these figures are of the sample, not of all cases"
)
_DRAWN = "select count(stratum) from output_scores where run_id = ?"
_LATEST = """
select run_id from runs where status = 'published' and ($1 is null or rubric_id = $1) order by version desc limit 1
"""
_CRITERIA = "select distinct criterion_id from asked_questions order by criterion_id"


@dataclass(frozen=True, slots=True)
class AgreementPart:
    """Agreement of two sides on one criterion. judge, rater: None for all of them; as the judge also for the verdict.

    levels: scores of the levels; confusion: counts of levels of the first side (rows) by levels of the other; both
    empty
    if more than two are compared.
    """

    criterion_id: str
    kind: str
    judge: str | None
    rater: str | None
    n: int
    pair_count: int
    measures: tuple[Measure, ...]
    levels: tuple[float, ...]
    confusion: tuple[tuple[int, ...], ...]

    def measure(self, statistic: str) -> Measure:
        """Measure of one statistic, by name; unknown if it is not of this kind of pairs."""
        found = (each for each in self.measures if each.statistic == statistic)
        return next(found, Measure(statistic, None, None, None, None))

    def as_json(self) -> dict[str, Any]:
        head = {name: getattr(self, name) for name in ("criterion_id", "kind", "judge", "rater", "n", "pair_count")}
        statistics = {each.statistic: _without_name(each) for each in self.measures}
        return {**head, "statistics": statistics, "levels": list(self.levels), "confusion": list(self.confusion)}


@dataclass(frozen=True, slots=True)
class RunAgreement:
    """Agreement of a run's raters and judges, and people's preferences between its outputs.

    note: why there is no agreement, or what is left out. steps, claims: agreement on the steps of agents, and on
    claims.
    """

    run: Row
    parts: tuple[AgreementPart, ...]
    note: str | None
    preferences: tuple[Preference, ...] = ()
    rankings: tuple[ModelRanking, ...] = ()
    steps: tuple[StepAgreement, ...] = ()
    claims: tuple[StepAgreement, ...] = ()

    def as_json(self) -> dict[str, Any]:
        preferences = [asdict(each) for each in self.preferences]
        agreement = [part.as_json() for part in self.parts]
        return {
            "run": self.run,
            "agreement": agreement,
            "preferences": preferences,
            "rankings": [each.as_json() for each in self.rankings],
            "steps": [asdict(each) for each in self.steps],
            "claims": [asdict(each) for each in self.claims],
            "note": self.note,
        }


def measure_run(
    lake: Lake, run_id: str | None, *, rubric_id: str | None = None, criterion_id: str | None = None
) -> RunAgreement:
    """Measure the agreement on a published run's outputs; by default the latest run, or the rubric's latest.

    Raises `InputError` for an unknown run or criterion.
    """
    with connect_up_to_date(lake) as connection:
        run = find_run(connection, lake, run_id, rubric_id)
        refuse_unknown(connection, run["run_id"], criterion_id)
        parts, note = measure_parts(connection, run["run_id"], criterion_id, lake_words=lake.words())
        offered = offered_words(connection, run["run_id"], lake.words())
        preferences = measure_preferences(connection, run["run_id"], criterion_id)
        rankings = rank_run(connection, run["run_id"], criterion_id)
        steps = measure_steps(connection, run["run_id"], criterion_id)
        claims = measure_claims(connection, run["run_id"], criterion_id)
    note = "; ".join(filter(None, (note, offered))) or None
    return RunAgreement(run, parts, note, preferences, rankings, steps, claims)


def measure_parts(
    connection: duckdb.DuckDBPyConnection,
    run_id: str,
    criterion_id: str | None = None,
    *,
    is_by_rater: bool = True,
    lake_words: Sequence[str] = (),
) -> tuple[tuple[AgreementPart, ...], str | None]:
    """Agreement on a published run's outputs by the current ratings, and a note on what is missing or may mislead.

    connection: to the lake. is_by_rater: measure each rater separately too. lake_words: options that name the lake.
    """
    if not add_statements_of_run(connection, run_id):
        return (), unrated_words(run_id, lake_words)
    parts: list[AgreementPart] = []
    crowded: list[str] = []
    for voices in read_voices(connection, criterion_id):
        parts.extend(_parts(voices, is_by_rater=is_by_rater))
        crowded.extend([voices.criterion_id] if is_by_rater and is_crowded(voices) else [])
    words = (_chosen_words(connection, run_id, criterion_id), unweighted_words(connection, run_id))
    return tuple(parts), _note(parts, crowded, words)


def unrated_words(run_id: str, lake_words: Sequence[str] = (), *, what: str = "the outputs of this run") -> str:
    """Sentence on a run without ratings, with the next command. lake_words: options that name its lake."""
    command = shell_line(("gradebook", "rate", run_id, "--n", "50", *lake_words))
    return f"nobody rated {what}; to collect ratings: `{command}`"


def find_run(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str | None, rubric_id: str | None) -> Row:
    """Row of a published run, or of a rubric's latest one. Raises `InputError` if there is none."""
    if run_id is None:
        latest = read_rows(connection, _LATEST, rubric_id)
        if not latest:
            of = f" of the rubric {rubric_id!r}" if rubric_id else ""
            raise InputError("run", f"no published run{of} in {lake.name}", "one")
        run_id = str(latest[0]["run_id"])
    found = read_rows(connection, _RUN, run_id)
    if not found or found[0]["status"] != "published":
        state = f"a run that is {found[0]['status']}" if found else "no such run"
        raise InputError(f"run {run_id}", state, "one that `gradebook runs` lists as published")
    if rubric_id is not None and found[0]["rubric_id"] != rubric_id:
        raise InputError(f"--rubric: found {rubric_id!r}, but run {run_id} is of {found[0]['rubric_id']}")
    return found[0]


def known_criteria(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[str]:
    """Ids that may be rated in the run: the rubric's criteria, per-case criteria, the overall row."""
    add_criteria_of_run(connection, run_id)
    return [str(row["criterion_id"]) for row in read_rows(connection, _CRITERIA)]


def refuse_unknown(connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None) -> None:
    """Raise `InputError` if the requested criterion is not one of the run's."""
    if criterion_id is None:
        return
    known = known_criteria(connection, run_id)
    if criterion_id not in known:
        raise InputError("--criterion", f"{criterion_id!r}", f"one of {', '.join(known[:30])}")


def _parts(voices: Voices, *, is_by_rater: bool) -> Iterator[AgreementPart]:
    for group in groups_of(voices):
        if group.rater is not None and not is_by_rater:
            continue
        found = measure_group(voices, group)
        if found is not None:
            levels, confusion = _confusion(voices, group)
            names = (voices.criterion_id, group.kind, group.judge, group.rater)
            yield AgreementPart(*names, found.n, found.pair_count, found.measures, levels, confusion)


def unweighted_words(connection: duckdb.DuckDBPyConnection, run_id: str) -> str | None:
    """Words on cases that were drawn by stratum but count as one each; None if a run's were not."""
    ((drawn_count,),) = connection.execute(_DRAWN, [run_id]).fetchall()
    return UNWEIGHTED if drawn_count else None


def _note(parts: list[AgreementPart], crowded: list[str], others: Sequence[str | None]) -> str | None:
    if not parts:
        return f"no {LEAST_OUTPUTS} outputs have two ratings, or a rating and a verdict, on a criterion"
    names = ", ".join(crowded)
    words = f"{names}: more than {MOST_ONE_BY_ONE} raters, measured together, not one by one" if crowded else None
    return "; ".join(filter(None, (words, *others))) or None


def _chosen_words(connection: duckdb.DuckDBPyConnection, run_id: str, criterion_id: str | None) -> str | None:
    """Words on ratings that count in the agreement although their outputs are no random sample; None without any."""
    criteria = None if criterion_id is None else [criterion_id]
    counts: Counter[str] = Counter()
    for row in read_rows(connection, query("agreement/left_out_counts"), run_id=run_id, criteria=criteria):
        counts[row["selection"]] += row["rating_count"]
    if not counts:
        return None
    queues = ", ".join(sorted(counts))
    return (
        f"{counted(counts.total(), 'rating')} of outputs that a queue chose ({queues}) are counted too: on a random "
        "sample, agreement may be higher or lower"
    )


def _without_name(measure: Measure) -> dict[str, Any]:
    return {name: value for name, value in asdict(measure).items() if name != "statistic"}


def _confusion(voices: Voices, group: Group) -> tuple[tuple[float, ...], tuple[tuple[int, ...], ...]]:
    if not group.first:
        return (), ()
    levels, counts = level_table(voices, group)
    if not levels.size:
        return (), ()
    return tuple(levels.tolist()), tuple(tuple(row) for row in counts.tolist())
