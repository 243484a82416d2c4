"""Draft of a rubric from outputs: failure modes, criteria, their methods, and a trial."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradebook.rubrics.files.dump import id_from
from gradebook.rubrics.learning.draft_file import DraftFile, draft_yaml
from gradebook.rubrics.learning.proposals import (
    CRITERIA_INSTRUCTIONS,
    LEAST_CITED,
    MARK_INSTRUCTIONS,
    MODES_INSTRUCTIONS,
    DraftCriterion,
    Dropped,
    FoundMode,
    Mark,
    Modes,
    ProposedCriteria,
    offered_checks,
    parsed_criterion,
    read_criteria,
    read_modes,
)
from gradebook.rubrics.learning.trial import (
    Figures,
    Tried,
    drop_reason,
    find_repeats,
    measure_trial,
    separates,
    weights_of,
)
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.prompt import case_digest, criterion_digest, request_key, view_of
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.discovery import dataset_files, digest_files
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.learning.asking import Asking, Forecast, ObjectQuestion, Tally, Wanted, open_asking
from gradebook.tasks.learning.examples import (
    MOST_EACH,
    MOST_STORED,
    MOST_TRIED_EACH,
    Chosen,
    Example,
    ReadExamples,
    Said,
    choose,
    one_per_case,
    read_examples,
)
from gradebook.tasks.rewards.computing import CodeScorer

IN_BATCH = 5  # bad outputs of a request, and as many good outputs
MOST_MARKED = 2 * (MOST_EACH + MOST_TRIED_EACH)  # outputs that the model marks if no person did
ASKED_TWICE = 20  # outputs of the trial that are judged twice
MOST_TEXT, MOST_OTHER = 4_000, 2_000  # characters of an output in a request, and of each of its other texts
MARK_TOKENS, MARK_USUAL = 1_000, 80.0
EXPECTED_CRITERIA, EXPECTED_MODES = 6, 12  # assumed by the forecast
CRITERION_BYTES = 1_200  # bytes of a judge's request without the case


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """Request for a draft. out: file to write; its name gives the rubric's id."""

    outputs: str
    out: Path
    said: Said = field(default_factory=Said)
    notes: str | None = None
    budget_usd: float | None = None
    column_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drafted:
    """Outcome of a draft. text: the rubric file; None if no criterion was accepted."""

    text: str | None
    kept: Mapping[str, Figures | None]  # criterion id -> figures; None: only people can score it
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    tally: Tally


def price_draft(request: DraftRequest, judge: Judge, lake: Lake) -> Forecast:
    """Price of a draft, as far as it is known before the first reply; nothing is asked or written."""
    read_outputs = read_examples(request.outputs, request.column_map, request.said)
    with open_asking(judge, lake, _task(request, judge), request.budget_usd, is_preview=True) as asking:
        return _forecast(request, read_outputs, asking)


def draft_rubric(request: DraftRequest, judge: Judge, lake: Lake) -> Drafted:
    """Draft a rubric from outputs. Nothing is registered; the caller writes the text.

    Raises `InputError` if the outputs are not enough for a draft, `BudgetReached` or `EndpointUnavailable` if asking
    ends early: replies until then are in the ledger, and the same call continues from them.
    """
    read_outputs = read_examples(request.outputs, request.column_map, request.said)
    with open_asking(judge, lake, _task(request, judge), request.budget_usd) as asking:
        asking.planned_usd = _forecast(request, read_outputs, asking).cost_high_usd
        examples, notes = _marked(request, read_outputs, asking)
        if len(read_outputs.examples) == MOST_STORED:
            notes.append(
                f"read {MOST_STORED:,} of {counted(read_outputs.row_count, 'row')}, drawn by a hash of their content"
            )
        if len(judge.members) > 1:
            notes.append(f"of the judge's {len(judge.members)} models, {asking.settings.model} alone was asked")
        selection = choose(examples)
        _refuse_one_sided(request, selection)
        modes, dropped = _find_modes(request, selection, asking)
        criteria, more_dropped = _group(request, read_outputs, modes, asking)
        criteria, checked_notes = _try_checks(criteria, selection)
        trial = _Trial(asking, selection, criteria)
        trial.run()
        dropped += more_dropped + trial.dropped
        notes += (
            [f"{criterion.id}: {note}" for criterion in criteria for note in criterion.notes]
            + checked_notes
            + trial.notes
        )
        if not selection.is_held_out:
            notes.append("tried on the outputs that it was drafted from, as there are too few others")
        kept_figures = {criterion.id: trial.figures.get(criterion.id) for criterion in trial.kept}
        text = None
        if trial.kept:
            text = draft_yaml(_file(request, read_outputs, examples, trial, dropped, notes, asking))
        return Drafted(text, kept_figures, tuple(dict.fromkeys(dropped)), tuple(notes), asking.tally)


