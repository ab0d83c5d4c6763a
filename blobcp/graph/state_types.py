"""Of which class each graph's state is: told by the graph, or learnt from the first state that is made."""

from __future__ import annotations

from typing import Any

from blobcp.codec import MsgpackSerializer, Serializer, register_annotations
from blobcp.graph.plan import GraphPlan

__all__ = ["StateTypes"]


class StateTypes:
    """The classes of the states of one app. May be used by many threads.

    Args:
        plan: the app's graph.
        serializer: where it has a registry, the classes are made known there, since they may be in no annotation.
    """

    def __init__(self, plan: GraphPlan, serializer: Serializer) -> None:
        self._registry = serializer.registry if isinstance(serializer, MsgpackSerializer) else None
        self._types = {graph: graph.state_type for _, graph in plan.walk() if graph.state_type is not None}
        self._paths = {graph: path for path, graph in plan.walk() if graph.make_state is not None}

    def of(self, plan: GraphPlan) -> type[Any] | None:
        """Return the class of a graph's state, if it is known."""
        return self._types.get(plan)

    def learn(self, plan: GraphPlan, state: Any) -> None:
        """Take a graph's fresh state as the example of its class."""
        if plan in self._types:
            return
        if self._registry is not None:
            register_annotations(type(state), self._registry)
        self._types[plan] = type(state)

    def unknown(self) -> list[tuple[tuple[str, ...], GraphPlan]]:
        """Return the graphs of which a state has to be made before one can be loaded."""
        return [(path, graph) for graph, path in self._paths.items() if graph not in self._types]
