"""The request for an evaluation; each option is described here, once."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Flag, StrEnum, auto
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.statistics.series import Series
from gradebook.tasks.datasets.one_checkpoint import OneCheckpoint
from gradebook.tasks.datasets.traces import GIVEN_FORMATS
from gradebook.tasks.workspace.folder import DEFAULT_LAKE, LATEST, RUN_ID


@dataclass(frozen=True, slots=True)
class SeriesOfNights:
    """Series of analyses of a gate. per: month begins a new series on its first day, branch never does.

    A series over the checkpoints of a model is per branch.
    """

    series: Series
    per: Literal["month", "branch"] = "month"


class Use(Flag):
    """A use of an option."""

    COMMAND = auto()  # `gradebook evaluate` takes it
    OUTPUTS_FLOW = auto()  # the flow evaluate-outputs takes it
    CHECKPOINT_FLOW = auto()  # the flow evaluate-checkpoint takes it
    SUITE = auto()  # a suite of a nightly run takes it
    RESUME = auto()  # the printed command that resumes a run repeats it
    SETTINGS = auto()  # `runs.settings` has it
    FINGERPRINT = auto()  # requests that differ in it are different runs; a file counts by its content


LATEST_MET, BEST, REFERENCE = "latest_met", "best", "reference"
BASELINE_WORDS = (LATEST, LATEST_MET, BEST, REFERENCE)  # in place of a run's id
ALL_MODELS = "all"
NO_RUN = "null"  # DuckDB reads a partition of this name, in any letters, as rows without a run
FLOWS = Use.OUTPUTS_FLOW | Use.CHECKPOINT_FLOW
ASKED = Use.COMMAND | FLOWS | Use.SUITE | Use.RESUME
EVERYWHERE = ASKED | Use.SETTINGS | Use.FINGERPRINT


class Panel(StrEnum):
    """Heading above an option in `gradebook evaluate --help`, in the order of the help."""

    OUTPUTS = "What to evaluate"
    JUDGE = "Judge"
    MONEY = "Money"
    COMPARE = "Compare"
    QUALITY = "Quality"
    RUN = "Run"


def _value_words(value: Any) -> str:
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")  # no exponent
    return value.isoformat() if isinstance(value, datetime) else str(value)


@dataclass(frozen=True, slots=True)
class Option:
    """Description of one option.

    help: a noun phrase for `--help`, deployment forms, suites files and the docs. panel: heading above it in `--help`.
    form_hint: added to it in forms.
    least, most: bounds, included. choices: the allowed words, on forms and in files. expected: the end of the message
    that refuses another value. name, value_type, default, is_required: from the field of `EvaluationRequest`.
    """

    help: str
    use: Use
    panel: Panel = Panel.RUN
    flag: str = ""  # by default the name with dashes
    is_argument: bool = False  # on the command line: a word without a flag
    envvar: str | None = None  # read by the command line
    form_hint: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    expected: str = ""
    name: str = ""
    value_type: Any = str  # without None
    default: Any = None
    is_required: bool = False

    @property
    def plain_default(self) -> Any:
        """Default of a flow parameter or a command's option: None for an empty list or mapping."""
        return None if self.value_type in (Mapping, tuple) else self.default

    def words(self, value: Any) -> list[str]:
        """Command-line words that set the option to this value; none for the default."""
        if value == self.default:
            return []
        if self.is_argument:
            return [str(value)]
        if self.value_type is bool:
            return [self.flag]
        if self.value_type is Mapping:
            return [word for column, name in value.items() for word in (self.flag, f"{column}={name}")]
        if self.value_type is tuple:
            return [word for text in value for word in (self.flag, text)]
        return [self.flag, _value_words(value)]

    def refuse(self, value: Any) -> None:
        """Raise `InputError` if the value is not allowed."""
        if isinstance(value, str):
            is_optional = self.default is None and not self.is_required and self.envvar is None
            if is_optional and not self.choices and not value.strip():  # an unset shell variable
                raise InputError(self.flag, "an empty text", f"a value, or no {self.flag} at all")
            is_right = not self.choices or value in self.choices
        else:
            least, most = self.least, self.most
            is_right = (least is None or least <= value < math.inf) and (most is None or value <= most)
        if not is_right:
            written = f"{value:g}" if isinstance(value, float) else repr(value)
            raise InputError(self.flag, written, self.expected or f"one of {', '.join(self.choices)}")


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """Request of a person or a schedule.

    Fields with an `Option` are options: the command line, the flows' parameters, suites files, the command that
    resumes a run, `runs.settings`, the fingerprint and the site's page of options are generated from them.
    """

    outputs: Annotated[
        str,
        Option(
            "JSON Lines, CSV, Parquet (plain, .gz or .zst) or traces of agents; a file, folder or glob",
            ASKED | Use.FINGERPRINT,
            Panel.OUTPUTS,
            is_argument=True,
            form_hint="as the worker sees it",
        ),
    ]
    rubric: Annotated[
        str,
        Option(
            "a rubric file, a shipped rubric's name, ID@VERSION in the lake, or none: rows bring their own criteria",
            ASKED | Use.FINGERPRINT,
            Panel.OUTPUTS,
        ),
    ]
    judge: Annotated[
        str | None,
        Option(
            "a model name, a judge file (YAML), or replay:FILE",
            EVERYWHERE,
            Panel.JUDGE,
            form_hint="its API key belongs in the worker's environment",
        ),
    ] = None
    _: KW_ONLY
    embedder: Annotated[
        str | None,
        Option(
            "embedder of similarities: a model name, an embedder file (YAML), a folder, or lexical",
            EVERYWHERE,
            Panel.JUDGE,
        ),
    ] = None
    ratings: Annotated[str | None, Option("a file of people's ratings", EVERYWHERE, Panel.OUTPUTS)] = None
    column_map: Annotated[
        Mapping[str, str],
        Option(
            "column names of the file, by gradebook's names",
            EVERYWHERE,
            Panel.OUTPUTS,
            flag="--map",
            form_hint='as {"output": "response"}',
        ),
    ] = field(default_factory=dict)
    trace_format: Annotated[
        str | None,
        Option(
            f"format of agents' traces: {', '.join(GIVEN_FORMATS)}; default: found by the file",
            EVERYWHERE,
            Panel.OUTPUTS,
            flag="--from",
            choices=GIVEN_FORMATS,
        ),
    ] = None
    model: Annotated[
        str | None,
        Option(
            "name of the model, for rows that name none",
            EVERYWHERE & ~Use.CHECKPOINT_FLOW,
            Panel.OUTPUTS,
        ),
    ] = None
    sample: Annotated[
        int | None,
        Option(
            "number of cases to evaluate, chosen at random; the same file gives the same cases",
            EVERYWHERE,
            Panel.OUTPUTS,
            least=1,
            expected="a number of cases, 1 or more",
        ),
    ] = None
    stratify: Annotated[
        str | None,
        Option(
            "column or metadata key by whose values --sample draws in proportion; means are weighted",
            EVERYWHERE,
            Panel.OUTPUTS,
        ),
    ] = None
    max_bad_rate: Annotated[
        float,
        Option(
            "maximum share of invalid rows", EVERYWHERE, Panel.OUTPUTS, least=0, most=1, expected="a share of 0 to 1"
        ),
    ] = 0.01
    allow_unscored: Annotated[
        bool,
        Option("leave criteria unscored if nothing can score them, instead of stopping", EVERYWHERE, Panel.OUTPUTS),
    ] = False
    allow_functions: Annotated[
        tuple[str, ...], Option("packages whose functions may run", ASKED | Use.FINGERPRINT, Panel.OUTPUTS)
    ] = ()
    budget_usd: Annotated[
        float | None,
        Option(
            "maximum spend in US dollars", ASKED | Use.SETTINGS, Panel.MONEY, least=0, expected="dollars, 0 or more"
        ),
    ] = None
    feedback: Annotated[
        str | None,
        Option(
            "llm: let the judge write feedback on each output and model",
            EVERYWHERE & ~Use.CHECKPOINT_FLOW,
            Panel.JUDGE,
            choices=("llm",),
            expected="llm, or no --feedback at all",
        ),
    ] = None
    deadline: Annotated[
        datetime | None,
        Option(
            "deadline for open batches: a time, or a duration from the start, such as 6h",
            ASKED & ~Use.CHECKPOINT_FLOW,
            Panel.JUDGE,
        ),
    ] = None
    record: Annotated[
        str | None,
        Option(
            "a file to write the judge's replies to, for replay:FILE",
            ASKED & ~Use.CHECKPOINT_FLOW & ~Use.SUITE,
            Panel.JUDGE,
        ),
    ] = None
    baseline: Annotated[
        str | None,
        Option(
            "a run to compare with: its id, latest, latest_met (gates met), best, or reference (pinned)",
            (ASKED | Use.SETTINGS) & ~Use.CHECKPOINT_FLOW,
            Panel.COMPARE,
        ),
    ] = None
    require: Annotated[
        str | None,
        Option(
            "a gate, met only if this rule holds for the comparison: not_worse_by(0.02); auto: by the number of cases",
            ASKED | Use.SETTINGS,
            Panel.COMPARE,
        ),
    ] = None
    fail_if: Annotated[
        str | None,
        Option(
            "a gate, not met if this rule holds for the comparison: mean_diff < -0.01 and p < 0.05",
            ASKED | Use.SETTINGS,
            Panel.COMPARE,
        ),
    ] = None
    stop: Annotated[
        str | None,
        Option(
            "stop judging when the comparison with the baseline is decided: looks=10, suite or always",
            EVERYWHERE & ~Use.CHECKPOINT_FLOW,
            Panel.COMPARE,
        ),
    ] = None
    across_judges: Annotated[
        bool,
        Option(
            "apply --require and --fail-if even if the baseline had another judge or other judge settings",
            ASKED | Use.SETTINGS,
            Panel.COMPARE,
        ),
    ] = False
    models: Annotated[
        str,
        Option(
            "models that decide the gate: common (those that the baseline has too) or all",
            ASKED | Use.SETTINGS,
            Panel.COMPARE,
            choices=("common", ALL_MODELS),
        ),
    ] = "common"
    gate: Annotated[
        str,
        Option(
            "basis of the exit code: rubric (its gates and thresholds), baseline (the gate against it), both or none",
            ASKED | Use.SETTINGS,
            Panel.COMPARE,
            choices=("both", "rubric", "baseline", "none"),
        ),
    ] = "both"
    quality: Annotated[
        str | None,
        Option(
            "a team's own expectation suites (JSON) on outputs, verdicts, criterion_scores or run_scores",
            ASKED,
            Panel.QUALITY,
        ),
    ] = None
    suites: Annotated[
        bool, Option("run the shipped expectation suites of great-expectations too", ASKED, Panel.QUALITY)
    ] = False
    runner: Annotated[
        str | None,
        Option(
            "runner of checks: threads, dask, dask:ADDRESS, ray or ray:ADDRESS",
            ASKED & ~Use.CHECKPOINT_FLOW & ~Use.SUITE,
            envvar="GRADEBOOK_TASK_RUNNER",
        ),
    ] = None
    run_id: Annotated[
        str | None,
        Option(
            "name of the run; default: generated",
            Use.COMMAND | Use.OUTPUTS_FLOW,
            form_hint="shared by the flow run's retries",
        ),
    ] = None
    trigger: Annotated[
        str,
        Option(
            "cause of the run, for the table `runs`",
            Use.OUTPUTS_FLOW,
            choices=("manual", "demo", "nightly", "checkpoint", "sweep"),
        ),
    ] = "manual"
    lake: Annotated[
        str,
        Option(
            "sqlite:FILE or postgres:CONNECTION",
            Use.COMMAND | FLOWS,
            envvar="GRADEBOOK_LAKE",
            form_hint="without a password",
        ),
    ] = DEFAULT_LAKE
    data: Annotated[
        str | None, Option("location of the Parquet files: a folder or s3://BUCKET/PREFIX", Use.COMMAND | FLOWS)
    ] = None
    # Set by flows and commands, not by options:
    checkpoint: OneCheckpoint | None = None  # of all outputs: rows of another checkpoint are refused
    dataset: str | None = None  # name of the outputs in the table `runs`, if it is not their path
    suite: str | None = None  # of a nightly run, whose runs are compared with each other
    night: date | None = None  # date of the nightly run
    series: SeriesOfNights | None = None  # looks of the gate of a suite, or of a model's checkpoints
    functions_within: tuple[str, ...] = ()  # packages of a suites file, beyond which no function runs
    has_page: bool = True  # whether the report's page is written, whose charts take longer than a small run
    again: tuple[str, ...] = ()  # command that resumes the run, if it is not `gradebook evaluate`

    @property
    def row_model(self) -> str | None:
        """Model of rows that name none."""
        return self.model or (self.checkpoint.model if self.checkpoint else None)


