"""Providers of judges: address and key of a model by its name, from a table and the user's settings file."""

from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.tasks.judging.settings.model import (
    ADDRESS_VARIABLE,
    DECISION_FORMS,
    DEFAULT_BASE_URL,
    KEY_VARIABLE,
    VARIABLE_IN_TEXT,
    Address,
    Form,
)
from gradebook.tasks.judging.settings.provider_table import matches, provider_sections
from gradebook.tasks.system.operator_settings import is_loopback, origin_of, read_operator_settings, settings_path

_OF_AN_ADDRESS = ("form", "key", "key_header", "headers", "query")

Patterns = tuple[str, ...]


class Provider(BaseModel):
    """One section of the table, as its head describes it. is_own: from the user's settings file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str
    names: Patterns = ()
    form: Form | None = None
    key: str | None = None
    key_header: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    query: dict[str, str] = Field(default_factory=dict)
    reasons: Patterns = ()
    refuses: dict[str, Patterns] = Field(default_factory=dict)
    forms: dict[Form, Patterns] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    price_list: str | None = None
    checked: date | None = None
    source: str = ""
    is_own: bool = False

    def missing_variables(self, environ: Mapping[str, str]) -> list[str]:
        """Variables of the address that the environment lacks."""
        return [
            name for name in dict.fromkeys(VARIABLE_IN_TEXT.findall(self.base_url)) if not environ.get(name, "").strip()
        ]

    def address(self, environ: Mapping[str, str]) -> str:
        """Address with the variables of the environment."""
        return VARIABLE_IN_TEXT.sub(lambda match: environ.get(match[1], "").strip().rstrip("/"), self.base_url)

    def pairs(self, key: str, base_url: str, environ: Mapping[str, str]) -> bool:
        """Whether a key goes to an address because both are this provider's; without TLS to this machine alone."""
        in_headers = [f"env:{name}" for text in self.headers.values() for name in VARIABLE_IN_TEXT.findall(text)]
        if key not in (self.key, *(in_headers if self.is_own else ())) or self.missing_variables(environ):
            return False
        try:
            origin = origin_of(self.address(environ))
            return origin == origin_of(base_url) and (origin[0] == "https" or is_loopback(origin[1] or ""))
        except ValueError:
            return False

    def values(self, model: str, environ: Mapping[str, str]) -> dict[str, Any]:
        """Settings of one of its models, as in a judge file."""
        address_settings = {name: value for name in _OF_AN_ADDRESS if (value := getattr(self, name))}
        base_url = self.address(environ)
        if base_url == DEFAULT_BASE_URL and self.key == f"env:{KEY_VARIABLE}":  # as without a provider
            del address_settings["key"]
        refused = {name: None for name, patterns in self.refuses.items() if matches(model, patterns)}
        return self.settings_of(model) | address_settings | refused | {"base_url": base_url}

    def settings_of(self, model: str) -> dict[str, Any]:
        """Other settings of a model. One that is asked in another form than the provider's others has its maker's."""
        form = next((form for form, patterns in self.forms.items() if matches(model, patterns)), None)
        if form is None:
            return self.settings
        maker = next(
            (provider for provider in known_providers().values() if matches(model.rpartition("/")[2], provider.names)),
            None,
        )
        return (maker.settings if maker else {}) | {"form": form}


def with_provider(written: dict[str, Any], environ: Mapping[str, str], source: str) -> dict[str, Any]:
    """Settings of a file or a name, with the address and key of the model's provider where they name no address.

    The user's own providers come first, then the address that the environment names, then the table. A name of no
    provider goes to the address of the environment, or to OpenAI. Raises `JudgeSettingsError`.
    """
    model = written.get("model")
    if "base_url" in written or not isinstance(model, str):
        return written
    match = _find_provider(model, [*own_providers(environ).items()])
    if match is None and (address := environ.get(ADDRESS_VARIABLE)):
        return _form_at_gateway(model) | written | {"base_url": address}
    match = match or _find_provider(model, [*known_providers().items()])
    if match is None:
        return written
    provider, model = match
    if missing := provider.missing_variables(environ):
        raise JudgeSettingsError(
            f"{source}: {written['model']}", f"nothing in {' and '.join(missing)}", f"a part of {provider.base_url}"
        )
    values = provider.values(model, environ)
    if "batch_command" in written:  # a program reads and writes OpenAI's form
        values.pop("form", None)
    return values | written | {"model": model}


