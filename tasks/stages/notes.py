"""Notes of a run: everything that was skipped, changed or left unscored, stated for readers."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.model.methods import ROW_METHODS
from gradebook.rubrics.prompts.model_families import family_of, is_same_model
from gradebook.tasks.comparing.baseline import baseline_notes
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.stopping import stored_stopping
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.replies.unreadable import UNREADABLE, describe_unreadable
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.learned import learned_notes
from gradebook.tasks.judging.settings.panels import online_members, writer_of
from gradebook.tasks.lake.file_digests import CHANGED, changed_newest_files
from gradebook.tasks.ledger.ledger import answering_models, unreadable_replies
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.planning.preferences import preference_criteria
from gradebook.tasks.ratings.run_ratings import prefers_people
from gradebook.tasks.runs.function_settings import function_of, runnable_functions
from gradebook.tasks.runs.run import Run
from gradebook.tasks.scoring.shards import RECORDED
from gradebook.tasks.stages.quality import expectation_notes
from gradebook.tasks.workspace.folder import RunFolder

MOST_NAMED = 5  # models, criteria and columns in a note
MOST_UNREADABLE_RATE = 0.1  # share of a judge's replies without a note


def run_notes(run: Run, ingested: Ingested, plan: RunPlan, feedback_note: str | None = None) -> list[str]:
    """One sentence for each remarkable event, in the order of the stages."""
    own = plan.own_count
    runnable = runnable_functions(run.rubric, run.functions)
    barred = [each.id for each in run.rubric.criteria if function_of(each) and each.id not in runnable]
    barred_count = sum(count for method, count in own.methods.items() if method not in ROW_METHODS)
    claimed = [criterion.id for criterion in run.rubric.criteria if criterion.method.type == "claims"]
    stepwise = [criterion.id for criterion in run.rubric.stepwise_criteria]
    preferred = [criterion.id for criterion in preference_criteria(run.rubric)]
    judged, partly_rated = _without_judge(run) if run.judge is None else ([], [])
    is_recorded = run.judge is not None and not isinstance(writer_of(run.judge), JudgeSettings)
    own_judged_count = own.methods.get("judge", 0) if run.judge is None else 0
    sampled = ingested.sample.sentence if ingested.sample else ""
    sentences = {
        sampled: sampled,
        f"{ingested.quarantined_count:,} of {counted(ingested.row_count, 'row')} refused: see the table quarantine": (
            ingested.quarantined_count
        ),
        f"{counted(ingested.duplicate_count, 'repeated row')} stored once": ingested.duplicate_count,
        f"unknown columns are stored in metadata: {_first_of(ingested.extra_columns, 20)}": ingested.extra_columns,
        f"{counted(own.output_count, 'output')} with per-case criteria, {own.criterion_count:,} in total": (
            own.output_count
        ),
        f"methods that no row may choose: {_named([], barred_count)} unscored": barred_count,
        f"functions of packages that are not allowed: {_first_of(barred)} unscored": barred,
        f"{counted(plan.unmatched_rating_count, 'rating')} of other outputs left out": plan.unmatched_rating_count,
        **{
            f"{RECORDED[kind].partition(': ')[2]}: {_first_of(names)} unscored": names and is_recorded
            for kind, names in (("claims", claimed), ("steps", stepwise), ("preference", preferred))
        },
        f"no --judge: {_named(judged, own_judged_count)} unscored": judged or own_judged_count,
        f"no --judge: {_first_of(partly_rated)} unscored where nobody rated": partly_rated,
    }
    notes = [sentence for sentence, is_true in sentences.items() if is_true]
    notes = [
        *ingested.notes,
        *run.folder.warnings,
        *unreadable_notes(run),
        *similarity_notes(run.folder),
        *expectation_notes(run.folder),
        *notes,
    ]
    notes += [*learned_notes(run.judge, run.lake.root), *family_notes(run, ingested), *model_notes(run)]
    notes += run.folder.notes
    if run.request.stop is not None and (stopping := stored_stopping(run.folder)) is not None:
        notes.insert(0, stopping.sentence)
    notes += baseline_notes(
        run.rubric.id, run.folder, run.request.baseline, gate_rule(run.request.fail_if, run.request.require)
    )
    if run.request.baseline is not None:
        notes += [
            f"{path}: {CHANGED}, so figures of earlier runs may be wrong" for path in changed_newest_files(run.lake)
        ]
    return [*notes, feedback_note] if feedback_note else notes


def family_notes(run: Run, ingested: Ingested) -> list[str]:
    """One sentence for each judge that seems to belong to the same family as models that it judges."""
    notes = []
    for judge in dict.fromkeys(member.model for member in online_members(run.judge)):
        family = family_of(judge)
        kin = [model for model in ingested.models if family and family_of(model) == family]
        if kin:
            candidates = "candidate" if len(kin) == 1 else "candidates"
            notes.append(
                f"the judge {judge} and the {candidates} {_first_of(kin)} seem to be of one family ({family}): "
                "judges tend to favour their own"
            )
    return notes


def similarity_notes(folder: RunFolder) -> list[str]:
    """A sentence for each criterion of the method similarity: the mean beside its null."""
    files = folder.detail_files("similarities")
    if not files:
        return []
    table = pa.concat_tables([pq.read_table(file) for file in files])
    means = table.group_by("criterion_id").aggregate([("similarity", "mean"), ("null_similarity", "mean")])
    return [
        f"{row['criterion_id']}: mean similarity {row['similarity_mean']:.3f}, "
        f"{row['null_similarity_mean']:.3f} to other cases"
        for row in means.sort_by("criterion_id").to_pylist()
        if row["null_similarity_mean"] is not None
    ]


def unreadable_notes(run: Run) -> list[str]:
    """A sentence for each judge with many replies that can't be read."""
    if not online_members(run.judge):
        return []
    first = ("first_reply", "first_status", "first_rationale")
    return [
        f"{row['unreadable_count']:,} of {counted(row['reply_count'], 'reply', 'replies')} of {row['judge']} can't be "
        f"read; the first is {describe_unreadable(*(row[name] for name in first))}"
        for row in unreadable_replies(run.lake, run.run_id, sorted(UNREADABLE))
        if row["unreadable_count"] > MOST_UNREADABLE_RATE * row["reply_count"]
    ]


