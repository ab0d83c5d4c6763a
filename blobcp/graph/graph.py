"""The builder: nodes, edges and branches, checked as they are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from blobcp.errors import GraphBuildError
from blobcp.graph.calls import NodeCalls, value_choice, value_handler
from blobcp.graph.node import Node, Signature, check_call, is_async, is_text, reads_chunks
from blobcp.graph.options import StreamSaving
from blobcp.graph.plan import END, START, BranchPlan, Send

if TYPE_CHECKING:
    from blobcp.checkpointer import StateMigrations
    from blobcp.codec import Envelope, Serializer
    from blobcp.graph.app import App
    from blobcp.store import AsyncCheckPointStore, CheckPointStore

__all__ = ["Graph", "NodeSpec"]

Handler = Callable[[Any, Any], Any]


@dataclass(slots=True, kw_only=True)
class NodeSpec:
    """What was said of a node, or of START."""

    key: str
    calls: NodeCalls | None = None
    graph: Graph | None = None
    app: App | None = None
    signature: Signature = field(default_factory=Signature)
    pre: Handler | None = None
    post: Handler | None = None
    pre_reading: Handler | None = None
    post_reading: Handler | None = None
    input_key: str | None = None
    output_key: str | None = None
    sends: dict[str, Send] = field(default_factory=dict)
    branches: list[BranchPlan] = field(default_factory=list)


class Graph:
    """A graph of nodes, to be compiled into an `App`.

    Args:
        input: the type of what the graph takes.
        output: the type of what it gives.
        state: makes a fresh state object for each run; often the state's class. ``None``: no state.
        name: what the root address is called by; ``compile(name=...)`` comes first.

    Raises:
        GraphBuildError: ``state`` is no function that makes a state.

    >>> graph = Graph(str, str)
    >>> graph.add_node("greet", lambda who: f"hello {who}")
    >>> graph.add_edge(START, "greet")
    >>> graph.add_edge("greet", END)
    >>> graph.compile().invoke("you")
    'hello you'
    """

    def __init__(
        self, input: Any = Any, output: Any = Any, *, state: Callable[[], Any] | None = None, name: str | None = None
    ) -> None:
        if state is not None and (not callable(state) or is_async(state)):
            raise GraphBuildError(
                f"state={state!r} makes no state; give a class or a plain function that returns a fresh one"
            )
        self.input = input
        self.output = output
        self.state = state
        self.name = name
        self.start = NodeSpec(key=START)
        self.nodes: dict[str, NodeSpec] = {}
        self.connections: list[tuple[str, Send]] = []
        self.compiled = False
        self._failure: GraphBuildError | None = None

    def add_node(
        self,
        key: str,
        node: Callable[[Any], Any] | Node | Graph | App,
        *,
        pre: Handler | None = None,
        post: Handler | None = None,
        input_key: str | None = None,
        output_key: str | None = None,
    ) -> None:
        """Add a node.

        Args:
            key: its key, which is part of addresses and checkpoints; keep it stable.
            node: a function of one value, sync or async, plain or a generator, whose chunks are its result; one whose
                parameter is annotated as a `StreamReader` takes chunks; a `Node` has several such shapes. Or a
                `ToolsNode`; or a `Graph`, which is nested and shares this graph's checkpoint, in this graph's mode; or an
                `App` without a store, which is nested likewise, as it was compiled.
            pre: ``(value, state) -> value``, before the node, with the state locked. One whose first parameter is
                annotated as a `StreamReader` takes and gives chunks.
            post: ``(value, state) -> value``, after the node, with the state locked; likewise.
            input_key: the node takes this item of the dict that arrives.
            output_key: its result travels on as ``{output_key: result}``.

        Raises:
            GraphBuildError: the key is taken or reserved, or the node can't be run.
        """
        with self._build():
            self._check_key(key)
            for what, handler in (("pre", pre), ("post", post)):
                if handler is not None and self.state is None:
                    raise GraphBuildError(
                        f"node {key!r} has a {what} handler and its graph has no state; give Graph(state=...)"
                    )
                if handler is not None:
                    check_call(f"the {what} handler of node {key!r}", handler, "a value and the state", 2)
            for what, item in (("input_key", input_key), ("output_key", output_key)):
                if item is not None and not isinstance(item, str):
                    raise GraphBuildError(f"{what}={item!r} of node {key!r} is no key; give text")
            spec = NodeSpec(key=key, input_key=input_key, output_key=output_key)
            if pre is not None:
                spec.pre, spec.pre_reading = value_handler(pre)
            if post is not None:
                spec.post, spec.post_reading = value_handler(post)
            self._describe(spec, node)
            self.nodes[key] = spec

    def add_edge(self, src: str, dst: str, *, control: bool = True, data: bool = True) -> None:
        """Connect two nodes.

        Args:
            src: a node's key, or START.
            dst: a node's key, or END.
            control: whether ``dst`` runs because of ``src``.
            data: whether ``dst`` gets the value of ``src``.

        Raises:
            GraphBuildError: a node is not there, or the edge is already.
        """
        with self._build():
            source = self._source(src)
            self._check_target(dst, f"edge {src!r} -> {dst!r}")
            if dst in source.sends:
                raise GraphBuildError(f"edge {src!r} -> {dst!r} is there already; an edge is added once")
            if not control and not data:
                raise GraphBuildError(
                    f"edge {src!r} -> {dst!r} has neither control nor data, so it does nothing; leave it out"
                )
            source.sends[dst] = Send(dst, control, data)
            self.connections.append((src, source.sends[dst]))

    def add_branch(self, src: str, choose: Callable[[Any], Any], ends: Iterable[str]) -> None:
        """Let a function choose where to go on after a node; a node may have several branches.

        Args:
            src: a node's key, or START.
            choose: gets the node's value and returns the key of an end, or several keys, or an empty list. One whose
                parameter is annotated as a `StreamReader` gets a copy of the chunks and need not read them all.
            ends: all that it may choose, END included where it may.

        Raises:
            GraphBuildError: a node is not there, or there is no end.
        """
        with self._build():
            source = self._source(src)
            check_call(f"a branch on {src!r}", choose, "the node's value", 1)
            if not isinstance(ends, Iterable):
                raise GraphBuildError(f"a branch on {src!r} has ends {ends!r}; give a list of node keys")
            named = (ends,) if isinstance(ends, str) else tuple(ends)
            if not named:
                raise GraphBuildError(f"a branch on {src!r} has no ends; name the nodes it may choose")
            for end in named:
                self._check_target(end, f"branch {src!r} -> {end!r}")
            keys = tuple(dict.fromkeys(named))
            reading = choose if reads_chunks(choose) else None
            source.branches.append(BranchPlan(value_choice(choose), keys, reading))
            self.connections.extend((src, Send(end)) for end in keys)

    def compile(
        self,
        *,
        store: CheckPointStore | AsyncCheckPointStore | None = None,
        mode: str = "pregel",
        eager: bool = True,
        max_steps: int | None = None,
        interrupt_before: Iterable[str] = (),
        interrupt_after: Iterable[str] = (),
        serializer: Serializer | None = None,
        envelope: Envelope | None = None,
        migrations: StateMigrations | None = None,
        durability: str = "exit",
        when_done: str = "mark",
        name: str | None = None,
        mark_source_end: bool = False,
        keep_chunks: bool = False,
        flatten_timeout: timedelta | None = None,
    ) -> App:
        """Check the whole graph and return what runs it; the graph can't be changed afterwards.

        Args:
            store: where checkpoints are kept; ``None``: the app can't be given checkpoint ids.
            mode: ``"pregel"``: a node runs when any predecessor wrote to it, in super-steps, loops allowed; ``"dag"``:
                a node runs once all its predecessors are done or passed over.
            eager: in dag mode, whether a node starts the moment it is ready, or in steps.
            max_steps: how many super-steps a run may take, pregel only; ``None``: the number of nodes + 10.
            interrupt_before: nodes to stop before.
            interrupt_after: nodes to stop after.
            serializer: makes bytes of checkpoints; ``None``: a `MsgpackSerializer` with the default registry.
            envelope: the frame round them; ``None``: an `Envelope` with its defaults.
            migrations: a `blobcp.migrations.Migrations`: its version is stamped on new checkpoints, and older ones are
                brought up to it when they are loaded; ``None``: checkpoints have no version, and such as have one are
                refused.
            durability: ``"exit"``: a checkpoint is stored when a run stops.
            when_done: what becomes of the checkpoint of a run that finished: ``"mark"`` replaces it by a header-only
                mark, ``"delete"`` removes it, ``"keep"`` leaves it.
            name: what the root address is called by; ``None``: the graph's name, else ``"root"``.
            mark_source_end: whether a stream run puts a `SourceEnd` into its output where a node that feeds END has ended.
            keep_chunks: whether a checkpoint keeps the chunks of streams apart; else each becomes one value.
            flatten_timeout: how long a checkpoint waits for each stream to end; ``None`` for any time.

        Raises:
            GraphBuildError: the graph can't run like this; the message names the nodes.
        """
        from blobcp.graph.compile import compile_app

        self._refuse_after_failure()
        called = name if name is not None else self.name if self.name is not None else "root"
        return compile_app(
            self,
            store=store,
            mode=mode,
            eager=eager,
            max_steps=max_steps,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            serializer=serializer,
            envelope=envelope,
            migrations=migrations,
            durability=durability,
            when_done=when_done,
            name=called,
            mark_source_end=mark_source_end,
            saving=StreamSaving(keep_chunks, flatten_timeout),
        )

    def _describe(self, spec: NodeSpec, node: Callable[[Any], Any] | Node | Graph | App) -> None:
        from blobcp.graph.app import App

        if isinstance(node, Graph):
            spec.graph = node
            spec.signature = Signature(node.input, node.output)
        elif isinstance(node, App):
            if node.store is not None:
                raise GraphBuildError(
                    f"node {spec.key!r} is an app with a store of its own; compile it without one to nest it, "
                    "or call it from a function to keep its checkpoints apart"
                )
            if node.migrations is not None:
                raise GraphBuildError(
                    f"node {spec.key!r} is an app with migrations of its own, which would not be used; give them to the outer "
                    f"graph's compile, narrowed by path=({spec.key!r},)"
                )
            spec.app = node
            spec.signature = Signature(node.graph.input, node.graph.output)
        else:
            spec.calls = NodeCalls.of(spec.key, node)
            spec.signature = spec.calls.signature

    def _check_key(self, key: str) -> None:
        if not is_text(key):
            raise GraphBuildError(f"node key {key!r} is no key; give non-empty text, without lone surrogates")
        if key in (START, END):
            raise GraphBuildError(f"node key {key!r} is reserved; choose another")
        if key in self.nodes:
            raise GraphBuildError(f"node {key!r} is there already; keys are unique within a graph")

    def _source(self, key: str) -> NodeSpec:
        if key == END:
            raise GraphBuildError(f"{END!r} can't be a source; it is where the output goes")
        if not isinstance(key, str):
            raise GraphBuildError(f"{key!r} is no node key; give text")
        spec = self.start if key == START else self.nodes.get(key)
        if spec is None:
            raise GraphBuildError(
                f"node {key!r} is not there; add it before its edges. Known nodes: {list(self.nodes)}"
            )
        return spec

    def _check_target(self, key: str, what: str) -> None:
        if key == START:
            raise GraphBuildError(f"{what}: {START!r} can't be a target; it is where the input comes in")
        if not isinstance(key, str):
            raise GraphBuildError(f"{what}: {key!r} is no node key; give text")
        if key != END and key not in self.nodes:
            raise GraphBuildError(f"{what}: node {key!r} is not there; add it first. Known nodes: {list(self.nodes)}")

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            raise GraphBuildError(str(self._failure)) from self._failure

    @contextmanager
    def _build(self) -> Iterator[None]:
        """One build call: refused after compile and after a failed one; the first failure is the one reported."""
        self._refuse_after_failure()
        if self.compiled:
            raise GraphBuildError("the graph is already compiled; build a new one to change it")
        try:
            yield
        except GraphBuildError as error:
            self._failure = error
            raise