def _field_options() -> Iterable[Option]:
    """Options, completed with name, type and default of their fields."""
    for option_field in fields(EvaluationRequest):
        if get_origin(option_field.type) is not Annotated:
            continue
        kind, option = get_args(option_field.type)
        (kind, *_) = get_args(kind) if isinstance(kind, UnionType) else (kind,)
        default = {} if option_field.default_factory is dict else option_field.default
        yield replace(
            option,
            flag=option.flag or f"--{option_field.name.replace('_', '-')}",
            name=option_field.name,
            value_type=get_origin(kind) or kind,
            default=None if default is MISSING else default,
            is_required=default is MISSING,
        )


OPTIONS: Mapping[str, Option] = MappingProxyType({option.name: option for option in _field_options()})


def options_of(use: Use) -> tuple[Option, ...]:
    """Options of a use, in the order of the fields."""
    return tuple(option for option in OPTIONS.values() if use in option.use)


def read_request(values: Mapping[str, Any], now: datetime) -> EvaluationRequest:
    """Make a request from the options of a command line, a flow run or a suites file; None: the default.

    now: start of durations. Raises `InputError`.
    """
    return EvaluationRequest(
        **{name: _read_option(OPTIONS[name], value, now) for name, value in values.items() if value is not None}
    )


def _read_option(option: Option, value: Any, now: datetime) -> Any:
    if option.value_type is datetime:
        return read_deadline(value, now)
    if option.value_type is Mapping:
        return dict(value) if isinstance(value, Mapping) else read_column_map(value)
    return tuple(value) if option.value_type is tuple else value


