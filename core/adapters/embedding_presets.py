"""What is known of embedding providers and their models, read from `embedding_presets.toml` at the first question.

A model that is not in there can be used as well, once the operator says how wide its vectors are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeVar

from core.adapters.openai_embedder import ProviderOptions, check_options, endpoint_of
from core.errors import Misconfigured
from core.ports import EmbedLimits

FILE = "embedding_presets.toml"
SAFE_PERCENT = 90  # of what a model reads: tokens are estimated, and prefixes come on top

Facts = TypeVar("Facts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of one model; None: unknown. Prices are dollars a million tokens, the operator's to verify.

    Another width than `width` may be asked for if it is among `dimensions`, or from `narrowest` up.
    """

    width: int
    dimensions: tuple[int, ...] = ()
    narrowest: int | None = None
    tokens: int | None = None
    text_tokens: int | None = None
    price: float | None = None
    batch_price: float | None = None
    document_prefix: str = ""
    query_prefix: str = ""
    checked: str = ""

    def takes(self, dimensions: int) -> bool:
        """Whether vectors of this width may be asked for."""
        shorter = self.narrowest is not None and self.narrowest <= dimensions <= self.width
        return dimensions == self.width or dimensions in self.dimensions or shorter


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What is known of one provider, and of its models by name."""

    items: int
    tokens: int | None = None
    bytes: int | None = None
    batch_inputs: int | None = None
    batch_bytes: int | None = None
    base_url: str = ""
    needs_key: bool = False
    encoding_format: Literal["float", "base64"] = "float"
    dimensions_parameter: str = "dimensions"
    input_type_parameter: str | None = None
    document_input_type: str | None = None
    query_input_type: str | None = None
    azure_api_version: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, ModelFacts] = field(default_factory=dict)


def providers() -> list[str]:
    """Names of the providers that are known, in the order of the alphabet."""
    return sorted(_presets())


def preset_of(provider: str) -> Preset:
    """What is known of a provider. Raises Misconfigured for a name that is not known."""
    found = _presets().get(provider)
    if found is None:
        raise Misconfigured(f"provider: {provider!r} is not known; there are {', '.join(providers())}")
    return found


def facts_of(provider: str, model: str) -> ModelFacts | None:
    """What is known of a model, however it is spelt; None: nothing. Raises Misconfigured for an unknown provider."""
    preset = preset_of(provider)
    return preset.models.get(preset.aliases.get(model, model))


def options_for(
    provider: str,
    model: str,
    *,
    dimensions: int | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    **more: Any,
) -> ProviderOptions:
    """The options of a provider's model: what is known, and over it what the operator chose.

    `dimensions` None means the model's own width. `more` are further fields of ProviderOptions, which win.
    With Azure, `deployment` among them is the deployment's name; it is the model's if there is none.

    Raises Misconfigured, naming the field, for what cannot be: a width the model has not, an unknown model
    without a width, no address where there is none known, no key at the provider's own address.
    """
    preset = preset_of(provider)
    canonical = preset.aliases.get(model, model)
    address = base_url or preset.base_url
    if not address:
        raise Misconfigured(f"base_url: {provider} has no address of its own, say where it is")
    elsewhere = not preset.base_url or endpoint_of(address) != endpoint_of(preset.base_url)
    if preset.needs_key and not elsewhere and not api_key:
        raise Misconfigured(f"api_key: {provider} needs one")
    facts = preset.models.get(canonical)
    if facts is None and dimensions is None:
        raise Misconfigured(f"dimensions: nothing is known of {model} at {provider}, say how wide its vectors are")
    facts = facts or ModelFacts(width=dimensions or 0)
    if dimensions is not None and not facts.takes(dimensions):
        raise Misconfigured(f"dimensions: {model} has {facts.width}, and does not give {dimensions}")
    options = ProviderOptions(
        name=provider,
        base_url=address,
        api_key=api_key or None,
        # A gateway at another address may know the model by that other spelling only.
        model=more.pop("deployment", None) or (model if elsewhere else canonical),
        canonical_model=canonical,
        width=dimensions or facts.width,
        dimensions=None if dimensions in (None, facts.width) else dimensions,
        dimensions_parameter=preset.dimensions_parameter,
        document_prefix=facts.document_prefix,
        query_prefix=facts.query_prefix,
        input_type_parameter=preset.input_type_parameter,
        document_input_type=preset.document_input_type,
        query_input_type=preset.query_input_type,
        extra_body=preset.extra_body,
        encoding_format=preset.encoding_format,
        limits=EmbedLimits(items=preset.items, tokens=facts.tokens or preset.tokens, bytes=preset.bytes),
        batch_inputs=preset.batch_inputs,
        batch_bytes=preset.batch_bytes,
        max_tokens=None if facts.text_tokens is None else facts.text_tokens * SAFE_PERCENT // 100,
        azure_api_version=preset.azure_api_version,
    )
    options = replace(options, **more)
    check_options(options)
    return options


@cache
def _presets() -> Mapping[str, Preset]:
    return read_presets(resources.files("core.adapters").joinpath(FILE).read_text(encoding="utf-8"))


def read_presets(text: str) -> dict[str, Preset]:
    """Providers' presets by name, from TOML. Raises Misconfigured, naming the field that is wrong."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{FILE} cannot be read: {error}") from None
    return {name: _preset(name, table) for name, table in tables.items()}