def _task(request: DraftRequest, judge: Judge) -> str:
    """Name of the work, by outputs, signals, notes and model: the same draft shares the budget of earlier commands."""
    files = [*dataset_files(request.outputs), *([request.said.ratings] if request.said.ratings else [])]
    inputs = (
        f"{sorted(request.said.bad)} {sorted(request.said.good)} {request.notes} {sorted(request.column_map.items())}"
    )
    return f"draft-{digest_of(f'{digest_files(files)} {inputs} {judge.judge_digest}')}"


# -------- marks
def _marked(request: DraftRequest, read: ReadExamples, asking: Asking) -> tuple[list[Example], list[str]]:
    """Outputs with marks by people, else by the model; and notes that say so."""
    if read.signal is not None:
        return list(read.examples), [f"good and bad outputs by {read.signal}"]
    questions = _mark_questions(request, read, asking)
    answers = asking.ask([question for _, question in questions], "mark")
    marked = [
        replace(example, is_bad=answer.value.fails, note=example.note or answer.value.why)
        for (example, _), answer in zip(questions, answers, strict=True)
        if answer.value is not None
    ]
    model = asking.settings.model
    return marked, [f"no person said which outputs are bad: {model} did, so the trial shows no agreement with people"]


def _mark_questions(
    request: DraftRequest, read: ReadExamples, asking: Asking
) -> list[tuple[Example, ObjectQuestion[Mark]]]:
    return [
        (
            example,
            asking.object_question(
                "mark", Mark, MARK_INSTRUCTIONS, _shown(example) | _notes(request), max_tokens=MARK_TOKENS
            ),
        )
        for example in one_per_case(read.examples)[:MOST_MARKED]
    ]


def _refuse_one_sided(request: DraftRequest, chosen: Chosen) -> None:
    for name, side in (("bad", chosen.bad), ("good", chosen.good)):
        if len(side) < LEAST_CITED:
            raise InputError(
                request.outputs,
                f"{counted(len(side), f'{name} output')} of different cases",
                f"{LEAST_CITED} or more good and bad ones to contrast, by a column such as thumbs, --ratings or --bad",
            )


def _shown(example: Example) -> dict[str, Any]:
    """Output as a request shows it; long texts are cut in the middle."""
    output = example.output
    texts = {
        "prompt": output.prompt,
        "context": "\n\n".join(output.context) if output.context else None,
        "reference": output.reference,
        "note": example.note,
    }
    other_texts = {name: cut_text(text, MOST_OTHER) for name, text in texts.items() if text}
    return {"output": cut_text(output.output, MOST_TEXT)} | other_texts


