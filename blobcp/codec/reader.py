"""From bytes to a value: MessagePack's decoder calls back for each extension, innermost first.

That way knows no paths. Where it fails, the bytes are read a second time, slowly, by a walk that has one.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.msgpack import Ext

from blobcp.codec.paths import joined, shown, step_of_index, step_of_key, step_of_member
from blobcp.codec.plans import Plans
from blobcp.codec.shape import LoadProblem
from blobcp.codec.tables import TABLE, expanded
from blobcp.errors import SerializationError, UnknownTypeError

__all__ = ["Reader"]

_decode_plain = msgspec.msgpack.Decoder().decode


class Reader:
    """Reads values of the types that some plans know. It keeps nothing of a value and may be used by many threads."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        by_code = plans.by_code

        def build(code: int, content: memoryview) -> Any:
            return by_code[code](decode(content))

        decode = msgspec.msgpack.Decoder(ext_hook=build).decode
        self._decode = decode

    def read(self, data: bytes | bytearray | memoryview) -> Any:
        """Return the value that the bytes hold.

        Raises:
            UnknownTypeError: a name in them is not registered; the message holds it and the path.
            SerializationError: they are not such bytes, or the classes have changed.
        """
        try:
            return self._decode(data)
        except Exception as problem:  # a codec, an enum or a default factory of the user's may raise anything
            raise self._explained(data, problem) from problem

    def _explained(self, data: bytes | bytearray | memoryview, problem: Exception) -> SerializationError:
        try:
            self._walk(_decode_plain(data), [])
        except SerializationError as explained:
            return explained
        except RecursionError:
            return SerializationError(
                "the bytes are nested more deeply than the stack has room for here: they are corrupt, or loads was "
                "called from deep inside other calls"
            )
        except Exception as again:
            problem = again
        return SerializationError(
            f"the bytes are corrupt or not allowed here ({_text_of(problem)}); restore them from a backup"
        )

    def _walk(self, plain: Any, steps: list[str]) -> Any:
        if type(plain) is list:
            return [self._walk(item, [*steps, step_of_index(index)]) for index, item in enumerate(plain)]
        if type(plain) is dict:
            return {
                self._walk(key, [*steps, step_of_member(key)]): self._walk(item, [*steps, step_of_key(key)])
                for key, item in plain.items()
            }
        return self._build(plain, steps) if type(plain) is Ext else plain

    def _build(self, extension: Ext, steps: list[str]) -> Any:
        code = extension.code
        if code not in self._plans.by_code:
            raise _error(steps, f"the bytes are corrupt or written by a newer release (extension {code} is unknown)")
        try:
            if code == TABLE:  # record by record, so that each has a path
                return self._walk(expanded(_decode_plain(extension.data)), steps)
            parts = self._walk_parts(code, _decode_plain(extension.data), steps)
            return self._plans.by_code[code](parts)
        except LoadProblem as problem:
            raise _load_error(steps, problem) from problem
        except (SerializationError, RecursionError):
            raise
        except Exception as problem:
            raise _error(
                steps, f"what is stored here is corrupt or not allowed, and can't be restored ({_text_of(problem)})"
            ) from problem

    def _walk_parts(self, code: int, parts: Any, steps: list[str]) -> list[Any]:
        if type(parts) is not list:
            raise _error(steps, f"the bytes are corrupt (extension {code} holds a {type(parts).__name__})")
        for index, part in enumerate(parts):  # in place, since a copy for each part would take quadratic time
            parts[index] = self._walk(part, [*steps, self._plans.step(code, index, parts)])
        return parts


def _load_error(steps: list[str], problem: LoadProblem) -> SerializationError:
    if problem.unknown_name is None:
        return _error(steps, str(problem))
    path = joined(steps)
    name = problem.unknown_name
    return UnknownTypeError(
        f"{shown(path)}: {problem} and so the value is not allowed to load; register the class before loading, "
        f"with register(cls, name={name!r}), or with aliases=[{name!r}] if it has another name now",
        path=path,
        name=name,
    )


def _error(steps: list[str], text: str) -> SerializationError:
    path = joined(steps)
    return SerializationError(f"{shown(path)}: {text}", path=path)


def _text_of(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"