def _preset(name: str, table: Any) -> Preset:
    preset = _built(Preset, table, name, {"items"})
    models = {model: _model(f"{name}.models.{model}", facts) for model, facts in preset.models.items()}
    for alias, model in preset.aliases.items():
        if alias in models or model not in models:
            raise _wrong(f"{name}.aliases.{alias}", "another spelling of a model that is there")
    if preset.base_url:
        endpoint_of(preset.base_url)
    return replace(preset, models=models)


def _model(where: str, table: Any) -> ModelFacts:
    facts = _built(ModelFacts, table, where, {"width"})
    if facts.narrowest is not None and facts.narrowest > facts.width:
        raise _wrong(f"{where}.narrowest", "no more than the width")
    return replace(facts, dimensions=tuple(facts.dimensions))


def _built(kind: Callable[..., Facts], table: Any, where: str, needed: set[str]) -> Facts:
    """An object of a table whose every field is known, and of the right type."""
    if not isinstance(table, dict):
        raise _wrong(where, "a table")
    known = {each.name: str(each.type) for each in fields(kind)}  # type: ignore[arg-type]
    for name in sorted(needed - set(table)):
        raise _wrong(f"{where}.{name}", "there")
    for name, value in table.items():
        if name not in known:
            raise _wrong(f"{where}.{name}", f"one of {', '.join(known)}")
        expected, fits = _KINDS[known[name]]
        if not fits(value):
            raise _wrong(f"{where}.{name}", expected)
    return kind(**table)


def _wrong(where: str, expected: str) -> Misconfigured:
    return Misconfigured(f"{FILE}: {where} must be {expected}", where=where)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


_TEXT: tuple[str, Callable[[Any], bool]] = ("a text", lambda value: isinstance(value, str))
_COUNT: tuple[str, Callable[[Any], bool]] = ("a whole number of 1 or more", _is_count)
_TABLE: tuple[str, Callable[[Any], bool]] = ("a table", lambda value: isinstance(value, dict))
# By the annotations of the fields, so that a field of a new kind is noticed.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": _TEXT,
    "str | None": _TEXT,
    "int": _COUNT,
    "int | None": _COUNT,
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "float | None": ("a price of 0 or more", lambda value: type(value) in (int, float) and 0 <= value < 1000),
    "tuple[int, ...]": (
        "a list of whole numbers of 1 or more",
        lambda value: isinstance(value, list) and all(map(_is_count, value)),
    ),
    "Literal['float', 'base64']": ("float or base64", lambda value: value in ("float", "base64")),
    "Mapping[str, Any]": _TABLE,
    "Mapping[str, str]": ("a table of texts", lambda value: _TABLE[1](value) and all(map(_TEXT[1], value.values()))),
    "Mapping[str, ModelFacts]": _TABLE,
}
