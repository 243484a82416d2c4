"""Methods that ask no model: `check` (deterministic checks by name), `schema` (JSON Schema) and `ratings` of people."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.check_kit.check import MADE_COLUMNS, read_settings
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.checks.grading import CheckedCriterion, run_check
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.model.methods import CheckMethod, SchemaMethod
from gradebook.rubrics.model.rubric import Criterion
from gradebook.tasks.datasets.case_criteria import OwnCriterion
from gradebook.tasks.datasets.media import audio_slices
from gradebook.tasks.methods.method import CodeMethod, Outcomes, RowMethod, Schemas, ScoringSetup
from gradebook.tasks.ratings.run_ratings import score_all_ratings, score_ratings
from gradebook.tasks.workspace.timings import Timing

_SOUND = ("output", "metadata")


def stored_columns(name: str) -> tuple[str, ...]:
    """Columns of a stored shard that the named check reads; audio comes from the metadata or the output."""
    columns = find_check(name).columns
    stored_names = [
        stored_name for column in columns for stored_name in (_SOUND if column in MADE_COLUMNS else (column,))
    ]
    return tuple(dict.fromkeys(stored_names))


class CheckScoring(CodeMethod):
    """Checks, which decide from a shard's columns."""

    def columns(self, criterion: Criterion) -> tuple[str, ...]:
        """Columns that the check reads."""
        return ("output_id", *stored_columns(criterion.method_as(CheckMethod).check))

    def outcomes(self, criterion: Criterion, schemas: Schemas) -> Outcomes:
        """Read the check's settings; returns the function that decides rows.

        Raises `TypeError` for a criterion of another method, `KeyError` for an unknown check, and pydantic's
        `ValidationError` for its settings; lint refuses a rubric with any of the three.
        """
        method = criterion.method_as(CheckMethod)
        check = find_check(method.check)
        settings = read_settings(check, method.settings, method.folder)

        def decide(rows: pa.Table, folders: tuple[Path, ...]) -> Iterator[CheckedCriterion]:
            # Sound files are large, so only a few slices are in memory at a time.
            for chunk in audio_slices(rows, folders) if "audio" in check.columns else [rows]:
                outcome = run_check(check, chunk, settings, method.mode, method.field)
                yield CheckedCriterion(criterion, text_column(chunk, "output_id"), outcome)

        return decide


class SchemaScoring(CodeMethod):
    """JSON Schemas, which may refer to the rubric's."""

    def columns(self, criterion: Criterion) -> tuple[str, ...]:
        """The column `output`."""
        return ("output_id", "output")

    def outcomes(self, criterion: Criterion, schemas: Schemas) -> Outcomes:
        """Function that validates rows. Raises `TypeError` for a criterion of another method; the function raises
        `ValueError` for a schema that `check_schema` refuses.
        """
        json_schema = criterion.method_as(SchemaMethod).json_schema
        from gradebook.rubrics.schemas.validating import validate_outputs  # here: slow to import, and few need it

        def decide(rows: pa.Table, _folders: tuple[Path, ...]) -> Iterator[CheckedCriterion]:
            outcome = validate_outputs(text_column(rows, "output"), json_schema, schemas)
            yield CheckedCriterion(criterion, text_column(rows, "output_id"), outcome)

        return decide


class RatingsScoring(RowMethod):
    """Ratings that the plan matched with the run's outputs."""

    outside_run = "needs_people: ratings count in a run"

    def score_rows(self, setup: ScoringSetup, criterion: Criterion, rows: pa.Table, timing: Timing) -> pa.Table:
        """Mean score by the raters of each output."""
        return score_ratings(setup.folder.run_id, criterion, rows, setup.folder.ratings_file)

    def score_own(
        self, setup: ScoringSetup, own_criteria: Sequence[OwnCriterion], shard: str, shard_index: int, timing: Timing
    ) -> pa.Table:
        """Mean score by the raters of each output, in one query for all criteria: there may be thousands."""
        output_ids = pq.read_table(shard, columns=["output_id"]).column(0).combine_chunks()
        rated = [
            (own_criterion.criterion, output_ids.take(own_criterion.row_indices)) for own_criterion in own_criteria
        ]
        return score_all_ratings(setup.folder.run_id, rated, setup.folder.ratings_file)
