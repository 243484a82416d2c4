"""Table of the ways to score criteria."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.methods.check import CheckScoring, RatingsScoring, SchemaScoring
from gradebook.tasks.methods.claims import ClaimsScoring
from gradebook.tasks.methods.function import FunctionScoring
from gradebook.tasks.methods.judge import JudgeScoring
from gradebook.tasks.methods.method import ScoringMethod, ScoringSetup
from gradebook.tasks.methods.preference import PreferenceScoring
from gradebook.tasks.methods.similarity import SimilarityScoring
from gradebook.tasks.methods.steps import StepsScoring
from gradebook.tasks.planning.applying import applied_shard, with_left_out, write_applied_shards
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

# kind of the method's settings -> its object
METHODS: dict[str, ScoringMethod] = {
    "check": CheckScoring(),
    "schema": SchemaScoring(),
    "function": FunctionScoring(),
    "ratings": RatingsScoring(),
    "judge": JudgeScoring(),
    "claims": ClaimsScoring(),
    "steps": StepsScoring(),
    "preference": PreferenceScoring(),
    "similarity": SimilarityScoring(),
}


def method_of(criterion: Criterion) -> ScoringMethod:
    """Scoring method of a criterion."""
    return METHODS[criterion.method.kind]


def prepare_methods(lake: Lake, folder: RunFolder, rubric: Rubric, shards: Sequence[str], baseline: str | None) -> None:
    """Write the inputs of the methods of a rubric's criteria to the run's folder. Raises `InputError`."""
    write_applied_shards(folder, rubric, shards)
    for criterion in rubric.criteria:
        method_of(criterion).prepare(lake, folder, criterion, shards, baseline)


def score_criterion(
    setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing
) -> pa.Table:
    """Verdicts of a criterion over a shard, in its order: `VERDICT_SCHEMA`, one row per output.

    Outputs that the criterion does not apply to are unscored, with the reason, without a question to a judge.
    """
    method = method_of(criterion)
    if criterion.applies is None:
        return method.score_shard(setup, criterion, shard, shard_index, timing)
    method_shard = shard if method.reads_whole_shards else applied_shard(setup.folder, criterion, shard, shard_index)
    is_empty = pq.read_metadata(method_shard).num_rows == 0
    verdicts = (
        VERDICT_SCHEMA.empty_table()
        if is_empty
        else method.score_shard(setup, criterion, method_shard, shard_index, timing)
    )
    return with_left_out(setup.folder, criterion, verdicts, shard, shard_index)


def is_computed(criterion: Criterion) -> bool:
    """Whether code decides the criterion from a shard's rows alone."""
    return method_of(criterion).is_computed
