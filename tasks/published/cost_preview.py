"""Cost estimate of a changed rubric or judge, without asking a judge or writing to the lake."""

import json
import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from gradebook.rubrics.model.errors import InputError, OutputsError
from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.media import has_media
from gradebook.rubrics.prompts.prompt import criterion_digest
from gradebook.rubrics.text.wording import counted, price_words
from gradebook.tasks.datasets.discovery import dataset_files, dataset_folders
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.datasets.shards import write_shard
from gradebook.tasks.judging.prices import unpriced_notes
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import REPLAY_PREFIX, Judge
from gradebook.tasks.judging.settings.model import ADDRESS_VARIABLE
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_run
from gradebook.tasks.ledger.past_judges import PastJudge, read_past_judge
from gradebook.tasks.methods.plan import plan_run, prepare_plan
from gradebook.tasks.methods.table import prepare_methods
from gradebook.tasks.planning.cases import read_stored_cases
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.rubric_store.versions import find_rubric, stored_rubric
from gradebook.tasks.workspace.folder import RunFolder

SHARD_ROWS = 50_000

_OUTPUTS = f"""
select {", ".join(SHARD_SCHEMA.names)}
from outputs where output_id in (select output_id from output_scores where run_id = ?)
"""


@dataclass(frozen=True, slots=True)
class CostChange:
    """Plans of a run's outputs before (earlier) and after (later) a change, each without stored replies.

    rest: plan after the change that reuses the replies in the ledger, as in a dry run. All three include the feedback
    texts of a run with `--feedback llm`, without stored replies.
    """

    run_id: str
    output_count: int
    earlier: RunPlan
    later: RunPlan
    rest: RunPlan
    words: tuple[str, ...]  # descriptions of the changes
    notes: tuple[str, ...] = ()  # sentences about costs that are not included

    @property
    def difference_usd(self) -> float | None:
        """Difference per run in US dollars, negative if it gets cheaper; None if a price is unknown."""
        earlier_usd, later_usd = self.earlier.cost_usd, self.later.cost_usd
        return None if earlier_usd is None or later_usd is None else later_usd - earlier_usd

    @property
    def sentence(self) -> str:
        """Difference in one line, such as "+$3.20 a run: 2 more judged criteria (tone, depth)"."""
        return f"{self._difference_words()} a run: {'; '.join(self.words) or 'the same judged criteria'}"

    def as_json(self) -> Row:
        """JSON object printed by `--json`."""
        return {
            "run_id": self.run_id,
            "output_count": self.output_count,
            "difference_usd": self.difference_usd,
            "sentence": self.sentence,
            "notes": list(self.notes),
            "earlier": self.earlier.as_json(),
            "later": self.later.as_json(),
            "rest": self.rest.as_json(),
        }

    def _difference_words(self) -> str:
        difference = self.difference_usd
        if difference is None:
            more = self.later.request_count - self.earlier.request_count
            return f"price unknown, {'-' if more < 0 else '+'}{counted(abs(more), 'request')}"
        return f"{'-' if difference < 0 else '+'}{price_words(abs(difference))}"


def preview_change(lake: Lake, run_id: str, rubric: str | Rubric | None, judge_name: str | None) -> CostChange:
    """Price a published run's outputs with another rubric, by its name or read, another judge or both.

    The run's recorded judge has no prices: they come from the judge file of judge_name if its model is the same, else
    from the price list. Raises `InputError` for an unknown or unfinished run, and for an invalid rubric or judge.
    """
    run = _published_run(lake, run_id)
    earlier_rubric = stored_rubric(lake, f"{run['rubric_id']}@{run['rubric_version']}")
    if earlier_rubric is None:
        raise InputError("run", f"no rubric {run['rubric_id']} in {lake.name}", f"the one of run {run_id}")
    later_rubric = find_rubric(rubric, lake) if isinstance(rubric, str) else rubric or earlier_rubric
    with connect(lake, read_only=True) as connection:
        past = read_past_judge(connection, run)
    later_judge = _later_judge(run, past, judge_name)
    earlier_judge = _earlier_judge(past, later_judge)
    settings = json.loads(run["settings"] or "{}")
    folders, feedback = _media_folders(run), settings.get("feedback")
    with tempfile.TemporaryDirectory(prefix="gradebook-cost-") as temporary:
        folder = RunFolder(Path(temporary) / "preview")
        ingested = _write_shards(lake, run_id, folder)
        # One folder is enough: no plan file is read here, and each plan overwrites the one before.
        for rubric_version in (earlier_rubric, later_rubric):
            prepare_plan(lake, folder, rubric_version, ingested.shards)
            prepare_methods(lake, folder, rubric_version, ingested.shards, settings.get("baseline"))
        plan = partial(plan_run, lake, folder, ingested=ingested, feedback=feedback, folders=folders)
        earlier = plan(earlier_rubric, earlier_judge, is_anew=True)
        later = plan(later_rubric, later_judge, is_anew=True)
        open_plan = plan(later_rubric, later_judge, is_preview=True)
        notes = (*_media_note(run, folders, ingested.shards), *unpriced_notes(later_judge.online))
    changes = (*_rubric_words(earlier_rubric, later_rubric), *_judge_words(past, later_judge))
    return CostChange(run_id, ingested.output_count, earlier, later, open_plan, changes, notes)


