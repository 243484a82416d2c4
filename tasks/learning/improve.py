"""Better questions for a judge: searched with people's ratings of a run, confirmed on unseen cases."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.files.versions import next_version, required_step
from gradebook.rubrics.lint.guidance import proposal_faults
from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.guidance import (
    Proposals,
    RatedCase,
    guidance_instructions,
    guidance_material,
    with_examples,
    with_guidance,
)
from gradebook.rubrics.statistics.arrays import Floats
from gradebook.rubrics.statistics.improvement import (
    HALVES,
    LEAST_CHANGED,
    MOST_QUESTIONS,
    Ceiling,
    Change,
    Indices,
    Order,
    Power,
    Search,
    bias_change,
    draw_folds,
    kappa_change,
    measure_ceiling,
    more_outputs,
    or_worst,
    order_within_cases,
    rise_power,
    search_candidates,
)
from gradebook.rubrics.statistics.significance import adjust_step_down
from gradebook.tasks.agreement.mart import add_decisions_of_run, add_ratings_of_run
from gradebook.tasks.agreement.published_run import find_run, refuse_unknown
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.learning.asking import open_asking
from gradebook.tasks.learning.candidates import CandidateJudge, refuse_unaskable
from gradebook.tasks.learning.judge_examples import choose_examples, level_of, nearest_level
from gradebook.tasks.learning.rated import (
    RatedOutputs,
    read_rated,
    refuse_disputed,
    refuse_few,
    refuse_unchangeable,
)
from gradebook.tasks.ledger.past_judges import read_past_judge
from gradebook.tasks.published.stored_run import StoredRun, read_stored_run
from gradebook.tasks.rubric_store.files import RUBRIC_SUFFIXES
from gradebook.tasks.system.files import refuse_file, write_text

SEED = 20_261_130
LEVEL = 0.05  # significance level for all criteria together
MOST_SHOWN, MOST_AGREED = 10, 4  # disagreements, and agreements, that the proposing model reads
EXAMPLES_NAME = "examples"
TASK = "improve"


@dataclass(frozen=True, slots=True)
class ImproveRequest:
    """Request of `gradebook judge improve`. criterion: None for all judged criteria with enough ratings.

    judge: of the run; None: the name that the run recorded. proposer: model that writes guidance; None: the judge.
    """

    run_id: str
    criterion: str | None = None
    judge: str | None = None
    proposer: str | None = None
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Changed question. name: `guidance 1`, `guidance 2` or `examples`. reason: given by the model that proposed it."""

    name: str
    criterion: Criterion
    reason: str = ""

    @property
    def example_cases(self) -> list[str]:
        """Case ids of its examples."""
        examples = getattr(self.criterion.method, "examples", ())
        return [example.case_id for example in examples if example.case_id is not None]


@dataclass(frozen=True, slots=True)
class Preview:
    """Power and price of a search of one criterion, before it asks. usd: at the price of the run's replies."""

    criterion_id: str
    power: Power
    ceiling: Ceiling | None
    left_out: Mapping[str, int]
    most_questions: int
    usd: float | None


@dataclass(frozen=True, slots=True)
class TriedCandidate:
    """Candidate with its outcome. kappa: on the cases that it was selected by, then on unseen cases."""

    half: int
    name: str
    guidance: str | None
    reason: str | None  # why it was dropped; None for the chosen candidate
    middle_kappa: float | None = None
    outer_kappa: float | None = None


