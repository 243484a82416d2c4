"""What a person should know of a run that is no failure: nothing is left out or taken in silently."""

from gradebook.rubrics.model.methods import ROW_METHODS, SCORED_METHODS
from gradebook.rubrics.prompts.model_families import family_of
from gradebook.tasks.comparing.baseline import baseline_notes
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.judging.settings.panels import online_members
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.runs.function_settings import function_of, runnable_functions
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.number_format import counted

MOST_MODELS_NAMED = 5


def run_notes(run: Run, ingested: Ingested, plan: RunPlan, feedback_note: str | None = None) -> list[str]:
    """A sentence for each thing that happened to the input on its way, in the order of the stages."""
    own = plan.own_count
    unsupported = [criterion.id for criterion in run.rubric.criteria if criterion.method.type not in SCORED_METHODS]
    runnable = runnable_functions(run.rubric, run.functions)
    barred = [each.id for each in run.rubric.criteria if function_of(each) and each.id not in runnable]
    own_unsupported_count = sum(count for method, count in own.methods.items() if method not in ROW_METHODS)
    judged = [criterion.id for criterion in run.rubric.judged_criteria]
    own_judged_count = own.methods.get("judge", 0)
    sampled = ingested.sample.sentence if ingested.sample else ""
    sentences = {
        sampled: sampled,
        f"{ingested.quarantined_count:,} of {counted(ingested.row_count, 'row')} refused: see the table quarantine": (
            ingested.quarantined_count
        ),
        f"{counted(ingested.duplicate_count, 'repeated row')} stored once": ingested.duplicate_count,
        f"unknown columns are kept in metadata: {', '.join(ingested.extra_columns[:20])}": ingested.extra_columns,
        f"{counted(own.output_count, 'output')} with criteria of their own, {own.criterion_count:,} in all": (
            own.output_count
        ),
        f"nothing scores their methods: {_named(unsupported, own_unsupported_count)} unscored": (
            unsupported or own_unsupported_count
        ),
        f"functions of packages that are not allowed: {', '.join(barred)} unscored": barred,
        f"{counted(plan.unmatched_rating_count, 'rating')} of other outputs left out": plan.unmatched_rating_count,
        f"no --judge: {_named(judged, own_judged_count)} unscored": (
            (judged or own_judged_count) and run.judge is None
        ),
    }
    told = [sentence for sentence, is_so in sentences.items() if is_so]
    told += [*family_notes(run, ingested), *run.folder.notes]
    told += baseline_notes(run.rubric.id, run.folder, run.request.baseline, run.request.fail_if)
    return [*told, feedback_note] if feedback_note else told


def family_notes(run: Run, ingested: Ingested) -> list[str]:
    """A sentence for each judge that looks to be of one family with models that it judges."""
    notes = []
    for judge in dict.fromkeys(member.model for member in online_members(run.judge)):
        family = family_of(judge)
        kin = [model for model in ingested.models if family and family_of(model) == family]
        if kin:
            shown = ", ".join([*kin[:MOST_MODELS_NAMED], *(["..."] if len(kin) > MOST_MODELS_NAMED else [])])
            candidates = "candidate" if len(kin) == 1 else "candidates"
            notes.append(
                f"the judge {judge} and the {candidates} {shown} look to be of one family ({family}): "
                "judges tend to favour their own"
            )
    return notes


def _named(criterion_ids: list[str], own_count: int) -> str:
    """The rubric's criteria by id, and how many rows bring along."""
    return ", ".join([*criterion_ids, *([f"{own_count:,} of rows' own"] if own_count else [])])
