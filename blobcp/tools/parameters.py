"""A tool's parameters: the JSON schema that a model is shown, and its arguments as what the function wants.

Both come from the signature, by msgspec; pydantic models are left to pydantic.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec

from blobcp.errors import GraphBuildError
from blobcp.graph.node import function_behind
from blobcp.tools.messages import json_of

__all__ = ["ArgumentsError", "Parameters"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ArgumentsError(Exception):
    """Arguments of a call that don't fit the tool; the text is for the model."""


class Parameters:
    """The parameters of one tool.

    Args:
        name: the tool's name, for messages.
        call: its function.
        schema: the schema that the user gave; ``None`` to make it from the signature.
        texts: what the docstring says of each parameter.

    Attributes:
        schema: the JSON schema of the arguments.
        annotations: the parameters' types.
    """

    def __init__(
        self, name: str, call: Callable[..., Any], schema: Mapping[str, Any] | None, texts: Mapping[str, str]
    ) -> None:
        self._name = name
        parameters = _parameters_of(name, call)
        self._open = _takes_any(name, parameters, given=schema is not None)
        named = [parameter for parameter in parameters if parameter.kind in _NAMED]
        self._fields = frozenset(parameter.name for parameter in named)
        hints = _hints(name, call, named, required=schema is None)
        self.annotations = list(hints.values())
        self._struct = _struct(name, named, hints, closed=not self._open)
        self.schema = dict(schema) if schema is not None else self._make_schema(named, hints, texts)

    def read(self, arguments: Any) -> dict[str, Any]:
        """Return what to call the function with.

        Raises:
            ArgumentsError: they are no JSON object, or don't fit the signature.
        """
        given = _decoded(arguments)
        try:
            fitting = self._convert(given)
        except Exception as error:  # also what a validator of the user's own raises
            raise ArgumentsError(str(error)) from error
        return {name: getattr(fitting, name) if name in self._fields else value for name, value in given.items()}

    def _convert(self, given: dict[str, Any]) -> Any:
        try:
            return msgspec.convert(given, self._struct, dec_hook=_read_model)
        except msgspec.ValidationError:
            # Models write 5.0 and "5" where 5 is meant.
            return msgspec.convert(given, self._struct, dec_hook=_read_model, strict=False)

    def _make_schema(
        self, named: Iterable[inspect.Parameter], hints: Mapping[str, Any], texts: Mapping[str, str]
    ) -> dict[str, Any]:
        inner: dict[str, Any] = {}
        try:
            (root,), defs = msgspec.json.schema_components(
                (self._struct,),
                schema_hook=lambda cls: _model_schema(cls, inner),
                ref_template="#/$defs/{name}",
            )
        except (TypeError, NotImplementedError) as error:
            raise GraphBuildError(
                f"the parameters of tool {self._name!r} have no JSON schema: {_first_line(error)}; annotate them as what JSON "
                "can carry, bind what the model must not give by functools.partial, or give Tool(schema=...)"
            ) from error
        schema: dict[str, Any] = defs.pop(root["$ref"].rpartition("/")[2])
        schema.pop("title", None)
        properties = schema["properties"]
        for parameter in named:
            _complete(properties[parameter.name], parameter, hints[parameter.name], texts)
        if both := defs.keys() & inner.keys():
            raise GraphBuildError(f"tool {self._name!r} has two classes named {sorted(both)}; rename one of each")
        if defs or inner:
            schema["$defs"] = {**defs, **inner}
        return schema


def _parameters_of(name: str, call: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError) as error:
        raise GraphBuildError(f"tool {name!r} does not tell its signature ({error}); wrap it in a function") from None
    bound = call.keywords if isinstance(call, functools.partial) else {}
    return [parameter for parameter in parameters.values() if parameter.name not in bound]


def _takes_any(name: str, parameters: Iterable[inspect.Parameter], *, given: bool) -> bool:
    """Tell whether a function takes arguments that it does not name."""
    kinds = {parameter.kind for parameter in parameters}
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        raise GraphBuildError(f"tool {name!r} has positional-only parameters; arguments are given by name")
    if kinds & set(_VARIABLE) and not given:
        raise GraphBuildError(
            f"tool {name!r} takes *args or **kwargs, which have no JSON schema; name its parameters (a decorator needs "
            "functools.wraps), or give Tool(schema=...)"
        )
    return inspect.Parameter.VAR_KEYWORD in kinds


