"""Sentinel of a judge: anchors asked again each night, and whether their scores moved."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import chain

import duckdb
import numpy as np

from gradebook.rubrics.model.errors import InputError, UnfinishedError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.statistics.intervals import DIFFERENCES, student_t
from gradebook.rubrics.statistics.judge_quality import DriftEvidence, contrasts
from gradebook.rubrics.text.wording import counted, price_words, signed_words
from gradebook.tasks.judging.prices import prompt_bytes, total_usd
from gradebook.tasks.judging.replies.batched_criteria import SeveralQuestions
from gradebook.tasks.judging.settings.judge import Judge, Opinion
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date
from gradebook.tasks.lake.rows import Row, insert_rows, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.operations.anchors import SEED, WatchRequest, intact_outputs, read_anchors
from gradebook.tasks.planning.estimates import Asked, Tally, estimate_opinion, read_past
from gradebook.tasks.rewards.asking import Asking
from gradebook.tasks.rewards.outputs import ReadOutput, Verdict, with_unmet
from gradebook.tasks.rewards.scorer import checked_judge
from gradebook.tasks.rubric_store.versions import stored_rubric

ASKED_BY = "anchors"  # beginning of the ids under which the ledger has the replies
REFERENCE, STEADY, DRIFTED, NEW_MODEL = "reference", "steady", "drifted", "new_model"
NOTHING = Verdict(None, None, "not_asked", None)
_PAST = "select * from anchor_verdicts where anchor_set = ? and judge_digest = ? order by night, draw, output_id"
_NIGHTS = "select * from judge_drift where anchor_set = ? and judge_digest = ? order by night, criterion_id"


@dataclass(frozen=True, slots=True)
class Watch:
    """Outcome of a night. rows: of `judge_drift`, one per criterion. notes: sentences on what was left out."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def epoch(self) -> int:
        """Epoch of later replies: an alarm begins a new one."""
        return int(self.rows[0]["epoch"]) + self.is_drifted

    @property
    def drifted(self) -> tuple[Row, ...]:
        """Criteria whose scores moved."""
        return tuple(row for row in self.rows if row["state"] == DRIFTED)

    @property
    def is_drifted(self) -> bool:
        return bool(self.drifted)

    @property
    def is_changed(self) -> bool:
        """Whether the night began an epoch: scores moved, or another model answered."""
        return self.is_drifted or any(row["state"] == NEW_MODEL for row in self.rows)

    @property
    def cost_usd(self) -> float | None:
        return total_usd(row["cost_usd"] for row in self.rows)

    def as_json(self) -> Row:
        """JSON object of `--json` and of the event."""
        rows = [
            {name: str(value) if isinstance(value, date) else value for name, value in row.items()} for row in self.rows
        ]
        values = {"sentence": self.sentence, "is_drifted": self.is_drifted, "epoch": self.epoch}
        return values | {"cost_usd": self.cost_usd, "notes": list(self.notes), "criteria": rows}

    @property
    def sentence(self) -> str:
        """State of the judge in words."""
        first = self.rows[0]
        judge, outputs = first["judge"], counted(max(row["n"] for row in self.rows), "output")
        cost = f"{outputs}, {price_words(self.cost_usd)}"
        if self.is_drifted:
            moved = ", ".join(f"{row['criterion_id']} ({_gap_words(row)})" for row in self.drifted)
            return (
                f"the judge {judge} changed: it scores the same outputs differently on {moved}; judge epoch "
                f"{self.epoch} begins, which is compared with nothing before ({cost})"
            )
        if first["state"] == NEW_MODEL:
            begins = f"judge epoch {self.epoch} begins, which is compared with nothing before"
            return f"{judge} is answered by {first['model_returned']}: {begins} ({cost})"
        if first["state"] == REFERENCE:
            reference_clause = f"the reference of judge epoch {self.epoch} of {judge} is stored"
            return f"{reference_clause}; its later nights are compared with it ({cost})"
        strongest = max(self.rows, key=lambda row: row["e_value"])
        return f"no sign that {judge} changed: {_evidence_words(strongest)} ({cost})"


