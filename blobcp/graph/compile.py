"""From a builder's graph to a plan: every check that can be made before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from blobcp.checkpointer import StateMigrations
from blobcp.codec import Envelope, MsgpackSerializer, Serializer, register_annotations, shallow_checker
from blobcp.errors import GraphBuildError, OptionError
from blobcp.graph.app import App
from blobcp.graph.calls import AsyncParts
from blobcp.graph.checks import check_no_cycle, check_reach, check_types, predecessors
from blobcp.graph.node import hints_of_call, is_limit, is_text, type_name, zero_of
from blobcp.graph.options import StreamSaving
from blobcp.graph.plan import START, GraphPlan, NodePlan, Send
from blobcp.graph.runs import Runs
from blobcp.graph.state_types import StateTypes
from blobcp.store import AsyncCheckPointStore, CheckPointDeleter, CheckPointStore

if TYPE_CHECKING:
    from blobcp.graph.graph import Graph, NodeSpec

__all__ = ["compile_app"]


_MOST_LEVELS = 100
"""How deep graphs may be nested; a stop so deep can still be stored, and no recursion gets near Python's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    mode: str
    eager: bool
    max_steps: int | None
    before: tuple[str, ...]
    after: tuple[str, ...]
    name: str
    mark_source_end: bool = False
    inside: tuple[Graph, ...] = ()


def compile_app(
    graph: Graph,
    *,
    store: CheckPointStore | AsyncCheckPointStore | None,
    mode: str,
    eager: bool,
    max_steps: int | None,
    interrupt_before: Iterable[str],
    interrupt_after: Iterable[str],
    serializer: Serializer | None,
    envelope: Envelope | None,
    migrations: StateMigrations | None,
    durability: str,
    when_done: str,
    name: str,
    mark_source_end: bool,
    saving: StreamSaving,
) -> App:
    """Check a graph and return its app; see `Graph.compile` for the arguments and errors."""
    _check_parts(store, serializer, envelope)
    if durability != "exit":
        raise GraphBuildError(f"durability={durability!r} is not offered; the one there is is 'exit'")
    if when_done not in ("mark", "delete", "keep"):
        raise GraphBuildError(f"when_done={when_done!r} is not known; give 'mark', 'delete' or 'keep'")
    if when_done == "delete" and store is not None and not isinstance(store, CheckPointDeleter):
        raise GraphBuildError(
            f"when_done='delete' needs a store that can delete, and {type(store).__qualname__} can't; use 'mark' or 'keep'"
        )
    options = _Options(
        mode=mode,
        eager=eager,
        max_steps=max_steps,
        before=_names("interrupt_before", interrupt_before),
        after=_names("interrupt_after", interrupt_after),
        name=name,
        mark_source_end=mark_source_end,
    )
    if saving.timeout is not None and (not isinstance(saving.timeout, timedelta) or saving.timeout <= timedelta(0)):
        raise GraphBuildError(f"flatten_timeout={saving.timeout!r} is no time limit; give a timedelta above zero")
    serializer = serializer if serializer is not None else MsgpackSerializer()
    if migrations is not None:
        _check_migrations(migrations, serializer)
    plan = _plan(graph, options)
    _register(graph, serializer)
    envelope = envelope if envelope is not None else Envelope()
    runs = Runs(
        plan=plan,
        store=store,
        serializer=serializer,
        envelope=envelope,
        when_done=when_done,
        async_parts=AsyncParts.of(plan),
        migrations=migrations,
        saving=saving,
        types=StateTypes(plan, serializer),
    )
    return App(graph, runs)


def _plan(graph: Graph, options: _Options) -> GraphPlan:
    _check_options(graph, options)
    options = replace(options, inside=(*options.inside, graph))
    control, data = predecessors(graph)
    check_reach(graph, options.mode)
    if options.mode == "dag":
        check_no_cycle(graph)
    check_types(graph)
    graph.compiled = True
    nodes = {key: _node_plan(spec, index, options) for index, (key, spec) in enumerate(graph.nodes.items())}
    state = graph.state
    return GraphPlan(
        name=options.name,
        mode=options.mode,
        eager=options.eager,
        max_steps=options.max_steps if options.max_steps is not None else len(nodes) + 10,
        start=NodePlan(
            key=START,
            index=-1,
            sends=tuple(graph.start.sends.values()),
            branches=tuple(graph.start.branches),
            rejects=_rejects(graph.start),
        ),
        nodes=nodes,
        control=control,
        data=data,
        make_state=state,
        state_type=state if isinstance(state, type) else None,
        takes=shallow_checker(graph.input),
        gives=shallow_checker(graph.output),
        takes_name=type_name(graph.input),
        gives_name=type_name(graph.output),
        order={key: node.index for key, node in nodes.items()},
        mark_source_end=options.mark_source_end,
    )


def _node_plan(spec: NodeSpec, index: int, options: _Options) -> NodePlan:
    takes, gives = spec.signature.takes, spec.signature.gives
    return NodePlan(
        key=spec.key,
        index=index,
        **(spec.calls.plan() if spec.calls is not None else {}),
        graph=_nested(spec, options),
        pre=spec.pre,
        post=spec.post,
        pre_reading=spec.pre_reading,
        post_reading=spec.post_reading,
        input_key=spec.input_key,
        output_key=spec.output_key,
        takes=shallow_checker(takes),
        gives=shallow_checker(gives),
        takes_name=type_name(takes),
        gives_name=type_name(gives),
        zero=zero_of(takes),
        sends=tuple(spec.sends.values()),
        branches=tuple(spec.branches),
        rejects=_rejects(spec),
        targets=tuple(dict.fromkeys([*spec.sends, *_ends(spec)])),
        stop_before=spec.key in options.before,
        stop_after=spec.key in options.after,
    )


