"""Table of the ways to score criteria."""

from collections.abc import Sequence

from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.methods.check import CheckScoring, RatingsScoring, SchemaScoring
from gradebook.tasks.methods.claims import ClaimsScoring
from gradebook.tasks.methods.function import FunctionScoring
from gradebook.tasks.methods.judge import JudgeScoring
from gradebook.tasks.methods.method import ScoringMethod
from gradebook.tasks.methods.preference import PreferenceScoring
from gradebook.tasks.methods.similarity import SimilarityScoring
from gradebook.tasks.methods.steps import StepsScoring
from gradebook.tasks.workspace.folder import RunFolder

# By `kind` of the method's settings.
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
    """How a criterion is scored."""
    return METHODS[criterion.method.kind]


def prepare_methods(lake: Lake, folder: RunFolder, rubric: Rubric, shards: Sequence[str], baseline: str | None) -> None:
    """Write what the methods of a rubric's criteria read to the run's folder. Raises `InputError`."""
    for criterion in rubric.criteria:
        method_of(criterion).prepare(lake, folder, criterion, shards, baseline)


def is_computed(criterion: Criterion) -> bool:
    """Whether code decides the criterion from a shard's rows alone."""
    return method_of(criterion).is_computed
