"""The declared fields of one class: read, checked against their annotations, and completed on load.

Fields are checked on the way out, so that a value which could not be used after loading never gets into a blob; and on
the way in, since the annotations may have changed and bytes may come from anywhere. Models are not checked: what their
validators made need not be what is annotated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blobcp.codec.conforms import Check, all_test, check_of, check_of_field, describe
from blobcp.codec.kinds import Constant, FieldSpec, Kind, fields_of, qualified_name
from blobcp.codec.shape import LoadProblem, Parts, Refusal
from blobcp.codec.tables import Column, rows_getter

__all__ = ["Fields", "FieldsPlan"]

_MOST_SIGNATURES = 256

Fields = dict[str, Any]
Pending = tuple[tuple[int, Callable[[Any], bool]], ...]


def _check_of(spec: FieldSpec) -> Check | None:
    if isinstance(spec.default, Constant):
        return check_of_field(spec.annotation, spec.default.value)
    return check_of(spec.annotation)


def _text_of(spec: FieldSpec) -> str:
    wanted = spec.annotation
    wanted = qualified_name(wanted) if isinstance(wanted, type) and not hasattr(wanted, "__origin__") else wanted
    return str(wanted).removeprefix("builtins.")


class FieldsPlan:
    """The declared fields of a class: read, checked, and completed on load.

    Attributes:
        names: the fields, in order.
    """

    def __init__(self, cls: type[Any], kind: Kind, name: str) -> None:
        self.cls = cls
        self.name = name
        self.specs = fields_of(cls, kind)
        self.names = tuple(spec.name for spec in self.specs)
        self.known = frozenset(self.names)
        self._checks = [None if kind is Kind.MODEL else _check_of(spec) for spec in self.specs]
        self._tests = [check and all_test(check) for check in self._checks]
        self._pending: dict[tuple[type[Any], ...], Pending] = {}
        self._get = rows_getter(self.names) if self.names else lambda value: ()

    def read(self, value: Any) -> Fields:
        """Return the fields of a value that conform to their annotations; an unset one is left out.

        Raises:
            Refusal: a field surely contradicts its annotation.
        """
        try:
            values = self._get(value)
        except AttributeError:
            return self._read_what_is_set(value)
        self.check(values, value)
        return dict(zip(self.names, values, strict=True))

    def read_all(self, value: Any) -> Fields:
        """Return the fields of a value of a kind that can't be restored without one of them.

        Raises:
            Refusal: a field is not set, or surely contradicts its annotation.
        """
        fields = self.read(value)
        for name in self.names if len(fields) < len(self.names) else ():
            if name not in fields:
                raise Refusal(
                    f"it is not set, and a {self.name} can't be restored without it; set it before the value is stored"
                ).within(f".{name}", value)
        return fields

    def check(self, values: tuple[Any, ...], holder: Any) -> None:
        """Refuse values, one for each field, that contradict their annotations."""
        index = self._contradicting(values)
        if index is not None:
            raise self._contradiction(self.specs[index], values[index], holder)

    def check_stored(self, values: tuple[Any, ...]) -> None:
        """Refuse values, one for each field, that come from a blob and contradict the annotations of today."""
        index = self._contradicting(values)
        if index is not None:
            raise self._misfit(self.specs[index], values[index])

    def conforms(self, columns: list[Column]) -> bool:
        """Tell whether no value of the columns, one for each field, surely contradicts the annotation of its field."""
        return all(test(column) for test, column in zip(self._tests, columns, strict=True) if test)

    def _contradicting(self, values: tuple[Any, ...]) -> int | None:
        """Return the index of the first value that contradicts its annotation; mostly the classes alone decide."""
        types = tuple(map(type, values))
        pending = self._pending.get(types)
        if pending is None:
            pending = self._decide(types)
        for index, test in pending:
            if not test(values[index]):
                return index
        return None

    def _decide(self, types: tuple[type[Any], ...]) -> Pending:
        """Return which fields of such types have to be looked at, and how."""
        verdicts = [
            (index, check.by_type(cls), check.test)
            for index, (check, cls) in enumerate(zip(self._checks, types, strict=True))
            if check is not None
        ]
        if len(self._pending) >= _MOST_SIGNATURES:
            self._pending.clear()
        self._pending[types] = pending = tuple(
            (index, test) for index, verdict, test in verdicts if verdict is not True
        )
        return pending

    def _read_what_is_set(self, value: Any) -> Fields:
        fields = {name: getattr(value, name) for name in self.names if hasattr(value, name)}
        for spec, check in zip(self.specs, self._checks, strict=True):
            if spec.name in fields and check is not None and not check.test(fields[spec.name]):
                raise self._contradiction(spec, fields[spec.name], value)
        return fields

    def _contradiction(self, spec: FieldSpec, value: Any, holder: Any) -> Refusal:
        return Refusal(
            f"expected {_text_of(spec)}, found {describe(value)}; a {self.name} with it could "
            f"not be used after loading, so correct the value or the annotation of {spec.name!r}"
        ).within(f".{spec.name}", holder)

    def _misfit(self, spec: FieldSpec, value: Any) -> LoadProblem:
        return LoadProblem(
            f"a stored {self.name} holds {describe(value)} in the field {spec.name!r}, which {qualified_name(self.cls)} "
            f"declares as {_text_of(spec)}; accept what is stored too or migrate the checkpoint if the class has changed, "
            "or else the bytes are corrupt"
        )

    def complete(self, fields: Fields, unset: Parts, owner: Any, put: Callable[[Any, Fields], None]) -> Fields:
        """Return the fields of a stored value as the class has them today.

        Args:
            fields: what the blob holds; what the class no longer has is dropped.
            unset: fields that were not set when the value was stored.
            owner: the new object, for defaults that look at it.
            put: sets fields on the owner.

        Raises:
            LoadProblem: a field is missing and has no default, or a stored one contradicts its annotation.
        """
        if fields.keys() == self.known:
            self.check_stored(tuple(fields[name] for name in self.names))
            return fields
        stored = {name: fields[name] for name in self.names if name in fields}
        for spec, check in zip(self.specs, self._checks, strict=True):
            if spec.name in stored and check is not None and not check.test(stored[spec.name]):
                raise self._misfit(spec, stored[spec.name])
        put(owner, stored)
        return stored | {
            spec.name: self._default(spec, owner)
            for spec in self.specs
            if spec.name not in stored and spec.name not in unset
        }

    def _default(self, spec: FieldSpec, owner: Any) -> Any:
        if spec.default is None:
            raise LoadProblem(
                f"a stored {self.name} lacks the field {spec.name!r}, which {qualified_name(self.cls)} now has without "
                "a default; give it a default or migrate the checkpoint"
            )
        return spec.default(owner)