def cut_text(text: str, most: int) -> str:
    """Text of about `most` characters: a longer one is cut in the middle, with a remark."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} [... {len(text) - most:,} characters ...] {text[-half:]}"


def _notes(request: DraftRequest) -> dict[str, str]:
    return {"notes": request.notes} if request.notes else {}


# -------- modes and criteria
def _mode_questions(
    request: DraftRequest, chosen: Chosen, asking: Asking
) -> list[tuple[dict[str, tuple[str, str]], ObjectQuestion[Modes]]]:
    """Requests for failure modes, each with the bad outputs that its reply may cite, by id."""
    questions = []
    for start in range(0, len(chosen.bad), IN_BATCH):
        bad = chosen.bad[start : start + IN_BATCH]
        if len(bad) < LEAST_CITED:  # too few in the last batch
            bad = chosen.bad[-IN_BATCH:]
        good = [chosen.good[(start + index) % len(chosen.good)] for index in range(min(IN_BATCH, len(chosen.good)))]
        material = {
            "bad": [{"id": f"b{number}"} | _shown(example) for number, example in enumerate(bad, 1)],
            "good": [{"id": f"g{number}"} | _shown(example) for number, example in enumerate(good, 1)],
        }
        texts = {f"b{number}": (example.id, example.output.output) for number, example in enumerate(bad, 1)}
        question = asking.object_question("failure_modes", Modes, MODES_INSTRUCTIONS, material | _notes(request))
        questions.append((texts, question))
    return questions


def _find_modes(request: DraftRequest, chosen: Chosen, asking: Asking) -> tuple[list[FoundMode], list[Dropped]]:
    questions = _mode_questions(request, chosen, asking)
    found_modes: list[FoundMode] = []
    dropped: list[Dropped] = []
    for (texts, _), answer in zip(questions, asking.ask([question for _, question in questions], "read"), strict=True):
        if answer.value is None:
            dropped.append(Dropped("failure modes of one batch", f"no readable reply: {answer.reason}"))
            continue
        modes, refused = read_modes(answer.value, texts)
        found_modes += modes
        dropped += refused
    return found_modes, dropped


def _group(
    request: DraftRequest, read: ReadExamples, modes: Sequence[FoundMode], asking: Asking
) -> tuple[list[DraftCriterion], list[Dropped]]:
    if not modes:
        return [], []
    by_id = {f"m{number}": mode for number, mode in enumerate(modes, 1)}
    shown_modes = [
        {
            "id": mode_id,
            "name": mode.name,
            "description": mode.description,
            "output_count": len(mode.quotes),
            "quotes": [cut_text(quote.text, 300) for quote in mode.quotes[:3]],
        }
        for mode_id, mode in by_id.items()
    ]
    material = {"modes": shown_modes, "checks": offered_checks(read.columns)} | _notes(request)
    answer = asking.ask_object(
        asking.object_question("criteria", ProposedCriteria, CRITERIA_INSTRUCTIONS, material, max_tokens=8_192), "group"
    )
    if answer.value is None:
        return [], [Dropped("criteria", f"no readable reply: {answer.reason}")]
    return read_criteria(answer.value, by_id, read.models, read.columns)


# -------- methods
def _scored_by_code(criterion: Criterion, examples: Sequence[Example]) -> list[float]:
    """Scores of a check over some outputs; NaN where it can't decide."""
    rubric = Rubric.model_validate({"id": "draft", "version": "0.1.0", "criteria": [criterion]})
    verdicts = CodeScorer(rubric, None, {}).score([example.read for example in examples])
    scores = [verdicts[index, criterion.id].score for index in range(len(examples))]
    return [float("nan") if score is None else score for score in scores]


def _try_checks(criteria: Sequence[DraftCriterion], chosen: Chosen) -> tuple[list[DraftCriterion], list[str]]:
    """Criteria with checks that fail the outputs cited for them; other checks are replaced by a judge's question."""
    tried, notes = [], []
    for criterion in criteria:
        if criterion.judged is None:
            tried.append(criterion)
            continue
        cited = [example for example in chosen.bad if example.id in criterion.cited]
        scores = _scored_by_code(parsed_criterion(criterion.values), [*cited, *chosen.good])
        is_cited = [True] * len(cited) + [False] * len(chosen.good)
        caught, alarms, is_separating = separates(scores, is_cited)
        figures = f"{caught} of {len(cited)} cited and {alarms} of {len(chosen.good)} good outputs"
        check = criterion.values["method"]["check"]
        if is_separating:
            tried.append(criterion)
            notes.append(f"{criterion.id}: the check {check} fails {figures}")
        else:
            tried.append(replace(criterion, values=criterion.judged, judged=None))
            notes.append(f"{criterion.id}: a judge in place of the check {check}, which fails {figures}")
    return tried, notes


