"""Edges of a graph on one line."""

from __future__ import annotations

from itertools import pairwise

from blobcp import Graph

__all__ = ["wire"]


def wire(graph: Graph, *paths: str) -> Graph:
    """Add edges written as paths: ``"start a b"`` is START to a and a to b. Return the graph."""
    for path in paths:
        for src, dst in pairwise(path.split()):
            graph.add_edge(src, dst)
    return graph
