"""Values that say "nothing" while not being ``None``, told apart from all others."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import werkzeug.local
import wrapt
from nothings import MAKERS, Maybe, Nothing, Proxy, Target, Wrapped

from blobcp import is_typed_none, register_typed_none


class Hostile:
    """A value on which nearly everything fails."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = None

    def __bool__(self) -> bool:
        raise RuntimeError("asked for truth")


class Unbound:
    """A proxy outside of the context that it gets its target from."""

    @property
    def __class__(self) -> Any:
        """Nothing can be told."""
        raise RuntimeError("no context")


TARGET = Target()
SOMETHING: dict[str, Any] = {
    "None": None,
    "text": "",
    "zero": 0,
    "false": False,
    "a list": [],
    "a dict": {},
    "a list of None": [None],
    "an ordered dict": OrderedDict(),
    "a live weakref": weakref.ref(TARGET),
    "a void pointer": ctypes.c_void_p(1),
    "a NULL in an int": ctypes.c_int(0),
    "a pointer to int": ctypes.pointer(ctypes.c_int(0)),
    "an empty char pointer": ctypes.c_char_p(b""),
    "a proxy of text": Proxy("x"),
    "a wrapt proxy of an empty list": wrapt.ObjectProxy([]),
    "a werkzeug proxy of zero": werkzeug.local.LocalProxy(lambda: 0),
    "a 0-d object array of text": np.array("x", dtype=object),
    "a 1-d object array of None": np.array([None], dtype=object),
    "a 0-d array of a float": np.array(float("nan")),
    "a root model of text": Wrapped(""),
    "a predicate that does not hold": Maybe(0),
    "an object": object(),
    "a hostile object": Hostile(),
    "a proxy without its context": Unbound(),
    "a live method reference": weakref.WeakMethod(TARGET.method),
    "a live weak proxy": weakref.proxy(TARGET),
    "the class itself": Nothing,
    "NoneType": type(None),
}


@pytest.mark.parametrize("what", list(MAKERS))
def test_is_typed_none(what: str) -> None:
    """Each kind of typed None is recognised."""
    assert is_typed_none(MAKERS[what]()) is True


@pytest.mark.parametrize("what", list(SOMETHING))
def test_is_not_typed_none(what: str) -> None:
    """``None`` itself, empty values, and the same kinds of value holding something are not."""
    assert is_typed_none(SOMETHING[what]) is False


def test_no_library_is_imported_for_it() -> None:
    """Neither importing blobcp nor asking of any value imports the libraries whose types are recognised."""
    script = (
        "import sys, weakref, blobcp\n"
        "class Own: pass\n"
        "values = [blobcp.is_typed_none(value) for value in (None, object(), [], weakref.ref(Own()), Own())]\n"
        "loaded = sorted({'numpy', 'pydantic', 'wrapt', 'werkzeug'} & set(sys.modules))\n"
        "print(values, loaded)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert said.stdout == "[False, False, False, True, False] []\n"


def test_a_later_predicate_replaces_an_earlier_one() -> None:
    """``register_typed_none`` may be called again for a class."""

    class Moving:
        pass

    register_typed_none(Moving, lambda value: False)
    assert not is_typed_none(Moving())
    register_typed_none(Moving, lambda value: True)
    assert is_typed_none(Moving())