def _hints(
    name: str, call: Callable[..., Any], named: Iterable[inspect.Parameter], *, required: bool
) -> dict[str, Any]:
    """Resolve the annotations; what the result is does not matter to the model, so that one is left out."""
    missing = inspect.Parameter.empty
    raw = {at.name: Any if at.annotation is missing else at.annotation for at in named}
    function = inspect.unwrap(function_behind(call))
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    scope = getattr(function, "__globals__", vars(module) if module else {})
    holder = types.SimpleNamespace(__annotations__=raw)
    try:
        return typing.get_type_hints(holder, globalns=scope, include_extras=True)
    except Exception as error:  # an annotation is an expression of the user's and may raise anything
        if not required:
            return dict.fromkeys(raw, Any)
        raise GraphBuildError(
            f"the annotations of tool {name!r} can't be resolved ({error}); define their classes at the top of the module, or "
            "give Tool(schema=...)"
        ) from error


def _struct(
    name: str, named: Iterable[inspect.Parameter], hints: Mapping[str, Any], *, closed: bool
) -> type[msgspec.Struct]:
    """Return the class that arguments are read into; what was left out has the function's own default."""
    fields = [
        (at.name, hints[at.name])
        if at.default is inspect.Parameter.empty
        else (at.name, hints[at.name], msgspec.field(default_factory=object))
        for at in named
    ]
    try:
        struct = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=closed)
        _can_read(struct)
    except (TypeError, NameError) as error:
        raise GraphBuildError(
            f"msgspec can't read the parameters of tool {name!r}: {_first_line(error)}; annotate them otherwise, or as Any"
        ) from error
    return struct


def _can_read(struct: type[msgspec.Struct]) -> None:
    """Find out now what msgspec only says when it first reads a type."""
    with contextlib.suppress(msgspec.ValidationError):
        msgspec.convert(None, struct)


def _decoded(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str) and arguments.strip():
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ArgumentsError(f"they are no JSON: {error}") from error
    elif isinstance(arguments, dict):
        arguments = copy.deepcopy(arguments)
    elif arguments is None or isinstance(arguments, str):
        arguments = {}
    if not isinstance(arguments, dict):
        raise ArgumentsError(f"they are a JSON {type(arguments).__name__} and no object")
    return arguments


def _is_model(cls: Any) -> bool:
    return all(hasattr(cls, name) for name in ("model_validate", "model_json_schema"))


def _read_model(cls: type[Any], value: Any) -> Any:
    if isinstance(value, cls):
        return value
    if not _is_model(cls):
        raise TypeError(f"{cls.__qualname__} can't be made from JSON")
    return cls.model_validate(value)


def _model_schema(cls: type[Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a pydantic model; the schemas of what is in it go to the top, where its references lead."""
    if not _is_model(cls):
        raise NotImplementedError
    schema: dict[str, Any] = cls.model_json_schema(ref_template="#/$defs/{model}")
    for name, below in schema.pop("$defs", {}).items():
        if inner.setdefault(name, below) != below:
            raise TypeError(f"two classes are named {name}")
    return schema


def _complete(schema: dict[str, Any], parameter: inspect.Parameter, annotation: Any, texts: Mapping[str, str]) -> None:
    """Add a parameter's description and its default, where they are known."""
    text = _annotated_text(annotation) or texts.get(parameter.name)
    if text:
        schema.setdefault("description", text)
    if parameter.default is not inspect.Parameter.empty:
        try:
            schema["default"] = msgspec.json.decode(json_of(parameter.default))
        except Exception:  # what is no JSON can't be shown, and the function has its default all the same
            return


def _annotated_text(annotation: Any) -> str | None:
    if typing.get_origin(annotation) is not Annotated:
        return None
    notes = [note if isinstance(note, str) else getattr(note, "description", None) for note in annotation.__metadata__]
    return next((note for note in notes if isinstance(note, str)), None)


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[-1:]) or type(error).__name__