def _form_at_gateway(model: str) -> dict[str, Any]:
    """Form of a decision model at the address of the environment: no gateway answers typed questions in a chat."""
    match = _find_provider(model, [*known_providers().items()])
    settings = match[0].settings_of(match[1]) if match else {}
    return settings if settings.get("form") in DECISION_FORMS else {}


def all_providers(environ: Mapping[str, str]) -> dict[str, Provider]:
    """Providers by name: the user's own, then those of the table. Raises `JudgeSettingsError`."""
    users_own = own_providers(environ)
    return users_own | {name: provider for name, provider in known_providers().items() if name not in users_own}


def own_providers(environ: Mapping[str, str]) -> dict[str, Provider]:
    """Providers of the user's settings file; one of the table's names changes that entry."""
    providers = {}
    for name, written in read_operator_settings(environ).providers.items():
        location = f"{settings_path(environ)}: providers.{name}"
        table_entry = known_providers().get(name)
        try:
            provider = Provider.model_validate(
                {**(table_entry.model_dump() if table_entry else {}), **written, "is_own": True}
            )
            if not provider.missing_variables(environ):
                Address(base_url=provider.address(environ))
        except ValidationError as error:
            fault = error.errors()[0]
            setting = ".".join(map(str, fault["loc"][:1]))
            expected = fault["msg"].removeprefix("Value error, ")
            raise JudgeSettingsError(f"{location}.{setting}", "something else", expected) from None
        providers[name] = provider
    return providers


def paired_provider(key: str, base_url: str, environ: Mapping[str, str]) -> Provider | None:
    """Provider whose key and address these are. Raises `JudgeSettingsError`."""
    return next(
        (provider for provider in all_providers(environ).values() if provider.pairs(key, base_url, environ)), None
    )


def address_variables_hint(base_url: str, environ: Mapping[str, str]) -> str:
    """End of a sentence on a failure at an address: the variables of which it is made, such as the region's."""
    templated = [provider for provider in all_providers(environ).values() if VARIABLE_IN_TEXT.search(provider.base_url)]
    names = next(
        (
            VARIABLE_IN_TEXT.findall(provider.base_url)
            for provider in templated
            if provider.address(environ) == base_url
        ),
        [],
    )
    return f"; a part of the address is from {' and '.join(dict.fromkeys(names))}" if names else ""


@cache
def known_providers() -> dict[str, Provider]:
    """Providers of the table by name."""
    return {name: Provider.model_validate(section) for name, section in provider_sections().items()}


def _find_provider(model: str, providers: list[tuple[str, Provider]]) -> tuple[Provider, str] | None:
    """Provider of a model and the model's name there: by its section, else by the patterns."""
    for section, provider in providers:
        start, mark, rest = model.partition("/")
        if mark and rest and start == section:
            return provider, rest
    return next(((provider, model) for _, provider in providers if matches(model, provider.names)), None)


def list_providers(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Providers with their addresses, and whether the environment has their keys; no key is read out."""
    return [
        {
            "provider": name,
            "names": [*provider.names, f"{name}/*"],
            "base_url": provider.base_url,
            "key": provider.key,
            "has_key": _has_key(provider.key, environ),
            "missing": provider.missing_variables(environ),
            "checked": provider.checked.isoformat() if provider.checked else None,
            "source": provider.source,
            "is_own": provider.is_own,
        }
        for name, provider in all_providers(environ).items()
    ]


def _has_key(key: str | None, environ: Mapping[str, str]) -> bool | None:
    """Whether the environment has a key; None where none is needed, or a program or block holds it."""
    kind, _, variable = (key or "").partition(":")
    return bool(environ.get(variable, "").strip()) if kind == "env" else None
