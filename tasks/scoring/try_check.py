"""Trial of one check over one row, before a rubric uses it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gradebook.rubrics.check_kit.check import Check, CheckSettings, Example, example_shard, read_settings
from gradebook.rubrics.checks.grading import NO_REASON, run_check
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.methods import Mode
from gradebook.rubrics.text.plain_words import describe, keys_of
from gradebook.tasks.datasets.media import with_audio

MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class CheckTrial:
    """Result of a check for one row. is_passed: None if undecided, with the `reason`."""

    check: str
    settings: Mapping[str, Any]
    mode: str
    is_passed: bool | None
    level_id: str | None
    evidence: str | None
    reason: str | None


def known_check(name: str) -> Check:
    """Check of that name. Raises `InputError` that offers the nearest names."""
    try:
        return find_check(name)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None


def try_check(check: Check, settings: Mapping[str, Any], mode: str, row: Mapping[str, Any]) -> CheckTrial:
    """Run a check over one row.

    row: `output`, and optionally `prompt`, `reference`, `context` (list) and `metadata` (mapping). Raises `InputError`
    for an invalid setting or mode.
    """
    read_mode = next((known_mode for known_mode in MODES if known_mode == mode), None)
    if read_mode is None:
        raise InputError("--mode", f"{mode!r}", f"{' or '.join(MODES)}")
    _refuse_broken_text(row, settings)
    fitted = _fitted_settings(check, settings)
    shard = _one_row(check, row)
    outcome = run_check(check, shard, fitted, read_mode)
    is_passed = outcome.is_passed[0].as_py()
    reason = outcome.reasons[0].as_py() if outcome.reasons is not None else None
    return CheckTrial(
        check=check.name,
        settings=settings,
        mode=mode,
        is_passed=is_passed,
        level_id=outcome.level_ids[0].as_py() if outcome.level_ids is not None else None,
        evidence=outcome.evidence[0].as_py(),
        reason=(reason or NO_REASON) if is_passed is None else None,
    )


def read_setting_words(words: list[str], json_text: str | None) -> dict[str, Any]:
    """Settings of a command line: `key=value` words with YAML values, and a JSON object.

    Raises `InputError`.
    """
    settings = _read_object("--settings", json_text)
    for setting in words:
        key, mark, value = setting.partition("=")
        if not mark or not key:
            raise InputError("--set", f"{setting!r}", "KEY=VALUE")
        try:
            settings[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InputError(f"--set {key}", f"{value!r}", f"a value in YAML: {error}") from None
    return settings


def read_metadata(json_text: str | None) -> dict[str, Any] | None:
    """Metadata of a command line. Raises `InputError`."""
    return None if json_text is None else _read_object("--metadata", json_text)


def _read_object(option: str, json_text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(json_text or "{}")
    except (ValueError, RecursionError) as error:
        raise InputError(option, f"{json_text!r}", f"a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise InputError(option, f"{json_text!r}", "a JSON object")
    return value


def _refuse_broken_text(*values: Mapping[str, Any]) -> None:
    """Refuse lone surrogates, which Python makes of bytes that are no UTF-8 on the command line and on stdin."""
    try:
        json.dumps(values, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise InputError("found bytes that are no UTF-8 in the row or the settings, expected text") from None


def _one_row(check: Check, row: Mapping[str, Any]) -> pa.Table:
    """Row as the check reads it; sound files are searched below the current folder."""
    if "audio" in check.columns:
        metadata = json.dumps(row.get("metadata") or {})
        return with_audio(pa.table({"output": [row["output"]], "metadata": [metadata]}), (Path.cwd(),))
    return example_shard(check, Example(row["output"], None, others=row))


def _fitted_settings(check: Check, settings: Mapping[str, Any]) -> CheckSettings:
    try:
        return read_settings(check, settings, Path.cwd())
    except ValidationError as error:
        keys = keys_of(check.settings_model)
        faults = [_describe_fault(fault, keys) for fault in error.errors(include_url=False)]
        raise InputError("\n".join(f"{check.name}: {message}" for message in faults)) from None


def _describe_fault(fault: ErrorDetails, keys: Sequence[str]) -> str:
    """Description of a setting's fault: place, value and expectation; shows how to write a list if a text was given."""
    _, sentence = describe(fault, ("settings", *fault["loc"]), keys)
    is_text = isinstance(fault["input"], str) and len(fault["loc"]) == 1 and sentence.endswith("expected a list")
    return f"{sentence}, such as {fault['loc'][0]}=[{fault['input']}]" if is_text else sentence
