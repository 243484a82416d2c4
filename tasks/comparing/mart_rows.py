"""Rows of the mart `run_comparisons`: a comparison as a table, and back."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa

from gradebook.rubrics.statistics.comparison import OPEN_FIGURES, PASS_FIGURES, OpenFigures, PairFigures, PassFigures
from gradebook.rubrics.statistics.rules import CRITERION, OVERALL
from gradebook.rubrics.statistics.spread import SPREAD_FIGURES, SpreadFigures
from gradebook.tasks.comparing.attribution import UNSCORED
from gradebook.tasks.comparing.case_pairs import PairCounts
from gradebook.tasks.comparing.compare import ModelComparison
from gradebook.tasks.comparing.figures import ComparedRow
from gradebook.tasks.comparing.gate import COUNTS
from gradebook.tasks.lake.rows import Row, model_name

_WORDS = {"dominance"}
_PAIR_FIGURES = tuple(field.name for field in fields(PairFigures))


def _type_of(figure: str) -> pa.DataType:
    """Type of a column: a count, a word, or a nullable number."""
    if figure in _WORDS:
        return pa.string()
    return pa.int64() if figure in ("n", "pass_n") or figure.endswith("_count") else pa.float64()


RUN_COMPARISON_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("run_id", "baseline_run_id", "model", "checkpoint")),
        *(pa.field(name, pa.string()) for name in ("baseline_model", "baseline_checkpoint", "scope", "scope_id")),
        pa.field("category", pa.string()),
        pa.field("is_own", pa.bool_()),
        *(pa.field(name, _type_of(name)) for name in (*_PAIR_FIGURES, *COUNTS, *PASS_FIGURES, *SPREAD_FIGURES)),
        *(pa.field(name, pa.string()) for name in ("conflict", "caution")),
        *(pa.field(name, pa.float64()) for name in ("part", "uniform_part", *OPEN_FIGURES)),
    ]
)


def comparison_table(models: Sequence[ModelComparison], baseline_run_id: str, run_id: str) -> pa.Table:
    """Rows for the overall score, each category and each criterion of each pair of models, as the schema."""
    rows = [
        {"run_id": run_id, "baseline_run_id": baseline_run_id} | row for pair in models for row in _rows_of_pair(pair)
    ]
    return pa.Table.from_pylist(rows, schema=RUN_COMPARISON_SCHEMA)


def compared_row(row: Row, penalties: Collection[str]) -> ComparedRow:
    """Rebuild a row of a comparison from the table. penalties: ids of criteria with negative weights."""
    passes = PassFigures(*(row[name] for name in PASS_FIGURES)) if row["pass_n"] is not None else None
    spread = SpreadFigures(*(row[name] for name in SPREAD_FIGURES)) if row["sd_a"] is not None else None
    left_open = OpenFigures(*(row[name] for name in OPEN_FIGURES)) if row["least_diff"] is not None else None
    return ComparedRow(
        model_name({"model": row["baseline_model"], "checkpoint": row["baseline_checkpoint"]}),
        model_name(row),
        row["scope"],
        row["scope_id"] or "",
        row["category"],
        PairCounts(*(row[name] for name in COUNTS)),
        PairFigures(*(row[name] for name in _PAIR_FIGURES)),
        passes,
        row["is_own"],
        row["scope"] == CRITERION and row["scope_id"] in penalties,
        spread,
        open_figures=left_open,
    )


def _rows_of_pair(pair: ModelComparison) -> Iterator[dict[str, Any]]:
    parts = _parts(pair)
    of_a, of_b = pair.groups
    for row in pair.rows:
        yield {
            **{name: of_b[name] for name in ("model", "checkpoint")},
            **{f"baseline_{name}": of_a[name] for name in ("model", "checkpoint")},
            "scope": row.scope,
            "scope_id": row.scope_id or None,
            "category": row.category,
            "is_own": row.is_own,
            **asdict(row.figures),
            **asdict(row.counts),
            **({} if row.passes is None else asdict(row.passes)),
            **({} if row.spread is None else asdict(row.spread)),
            **({} if row.open_figures is None else asdict(row.open_figures)),
            "conflict": row.conflict,
            "caution": row.caution,
            **parts.get((row.scope, row.scope_id), {}),
        }


def _parts(pair: ModelComparison) -> Mapping[tuple[str, str], dict[str, float | None]]:
    """Contribution of each criterion to the overall difference, and the remainder at the overall row, often 0.

    Contributions and remainder add up to the overall difference.
    """
    if pair.explanation is None or not pair.explanation.parts:
        return {}
    found = {part.criterion_id: part for part in pair.explanation.parts}
    rest = found.pop(UNSCORED, None)
    has_uniform = all(part.uniform_part is not None for part in found.values())
    left_over = {"part": 0.0, "uniform_part": 0.0 if has_uniform else None}
    if rest is not None:
        left_over = {"part": rest.part, "uniform_part": rest.uniform_part}
    return {(OVERALL, ""): left_over} | {
        (CRITERION, name): {"part": part.part, "uniform_part": part.uniform_part} for name, part in found.items()
    }
