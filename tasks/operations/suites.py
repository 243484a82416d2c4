"""Suites file of a nightly run: outputs, rubric, judge, baseline and budget of each suite."""

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, create_model

from gradebook.rubrics.model.errors import MOST_FAULTS, Fault, InputError, SuitesError
from gradebook.rubrics.model.levels import Frozen
from gradebook.rubrics.statistics.rules import AUTO, RuleError, parse_rule
from gradebook.rubrics.statistics.series import MOST_LOOKS, Series
from gradebook.rubrics.statistics.stopping import STOP_EXPECTED, read_stop_rule
from gradebook.rubrics.text.named_files import is_path, read_whole
from gradebook.rubrics.text.plain_words import Place, describe, keys_of, place_text, unknown_word
from gradebook.rubrics.text.yaml_lines import YamlText, read_yaml
from gradebook.tasks.comparing.gate import FIGURES
from gradebook.tasks.judging.settings.files import is_path_to_settings
from gradebook.tasks.judging.settings.judge import REPLAY_PREFIX
from gradebook.tasks.operations.anchors import ALPHA, PER_NIGHT, REFERENCE, WatchRequest
from gradebook.tasks.runs.option_fields import suite_field
from gradebook.tasks.runs.request import (
    LATEST_MET,
    EvaluationRequest,
    SeriesOfNights,
    Use,
    options_of,
    read_deadline,
    read_request,
)
from gradebook.tasks.system.operator_settings import FOLDERS, is_below, read_operator_settings, where_to_allow
from gradebook.tasks.workspace.folder import DEFAULT_LAKE

DATE = "{date}"
MOST_BYTES = 10_000_000
# Run ids of flow runs use the first 48 characters of the suite id: longer ids could collide.
SUITE_ID_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9_-]{0,46}[A-Za-z0-9])?$"
_ID_WORDS = "1 to 48 letters, digits, - and _, with a letter or digit at both ends"
_GLOBS = ("outputs", "ratings")
_KEYS_WITH_PATHS = (*_GLOBS, "rubric", "judge", "embedder", "quality")
PASSWORD = "PGPASSWORD"
_CONNECTION_WORD = re.compile(r"(?P<key>host|port|dbname|user)=(?P<value>[A-Za-z0-9_.:-]+)")
_CONNECTION_URL = re.compile(r"(?:postgresql:|postgres:)?//(?:\w+@)?(?P<host>[A-Za-z0-9_.-]+)(?::(?P<port>\d+))?/\w*")
_BRACES = re.compile(r"\{[^{}]*\}")

Usd = Annotated[float, Field(ge=0, strict=True)]


class AnchorSettings(Frozen):
    """Anchors of a suite, asked before its outputs."""

    set: Annotated[str, Field(min_length=1)]
    """name of a set that `gradebook judge anchors make` made"""
    per_night: Annotated[int, Field(ge=1, le=100_000, strict=True)] = PER_NIGHT
    """outputs to ask about on a night"""
    reference: Annotated[int, Field(ge=1, le=32, strict=True)] = REFERENCE
    """replies on each output of the set that an epoch of the judge begins with"""
    alpha: Annotated[float, Field(gt=0, lt=1, strict=True)] = ALPHA
    """maximum probability of a false alarm in an epoch, over all criteria"""
    fail: Annotated[bool, Field(strict=True)] = False
    """whether an alarm counts as a gate that is not met"""


class SeriesSettings(Frozen):
    """Series of looks of a suite's gate."""

    alpha: Annotated[float, Field(gt=0, lt=1, strict=True)] = 0.05
    """maximum probability of a false alarm in a series"""
    per: Literal["month", "branch"] = "month"
    """month: a new series on the first of each month; branch: one series for all nights of the suite"""
    method: Literal["lord", "obf", "bonferroni"] = "lord"
    """how alpha is spent"""
    looks: Annotated[int, Field(ge=1, le=MOST_LOOKS, strict=True)] = 31
    """planned number of looks, for obf and bonferroni"""


_FIELDS: Any = {option.name: suite_field(option) for option in options_of(Use.SUITE)}
_Options: Any = create_model("_Options", __base__=Frozen, **_FIELDS)


class SuiteSettings(_Options):  # type: ignore[misc]
    """Settings of a suite: the options of an evaluation, also allowed under `defaults`."""

    outputs: Annotated[str, Field(min_length=1)] | None = None
    """a file, folder or glob; `{date}` is replaced with the date of the nightly run, such as 2026-11-22"""
    ratings: Annotated[str, Field(min_length=1)] | None = None
    """a file of people's ratings; `{date}` as above"""
    baseline: Annotated[str, Field(min_length=1)] | None = LATEST_MET
    """a run to compare with: its id, latest_met, latest, best or reference, as below; null: none"""
    series: SeriesSettings | None = None
    """error rate of the gate over the nights; keys `alpha`, `per`, `method`, `looks`"""
    anchors: AnchorSettings | None = None
    """fixed outputs on which the judge is watched; keys `set`, `per_night`, `reference`, `alpha`, `fail`"""