def watch_judge(lake: Lake, request: WatchRequest, now: datetime) -> Watch:
    """Ask the anchors of a night, and store their verdicts and the judge's state; a stored night is read back.

    Raises `InputError` for a wrong request or a night before the last one, `UnfinishedError` if the judge does not
    answer: replies are in the ledger, and nothing else is stored.
    """
    night = _plan_night(lake, request)
    return night if isinstance(night, Watch) else _store_night(lake, night, night.ask(lake), now)


def price_watch(lake: Lake, request: WatchRequest) -> Row:
    """Number of questions of a night, and their cost, estimated as in a run's plan; null for a judge without price."""
    night = _plan_night(lake, request)
    if isinstance(night, Watch):
        return {"question_count": 0, "cost_usd": 0.0}
    tallies = night.tallies()
    with connect_up_to_date(lake) as connection:
        past = read_past(connection, night.judge)
    begun: set[int] = set()
    costs = [
        estimate_opinion(night.judge, opinion, name, tally, past, begun).estimate.cost_usd
        for (name, opinion), tally in tallies.items()
    ]
    return {"question_count": sum(tally.question_count for tally in tallies.values()), "cost_usd": total_usd(costs)}


def _plan_night(lake: Lake, request: WatchRequest) -> "_Night | Watch":
    """Plan of a night, or the stored night."""
    _refuse_request(request)
    with connect_up_to_date(lake) as connection:
        anchors = read_anchors(connection, request.anchor_set)
        rubric = stored_rubric(lake, f"{anchors[0]['rubric_id']}@{anchors[0]['rubric_version']}")
        if rubric is None:
            raise InputError("anchors", f"a set whose rubric {anchors[0]['rubric_id']} is gone", "a new set")
        judge = checked_judge(request.judge, rubric, request.budget_usd)
        name = (request.anchor_set, judge.judge_digest)
        nights, past = read_rows(connection, _NIGHTS, *name), read_rows(connection, _PAST, *name)
        outputs = intact_outputs(connection, anchors)
    if stored_rows := [row for row in nights if row["night"] == request.night]:
        return Watch(tuple(stored_rows))
    if nights and nights[-1]["night"] > request.night:
        fault = f"{request.night}, before {nights[-1]['night']}, the last night of the judge"
        raise InputError("night", fault, "a later night", "the clock may have been set back")
    if not outputs:
        raise InputError("anchors", f"the set {request.anchor_set!r}, none of whose outputs is left", "a new set")
    return _Night(request, judge, rubric, anchors, outputs, _History(nights, past))


class _History:
    """Earlier nights of a judge on an anchor set, with its current epoch."""

    def __init__(self, nights: Sequence[Row], past: Sequence[Row]) -> None:
        last_night = nights[-1]["night"] if nights else None
        last_rows = [row for row in nights if row["night"] == last_night]
        self.epoch = last_rows[0]["epoch"] + any(row["state"] == DRIFTED for row in last_rows) if last_rows else 1
        self.past = [row for row in past if row["epoch"] == self.epoch]
        self.models = _models_in(self.past)

    def draw_counts(self) -> dict[str, int]:
        """Replies asked on each output in this epoch, by output_id."""
        draws: dict[str, set[tuple[date, int]]] = defaultdict(set)
        for row in self.past:
            draws[row["output_id"]].add((row["night"], row["draw"]))
        return {name: len(draw_keys) for name, draw_keys in draws.items()}

    def last_nights(self) -> dict[str, date]:
        return {row["output_id"]: row["night"] for row in self.past}