def read_column_map(pairs: Iterable[str]) -> dict[str, str]:
    """Read `--map output=response` pairs: gradebook's column, then the file's. Raises `InputError`."""
    column_map = {}
    for pair in pairs:
        column, equals, name = pair.partition("=")
        if not (column and equals and name):
            raise InputError("--map", repr(pair), "COLUMN=NAME_IN_THE_FILE")
        column_map[column] = name
    return column_map


def json_values(request: EvaluationRequest, use: Use) -> dict[str, Any]:
    """Values of a request's options of a use, by name, for JSON."""
    return {option.name: _json_value(getattr(request, option.name)) for option in options_of(use)}


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    return value.isoformat() if isinstance(value, datetime) else value


def refuse_bad_values(request: EvaluationRequest) -> None:
    """Raise `InputError` for an option whose value is not allowed."""
    if request.stratify is not None and request.sample is None:
        raise InputError("--stratify", "no --sample", "the number of cases to draw")
    for option in options_of(Use.RESUME):
        value = getattr(request, option.name)
        if value is not None:
            option.refuse(value)
    refuse_bad_run_id(request.run_id)


def refuse_bad_run_id(run_id: str | None) -> None:
    """Raise `InputError` if a run id can't be the name of a folder, or of a partition. None: no id was given."""
    if run_id is None:
        return
    if not RUN_ID.fullmatch(run_id) or run_id.lower() in (NO_RUN, *BASELINE_WORDS):
        reserved = ", ".join(BASELINE_WORDS)
        raise InputError("--run-id", repr(run_id), f"up to 80 letters, digits, - and _, but not null, {reserved}")


_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")


def read_deadline(text: str, now: datetime) -> datetime:
    """Read a time (ISO 8601; local without a zone) or a duration from now, such as 6h or 1h30m.

    Past times are valid. Raises `InputError`.
    """
    try:
        duration = _DURATION.fullmatch(text.strip())
        if text.strip() and duration:
            days, hours, minutes, seconds = (int(number or 0) for number in duration.groups())
            return now + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        time = datetime.fromisoformat(text.strip())
        return time if time.tzinfo else time.astimezone()
    except (ValueError, OverflowError, OSError):  # raised for times near the last year
        raise InputError(
            "--deadline", f"{text!r}", "a time such as 2030-01-31T06:00 or a duration such as 6h or 90m"
        ) from None
