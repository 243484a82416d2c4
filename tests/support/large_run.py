"""A published run of many outputs and criteria, made in SQL: its marts are built as any run's, nothing is evaluated."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.files.versions import rubric_digest
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.model.verdicts import OPINION_SCHEMA
from gradebook.tasks.agreement.audited_scores import AUDITED_SCHEMA
from gradebook.tasks.agreement.mart import AGREEMENT_SCHEMA
from gradebook.tasks.comparing.run_comparison import RUN_COMPARISON_SCHEMA
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, prepare_lake
from gradebook.tasks.marts.models import build_marts, connect_marts
from gradebook.tasks.marts.sources import add_criteria_sources
from gradebook.tasks.rubric_store.versions import store_rubric
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import TIMING_SCHEMA

RUN_ID = "large"
NOW = datetime(2026, 11, 21, 2, 30, tzinfo=UTC)
MEMORY = "2GB"
CATEGORIES = ("correctness", "voice", "format", "safety")
SCORES = (0.0, 0.25, 0.5, 1.0)
WORDS = [
    *("the", "order", "was", "sent", "on", "Monday", "with", "a", "label", "and", "we", "are", "sorry", "that", "your")
]
WORDS += ["parcel", "came", "late", "please", "tell", "us", "more"]
# Some 500 characters an output. The later a model, the better it is; one verdict in 200 is missing.
OUTPUTS = """
create table source_outputs as
select
    md5(concat_ws('/', case_number, place)) as output_id, 'case ' || case_number as case_id,
    'model ' || place as model, null::varchar as checkpoint, 0::integer as sample_index, null::varchar as cluster,
    json_object('topic', case_number % 12, 'is_long', case_number % 3 = 0)::varchar as metadata, place,
    'Question ' || case_number || ': where is my parcel?' as prompt,
    array_to_string(list_transform(range(100), lambda i: $words[1 + (hash(case_number, place, i) % 22)::integer]), ' ')
        as output,
from range($cases) as cases (case_number), range($models) as models (place)
"""
VERDICTS = """
create table source_verdicts as
with drawn as (
    select
        output_id, 'criterion_' || criterion as criterion_id, criterion, output,
        hash(output_id, criterion) % 200 = 0 as is_missing,
        least(4, 1 + floor(4 * pow((hash(criterion, output_id) % 1000) / 1000, 1.2 - place / 10)))::integer as level,
    from source_outputs, range($criteria) as criteria (criterion)
)

select
    output_id, criterion_id, if(criterion % 2 = 0, 'judge', 'check') as method,
    if(is_missing, 'unscored', 'scored') as status,
    case when not is_missing then 'l' || (level - 1) end as level_id,
    case when not is_missing then $scores[level] end as score,
    if(is_missing, 'parse_error', null) as reason,
    case when criterion % 2 = 0 then json_array(substr(output, 40 + 10 * level, 60))::varchar end as evidence,
    case when criterion % 2 = 0 then 'It says where the parcel is: level ' || level || '.' end as rationale,
from drawn
"""
JUDGMENTS = """
create table source_judgments as
select
    output_id, criterion_id, 1200 as prompt_tokens, 800 as cached_tokens, 60 as completion_tokens, 0.0004 as cost_usd,
    1 as attempts,