class _Night:
    """A night: outputs to ask about, and rows to store for the replies."""

    def __init__(
        self,
        request: WatchRequest,
        judge: Judge,
        rubric: Rubric,
        anchors: Sequence[Row],
        outputs: Sequence[ReadOutput],
        history: _History,
    ) -> None:
        self.request, self.judge = request, judge
        self.anchors = {(row["output_id"], row["criterion_id"]): row for row in anchors}
        self.criteria = sorted({row["criterion_id"] for row in anchors})
        asked_criteria = tuple(criterion for criterion in rubric.criteria if criterion.id in self.criteria)
        self.rubric = rubric.model_copy(update={"criteria": asked_criteria})
        self.costs: dict[str, list[float | None]] = defaultdict(list)  # of the questions, by criterion
        self.history, self.outputs = history, with_unmet(self.rubric, outputs)
        self.lost_count = len({row["output_id"] for row in anchors}) - len(outputs)
        counts = history.draw_counts()
        self.is_reference = any(counts.get(output.output_id, 0) < request.reference for output in outputs)
        self.draws = self._reference_draws(counts) if self.is_reference else [self._next_outputs()]

    def _reference_draws(self, counts: Mapping[str, int]) -> list[list[ReadOutput]]:
        """Outputs to ask about for the reference, one list per draw; outputs with enough replies are left out.

        counts: replies of this epoch, by output_id.
        """
        draw_numbers = range(self.request.reference)
        draws = [
            [output for output in self.outputs if counts.get(output.output_id, 0) <= draw_number]
            for draw_number in draw_numbers
        ]
        return [draw for draw in draws if draw]

    def _next_outputs(self) -> list[ReadOutput]:
        """Outputs that were not asked about for the longest time; random among equals."""
        rng = np.random.default_rng([SEED, self.request.night.toordinal()])
        shuffled = [self.outputs[index] for index in rng.permutation(len(self.outputs))]
        last = self.history.last_nights()
        shuffled.sort(key=lambda output: last.get(output.output_id, date.min))
        return shuffled[: self.request.per_night]

    def tallies(self) -> dict[tuple[str, Opinion], Tally]:
        """Questions of the night and the bytes of their prompts, by criterion and vote."""
        tallies: dict[tuple[str, Opinion], Tally] = defaultdict(Tally)
        asking = Asking(self.rubric, self.judge, None, None)
        for opinion, question in chain.from_iterable(map(asking.questions, chain.from_iterable(self.draws))):
            questions = question.questions if isinstance(question, SeveralQuestions) else (question,)
            request = question.request()
            prompt_size = Asked(1, prompt_bytes(request.messages, request.schema))
            votes = (self.judge.votes(asked_question.criterion_id) for asked_question in questions)
            is_unsure = all(self.judge.is_conditional(opinion, opinions) for opinions in votes)
            counts = (Asked(), prompt_size) if is_unsure else (prompt_size, Asked())
            for index, asked_question in enumerate(questions):
                tallies[asked_question.criterion_id, opinion].add_asked(*counts, index, len(questions))
        return tallies

    def ask(self, lake: Lake) -> list[Row]:
        """Verdicts on the anchors of the night, with their request keys. Raises `UnfinishedError`."""
        all_rows: list[Row] = []
        left_usd = self.request.budget_usd
        for draw_number, draw in enumerate(self.draws):
            again = f" night:{self.request.night.isoformat()} {draw_number}"
            asking = Asking(self.rubric, self.judge, left_usd, lake, name=ASKED_BY, again=again)
            try:
                batch = asking.start(draw)
                batch.done.result()
                verdicts = asking.verdicts(batch, NOTHING.reason or "")
            finally:
                asking.close()
            keys: dict[tuple[str, str], list[str]] = defaultdict(list)
            for question in batch.asked:
                keys[question.output_id, question.criterion_id].append(question.request_key)
            rows = [
                {
                    "output_id": output.output_id,
                    "criterion_id": name,
                    "draw": draw_number,
                    "keys": keys[output.output_id, name],
                }
                | verdicts.get((index, name), NOTHING)._asdict()
                for index, output in enumerate(draw)
                for name in self.criteria
            ]
            spent = _add_replies(lake, rows, asking.run_id)
            left_usd = None if left_usd is None else max(left_usd - spent, 0.0)
            for row in rows:
                self.costs[row["criterion_id"]].append(row["cost_usd"])
            all_rows += [row for row in rows if (row["output_id"], row["criterion_id"]) in self.anchors]
        if all_rows and all(row["score"] is None for row in all_rows):
            raise UnfinishedError(f"{self.judge.judge} scored no anchor: {all_rows[0]['reason']}")
        return all_rows

    def drift_rows(self, verdicts: Sequence[Row], epoch: int, state: str | None, now: datetime) -> list[Row]:
        """Rows of `judge_drift`. state: of all criteria, if it does not follow from their evidence."""
        alarm_at = len(self.criteria) / self.request.alpha
        shared: Row = {
            "anchor_set": self.request.anchor_set,
            "night": self.request.night,
            "epoch": epoch,
            "judge": self.judge.judge,
            "judge_digest": self.judge.judge_digest,
            "model_returned": ", ".join(sorted(_models_in(verdicts))) or None,
            "alarm_at": alarm_at,
            "watched_at": now,
        }
        rows = []
        for name in self.criteria:
            of_one = [row for row in verdicts if row["criterion_id"] == name]
            past = [row for row in self.history.past if row["criterion_id"] == name]
            e_value = 1.0 if state else evidence_of([*past, *of_one])
            criterion_state = state or (DRIFTED if e_value >= alarm_at else STEADY)
            cost_usd = total_usd(self.costs[name])
            state_of_one = {"criterion_id": name, "e_value": e_value, "state": criterion_state, "cost_usd": cost_usd}
            rows.append(shared | self._gaps(of_one) | state_of_one)
        return rows

    def _gaps(self, verdicts: Sequence[Row]) -> Row:
        """Mean differences from the frozen scores and from people's, over the outputs."""
        by_output: dict[str, list[float]] = defaultdict(list)
        for row in verdicts:
            if row["score"] is not None:
                by_output[row["output_id"]].append(row["score"])
        means = {name: sum(scores) / len(scores) for name, scores in by_output.items()}
        frozen = [self.anchors[name, verdicts[0]["criterion_id"]] for name in means]
        gaps = [means[row["output_id"]] - row["score"] for row in frozen]
        people = [means[row["output_id"]] - row["people_score"] for row in frozen if row["people_score"] is not None]
        interval = student_t(gaps, bounds=DIFFERENCES)
        return {
            "n": len(gaps),
            "mean_gap": float(np.mean(gaps)) if gaps else None,
            "gap_low": None if math.isnan(interval.low) else interval.low,
            "gap_high": None if math.isnan(interval.high) else interval.high,
            "people_n": len(people),
            "people_gap": float(np.mean(people)) if people else None,
        }


