"""How numpy's arrays and scalars are stored: by dtype, shape, order and their bytes.

numpy is not imported for this. A value of one of its classes can only be there if it is already; and a blob with such a
value in it imports it when it is loaded, which is a name that stands here and not in the blob.

Of a dtype of records the offsets are kept, and not whether they came from ``align=True``.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from blobcp.codec.shape import LoadProblem, Parts, Refusal, Shape, no_step

__all__ = ["ARRAY_SHAPES", "array_shape"]

_ARRAY, _SCALAR = 43, 44
_KINDS = frozenset("biufcmMSUV")
_TEXTS = ("str_", "bytes_")
_MOST_DIMENSIONS = 64
"""How many numpy has; to multiply more sizes, which may be huge, could take long."""


def array_shape(cls: type[Any]) -> Shape | None:
    """Return how values of a class of numpy's are stored, or ``None`` if it is none that can be."""
    if cls.__module__ != "numpy":
        return None
    if cls.__name__ == "ndarray":
        return ARRAY_SHAPES[0]
    is_scalar = any(base.__module__ == "numpy" and base.__name__ == "generic" for base in cls.__mro__)
    return ARRAY_SHAPES[1] if is_scalar else None


def _take_array(array: Any) -> Parts:
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    return [*_take_dtype(array.dtype), list(array.shape), order, _without_padding(array, order).tobytes(order)]


def _take_scalar(scalar: Any) -> Parts:
    if type(scalar).__name__ in _TEXTS:  # an array would cut off the zeros at their end
        return [type(scalar).__name__, scalar[:]]
    return [*_take_dtype(scalar.dtype), _without_padding(_numpy().asarray(scalar), "C").tobytes()]


def _without_padding(array: Any, order: str) -> Any:
    """Return an array of records with zeros between the fields, where whatever was in memory before would be stored."""
    if array.dtype.names is None:
        return array
    clean = _numpy().zeros(array.shape, array.dtype, order)
    _copy_fields(array, clean)
    return clean


def _copy_fields(source: Any, target: Any) -> None:
    for name in source.dtype.names:
        if source[name].dtype.names is None:
            target[name] = source[name]
        else:  # one by one, since numpy copies records with their padding
            _copy_fields(source[name], target[name])


def _take_dtype(dtype: Any) -> Parts:
    if dtype.hasobject or dtype.kind not in _KINDS:
        raise Refusal(
            f"an array of dtype {dtype} holds Python objects: store array.tolist(), or give it another dtype",
            picklable=True,
        )
    numpy = _numpy()
    description = numpy.lib.format.dtype_to_descr(dtype)
    return [description, dtype.char if numpy.dtype(description).type is not dtype.type else ""]


def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError as problem:
        raise LoadProblem("an array of numpy is stored here; install numpy") from problem


def _build_array(parts: Parts) -> Any:
    description, char, shape, order, data = parts
    if (
        type(shape) is not list
        or len(shape) > _MOST_DIMENSIONS
        or not all(type(size) is int and size >= 0 for size in shape)
    ):
        raise ValueError("the shape of an array is corrupt")
    return _filled(description, char, tuple(shape), order, data)


def _build_scalar(parts: Parts) -> Any:
    if len(parts) == len(_TEXTS) and parts[0] in _TEXTS:
        return getattr(_numpy(), parts[0])(parts[1])
    description, char, data = parts
    return _filled(description, char, (), "C", data)[()]


def _filled(description: Any, char: Any, shape: tuple[int, ...], order: str, data: Any) -> Any:
    if not isinstance(data, bytes) or order not in ("C", "F"):
        raise TypeError("the bytes or the order of an array are corrupt")
    numpy = _numpy()
    dtype = numpy.lib.format.descr_to_dtype(description)
    if char and type(char) is str and len(char) == 1 and numpy.dtype(char).newbyteorder("=") == dtype.newbyteorder("="):
        dtype = numpy.dtype(char).newbyteorder(dtype.byteorder)
    items = math.prod(shape)
    if dtype.hasobject or dtype.kind not in _KINDS or items >= 2**63 or len(data) != items * dtype.itemsize:
        raise ValueError("the bytes of an array do not fit its dtype and shape")
    return numpy.ndarray(shape, dtype, buffer=data, order=order).copy(order="K")


ARRAY_SHAPES = (
    Shape(_ARRAY, _take_array, _build_array, no_step),
    Shape(_SCALAR, _take_scalar, _build_scalar, no_step),
)
"""The shape of arrays, and that of scalars."""
