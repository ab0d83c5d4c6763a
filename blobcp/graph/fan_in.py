"""Several streams in front of one node, or END, as one: they merge as the values would that they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blobcp.errors import MergeError, RunError
from blobcp.graph.instance import GraphRun
from blobcp.graph.judging import node_error
from blobcp.stream.concat import concat
from blobcp.stream.interleave import merge_streams
from blobcp.stream.merge import has_merge, merge_values
from blobcp.stream.reader import StreamReader
from blobcp.stream.signs import NO_VALUE, NoValue, SourceEnd

__all__ = ["FanIn"]


class FanIn:
    """Merges streams: plain dicts chunk by chunk as they come, other classes once they are whole.

    Args:
        run: the graph.
        key: the node, or END.
        marks: whether the end of each source is marked.
        fail: has the run fail because of what is no node's fault; returns the error.
    """

    def __init__(self, run: GraphRun, key: str, marks: bool, fail: Callable[[GraphRun, RunError], RunError]) -> None:
        self._run = run
        self._path = [*run.path, key]
        self._sources = run.plan.data[key]
        self._marks = marks
        self._fail = fail
        self._owner: dict[Any, str] = {}
        self._passed: dict[str, Any] = {}
        self._kept: dict[str, list[Any]] = {}
        self._nothing: set[str] = set()
        self._is_alone = False

    def reader(self, readers: dict[str, StreamReader[Any]]) -> StreamReader[Any]:
        """Return the one reader."""
        self._is_alone = len(readers) == 1
        named = {source: _named(source, reader) for source, reader in readers.items()}
        merged = merge_streams(named, mark_ends=True)
        assert merged is not None, "there are sources"
        return merged.map(self._take, at_end=self._finish)

    def _take(self, item: Any) -> Any | NoValue:
        if isinstance(item, SourceEnd):
            return item if self._marks else NO_VALUE
        source, chunk = item
        if self._is_alone:
            return chunk
        if chunk is None:  # does not count where the source gives something else
            self._nothing.add(source)
            return NO_VALUE
        if type(chunk) is not dict or source in self._kept or has_merge(chunk):
            self._kept.setdefault(source, []).append(chunk)
            return NO_VALUE
        self._passed.setdefault(source, chunk)
        self._own(source, chunk)
        return chunk

    def _own(self, source: str, chunk: dict[Any, Any]) -> None:
        for key in chunk:
            if self._owner.setdefault(key, source) != source:
                self._merged({self._owner[key]: {key: None}, source: {key: None}})  # raises

    def _finish(self) -> Any:
        values: dict[str, Any] = dict.fromkeys(self._nothing - self._passed.keys())
        try:
            for source, chunks in self._kept.items():
                values[source] = concat([*([self._passed[source]] if source in self._passed else []), *chunks])
        except Exception as error:
            raise self._fail(self._run, node_error(self._path, error)) from error
        if not values:
            return None
        for source, value in values.items():
            if isinstance(value, dict) and not has_merge(value):
                self._own(source, value)
        values = {**{source: {} for source in self._passed}, **values}
        return self._merged({source: values[source] for source in self._sources if source in values} or values)

    def _merged(self, values: dict[str, Any]) -> Any:
        try:
            return merge_values(values)
        except MergeError as error:
            error.path = self._path
            error.args = (f"{'/'.join(error.path)}: {error}",)
            raise self._fail(self._run, error) from error.__cause__


def _named(source: str, reader: StreamReader[Any]) -> StreamReader[Any]:
    return reader.map(lambda chunk: chunk if isinstance(chunk, SourceEnd) else (source, chunk))
