"""Rewards over HTTP, as an ASGI app: one scorer, with its limiter, ledger and budget, for all callers.

POST /score       {"outputs": [a text or a row, ...]} -> {"scores": [...], ...}; a reward that is missing is null
POST /get_reward  OpenRLHF: {"query": [...], "prompts": [...], "labels": [...]} -> {"rewards": [...], ...}
POST /reward      slime: {"prompt": ..., "response": ..., "label": ...} -> the reward, a number
GET  /health      what is served
These trainers take no missing reward: they get 503, which they may ask again, or the value of `unscored`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gradebook.rubrics.model.errors import GradebookError, InputError, Unscored
from gradebook.rubrics.text.plain_words import fault_lines
from gradebook.tasks.rewards.outputs import Given, Score
from gradebook.tasks.rewards.scorer import RubricScorer
from gradebook.tasks.rewards.trainers import openrlhf_rows, reward_value, slime_row
from gradebook.tasks.system.listeners import Guard, Rules, refuse_without_token

MOST_OUTPUTS = 4_096  # outputs of one request
MOST_WAITING = 20_000  # waiting outputs of all requests together
MOST_BODY_BYTES = 2**25
_JSON = "application/json"
Body = TypeVar("Body", bound=BaseModel)
_Texts = Annotated[list[str], Field(min_length=1, max_length=MOST_OUTPUTS)]


class _ScoreRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    outputs: Annotated[list[Any], Field(min_length=1, max_length=MOST_OUTPUTS)]


class _OpenRLHFRequest(BaseModel):
    query: _Texts
    prompts: _Texts
    labels: list[Any] | None = None


class _SlimeRequest(BaseModel):
    prompt: Any
    response: str
    label: Any = None


@dataclass(frozen=True)
class _Refused(Exception):
    """Error with the response to a request that is not scored."""

    status: int
    words: str
    retry_after_s: int | None = None

    @property
    def response(self) -> Response:
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        return _json({"error": self.words}, self.status, headers)


class RewardsApp:
    """State of the server: its scorer, and the count of waiting outputs.

    deadline_s: of the scorer. unscored: reward of a trainer's output that has none; None: the request fails.
    """

    def __init__(self, scorer: RubricScorer, deadline_s: float | None, unscored: float | None) -> None:
        self._scorer, self._deadline_s, self._unscored = scorer, deadline_s, unscored
        self._waiting_count = self.scored_count = self.unscored_count = 0

    def routes(self) -> list[Route]:
        handlers = {"/score": self.score, "/get_reward": self.openrlhf, "/reward": self.slime}
        posts = [Route(path, _answered(handler), methods=["POST"]) for path, handler in handlers.items()]
        return [*posts, Route("/health", self.health)]

    async def health(self, _: Request) -> Response:
        return _json(self._identity() | {"waiting": self._waiting_count})

    async def score(self, request: Request) -> Any:
        body = await _read(request, _ScoreRequest)
        scores = await self._scored(body.outputs)
        return self._identity() | {"scores": [score.as_dict() for score in scores]}

    async def openrlhf(self, request: Request) -> Any:
        body = await _read(request, _OpenRLHFRequest)
        lengths = {len(body.query), len(body.prompts), *([] if body.labels is None else [len(body.labels)])}
        if len(lengths) > 1:
            raise _Refused(422, f"query, prompts, labels: found the lengths {sorted(lengths)}, expected one length")
        scored = await self._scored(openrlhf_rows(body.query, body.prompts, body.labels))
        rewards = [reward_value(score, self._unscored) for score in scored]
        logs = {name: [score.criteria[name].score for score in scored] for name in self._criterion_ids()}
        complete = {
            name: scores for name, scores in logs.items() if None not in scores
        }  # the trainer takes numbers only
        return {"rewards": rewards, "scores": rewards, "extra_logs": complete}

    async def slime(self, request: Request) -> Any:
        body = await _read(request, _SlimeRequest)
        (score,) = await self._scored([slime_row(body.prompt, body.response, body.label)])
        return reward_value(score, self._unscored)

    async def _scored(self, rows: Sequence[Given]) -> list[Score]:
        self._refuse_late(len(rows))
        self._waiting_count += len(rows)
        try:
            scores = await self._scorer.ascore_all(rows)
        finally:
            self._waiting_count -= len(rows)
        self.scored_count += len(scores)
        self.unscored_count += sum(score.reward is None or score.reward.value is None for score in scores)
        return scores

    def _refuse_late(self, count: int) -> None:
        """Refuse outputs that the judge would not reach in time, by its pace so far."""
        late_s = 0.0 if self._deadline_s is None else self._scorer.expected_s(count) - self._deadline_s
        if late_s > 0:
            sentence = (
                f"the judge is busy: an answer is expected {late_s:.0f} s after the deadline of {self._deadline_s:g} s"
            )
            raise _Refused(429, sentence, max(math.ceil(late_s), 1))
        if self._waiting_count + count > MOST_WAITING:
            raise _Refused(429, f"found {self._waiting_count:,} outputs waiting, expected at most {MOST_WAITING:,}", 1)

    def _criterion_ids(self) -> list[str]:
        return [criterion.id for criterion in self._scorer.rubric.criteria]

    def _identity(self) -> dict[str, Any]:
        rubric = self._scorer.rubric
        return {"rubric_id": rubric.id, "rubric_version": rubric.version, "judge": self._scorer.judge}


def _answered(handler: Any) -> Any:
    """Handler that sends the returned value as JSON, and errors as responses."""

    async def answer(request: Request) -> Response:
        try:
            return _json(await handler(request))
        except _Refused as refused:
            return refused.response
        except InputError as error:
            return _Refused(422, str(error)).response
        except Unscored as error:
            return _Refused(503, str(error), 1).response
        except GradebookError as error:
            return _Refused(503, str(error)).response

    return answer


async def _read(request: Request, shape: type[Body]) -> Body:
    """Body of a request. Raises `_Refused`."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise _Refused(415, f"expected the content type {_JSON}")
    try:
        return shape.model_validate(orjson.loads(await request.body()))
    except orjson.JSONDecodeError as error:
        raise _Refused(400, f"found no JSON: {error}") from error
    except ValidationError as error:
        raise _Refused(422, "; ".join(fault_lines(error, "body")[:5])) from error


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, media_type=_JSON)


def rewards_app(app: RewardsApp, hosts: tuple[str, ...], token: str | None) -> Guard:
    """ASGI app of a scorer. hosts: HOST:PORT that requests may name. token: required of each request; None: none."""
    rules = Rules(hosts, refuse_without_token(token), schemes=("http", "https"), most_body_bytes=MOST_BODY_BYTES)
    return Guard(Starlette(routes=app.routes()), rules)