@dataclass(frozen=True, slots=True)
class CriterionOutcome:
    """Outcome of one criterion. change: of kappa with people. p_family: adjusted for all criteria of the command.

    biases: change of the absolute bias by model. reason: why nothing is accepted, else None. more: further ratings that
    would decide; None if no number would.
    """

    preview: Preview
    change: Change
    p_family: float | None
    biases: Mapping[str, Change]
    order: Order
    tried: tuple[TriedCandidate, ...]
    chosen: Candidate | None
    reason: str | None
    more: int | None
    question_count: int
    ratings_digest: str

    @property
    def is_accepted(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Improvement:
    """Outcome of a search. skipped: criterion without a search -> reason. rubric: None if nothing is better."""

    run_id: str
    judge: str
    rubric_name: str
    outcomes: tuple[CriterionOutcome, ...]
    skipped: Mapping[str, str]
    spent_usd: float | None  # None: a price is unknown
    rubric: Rubric | None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON; unknown numbers are null."""
        outcomes = []
        for outcome in self.outcomes:
            plain = asdict(replace(outcome, chosen=None)) | {"is_accepted": outcome.is_accepted}
            plain["chosen"] = None if outcome.chosen is None else outcome.chosen.name
            outcomes.append(plain)
        version = None if self.rubric is None else f"{self.rubric.id}@{self.rubric.version}"
        return {
            "run_id": self.run_id,
            "judge": self.judge,
            "rubric": self.rubric_name,
            "criteria": outcomes,
            "skipped": dict(self.skipped),
            "spent_usd": self.spent_usd,
            "new_version": version,
        }


@dataclass(slots=True)
class ImproveRun:
    """Run with its judge and the criteria with enough ratings to improve them."""

    lake: Lake
    run: StoredRun
    request: ImproveRequest
    judge: Judge
    proposer: Judge
    rated: tuple[RatedOutputs, ...]
    skipped: dict[str, str]
    previews: tuple[Preview, ...]
    _dropped: list[TriedCandidate] = field(default_factory=list)
    _proposed_usd: float = 0.0

    # -------- search
    def search(self) -> Improvement:
        """Search each criterion within one budget. Raises `UnfinishedError`; the ledger has the replies so far."""
        asking = CandidateJudge(self.lake, self.judge, self.run.rubric, self.request.budget_usd)
        searched = []
        for index, rated in enumerate(self.rated):
            self._dropped = []
            search = self._search_one(rated, asking, np.random.default_rng([SEED, index]))
            searched.append((search, [*self._dropped]))
        outcomes = self._outcomes(searched)
        return Improvement(
            self.run.run_id,
            self.judge.judge,
            self.run.name,
            outcomes,
            self.skipped,
            asking.spent_usd + self._proposed_usd if asking.is_priced else None,
            _improved(self.run, self.judge, outcomes),
        )

    def _search_one(self, rated: RatedOutputs, asking: CandidateJudge, rng: np.random.Generator) -> Search[Candidate]:
        folds = draw_folds(rated.people, rated.judged, rated.clusters, rng)

        def propose(half: int, inner: Indices) -> Sequence[Candidate]:
            candidates = self._propose(rated, half, inner, asking)
            examples = () if self.judge.online[0].is_decision else choose_examples(rated, inner.tolist())
            if examples:
                candidates.append(Candidate(EXAMPLES_NAME, with_examples(rated.criterion, examples)))
            return candidates

        def judge(candidate: Candidate, indices: Indices) -> Floats:
            own_cases = set(candidate.example_cases)
            # A candidate's own examples are not asked: they would grade themselves.
            indices_to_ask = [index for index in indices.tolist() if rated.rows[index]["case_id"] not in own_cases]
            scores = dict(
                zip(
                    indices_to_ask,
                    asking.scores(candidate.criterion, [rated.outputs[i] for i in indices_to_ask]),
                    strict=True,
                )
            )
            return np.array([scores.get(index, rated.judged[index]) for index in indices.tolist()])

        return search_candidates(rated.people, rated.judged, folds, propose, judge, rng)

    def _propose(self, rated: RatedOutputs, half: int, inner: Indices, asking: CandidateJudge) -> list[Candidate]:
        """Guidance that a model proposes from disagreements on a half's inner cases, without proposals lint refuses."""
        material, texts = _material(rated, inner)
        if not material["disagreements"]:
            return []
        criterion = rated.criterion
        left_usd = None if asking.budget_usd is None else max(asking.budget_usd - asking.spent_usd, 0.0)
        task = digest_of(json.dumps([self.run.run_id, criterion.id, half, material]))[:16]
        with open_asking(self.proposer, self.lake, f"{TASK}-{task}", left_usd) as model:
            question = model.object_question("guidance", Proposals, guidance_instructions(), material)
            answer = model.ask_object(question)
            spent_usd = model.tally.cost_usd or 0.0
        self._proposed_usd += spent_usd
        if asking.budget_usd is not None:
            asking.budget_usd -= spent_usd
        if answer.value is None:
            self._dropped.append(TriedCandidate(half, "guidance", None, f"the proposal can't be read: {answer.reason}"))
            return []
        candidates: list[Candidate] = []
        for number, proposal in enumerate(answer.value.candidates[:2], start=1):
            name, guidance = f"guidance {number}", proposal.guidance
            faults = proposal_faults(proposal, criterion, texts, sorted({row["model"] for row in rated.rows}))
            changed_criterion = None if faults else with_guidance(criterion, proposal)
            if changed_criterion == criterion or any(changed_criterion == known.criterion for known in candidates):
                faults = ("it repeats today's question or another candidate",)
            if faults or changed_criterion is None:
                self._dropped.append(TriedCandidate(half, name, guidance, "; ".join(faults)))
            else:
                candidates.append(Candidate(name, changed_criterion, proposal.reason))
        return candidates

    # -------- claim
    def _outcomes(
        self, searched: Sequence[tuple[Search[Candidate], list[TriedCandidate]]]
    ) -> tuple[CriterionOutcome, ...]:
        changes = [
            kappa_change(rated.judged, search.after, rated.people, rated.clusters)
            for rated, (search, _) in zip(self.rated, searched, strict=True)
        ]
        p_values = adjust_step_down([1.0 if change.p is None else change.p for change in changes])
        outcomes = []
        for place, (rated, (search, dropped)) in enumerate(zip(self.rated, searched, strict=True)):
            change, p_family = changes[place], float(p_values[place])
            biases = _biases(rated, search.after)
            outcomes.append(
                CriterionOutcome(
                    self.previews[place],
                    change,
                    None if change.p is None else p_family,
                    biases,
                    order_within_cases(rated.judged, search.after, rated.people, rated.clusters),
                    (*dropped, *map(_tried, search.tried)),
                    search.best,
                    _reason(change, p_family, biases, search),
                    more_outputs(change),
                    search.question_count,
                    rated.digest,
                )
            )
        return tuple(outcomes)


def open_improvement(lake: Lake, request: ImproveRequest) -> ImproveRun:
    """Check a request and price it; nothing is asked. Raises `InputError` with the missing inputs."""
    with connect_up_to_date(lake) as connection:
        row = find_run(connection, lake, request.run_id, None)
        run = read_stored_run(connection, lake, str(row["run_id"]))
        refuse_unknown(connection, run.run_id, request.criterion)
        judge = _judge_of(connection, run, request.judge)
        proposer = judge if request.proposer is None else read_judge(request.proposer, os.environ)
        add_ratings_of_run(connection, run.run_id)
        add_decisions_of_run(connection)
        rated, skipped = _rated_criteria(connection, run, request.criterion)
    asking = CandidateJudge(lake, judge, run.rubric)
    previews = tuple(_preview(asking, one) for one in rated)
    return ImproveRun(lake, run, request, judge, proposer, rated, skipped, previews)


def _judge_of(connection: duckdb.DuckDBPyConnection, run: StoredRun, given: str | None) -> Judge:
    """Judge of the run by its name. Raises `InputError` for another judge, and for a judge that can't be asked."""
    past = read_past_judge(connection, run.row)
    if past is None:
        raise InputError(f"run {run.run_id}", "no judge", "a run whose outputs a judge scored")
    if given is None and run.row["judge"].startswith("replay"):
        raise InputError("--judge", "none, and recorded replies in the run", "a judge that can be asked")
    judge = read_judge(given or str(run.row["judge"]), os.environ)
    refuse_unaskable(judge)
    if changes := past.changes(judge):
        refused = f"another judge than that of run {run.run_id} (differs in {', '.join(changes)})"
        hint = "evaluate the outputs with it first, and improve that run"
        raise InputError("--judge", refused, f"{past.name} with the settings of the run", hint)
    return judge


def _rated_criteria(
    connection: duckdb.DuckDBPyConnection, run: StoredRun, wanted: str | None
) -> tuple[tuple[RatedOutputs, ...], dict[str, str]]:
    """Criteria with enough ratings, and the reasons of the others, by id. Raises the fault of a single criterion."""
    judged = [criterion for criterion in run.rubric.judged_criteria if not criterion.hears_audio]
    if wanted is not None and wanted not in [criterion.id for criterion in judged]:
        names = ", ".join(criterion.id for criterion in judged) or "none in this rubric"
        raise InputError("--criterion", f"{wanted!r}, which no judge reads as a text", f"one of {names}")
    teaching, faults = [], {}
    for criterion in judged:
        if wanted not in (None, criterion.id):
            continue
        rated = read_rated(connection, run, criterion)
        try:
            refuse_few(rated, run.run_id)
            refuse_unchangeable(rated)
            refuse_disputed(rated)
        except GradebookError as fault:
            faults[criterion.id] = fault
        else:
            teaching.append(rated)
    if not teaching:
        if faults:
            raise next(iter(faults.values()))
        raise InputError(f"run {run.run_id}", f"no criterion of {run.name} that a judge reads as a text", "one")
    return tuple(teaching), {name: str(fault) for name, fault in faults.items()}


def _preview(asking: CandidateJudge, rated: RatedOutputs) -> Preview:
    """Power and price of a search, priced by the run's own replies on these outputs."""
    known_count, usd, _ = asking.costs("", [row["request_key"] for row in rated.rows if row["request_key"]])
    most = MOST_QUESTIONS * len(rated.rows)
    return Preview(
        rated.criterion.id,
        rise_power(rated.judged, rated.people, rated.clusters),
        measure_ceiling([row["scores"] for row in rated.rows], rated.judged),
        rated.left_out,
        most,
        most * usd / known_count if known_count and usd > 0 else None,
    )


def _material(rated: RatedOutputs, inner: Indices) -> tuple[dict[str, Any], list[str]]:
    """Material for the proposing model from a half's inner cases, and all its texts."""
    gaps = np.abs(rated.judged - rated.people)
    order = sorted(inner.tolist(), key=lambda index: (-gaps[index], not rated.rows[index]["notes"]))
    wrong = [index for index in order if gaps[index] > 1e-9][:MOST_SHOWN]
    right = [index for index in order[::-1] if gaps[index] <= 1e-9 and level_of(rated.criterion, rated.people[index])]
    shown_cases = [[_rated_case(rated, index) for index in indices] for indices in (wrong, right[:MOST_AGREED])]
    texts = [
        text
        for case in (*shown_cases[0], *shown_cases[1])
        for text in (case.prompt, case.output, case.reference, case.rationale, *case.notes)
        if text
    ]
    return guidance_material(rated.criterion, *shown_cases), texts


def _rated_case(rated: RatedOutputs, index: int) -> RatedCase:
    row, output = rated.rows[index], rated.outputs[index].output
    people, judge = (nearest_level(rated.criterion, scores[index]).id for scores in (rated.people, rated.judged))
    notes = tuple(map(str, row["notes"]))
    return RatedCase(output.prompt, output.output, output.reference, people, judge, row["rationale"], notes)


def _tried(tried: Any) -> TriedCandidate:
    candidate: Candidate = tried.candidate
    guidance = getattr(candidate.criterion.method, "guidance", None) if candidate.name != EXAMPLES_NAME else None
    return TriedCandidate(tried.half, candidate.name, guidance, tried.reason, tried.chosen_on, tried.kappa)


def _biases(rated: RatedOutputs, after: Floats) -> dict[str, Change]:
    """Change of each model's absolute bias, at a level that all models share."""
    names = np.array(rated.models)
    models = np.unique(names)
    changes = {}
    for model in models.tolist():
        is_model = names == model
        clusters = np.unique(rated.clusters[is_model], return_inverse=True)[1].ravel()
        scores = (rated.judged[is_model], after[is_model], rated.people[is_model])
        changes[model] = bias_change(*scores, clusters, level=1.0 - LEVEL / len(models))
    return changes


def _reason(change: Change, p_family: float, biases: Mapping[str, Change], search: Search[Candidate]) -> str | None:
    """Why a change is not accepted; None if the gain is beyond chance and no model's bias grew."""
    if search.best is None:
        return "no candidate agreed with people as well as today's question"
    if change.rise is None or change.p is None or change.rise <= 0.0:
        return "agreement did not rise on cases that the search had not seen"
    if change.changed_count < LEAST_CHANGED:
        return f"verdicts changed on {change.changed_count} cases, expected {LEAST_CHANGED} or more"
    if p_family >= LEVEL:
        return "not beyond chance yet"
    grown = [model for model, bias in biases.items() if bias.low is not None and bias.low > 0.0]
    return f"the bias grew on outputs of {', '.join(grown)}" if grown else None


def _improved(run: StoredRun, judge: Judge, outcomes: Sequence[CriterionOutcome]) -> Rubric | None:
    """Next version of the run's rubric with the accepted questions and their provenance; None without any."""
    accepted = {outcome.preview.criterion_id: outcome for outcome in outcomes if outcome.is_accepted}
    changed_criteria = {
        name: outcome.chosen.criterion for name, outcome in accepted.items() if outcome.chosen is not None
    }
    if not changed_criteria:
        return None
    criteria = tuple(changed_criteria.get(criterion.id, criterion) for criterion in run.rubric.criteria)
    provenance = {name: _provenance(run, judge, outcome) for name, outcome in accepted.items()}
    metadata = run.rubric.metadata | {"improved": run.rubric.metadata.get("improved", {}) | provenance}
    rubric = run.rubric.model_copy(update={"criteria": criteria, "metadata": metadata})
    step = required_step(run.rubric, rubric).step
    return rubric.model_copy(update={"version": next_version(run.rubric.version, "patch" if step == "none" else step)})


def _provenance(run: StoredRun, judge: Judge, outcome: CriterionOutcome) -> dict[str, Any]:
    change, candidate = outcome.change, outcome.chosen
    return {
        "from": run.name.replace(" ", "@"),
        "run": run.run_id,
        "judge": judge.judge,
        "ratings": {"count": change.n, "cases": change.cluster_count, "digest": outcome.ratings_digest},
        "folds": {"seed": SEED, "halves": len(HALVES), "searched_in": _half_of(outcome)},
        "candidate": None if candidate is None else candidate.name,
        "example_cases": [] if candidate is None else candidate.example_cases,
        "kappa": {
            "before": _rounded(change.before),
            "after": _rounded(change.after),
            "rise_low": _rounded(change.low),
            "rise_high": _rounded(change.high),
            "p_family": _rounded(outcome.p_family),
        },
        "tried": [
            {"half": tried.half, "name": tried.name, "outcome": tried.reason or "chosen"} for tried in outcome.tried
        ],
    }


def _half_of(outcome: CriterionOutcome) -> int | None:
    """Half whose search found the chosen candidate."""
    accepted = [tried for tried in outcome.tried if tried.reason is None]
    return max(accepted, key=lambda tried: or_worst(tried.outer_kappa)).half if accepted else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def refuse_rubric_file(path: Path) -> None:
    """Raise `InputError` for a path where no rubric file can be written."""
    refuse_file("--out", path, RUBRIC_SUFFIXES, "a file that ends in .yaml")


def write_improved(improvement: Improvement, out: Path | None) -> Path | None:
    """Write the new version as a rubric file; None if there is none. out: None: a new file named after the version."""
    rubric = improvement.rubric
    if rubric is None:
        return None
    path = out or Path(f"{rubric.id}-{rubric.version}.yaml")
    refuse_rubric_file(path)
    write_text(path, rubric_yaml(rubric))
    return path