from source_verdicts where method = 'judge'
"""
PUBLISHED = (
    "insert into outputs by name select * exclude (place) from given.source_outputs",
    "insert into verdicts by name select '{run_id}' as run_id, *, false as is_replayed from given.source_verdicts",
    """
    insert into judgments by name
    select
        '{run_id}' as run_id, output_id || criterion_id as request_key, output_id || criterion_id as judgment_id, *,
        'a-judge' as judge, 0 as replicate, 'a-judge-1' as model_returned,
        if(hash(output_id, criterion_id) % 200 = 0, 'parse_error', 'scored') as status, 300.0 as latency_ms,
    from given.source_judgments
    """,
    """
    insert into ratings by name
    select
        output_id, criterion_id, 'rater ' || (hash(output_id) % 3) as rater, level_id, score, 'file' as source,
    from given.source_verdicts where method = 'judge' and score is not null and hash(output_id) % 200 = 0
    """,
    """
    insert into stage_costs by name
    select
        '{run_id}' as run_id, 'score' as stage, criterion_id, 100.0 as wall_s, 20.0 as cpu_s, count(*) as row_count,
        count(*) as request_count, 0 as replayed_count, sum(prompt_tokens) as prompt_tokens,
        sum(cached_tokens) as cached_tokens, sum(completion_tokens) as completion_tokens, sum(cost_usd) as cost_usd,
        0.0 as saved_usd,
    from given.source_judgments group by criterion_id
    """,
    """
    insert into quality_results by name
    select
        '{run_id}' as run_id, 'quality' as stage, 'outputs' as subject, 'expectation ' || i as expectation,
        i > 0 as is_met, 'warning' as severity, i as unexpected_count,
    from range(20) as expectations (i)
    """,
)


def make_large_run(folder: Path, cases: int, models: int, criteria: int) -> Lake:
    """Publish the run RUN_ID of `cases` x `models` outputs into a new lake below the folder."""
    lake = find_lake(f"sqlite:{folder}/lake/catalog.sqlite")
    prepare_lake(lake)
    rubric, database = _rubric(criteria), folder / "marts.duckdb"
    with connect_marts(database, MEMORY) as connection:
        connection.execute(OUTPUTS, {"cases": cases, "models": models, "words": WORDS})
        connection.execute(VERDICTS, {"criteria": criteria, "scores": list(SCORES)})
        connection.execute(JUDGMENTS)
        add_criteria_sources(connection, RunFolder(lake.root / "runs" / RUN_ID), rubric)
        for name, schema in (
            ("opinions", OPINION_SCHEMA),
            ("agreement", AGREEMENT_SCHEMA),
            ("audited", AUDITED_SCHEMA),
            ("timings", TIMING_SCHEMA),
            ("run_comparisons", RUN_COMPARISON_SCHEMA),
        ):
            connection.register(f"source_{name}", schema.empty_table())
        marts = build_marts(connection)
        for mart in marts:  # temporary tables, as the connection's end would drop them
            connection.execute(f"create table {database.stem}.main.{mart} as from temp.{mart}")
    commit(lake, f"publish run {RUN_ID}", _publication(database, rubric, [*marts], cases * models))
    database.unlink()
    return lake


def _publication(database: Path, rubric: Rubric, marts: list[str], output_count: int) -> Any:
    def body(connection: duckdb.DuckDBPyConnection, version: int) -> None:
        store_rubric(connection, rubric, NOW)
        connection.execute(f"attach '{database}' as given (read_only)")
        for statement in PUBLISHED:
            connection.execute(statement.format(run_id=RUN_ID))
        for mart in marts:
            connection.execute(f"insert into {mart} by name from given.{mart}")
        row = _run_row(rubric) | {"output_count": output_count, "version": version}
        marks = ", ".join("?" for _ in row)
        connection.execute(f"insert into runs ({', '.join(row)}) values ({marks})", list(row.values()))

    return body


def _run_row(rubric: Rubric) -> dict[str, Any]:
    """The run's row, but for its version and how many outputs it has."""
    row = {"run_id": RUN_ID, "created_at": NOW, "finished_at": NOW, "status": "published", "judge": "a-judge"}
    row |= {"dataset": "large.parquet", "dataset_digest": "d", "settings": "{}", "trigger": "manual", "notes": []}
    row |= {"rubric_id": rubric.id, "rubric_version": rubric.version, "rubric_digest": rubric_digest(rubric)}
    return row | {"code_version": "0", "cost_usd": 1.0}


def _rubric(criterion_count: int) -> Rubric:
    """Weighted criteria of four levels in categories, half of them judged, and the last of all a gate."""
    levels = [{"id": f"l{place}", "score": score, "label": f"Level {place}"} for place, score in enumerate(SCORES)]
    methods: list[dict[str, Any]] = [{"type": "judge"}, {"type": "check", "check": "not_empty"}]
    criteria: list[dict[str, Any]] = []
    for number in range(criterion_count):
        weight = {"weight": 1 + number / 7} if number < criterion_count - 1 else {"gate": True, "threshold": 0.25}
        head = {"id": f"criterion_{number}", "name": f"Criterion {number}", "description": "Does it say so?"}
        kind = {"category": CATEGORIES[number % len(CATEGORIES)], "method": methods[number % 2], "levels": levels}
        criteria.append(head | kind | weight)
    shared = {"id": "large", "version": "1.0.0", "pass_threshold": 0.5, "missing": "skip"}
    return Rubric.model_validate(shared | {"criteria": criteria})