def evidence_of(verdicts: Iterable[Row]) -> float:
    """E-value of one criterion's verdicts in one epoch; verdicts of the reference do not count."""
    sums: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    by_night: dict[date, list[Row]] = defaultdict(list)
    for row in verdicts:
        if row["score"] is not None:
            by_night[row["night"]].append(row)
    evidence = DriftEvidence()
    for _, rows in sorted(by_night.items()):
        names = [row["output_id"] for row in rows]
        if not rows[0]["is_reference"]:
            scores, earlier = np.array([row["score"] for row in rows]), np.array([sums[name] for name in names])
            evidence = evidence.after(contrasts(scores, earlier, np.array([counts[name] for name in names])))
        for name, row in zip(names, rows, strict=True):
            sums[name] += row["score"]
            counts[name] += 1
    return float(evidence.e_value)


def _store_night(lake: Lake, night: _Night, verdicts: list[Row], now: datetime) -> Watch:
    """Store the night, unless another process has stored it meanwhile; returns the stored night."""
    history, request = night.history, night.request
    is_new_model = _is_model_new(_models_in(verdicts), history.models)
    epoch = history.epoch + is_new_model
    is_reference = night.is_reference or is_new_model
    shared = {"anchor_set": request.anchor_set, "night": request.night, "epoch": epoch, "is_reference": is_reference}
    shared |= {"judge": night.judge.judge, "judge_digest": night.judge.judge_digest}
    verdicts = [row | shared for row in verdicts]
    state = NEW_MODEL if is_new_model else REFERENCE if night.is_reference else None
    rows = night.drift_rows(verdicts, epoch, state, now)
    names = ("output_id", "criterion_id", "draw", "level_id", "score", "reason", "request_key", "model_returned")
    verdict_rows = [shared | {name: row[name] for name in names} for row in verdicts]
    stored_rows: list[Row] = []

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        nights = read_rows(connection, _NIGHTS, request.anchor_set, night.judge.judge_digest)
        stored_rows[:] = [row for row in nights if row["night"] == request.night] or rows
        if stored_rows[0] is rows[0]:
            insert_rows(connection, "anchor_verdicts", verdict_rows)
            insert_rows(connection, "judge_drift", rows)

    commit(lake, f"anchors {request.anchor_set} of {request.night}", body)
    note = f"{counted(night.lost_count, 'output')} left out: no longer in the lake, or changed"
    return Watch(tuple(stored_rows), (note,) if night.lost_count else ())


