"""Notes of a run: everything that was skipped, changed or left unscored, stated for readers."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.methods import ROW_METHODS
from gradebook.rubrics.model.scores import NO_WEIGHTS
from gradebook.rubrics.prompts.model_families import family_of, is_same_model
from gradebook.rubrics.text.wording import EACH_CASE_ONCE, counted
from gradebook.tasks.comparing.baseline import baseline_notes
from gradebook.tasks.comparing.gate import gate_rule
from gradebook.tasks.comparing.stopping import stored_stopping
from gradebook.tasks.datasets.discovery import left_out_note
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.replies.completion import UNREADABLE, describe_unreadable
from gradebook.tasks.judging.settings.learned import learned_notes
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.data_files import CHANGED, changed_newest_files
from gradebook.tasks.lake.sql import file_list, open_database
from gradebook.tasks.ledger.ledger import answering_models, unreadable_replies
from gradebook.tasks.methods.table import METHODS
from gradebook.tasks.planning.applying import condition_notes
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.ratings.run_ratings import prefers_people
from gradebook.tasks.runs.function_settings import function_of, runnable_functions
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.quality import expectation_notes
from gradebook.tasks.workspace.folder import RunFolder

MOST_NAMED = 5  # most models, criteria or columns that a note names
MOST_UNREADABLE_RATE = 0.1  # largest share of a judge's replies that needs no note
_NOTED = "select 1 from runs where rubric_id = ? and run_id <> ? and status = 'published' and list_contains(notes, ?)"
_SHARED = """
select count(*) from (
    select case_id, output from read_parquet({}) group by case_id, output having count(distinct model) > 1
)
"""


_UNEVEN = """
select min(n) as fewest, max(n) as most
from (select model, checkpoint, case_id, count(*) as n from read_parquet({}) group by all)
group by model, checkpoint having min(n) < max(n) order by max(n) - min(n) desc limit 1
"""


LATEST = "-latest"  # end of a model's name that stands for a newer version over time


def run_notes(run: Run, ingested: Ingested, plan: RunPlan, feedback_note: str | None = None) -> list[str]:
    """One sentence for each remarkable event, in the order of the stages."""
    own_count = plan.own_count
    runnable = runnable_functions(run.rubric, run.functions)
    barred = [
        criterion.id for criterion in run.rubric.criteria if function_of(criterion) and criterion.id not in runnable
    ]
    barred_count = sum(count for method, count in own_count.methods.items() if method not in ROW_METHODS)
    judged, partly_rated = _without_judge(run) if run.judge is None else ([], [])
    is_recorded = run.judge is not None and run.judge.writer.as_model is None
    own_judged_count = own_count.methods.get("judge", 0) if run.judge is None else 0
    sampled = ingested.sample.sentence if ingested.sample else ""
    sentences = {
        sampled: sampled,
        **dict.fromkeys(row_notes(ingested), True),
        **_column_note(run, ingested),
        **_shared_note(run, ingested),
        **_uneven_note(run, ingested),
        f"{counted(own_count.output_count, 'output')} with per-case criteria, {own_count.criterion_count:,} in total": (
            own_count.output_count
        ),
        f"methods that no row may choose: {_criteria_words([], barred_count)} unscored": barred_count,
        f"functions of packages that are not allowed: {_first_of(barred)} unscored": barred,
        f"{counted(plan.unmatched_rating_count, 'rating')} of other outputs left out": plan.unmatched_rating_count,
        **(_unrecorded(run) if is_recorded else {}),
        f"no --judge: {_criteria_words(judged, own_judged_count)} unscored": judged or own_judged_count,
        f"no --judge: {_first_of(partly_rated)} unscored where nobody rated": partly_rated,
    }
    notes = [sentence for sentence, is_true in sentences.items() if is_true]
    notes = [
        *condition_notes(run.folder, run.rubric, ingested.shards, ingested.output_count),
        *_scoreless_note(run),
        *ingested.notes,
        *filter(None, [left_out_note(run.request.outputs)]),
        *run.folder.warnings,
        *unreadable_notes(run),
        *form_notes(run),
        *similarity_notes(run.folder),
        *expectation_notes(run.folder),
        *notes,
    ]
    notes += [*learned_notes(run.judge, run.lake.root), *family_notes(run, ingested), *model_notes(run)]
    notes += run.folder.notes
    if run.request.stop is not None and (stopping := stored_stopping(run.folder)) is not None:
        notes.insert(0, stopping.sentence)
    rule = gate_rule(run.request.fail_if, run.request.require)
    notes += baseline_notes(run.rubric.id, run.folder, run.request.baseline, rule)
    if run.request.baseline is not None:
        notes += [
            f"{path}: {CHANGED}, so figures of earlier runs may be wrong" for path in changed_newest_files(run.lake)
        ]
    return [*notes, feedback_note] if feedback_note else notes


def _column_note(run: Run, ingested: Ingested) -> dict[str, bool]:
    """Sentence on columns that gradebook does not know, unless an earlier run of the rubric has the same note."""
    if not ingested.extra_columns:
        return {}
    sentence = f"unknown columns are stored in metadata: {_first_of(ingested.extra_columns, 20)}"
    with connect(run.lake, read_only=True) as connection:
        return {sentence: not connection.execute(_NOTED, [run.rubric.id, run.run_id, sentence]).fetchall()}


def _shared_note(run: Run, ingested: Ingested) -> dict[str, bool]:
    """Sentence on equal answers of several models: a judge is asked about each text once."""
    if run.judge is None or len(ingested.models) < 2:
        return {}
    with open_database() as database:
        ((count,),) = database.execute(_SHARED.format(file_list(ingested.shards))).fetchall()
    alike = f"{counted(count, 'answer')} given by several models alike"
    sentence = f"{alike}: the judge {run.judge.judge} is asked about each once, which one of the models is billed for"
    return {sentence: count > 0}


def _uneven_note(run: Run, ingested: Ingested) -> dict[str, bool]:
    """Sentence on cases that have different numbers of outputs of one model."""
    with open_database() as database:
        rows = database.execute(_UNEVEN.format(file_list(ingested.shards))).fetchall()
    once = EACH_CASE_ONCE if run.rubric.weights == "cases" else "means and rates count each output once"
    return {
        f"cases have {fewest:,} to {most:,} outputs of a model: {once} "
        f"(`weights: {run.rubric.weights}` of the rubric)": True
        for fewest, most in rows
    }


def _scoreless_note(run: Run) -> Iterator[str]:
    """Sentence on outputs to which no weighted criterion applies, because of conditions."""
    if any(criterion.own_weight for criterion in run.rubric.conditional_criteria):
        reasons = (
            pq.read_table(run.folder.mart_file("output_scores"), columns=["unscored_reason"]).column(0).to_pylist()
        )
        if count := reasons.count(NO_WEIGHTS):
            yield f"{counted(count, 'output')} without a score: no criterion with a weight applies"


def _unrecorded(run: Run) -> dict[str, bool]:
    """A sentence for each method that has no recorded replies."""
    sentences = {}
    for kind, method in METHODS.items():
        names = [criterion.id for criterion in run.rubric.criteria if criterion.method.kind == kind]
        if method.unrecorded and names:
            sentences[f"{method.unrecorded.partition(': ')[2]}: {_first_of(names)} unscored"] = True
    return sentences


def row_notes(ingested: Ingested) -> list[str]:
    """Sentences on rows that are not scored: refused rows, and repetitions of rows."""
    sentences = {
        f"{ingested.quarantined_count:,} of {counted(ingested.row_count, 'row')} refused: see the table quarantine": (
            ingested.quarantined_count
        ),
        f"{counted(ingested.duplicate_count, 'repeated row')} stored once": ingested.duplicate_count,
    }
    return [sentence for sentence, count in sentences.items() if count]


def family_notes(run: Run, ingested: Ingested) -> list[str]:
    """One sentence for each judge that seems to belong to the same family as models that it judges."""
    notes = []
    for judge in dict.fromkeys(member.model for member in run.asked_models):
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
    """Sentence for each criterion of the method similarity: its mean, and the mean similarity to other cases."""
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
    """Sentence for each judge with many unreadable replies, or with replies that break their schema."""
    members = run.asked_models
    if not members:
        return []
    first = ("first_reply", "first_status", "first_rationale")
    rows = unreadable_replies(run.lake, run.run_id, sorted(UNREADABLE))
    strict_models = {
        member.model
        for member in members
        if not member.is_plain and member.mode != "logprobs" and not member.is_decision
    }
    return [
        f"{row['unreadable_count']:,} of {counted(row['reply_count'], 'reply', 'replies')} of {row['judge']} can't be "
        f"read; the first is {describe_unreadable(*(row[name] for name in first))}"
        for row in rows
        if row["unreadable_count"] > MOST_UNREADABLE_RATE * row["reply_count"]
    ] + [
        f"{row['loose_count']:,} of {counted(row['reply_count'], 'reply', 'replies')} of {row['judge']} did not keep "
        f"to the schema that was asked for, and were read as text; `gradebook doctor --judge {row['judge']} "
        "--structure` shows the form that holds"
        for row in rows
        if row["loose_count"] and row["judge"] in strict_models
    ]


def form_notes(run: Run) -> list[str]:
    """Sentence for each judge that was asked without a reply schema, by its settings."""
    sentences = [
        f"replies of {model.model} were asked for with `reply_format: {model.reply_format}`, in place of a schema"
        for model in run.asked_models
        if model.is_plain and not model.is_decision and model.mode != "logprobs"
    ]
    return [*dict.fromkeys(sentences)]


def model_notes(run: Run) -> list[str]:
    """A sentence for each judge whose replies name another model than was asked, or several for a changing name."""
    if not run.asked_models:
        return []
    changing = {model.judge for model in run.asked_models if model.is_unnamed or model.model.endswith(LATEST)}
    answering_by_judge: dict[str, list[str]] = {}
    for judge, answering in answering_models(run.lake, run.run_id):
        if judge in changing or not is_same_model(judge, answering):
            answering_by_judge.setdefault(judge, []).append(answering)
    return [
        f"the judge {judge} was answered by several models: {_first_of(names)}"
        if judge in changing
        else f"the judge {judge} was asked, and replies name another model: {_first_of(names)}"
        for judge, names in answering_by_judge.items()
        if judge not in changing or len(names) > 1
    ]


def _without_judge(run: Run) -> tuple[list[str], list[str]]:
    """Ids of judged criteria in a run without a judge: those without a score, and those that people rated in part."""
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


def _criteria_words(criterion_ids: list[str], own_count: int) -> str:
    """Ids of the rubric's criteria, and the number of per-case criteria."""
    own_part = counted(own_count, "per-case criterion", "per-case criteria")
    return ", ".join([*([_first_of(criterion_ids)] if criterion_ids else []), *([own_part] if own_count else [])])


def _first_of(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Text of the first names, and the count of the others."""
    more = len(names) - most
    return f"{', '.join(names[:most])}{f' and {more:,} more' if more > 0 else ''}"
