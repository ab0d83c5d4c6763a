"""Values to bytes and back: the registry of names, the default serializer, and the frame round a body.

``registry`` maps stable names to classes; ``serializer`` writes values so that every type comes back; ``envelope``
puts a readable header in front and a digest behind. Imports errors, the store's rules and the checkpoint, no more.
"""

from __future__ import annotations

from blobcp.codec.conforms import conforms, shallow_checker
from blobcp.codec.envelope import Envelope, Header, Parent, PendingInterrupt, digest_of, read_header
from blobcp.codec.keys import KeyRing
from blobcp.codec.meeting import can_meet
from blobcp.codec.pickled import PickleSerializer
from blobcp.codec.raw import RawTable, RawValue
from blobcp.codec.registering import register, register_annotations, register_codec, serializable
from blobcp.codec.registry import Registry, default_registry
from blobcp.codec.serializer import MsgpackSerializer, Serializer

__all__ = [
    "Envelope",
    "Header",
    "KeyRing",
    "MsgpackSerializer",
    "Parent",
    "PendingInterrupt",
    "PickleSerializer",
    "RawTable",
    "RawValue",
    "Registry",
    "Serializer",
    "can_meet",
    "conforms",
    "default_registry",
    "digest_of",
    "read_header",
    "register",
    "register_annotations",
    "register_codec",
    "serializable",
    "shallow_checker",
]