class Suite(SuiteSettings):
    """One evaluation of a nightly run."""

    id: Annotated[str, Field(pattern=SUITE_ID_PATTERN)]
    """unique name of the suite: 1 to 48 letters, digits, - and _"""


class SuitesFile(Frozen):
    """Content of a suites file."""

    lake: Annotated[str, Field(min_length=1)] | None = None
    """sqlite:FILE or postgres:CONNECTION; default: sqlite:lake/catalog.sqlite of the working folder"""
    data: Annotated[str, Field(min_length=1)] | None = None
    """folder of the Parquet files, for a PostgreSQL lake; or s3://BUCKET/PREFIX that the operator allows"""
    budget_usd: Usd | None = None
    """maximum spend of the nightly run in US dollars; each suite may spend what is left"""
    defaults: SuiteSettings = SuiteSettings()
    """settings of all suites that do not set their own; any key of a suite except id"""
    suites: tuple[Suite, ...]
    """the suites, in order of evaluation"""

    def __getitem__(self, suite_id: str) -> Suite:
        """Suite with that id."""
        return next(suite for suite in self.suites if suite.id == suite_id)


def read_suites(path: Path) -> SuitesFile:
    """Read a suites file, apply its defaults to its suites, and resolve paths relative to its folder.

    Raises `SuitesError` with every fault of the file.
    """
    try:
        text = read_yaml(read_whole(path, MOST_BYTES), str(path))
    except (OSError, ValueError) as error:  # a NUL in a name raises ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise SuitesError((Fault(str(path), None, f"can't be read ({reason}), expected a suites file"),)) from None
    if text.values is None:
        raise SuitesError(text.faults)
    try:
        file, found_faults = SuitesFile.model_validate(text.values), _content_faults(text.values)
    except ValidationError as error:
        found_faults = chain(_model_faults(error), _content_faults(text.values))
    faults = [
        *text.faults,
        *(Fault(text.path, text.line_of(place), message) for place, message in islice(found_faults, MOST_FAULTS)),
    ]
    if faults:
        raise SuitesError(tuple(sorted(faults[:MOST_FAULTS], key=lambda fault: fault.line or 0)))
    return _with_paths(file, text)


def suites_lake(file: SuitesFile, environ: Mapping[str, str]) -> str | None:
    """Lake that the file names. Raises `InputError` for a PostgreSQL server that the operator does not allow.

    libpq sends such a server PGPASSWORD, or what ~/.pgpass holds for it, and the file may be of others.
    """
    catalog, _, address = (file.lake or "").partition(":")
    if catalog != "postgres":
        return file.lake
    settings = _connection_settings(address)
    if settings is None:
        expected = "host, port, dbname and user of a server alone, or --lake"
        raise InputError("lake", "a connection with other settings in a suites file", expected)
    host, port = settings.get("host", ""), settings.get("port") or "5432"
    server = f"postgresql://{f'[{host}]' if ':' in host else host}:{port}"
    if host and not read_operator_settings(environ).allows_key(PASSWORD, server):
        refused = f"the server {host} in a suites file, to which {PASSWORD} or a line of ~/.pgpass might go"
        raise InputError("lake", refused, f"{where_to_allow(f'{PASSWORD}@{host}:{port}')}, or --lake")
    return file.lake


def suites_title(path: str) -> str:
    """Name of a suites file, without folder and suffixes."""
    return Path(path).stem.removesuffix(".suites")


def with_lake(file: SuitesFile, lake: str | None, data: str | None, usual: str = DEFAULT_LAKE) -> SuitesFile:
    """Suites file with the lake and data to use: the given lake, else the file's, else the default lake."""
    lake_uri = lake or suites_lake(file, os.environ) or usual
    return file.model_copy(update={"lake": lake_uri, "data": data or file.data})


def _connection_settings(address: str) -> dict[str, str] | None:
    """Settings of a libpq connection to one server; None for a socket, several servers and any other option."""
    pairs = address.split()
    matches = [_CONNECTION_WORD.fullmatch(pair) for pair in pairs]
    if all(matches):
        settings = {match["key"]: match["value"] for match in matches if match}
        return settings if len(settings) == len(pairs) else None
    url = _CONNECTION_URL.fullmatch(address)
    return {key: value for key, value in url.groupdict().items() if value} if url else None


