"""Judge of a past run, as the run recorded it: settings that affect a reply, and the number of votes."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pydantic import ValidationError

from gradebook.tasks.judging.settings.judge import (
    CascadeSettings,
    Judge,
    JudgeSettings,
    PanelSettings,
    PlainJudge,
    ReplaySettings,
    When,
)
from gradebook.tasks.judging.settings.model import DECISION_FORMS, DEFAULT_BASE_URL, FORMS
from gradebook.tasks.lake.rows import Row
from gradebook.tasks.lake.sql import query

_ORDERS = ("reply_order", "level_order", "flaws_first", "reply_format")
_EXTRA = ("reasoning_effort", "verbosity", "thinking", "extra_body")
_QUESTION_BATCHING = ("reads_together", "questions_per_request")  # of a decision model
SETTINGS = ("model", "temperature", "seed", "max_tokens", "packing", *_ORDERS, "epoch", *_EXTRA, *_QUESTION_BATCHING)
OPINIONS = ("replicates", "replicate_share", "swap_share")
DEVIATIONS = 4  # standard deviations by which a drawn share may differ from the requested one
# Settings that affect only the price or the connection.
_CONNECTION_SETTINGS = ("base_url", "key", "key_header", "headers", "query", "prices", "service_tier", "mode")


@dataclass(frozen=True, slots=True)
class PastJudge:
    """Judge as recorded by a run. identity: see `JudgeSettings.identity`; None for runs of versions that did not record
    it.
    """

    name: str
    identity: Row | None
    opinions: Row  # of a single judge: replicates and shares, from the run's votes
    output_count: int | None = None  # sample size of the shares; None: they are exact

    def is_same(self, judge: Judge) -> bool:
        """Whether a judge would give this run's verdicts again."""
        return not self.changes(judge)

    def changes(self, judge: Judge) -> tuple[str, ...]:
        """Settings in which a judge differs from this one; `judge` for any difference of a panel or cascade."""
        model = judge.as_model
        if self.name != judge.judge:
            return ("judge",) if model is None else ("model",)
        if self.identity is None:
            return ()
        if model is None:
            return () if self.identity == judge.identity else ("judge",)
        names = dict.fromkeys((*judge.identity, *self.identity.keys() & {*_ORDERS, *_EXTRA, "epoch"}))
        changed_names = [name for name in names if self.identity.get(name) != judge.identity.get(name)]
        changed_names += [name for name in OPINIONS if self._differs(name, model)]
        return tuple("prompt" if name.startswith("prompt_") else name for name in changed_names)

    def _differs(self, name: str, judge: JudgeSettings) -> bool:
        """Whether a judge gives other votes; shares count as equal if random sampling explains their difference."""
        value = 1.0 if name == "replicate_share" and judge.replicates == 1 else getattr(judge, name)
        if name == "replicates" or self.output_count is None:
            return bool(value != self.opinions[name])
        deviation = math.sqrt(value * (1 - value) / self.output_count)  # of a share of that many outputs
        return bool(abs(value - self.opinions[name]) > DEVIATIONS * deviation)

    def restore(self, like: Judge | None, base_url: str | None) -> Judge | None:
        """Judge to price; None if it cannot be restored. like: judge whose prices apply to the same models."""
        if like is not None and self.is_same(like):
            return like
        try:
            restored = _restore(self.identity or {"kind": "openai_chat", "model": self.name}, base_url)
        except (KeyError, StopIteration, TypeError, ValidationError):  # of another version
            return None
        if restored.as_model is not None:
            restored = restored.as_model.model_copy(update=self.opinions)
        return _priced_like(restored, like)


def read_past_judge(connection: duckdb.DuckDBPyConnection, run: Row) -> PastJudge | None:
    """Judge of a run; None if it had none. run: row of `runs`."""
    if run["judge"] is None:
        return None
    settings = run["settings"]
    recorded = (json.loads(settings) if isinstance(settings, str) else settings or {}).get("judge")
    opinions = connection.execute(query("ledger/opinion_shares"), {"run_id": run["run_id"]}).fetchone()
    output_count, replicates, replicate_share, swap_share = opinions or (None, 1, 1.0, 0.0)
    shares = {"replicate_share": replicate_share if replicates > 1 else 1.0, "swap_share": swap_share}
    return PastJudge(str(run["judge"]), recorded, {"replicates": replicates} | shares, output_count)


def _restore(identity: Row, base_url: str | None) -> Judge:
    if identity["kind"] == "panel":
        return PanelSettings(tuple(_member(member, base_url) for member in identity["members"]), identity["aggregate"])
    if identity["kind"] == "cascade":
        first, then = (_member(member, base_url) for member in identity["members"])
        return CascadeSettings(first, then, When.model_validate(identity["when"]))
    return _member(identity, base_url)


def _member(identity: Row, base_url: str | None) -> PlainJudge:
    if identity["kind"] == "replay":
        return ReplaySettings(Path("recorded"), identity["digest"])
    recorded: dict[str, Any] = {name: identity[name] for name in SETTINGS if name in identity}
    form = next(form for form, kind in FORMS.items() if kind == identity["kind"])
    if form in DECISION_FORMS:
        endpoint = {"base_url": base_url or DEFAULT_BASE_URL, "form": form}
        return JudgeSettings.model_validate(recorded | identity.get("opinions", {}) | endpoint)
    mode = "logprobs" if identity.get("reply") == "logprobs" else "reply"
    address = base_url or DEFAULT_BASE_URL
    opinions = identity.get("opinions", {})
    member = JudgeSettings.model_validate(recorded | opinions | {"mode": mode, "base_url": address})
    # Validated, then set as recorded: 0 and 0.0 are equal but have two digests.
    return member.model_copy(update=opinions | {"temperature": identity.get("temperature", member.temperature)})


def _priced_like(judge: Judge, like: Judge | None) -> Judge:
    """Judge with the prices and the addresses of the judges with the same models."""
    by_model = {model.model: model for model in like.online} if like else {}
    return judge.with_members([_member_like(member, by_model) for member in judge.members])


def _member_like(member: PlainJudge, by_model: dict[str, JudgeSettings]) -> PlainJudge:
    model = member.as_model
    if model is None or model.model not in by_model:
        return member
    like = by_model[model.model]
    asking = {name: getattr(like, name) for name in _CONNECTION_SETTINGS}
    if "logprobs" in (like.mode, model.mode):  # the mode changes the question, not only the transport
        asking["mode"] = model.mode
    return model.model_copy(update=asking)