def _add_replies(lake: Lake, rows: list[Row], asked_by: str) -> float:
    """Add request key, models and cost from the ledger to the verdicts; returns US dollars that this process spent."""
    keys = [key for row in rows for key in row["keys"]]
    with connect_up_to_date(lake) as connection:
        reply_rows = read_rows(connection, query("operations/anchor_replies"), asked_by=asked_by, keys=keys)
    replies = {row.pop("request_key"): row for row in reply_rows}
    for row in rows:
        of_one = [replies[key] for key in row["keys"] if key in replies]
        models = {_answering_model(reply) for reply in of_one if reply["model_returned"]}
        row["request_key"] = row["keys"][0] if row["keys"] else None
        row["model_returned"] = ", ".join(sorted(models)) or None
        # Another process may have asked, and not settled its replies yet: their cost is unknown, not 0.
        row["cost_usd"] = total_usd(replies[key]["cost_usd"] if key in replies else None for key in row["keys"])
    return math.fsum(reply["own_usd"] for reply in replies.values())


def _answering_model(reply: Row) -> str:
    """Name of the model that answered, with the fingerprint of its backend where the reply has one."""
    fingerprint = reply["system_fingerprint"]
    return f"{reply['model_returned']} ({fingerprint})" if fingerprint else str(reply["model_returned"])


def _is_model_new(models: set[str], earlier: set[str]) -> bool:
    """Whether a model's name is new, or its fingerprint is new for a name with known fingerprints."""
    fingerprints: dict[str, set[str]] = defaultdict(set)
    for model in earlier:
        name, _, fingerprint = model.partition(" (")
        fingerprints[name] |= {fingerprint} - {""}
    name_parts = [model.partition(" (") for model in models]
    return bool(earlier) and any(
        name not in fingerprints
        or (fingerprint != "" and fingerprints[name] != set() and fingerprint not in fingerprints[name])
        for name, _, fingerprint in name_parts
    )


def _models_in(verdicts: Iterable[Row]) -> set[str]:
    return {name for row in verdicts for name in (row["model_returned"] or "").split(", ") if name}


def _refuse_request(request: WatchRequest) -> None:
    if request.per_night < 1 or request.reference < 1:
        raise InputError("anchors", f"{min(request.per_night, request.reference)}", "1 or more outputs and replies")
    if not 0 < request.alpha < 1:
        raise InputError("--alpha", f"{request.alpha:g}", "a probability between 0 and 1")


def _gap_words(row: Row) -> str:
    gap = f"{signed_words(row['mean_gap'])} from the frozen scores"
    people = row["people_gap"]
    return gap if people is None else f"{gap}, {signed_words(people)} from people's"


def _evidence_words(row: Row) -> str:
    e_value = f"an e-value of {row['e_value']:.3g} where {row['alarm_at']:.0f} is an alarm"
    return f"most evidence on {row['criterion_id']}, {e_value}"
