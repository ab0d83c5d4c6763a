"""The graph: builder, compiler, the pure machine, and the two drivers that run it."""

from blobcp.graph.app import App
from blobcp.graph.graph import Graph
from blobcp.graph.node import Node
from blobcp.graph.plan import END, START
from blobcp.graph.state import use_state

__all__ = ["END", "START", "App", "Graph", "Node", "use_state"]