def chosen_suites(file: SuitesFile, only: Sequence[str] | None) -> tuple[Suite, ...]:
    """Select suites by id, in the file's order; all without ids. Raises `InputError` for an unknown id."""
    suite_ids = [suite.id for suite in file.suites]
    if unknown := [name for name in only or () if name not in suite_ids]:
        hint = "repeat --only for each suite" if "," in unknown[0] else ""
        raise InputError("--only", repr(unknown[0]), unknown_word(unknown[0], suite_ids), hint)
    return tuple(suite for suite in file.suites if not only or suite.id in only)


def suite_request(
    suite: Suite, night: date, now: datetime, *, lake: str | None, data: str | None, budget_usd: float | None
) -> EvaluationRequest:
    """Request of one suite. night: value of `{date}`; budget_usd: remaining budget, None for no limit."""
    budgets = [budget for budget in (suite.budget_usd, budget_usd) if budget is not None]
    options = {option.name: getattr(suite, option.name) for option in options_of(Use.SUITE)} | {
        "outputs": _with_date(suite.outputs or "", night),
        "rubric": suite.rubric or "",
        "ratings": _with_date(suite.ratings, night) if suite.ratings else None,
        "budget_usd": min(budgets, default=None),
    }
    request = read_request(options, now)
    return replace(
        request,
        lake=lake or DEFAULT_LAKE,
        data=data,
        trigger="nightly",
        suite=suite.id,
        night=night,
        series=None if suite.series is None else _series_of(suite.series),
        allow_functions=(),  # the file may be of others: it allows no function, it only leaves some out
        functions_within=request.allow_functions,
    )


def _series_of(settings: SeriesSettings) -> SeriesOfNights:
    return SeriesOfNights(Series(settings.alpha, settings.method, settings.looks), settings.per)


def watch_request(suite: Suite, request: EvaluationRequest) -> WatchRequest | None:
    """Anchors to ask before a suite's outputs; None without anchors or a judge. request: of `suite_request`."""
    anchors = suite.anchors
    if anchors is None or request.judge is None or request.night is None:
        return None
    return WatchRequest(
        anchors.set,
        request.judge,
        request.night,
        anchors.per_night,
        anchors.reference,
        anchors.alpha,
        request.budget_usd,
    )


def _with_date(text: str, night: date) -> str:
    return text.replace(DATE, night.isoformat())


def _model_faults(error: ValidationError) -> Iterator[tuple[Place, str]]:
    for fault in error.errors(include_url=False):
        place: Place = fault["loc"]
        if fault["type"] == "string_pattern_mismatch":
            yield place, f"{place_text(place)}: found {fault['input']!r:.60}, expected {_ID_WORDS}"
        else:
            yield describe(fault, place, keys_of(_model_at(place)))


def _model_at(place: Place) -> type[BaseModel]:
    """Model of the mapping that contains this place."""
    for name, model in (("anchors", AnchorSettings), ("series", SeriesSettings)):
        if name in place[:-1]:
            return model
    if place[:1] == ("suites",) and len(place) > 2:
        return Suite
    return SuiteSettings if place[:1] == ("defaults",) and len(place) > 1 else SuitesFile


