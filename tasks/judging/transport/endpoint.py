"""Forms in which endpoints are asked: the protocol `Endpoint` and the table of its forms.

A form is stateless: paths, headers and bodies of requests, and the meaning of replies, errors and limit headers.
`connection` sends what a form makes, and `http_client` knows the bytes alone. To add a form:

1. a module here with a class that has the methods of `Endpoint`; `openai_chat` is the first. It reads replies into
   `Reply` and errors into `ErrorBody`, with codes and parameters under the names that OpenAI gives them, so that
   retries, budgets, learned settings and messages need nothing new
2. a line in `ENDPOINTS`
3. its name and the `kind` of its judges' identity in `FORMS` of `settings/model.py`
4. `form: NAME` in a judge file, or in the section of a provider in `settings/providers.toml`
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from gradebook.tasks.judging.prices import Usage
from gradebook.tasks.judging.replies.completion import ErrorBody, Reply
from gradebook.tasks.judging.replies.question import Request
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import Address
from gradebook.tasks.judging.transport.anthropic_messages import AnthropicMessages
from gradebook.tasks.judging.transport.openai_chat import OpenAIChat
from gradebook.tasks.judging.transport.retry_policy import RateLimit
from gradebook.tasks.judging.transport.typed_questions import Decisions, SystemOne


class Endpoint(Protocol):
    """Form in which models are asked over HTTP, the same at every address."""

    @property
    def probe_path(self) -> str:
        """Path of a free GET request that a key is tried with: the list of models."""

    @property
    def other_names(self) -> Mapping[str, str]:
        """Other name of a parameter, with the same meaning, by the name that an endpoint may refuse."""

    def headers(self, address: Address, key: str) -> dict[str, str]:
        """Headers of every request: the key, and others that the form needs."""

    def body(
        self, settings: JudgeSettings, request: Request, replicate: int, max_tokens: int, base_url: str
    ) -> dict[str, Any]:
        """Body of the request that asks a question. base_url: address it is sent to."""

    def path(self, body: Mapping[str, Any]) -> str:
        """Path below the address to which a body is sent."""

    def read(self, path: str, content: bytes, latency_ms: float) -> Reply:
        """Reply in the body of an HTTP 200, or its `error`. Raises nothing: the body is hostile."""

    def read_error(self, content: bytes) -> ErrorBody:
        """Error in the body of any other status, of whatever form."""

    def rate_limit(self, headers: Mapping[str, str], unit: str) -> RateLimit | None:
        """Limit of "requests" or "tokens" per minute that a reply announces; None if it announces none."""

    def limited_tokens(self, usage: Usage) -> int:
        """Tokens of a request that count towards the limit of tokens."""


ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType(
    {"openai": OpenAIChat(), "anthropic": AnthropicMessages(), "systemone": SystemOne(), "decisions": Decisions()}
)


def endpoint_of(address: Address) -> Endpoint:
    """Form in which an address is asked."""
    return ENDPOINTS[address.form]


def request_body(
    settings: JudgeSettings, request: Request, replicate: int, max_tokens: int, address: Address | None = None
) -> dict[str, Any]:
    """Body of a request, the same online and in a batch. address: where it is sent, if not to the judge's own."""
    address = address or settings
    return endpoint_of(address).body(settings, request, replicate, max_tokens, address.base_url)