def _published_run(lake: Lake, run_id: str) -> Row:
    with connect_up_to_date(lake) as connection:
        run = read_run(connection, lake, run_id)
    if run["status"] != "published":
        raise InputError("run", f"{run_id}, which is {run['status']}", "a published run, whose outputs are stored")
    return run


def _later_judge(run: Row, past: PastJudge | None, judge_name: str | None) -> Judge:
    """Judge after the change: the named one, otherwise the run's own."""
    if judge_name is not None:
        judge: Judge | None = read_judge(judge_name, os.environ)
    else:
        judge = None if past is None else past.restore(None, os.environ.get(ADDRESS_VARIABLE))
    if judge is None or not judge.online:
        if judge_name is None:
            past_name = "no judge" if past is None else past.name
            raise InputError("--judge", f"none, and run {run['run_id']} had {past_name}", "a judge to price")
        raise InputError("--judge", judge_name, "a judge with an endpoint", "recorded replies cost nothing")
    return judge


def _earlier_judge(past: PastJudge | None, later: Judge) -> Judge | None:
    """Judge of the run; None if no endpoint was asked, which costs nothing."""
    if past is None or past.name.startswith(REPLAY_PREFIX):
        return None
    judge = past.restore(later, os.environ.get(ADDRESS_VARIABLE))
    if judge is None:
        raise InputError("--judge", f"the run's judge {past.name}, whose record is too incomplete to price it")
    return judge


def _media_folders(run: Row) -> tuple[Path, ...] | None:
    """Folders of the images and audio of a run's outputs; None if its files no longer exist."""
    try:
        return dataset_folders(dataset_files(run["dataset"] or ""))
    except OutputsError:
        return None


def _media_note(run: Row, folders: tuple[Path, ...] | None, shards: tuple[str, ...]) -> tuple[str, ...]:
    if folders is not None:
        return ()
    if not any(has_media(case.prompt, case.output) for shard in shards for _, case in read_stored_cases(shard)):
        return ()
    return (f"images and audio are counted as text: found no {run['dataset']}, in whose folder they were",)


def _write_shards(lake: Lake, run_id: str, folder: RunFolder) -> Ingested:
    """Write the outputs of a run as ingested shards."""
    shards: list[str] = []
    models: set[str] = set()
    output_count = 0
    (folder.path / "shards").mkdir(parents=True)
    with connect(lake, read_only=True) as connection:
        for batch in connection.execute(_OUTPUTS, [run_id]).to_arrow_reader(SHARD_ROWS):
            path = folder.path / "shards" / f"shard-{len(shards):05d}.parquet"
            write_shard(pa.Table.from_batches([batch]).cast(SHARD_SCHEMA), path)
            shards.append(str(path))
            models.update(batch.column("model").to_pylist())
            output_count += batch.num_rows
    return Ingested(tuple(shards), output_count, output_count, 0, 0, (), tuple(sorted(models)))


def _rubric_words(earlier: Rubric, later: Rubric) -> list[str]:
    old_criteria, new_criteria = _judged_by_id(earlier), _judged_by_id(later)
    added = [criterion_id for criterion_id in new_criteria if criterion_id not in old_criteria]
    removed = [criterion_id for criterion_id in old_criteria if criterion_id not in new_criteria]
    changed_ids = [
        criterion_id
        for criterion_id, criterion in new_criteria.items()
        if criterion_id in old_criteria and criterion_digest(criterion) != criterion_digest(old_criteria[criterion_id])
    ]
    changes = []
    if added:
        changes.append(f"{counted(len(added), 'more judged criterion', 'more judged criteria')} ({', '.join(added)})")
    if removed:
        less = (
            f"{len(removed)} less" if added else counted(len(removed), "judged criterion less", "judged criteria less")
        )
        changes.append(f"{less} ({', '.join(removed)})")
    if changed_ids:
        changes.append(f"{len(changed_ids)} with another text ({', '.join(changed_ids)})")
    return changes


def _judged_by_id(rubric: Rubric) -> dict[str, Criterion]:
    return {criterion.id: criterion for criterion in rubric.judged_criteria}


def _judge_words(past: PastJudge | None, judge: Judge) -> list[str]:
    if past is None or past.name != judge.judge:
        return [f"{judge.judge} instead of {past.name if past else 'no judge'}"]
    changes = dict.fromkeys(past.changes(judge))
    return [f"{judge.judge} with other settings ({', '.join(changes)})"] if changes else []