def model_notes(run: Run) -> list[str]:
    """A sentence for each judge whose replies name another model than was asked."""
    if not online_members(run.judge):
        return []
    others: dict[str, list[str]] = {}
    for judge, answering in answering_models(run.lake, run.run_id):
        if not is_same_model(judge, answering):
            others.setdefault(judge, []).append(answering)
    return [
        f"the judge {judge} was asked, and replies name another model: {_first_of(names)}"
        for judge, names in others.items()
    ]


def _without_judge(run: Run) -> tuple[list[str], list[str]]:
    """Ids of the judged criteria without any score in a run without a judge, and of those that people rated in part."""
    unscored, partly_rated = [], []
    for criterion in run.rubric.asked_criteria:
        files = run.folder.verdict_files(criterion.id) if prefers_people(criterion) else []
        statuses = {
            status for file in files for status in pq.read_table(file, columns=["status"])[0].unique().to_pylist()
        }
        if "scored" not in statuses:
            unscored.append(criterion.id)
        elif "unscored" in statuses:
            partly_rated.append(criterion.id)
    return unscored, partly_rated


def _named(criterion_ids: list[str], own_count: int) -> str:
    """Ids of the rubric's criteria, and the number of per-case criteria."""
    own = counted(own_count, "per-case criterion", "per-case criteria")
    return ", ".join([*([_first_of(criterion_ids)] if criterion_ids else []), *([own] if own_count else [])])


def _first_of(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return f"{', '.join(names[:most])}{f' and {more:,} more' if more > 0 else ''}"