def _content_faults(values: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    """Faults beyond the model: null characters, repeated ids, missing keys, invalid rules, braces and deadlines."""
    yield from _null_faults(values, ())
    defaults = values.get("defaults")
    defaults = defaults if isinstance(defaults, dict) else {}
    yield from _setting_faults(defaults, ("defaults",))
    seen: set[str] = set()
    entries = values.get("suites")
    if entries == []:  # not in the model, which would also report it for invalid entries
        yield ("suites",), "suites: found an empty list, expected at least 1 entry"
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(entry, dict):
            continue
        place: Place = ("suites", index)
        if isinstance(name := entry.get("id"), str):
            if name in seen:
                yield (*place, "id"), f"{place_text((*place, 'id'))}: found {name!r} again, expected unique ids"
            seen.add(name)
        for key in ("outputs", "rubric"):
            if (defaults | entry).get(key) is None:
                yield place, f"{place_text(place)}: found no {key!r}, expected one here or under defaults"
        rules = [key for key in ("fail_if", "require", "stop") if (defaults | entry).get(key)]
        if rules and (defaults | entry).get("baseline", LATEST_MET) is None:
            rule_names = " and ".join(rules)
            yield place, f"{place_text(place)}: found {rule_names} without a baseline, expected a run to compare with"
        yield from _setting_faults(entry, place)


def _null_faults(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """Faults for texts with a null character, at which the SQL of a lake's catalog would end."""
    if isinstance(value, str) and "\0" in value:
        yield place, f"{place_text(place)}: found {value!r:.60}, expected text without null characters"
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _null_faults(inner, (*place, key))


def _setting_faults(settings: dict[str, Any], place: Place) -> Iterator[tuple[Place, str]]:
    for key in _GLOBS:
        value = settings.get(key)
        for braces in _BRACES.findall(value) if isinstance(value, str) else ():
            if braces != DATE:
                yield (*place, key), f"{place_text((*place, key))}: found {braces}, expected {DATE}"
    for key in ("fail_if", "require", "deadline", "stop"):
        if isinstance(value := settings.get(key), str) and (
            fault := _text_fault(key, value, place_text((*place, key)))
        ):
            yield (*place, key), fault


def _text_fault(key: str, value: str, place: str) -> str | None:
    """Message about a rule or a deadline that can't be read."""
    try:
        if key == "require" and value == AUTO:
            return None
        if key in ("fail_if", "require"):
            parse_rule(value, FIGURES, place, is_required=key == "require")
        elif key == "stop":
            read_stop_rule(value)
        else:
            read_deadline(value, datetime.fromtimestamp(0).astimezone())
    except RuleError as error:
        return str(error)
    except ValueError:
        return f"{place}: found {value!r}, expected {STOP_EXPECTED}"
    except InputError as error:
        return str(error.at(place))
    return None


def _with_paths(file: SuitesFile, text: YamlText) -> SuitesFile:
    """Apply the defaults to the suites, and make paths relative to the working folder.

    Raises `SuitesError` for paths elsewhere that the operator does not allow: the file may be of others.
    """
    folder = Path(text.path).parent
    if faults := tuple(_paths_elsewhere(file, text, folder)):
        raise SuitesError(faults)
    defaults = file.defaults.model_dump(exclude_unset=True)
    suites = []
    for suite in file.suites:
        values = defaults | suite.model_dump(exclude_unset=True)
        for key in _KEYS_WITH_PATHS:
            if values.get(key) and (path := _path_in(key, values[key])):
                resolved = _in_folder(folder, path) if key in _GLOBS else str(folder / path)
                values[key] = values[key].removesuffix(path) + resolved
        suites.append(Suite.model_validate(values))
    of_lake = {key: getattr(file, key).removesuffix(path) + str(folder / path) for key, path in _paths_of_lake(file)}
    return file.model_copy(update={"suites": tuple(suites)} | of_lake)


def _paths_elsewhere(file: SuitesFile, text: YamlText, folder: Path) -> Iterator[Fault]:
    """Faults for paths that lie neither below the file's folder, nor the working folder, nor an allowed one.

    Object storage is no folder of the file: outputs would be written there, or read from there, with the worker's key.
    """
    operator = read_operator_settings(os.environ)
    roots = [os.path.realpath(root) for root in (folder, Path(), *operator.folders)]
    if file.data and "://" in file.data and not operator.allows_bucket(file.data):
        expected = f"a folder, or s3://BUCKET/PREFIX in {FOLDERS}, or --data"
        yield Fault(text.path, text.line_of(("data",)), f"data: found {file.data!r:.200}, expected {expected}")
    groups: list[tuple[Place, SuiteSettings]] = [(("defaults",), file.defaults)]
    groups += [(("suites", index), suite) for index, suite in enumerate(file.suites)]
    named_paths: list[tuple[Place, str, Path]] = [((key,), path, folder) for key, path in _paths_of_lake(file)]
    for place, settings in groups:
        for key in _KEYS_WITH_PATHS:
            value = getattr(settings, key) or ""
            path = _path_in(key, value)
            # Any other name may still be a path in the working folder.
            named_paths.append(((*place, key), *((value, Path()) if path is None else (path, folder))))
    for place, path, start in named_paths:
        if path and not any(is_below(path, root, start) for root in roots):
            expected = f"a path below the file's folder or the working folder, or another folder in {FOLDERS}"
            yield Fault(
                text.path, text.line_of(place), f"{place_text(place)}: found {path!r:.200}, expected {expected}"
            )


def _path_in(key: str, value: str) -> str | None:
    """Path in a setting of a suite; None if it is another kind of name."""
    if key in (*_GLOBS, "quality"):
        return value
    if key == "rubric":
        return value if is_path(value) else None
    if key == "judge" and value.startswith(REPLAY_PREFIX):
        return value.removeprefix(REPLAY_PREFIX)
    return value if is_path_to_settings(value) else None


def _paths_of_lake(file: SuitesFile) -> Iterator[tuple[str, str]]:
    """Path of a SQLite catalog and folder of the data, with their keys."""
    catalog, _, address = (file.lake or "").partition(":")
    if catalog == "sqlite" and address:
        yield "lake", address
    if file.data and "://" not in file.data:
        yield "data", file.data


def _in_folder(folder: Path, name: str) -> str:
    """File or glob relative to the suites file; glob characters of the folder itself are escaped."""
    if Path(name).is_absolute() or not glob.has_magic(name):
        return str(folder / name)
    return str(Path(glob.escape(str(folder))) / name)