# -------- trial
class _Trial:
    """Trial of drafted criteria; collects kept and dropped criteria."""

    def __init__(self, asking: Asking, chosen: Chosen, criteria: Sequence[DraftCriterion]) -> None:
        self._asking, self._chosen, self._criteria = asking, chosen, criteria
        self.figures: dict[str, Figures] = {}
        self.costs_usd: dict[str, float] = {}
        self.kept: list[DraftCriterion] = []
        self.dropped: list[Dropped] = []
        self.gates: set[str] = set()
        self.notes: list[str] = []

    def run(self) -> None:
        """Try all criteria together, so that one cache of the judge's prompts serves them."""
        judged = {criterion.id: parsed_criterion(criterion.values) for criterion in self._criteria}
        answers = self._ask([judged[one.id] for one in self._criteria if one.method == "judge"])
        tried: dict[str, Tried] = {}
        for criterion in self._criteria:
            if criterion.method == "ratings":  # only people can score it
                self.kept.append(criterion)
                continue
            scores = answers.get(criterion.id) or self._by_code(judged[criterion.id])
            tried[criterion.id] = scores
            figures = self.figures[criterion.id] = measure_trial(scores)
            is_gate = criterion.must_never and (figures.good_mean is None or figures.good_mean == 1)
            if reason := drop_reason(figures, is_gate=is_gate):
                self._drop(criterion, reason)
                continue
            self.kept.append(criterion)
            self.gates |= {criterion.id} if is_gate else set()
            if criterion.must_never and not is_gate:
                self.notes.append(
                    f"{criterion.id}: proposed as a gate, and weighted, as good outputs of the trial fail it"
                )
        alive = {criterion.id: tried[criterion.id] for criterion in self.kept if criterion.id in tried}
        for name, (other, correlation) in find_repeats(alive, self.figures).items():
            repeated = next(criterion for criterion in self.kept if criterion.id == name)
            self.kept.remove(repeated)
            self._drop(repeated, f"repeats {other}: its scores correlate by {correlation:.2f}")

    def _drop(self, criterion: DraftCriterion, reason: str) -> None:
        self.dropped.append(Dropped(f"{criterion.id} ({criterion.values['description']})", reason))

    def _tried(self, scores: Sequence[float], again: Sequence[float]) -> Tried:
        examples = self._chosen.tried
        case_ids = sorted({example.output.case_id for example in examples})
        numbers = {case_id: number for number, case_id in enumerate(case_ids)}
        return Tried(
            np.array(scores, np.float64),
            np.array(again, np.float64),
            np.array([bool(example.is_bad) for example in examples]),
            np.array([numbers[example.output.case_id] for example in examples], np.int64),
        )

    def _by_code(self, criterion: Criterion) -> Tried:
        scores = _scored_by_code(criterion, self._chosen.tried)
        return self._tried(scores, [float("nan")] * len(scores))

    def _ask(self, criteria: Sequence[Criterion]) -> dict[str, Tried]:
        questions = [
            question
            for index, example in enumerate(self._chosen.tried)
            for criterion in criteria
            for question in trial_questions(self._asking, example, criterion, index)
        ]
        scores: dict[tuple[str, str, int], float] = {}
        answer: Answer
        for answer in self._asking.ask(questions, "try"):
            answered_question = answer.question
            by_level = {level.id: level.score for level in answered_question.criterion.ranked_levels}
            level_score = by_level.get(answer.level_id or "", float("nan"))
            scores[answered_question.criterion_id, answered_question.output_id, answered_question.replicate] = (
                level_score
            )
            if answer.cost_usd:
                self.costs_usd[answered_question.criterion_id] = (
                    self.costs_usd.get(answered_question.criterion_id, 0.0) + answer.cost_usd
                )
        return {
            criterion.id: self._tried(
                *(
                    [scores.get((criterion.id, example.id, replicate), float("nan")) for example in self._chosen.tried]
                    for replicate in (0, 1)
                )
            )
            for criterion in criteria
        }


