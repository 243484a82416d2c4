"""Settings of an embedder: a model behind an endpoint's `/embeddings`, or a folder with a static model."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from gradebook.rubrics.model.errors import JudgeSettingsError
from gradebook.rubrics.text.named_files import UnreadableFile, read_below
from gradebook.tasks.judging.settings.files import is_settings_file, read_settings_file, validate_settings
from gradebook.tasks.judging.settings.judge import JudgeSettings, identity_digest
from gradebook.tasks.judging.settings.model import Form, ModelSettings

LEXICAL = "lexical"
STATIC_FILES = ("tokenizer.json", "model.safetensors", "config.json")
MOST_MODEL_BYTES = 4_000_000_000


class EmbedderSettings(ModelSettings):
    """Settings of a model that gives vectors. dimensions: of a vector, if the model can shorten it."""

    dimensions: Annotated[int, Field(ge=1, le=16_384)] | None = None
    batch_size: Annotated[int, Field(ge=1, le=2_048)] = 64  # texts of one request

    @field_validator("form")
    @classmethod
    def _form_has_embeddings(cls, value: Form) -> Form:
        if value != "openai":
            raise ValueError("openai: another form has no embeddings")
        return value

    @property
    def name(self) -> str:
        """Name of the embedder in tables."""
        return self.model

    @property
    def folder(self) -> None:
        """Folder of a static model: none, as this one is asked."""

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that affect a vector; embedders that differ in them never share one."""
        identity = {"kind": "openai_embeddings", "model": self.model, "dimensions": self.dimensions}
        return identity | self.extra_identity

    @property
    def digest(self) -> str:
        """Digest of the identity, 32 hex digits."""
        return identity_digest(self.identity)

    @property
    def asking(self) -> JudgeSettings:
        """Same settings as `JudgeSettings`, the type that the client takes."""
        return JudgeSettings(**{name: getattr(self, name) for name in ModelSettings.model_fields})


@dataclass(frozen=True, slots=True)
class StaticEmbedder:
    """Folder with a static model, as model2vec writes it, and the digest of its files."""

    folder: Path
    digest: str

    @property
    def name(self) -> str:
        """Name of the embedder in tables."""
        return self.folder.name

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the model, by the digest of its files."""
        return {"kind": "static", "digest": self.digest}


Embedder = EmbedderSettings | StaticEmbedder


def read_embedder(embedder: str | None, environ: Mapping[str, str]) -> Embedder | None:
    """Read the value of `--embedder`: a folder, an embedder file, or else a model's name; None for `lexical`.

    Raises `JudgeSettingsError` that names the file, the setting, what was found and what is expected.
    """
    if embedder is None or embedder == LEXICAL:
        return None
    path = Path(embedder)
    if "\x00" not in embedder and path.is_dir():
        return StaticEmbedder(path.resolve(), _folder_digest(path))
    if not is_settings_file(embedder, Path()):
        return validate_settings(EmbedderSettings, {"model": embedder}, environ, source="--embedder")
    written = read_settings_file(path, "an embedder file, or a folder with a static model")
    return validate_settings(EmbedderSettings, written, environ, source=embedder)


def _folder_digest(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in STATIC_FILES:
        try:
            content = read_below(name, folder, MOST_MODEL_BYTES)
        except UnreadableFile as error:
            expected = f"a static model, with {', '.join(STATIC_FILES)}"
            raise JudgeSettingsError(f"--embedder: {folder}", str(error), expected) from None
        digest.update(hashlib.blake2b(content).digest())
    return digest.hexdigest()
