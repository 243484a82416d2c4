"""One criterion over one shard, by any method; and the collected verdicts of a shard."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.methods import ASKED_METHODS
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA
from gradebook.tasks.judging.settings.panels import list_opinions
from gradebook.tasks.ratings.run_ratings import prefers_people, score_ratings
from gradebook.tasks.scoring.case_criteria import score_case_criteria
from gradebook.tasks.scoring.claims import score_claims
from gradebook.tasks.scoring.computed import compute_verdicts, is_computed, leave_unscored, write_counted
from gradebook.tasks.scoring.functions import FUNCTION_COLUMNS, score_function
from gradebook.tasks.scoring.human_preferred import score_preferred
from gradebook.tasks.scoring.judge import NO_JUDGE, judge_outputs, score_judge, score_without_judge
from gradebook.tasks.scoring.judge_shard import has_missing_scores
from gradebook.tasks.scoring.list_answers import ListJudges
from gradebook.tasks.scoring.preferences import score_preferences
from gradebook.tasks.scoring.setup import ScoringSetup
from gradebook.tasks.scoring.similarity import score_similarity
from gradebook.tasks.scoring.steps import score_steps_of
from gradebook.tasks.system.files import PARQUET_SETTINGS, replaced_file
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing, timed

RECORDED = {  # reasons of verdicts for which recorded replies hold nothing
    "claims": "no_claims: recorded replies hold no claims",
    "steps": "no_step_verdicts: recorded replies hold no verdicts on steps",
    "preference": "no_preferences: recorded replies hold no preferences",
}


def score_shard(setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int) -> Path:
    """Write the verdicts of one criterion over one shard and return the file's path.

    A file written by an earlier, interrupted command is kept, unless one of its verdicts waits for a judge.
    """
    turn = nullcontext() if criterion.method.type in ASKED_METHODS else COMPUTING
    path = setup.folder.verdict_file(criterion.id, shard_index)
    with turn:
        return _scored_once(
            setup, criterion.id, shard_index, path, partial(_write, setup, criterion, shard, shard_index)
        )


def score_criteria(setup: ScoringSetup, criteria: Sequence[Criterion], shard: str, shard_index: int) -> None:
    """Write the verdicts of several criteria over one shard; as `score_shard`."""
    for criterion in criteria:
        score_shard(setup, criterion, shard, shard_index)


def score_own_criteria(setup: ScoringSetup, shard: str, shard_index: int) -> Path:
    """Write the verdicts on a shard's per-case criteria and return the file's path."""
    path = setup.folder.verdict_file(CASE_CRITERIA, shard_index)
    return _scored_once(setup, CASE_CRITERIA, shard_index, path, partial(_write_own, setup, shard, shard_index))


def _scored_once(
    setup: ScoringSetup, name: str, shard_index: int, path: Path, write: Callable[[Path, Timing], int]
) -> Path:
    if path.exists() and not (setup.session and has_missing_scores(path)):
        reporter().advance("score", pq.read_metadata(path).num_rows)
        return path
    with timed(setup.folder, "score", name, shard_index) as timing:
        timing.row_count = write(path, timing)
    pa.default_memory_pool().release_unused()  # otherwise each thread keeps the memory of its largest shard
    reporter().advance("score", timing.row_count)
    return path


def collect_shard(folder: RunFolder, rubric: Rubric, shard_index: int) -> int:
    """Merge the verdicts of all criteria over one shard into one file; returns their number."""
    files = [folder.verdict_file(criterion.id, shard_index) for criterion in rubric.criteria]
    if folder.case_criteria_file(shard_index).exists():
        files.append(folder.verdict_file(CASE_CRITERIA, shard_index))
    count = 0
    with (
        replaced_file(folder.collected_file(shard_index)) as partial_path,
        pq.ParquetWriter(partial_path, VERDICT_SCHEMA, compression_level=1, **PARQUET_SETTINGS) as writer,
    ):
        for file in files:
            verdicts = pq.read_table(file, schema=VERDICT_SCHEMA)
            writer.write_table(verdicts)
            count += verdicts.num_rows
    return count


def _write(setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, path: Path, timing: Timing) -> int:
    if is_computed(criterion):
        return compute_verdicts(setup.computation(criterion, shard, shard_index), setup.shards)
    return write_counted(path, _score(setup, criterion, shard, shard_index, timing))


def _write_own(setup: ScoringSetup, shard: str, shard_index: int, path: Path, timing: Timing) -> int:
    return write_counted(path, score_case_criteria(setup, shard, shard_index, timing))


def _score(setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing) -> pa.Table:
    run_id, method = setup.folder.run_id, criterion.method
    if method.type == "ratings":  # of steps too: their score is the rating
        return score_ratings(run_id, criterion, _read_columns(shard), setup.folder.ratings_file)
    if method.type == "judge" and not criterion.is_stepwise:
        return _judged(setup, criterion, shard, shard_index, timing)
    if method.type == "function":
        return score_function(run_id, criterion, _read_columns(shard, *FUNCTION_COLUMNS), setup.functions, timing)
    if method.type == "similarity":
        return score_similarity(setup.folder, criterion, shard, shard_index, setup.others, timing)
    return _asked_otherwise(setup, criterion, shard, shard_index, timing)


def _asked_otherwise(
    setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing
) -> pa.Table:
    """Verdicts of a judge that is not asked for one level of an output: on claims, steps or pairs of answers."""
    folder, judged = setup.folder, setup.judged
    if setup.lake is not None and judged is not None and list_opinions(judged.judge, criterion.id):
        judges = ListJudges(folder.run_id, judged.judge, setup.sessions, setup.lake, timing, judged.saved)
        if criterion.is_stepwise:
            return score_steps_of(folder, criterion, setup.taxonomy, shard, shard_index, judges)
        score = score_claims if criterion.method.type == "claims" else score_preferences
        return score(folder, criterion, shard, shard_index, judges)
    reason = NO_JUDGE if judged is None else RECORDED["steps" if criterion.is_stepwise else criterion.method.type]
    return leave_unscored(folder.run_id, criterion, _read_columns(shard), reason)


def _judged(setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int, timing: Timing) -> pa.Table:
    output_ids, judged = _read_columns(shard).column("output_id"), setup.judged
    if not prefers_people(criterion):
        if judged is None:
            return score_without_judge(setup.folder.run_id, criterion, output_ids)
        return score_judge(setup.folder, criterion, shard, shard_index, judged, timing)

    def judge_others(others: pa.ChunkedArray) -> pa.Table:
        if judged is None:
            return score_without_judge(setup.folder.run_id, criterion, others)
        return judge_outputs(setup.folder, [(criterion, others)], criterion.id, shard, shard_index, judged, timing)

    return score_preferred(setup.folder.run_id, criterion, output_ids, setup.folder.ratings_file, judge_others)


def _read_columns(shard: str, *names: str) -> pa.Table:
    """Only the columns that the criterion needs, as several shards are in memory at once."""
    return pq.read_table(shard, columns=["output_id", *names])