def trial_questions(asking: Asking, example: Example, criterion: Criterion, index: int) -> list[Question]:
    """Questions on one output, with a run's request keys, so that runs can reuse replies; two for the first outputs."""
    case = example.case(view_of(criterion))
    digests = criterion_digest(criterion), case_digest(case)
    # Bad outputs come first, so every second bad and every second good output is asked twice.
    replicates = (0, 1) if index % 2 == 0 and index < 2 * ASKED_TWICE else (0,)
    output = example.output
    return [
        Question(
            example.id,
            criterion,
            case,
            request_key(asking.settings.judge_digest, *digests, replicate),
            replicate,
            output.case_id,
            output.model,
            output.checkpoint,
            output.sample_index,
            asking.settings.style,
        )
        for replicate in replicates
    ]


# -------- price and file
def _forecast(request: DraftRequest, read: ReadExamples, asking: Asking) -> Forecast:
    """Price of all questions; questions that depend on replies count by usual number and length."""
    forecast = Forecast()
    if read.signal is None:
        forecast += asking.price([question for _, question in _mark_questions(request, read, asking)])
        sample = one_per_case(read.examples)[:MOST_MARKED]
        half = len(sample) // 2
        selection = choose([replace(one, is_bad=index < half) for index, one in enumerate(sample)])
    else:
        selection = choose(read.examples)
    if selection.bad and selection.good:
        forecast += asking.price([question for _, question in _mode_questions(request, selection, asking)])
    checks_bytes = len(str(offered_checks(read.columns))) + EXPECTED_MODES * 1_000
    forecast += asking.price_wanted(Wanted(1, checks_bytes, 2_000.0, 8_192))
    twice_count = min(ASKED_TWICE, (len(selection.tried) + 1) // 2)
    case_bytes = sum(len(str(_shown(example))) for example in selection.tried)
    count = EXPECTED_CRITERIA * (len(selection.tried) + twice_count)
    rate = 1 + twice_count / max(1, len(selection.tried))
    size = round(EXPECTED_CRITERIA * case_bytes * rate) + count * CRITERION_BYTES
    return forecast + asking.price_wanted(Wanted(count, size, None, None, "(draft)"))


def _file(
    request: DraftRequest,
    read: ReadExamples,
    examples: Sequence[Example],
    trial: _Trial,
    dropped: Iterable[Dropped],
    notes: Iterable[str],
    asking: Asking,
) -> DraftFile:
    kept_figures = {one.id: trial.figures[one.id] for one in trial.kept if one.id in trial.figures}
    weighted = {name: figures for name, figures in kept_figures.items() if name not in trial.gates}
    weights = weights_of(weighted) if read.signal is not None else None
    asked_counts = {name: figures.output_count + figures.twice_count for name, figures in kept_figures.items()}
    return DraftFile(
        id_from(request.out.stem),
        f"Drafted from failures in {Path(request.outputs).name}; decide what it is for before you use it.",
        tuple(trial.kept),
        kept_figures,
        frozenset(trial.gates),
        weights,
        {name: cost / asked_counts[name] for name, cost in trial.costs_usd.items() if name in asked_counts},
        {one.id: (one.output.case_id, one.output.model) for one in examples},
        (f"drafted by {asking.settings.model} from {shlex.quote(request.outputs)}", *notes),
        tuple(dict.fromkeys(dropped)),
    )