def _ends(spec: NodeSpec) -> Iterator[str]:
    for branch in spec.branches:
        yield from branch.ends


def _rejects(spec: NodeSpec) -> tuple[Send, ...]:
    nothing = Send("", control=False, data=False)
    direct = {end: spec.sends.get(end, nothing) for end in _ends(spec)}
    return tuple(Send(end, control=not send.control, data=not send.data) for end, send in direct.items())


def _nested(spec: NodeSpec, options: _Options) -> GraphPlan | None:
    if spec.app is not None:
        return spec.app.plan
    if spec.graph is None:
        return None
    spec.graph._refuse_after_failure()
    if len(options.inside) > _MOST_LEVELS:
        raise GraphBuildError(f"node {spec.key!r} is nested more than {_MOST_LEVELS} graphs deep; nest fewer")
    if spec.graph in options.inside:
        raise GraphBuildError(f"node {spec.key!r} nests a graph in itself; call an app from a function to recurse")
    inherited = _Options(
        mode=options.mode,
        eager=options.eager,
        max_steps=None,
        before=(),
        after=(),
        name=spec.key,
        inside=options.inside,
    )
    return _plan(spec.graph, inherited)


def _names(option: str, keys: Iterable[str]) -> tuple[str, ...]:
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise GraphBuildError(f"{option}={keys!r} is {type(keys).__name__}; give a list of node keys")
    return tuple(keys)


def _check_parts(store: object, serializer: object, envelope: object) -> None:
    """Refuse what can't be a store, a serializer or an envelope now, since a save is too late to find out."""
    parts = (
        ("store", store, ("get", "set")),
        ("serializer", serializer, ("dumps", "loads")),
        ("envelope", envelope, ("seal", "open")),
    )
    for what, part, methods in parts:
        if part is not None and (
            isinstance(part, type) or not all(callable(getattr(part, at, None)) for at in methods)
        ):
            raise GraphBuildError(f"{what}={part!r} has no methods {' and '.join(methods)}; give an object that has")
    name = getattr(serializer, "name", "")
    if not isinstance(name, str):
        raise GraphBuildError(f"the serializer's name is {name!r}; give it a text, which every blob's header holds")


def _check_migrations(migrations: StateMigrations, serializer: Serializer) -> None:
    """Refuse what can't be migrations, and such as can't be carried out, while no checkpoint depends on them."""
    methods = (getattr(migrations, at, None) for at in ("check", "bring_up"))
    if (
        isinstance(migrations, type)
        or type(getattr(migrations, "version", None)) is not int
        or not all(map(callable, methods))
    ):
        raise GraphBuildError(f"migrations={migrations!r} are none; give a blobcp.migrations.Migrations")
    try:
        migrations.check(serializer)
    except OptionError as error:
        raise GraphBuildError(str(error)) from error


def _check_options(graph: Graph, options: _Options) -> None:
    if options.name and not is_text(options.name):
        raise GraphBuildError(f"name={options.name!r} is no name; give text, without lone surrogates")
    if options.mode not in ("pregel", "dag"):
        raise GraphBuildError(f"mode={options.mode!r} is not known; give 'pregel' or 'dag'")
    if options.max_steps is not None and options.mode == "dag":
        raise GraphBuildError("max_steps is for pregel mode; a dag can't loop, so leave it out")
    if options.max_steps is not None and not is_limit(options.max_steps):
        raise GraphBuildError(f"max_steps={options.max_steps!r} is no number of steps; give an int of at least 1")
    for option, keys in (("interrupt_before", options.before), ("interrupt_after", options.after)):
        for key in keys:
            if not isinstance(key, str) or key not in graph.nodes:
                raise GraphBuildError(f"{option} names node {key!r}, which is not there; nodes are {list(graph.nodes)}")


def _register(graph: Graph, serializer: Serializer) -> None:
    """Make every class that the annotations mention known to the serializer, in nested graphs too."""
    if not isinstance(serializer, MsgpackSerializer):
        return
    for path, at in _graphs(graph):
        for annotation in _annotations(at):
            register_annotations(annotation, serializer.registry)
        if at.state is not None:
            serializer.check(_state_annotation(at.state), ".".join([*path, "state"]))


def _graphs(graph: Graph, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Graph]]:
    """Yield a graph and those nested in it, each with the keys on the way to it."""
    yield path, graph
    for spec in graph.nodes.values():
        nested = spec.graph or (spec.app.graph if spec.app is not None else None)
        if nested is not None:
            yield from _graphs(nested, (*path, spec.key))


def _annotations(graph: Graph) -> Iterator[Any]:
    yield graph.input
    yield graph.output
    if graph.state is not None:
        yield _state_annotation(graph.state)
    for spec in graph.nodes.values():
        yield spec.signature.takes
        yield spec.signature.gives
        if spec.calls is not None:
            yield from spec.calls.stored


def _state_annotation(factory: Callable[[], Any]) -> Any:
    if isinstance(factory, type):
        return factory
    return hints_of_call(factory).get("return", Any)
