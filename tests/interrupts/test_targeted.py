"""Targeted resume: what answers name runs again, all else stays pending; who counts as a target, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from drivers import Runner
from graphs import Calls
from pausing import Note, answer_all, asked, ids, places, solo, stopped, stopped_again

from blobcp import (
    END,
    NO_DATA,
    START,
    Graph,
    InterruptSignal,
    InterruptStateView,
    ResumeData,
    address_segment,
    composite_interrupt,
    get_interrupt_state,
    get_resume_data,
    interrupt,
    serializable,
)
from blobcp.stores import FileStore, MapStore


@serializable("tests.interrupts.Step")
@dataclass
class Step:
    """What a process of the batch keeps."""

    number: int


def batch(parts: tuple[str, ...], calls: Calls | None = None) -> Any:
    """Return B090's composite node, which runs processes under child addresses and keeps what has finished."""

    def process(part: str) -> str:
        was_interrupted, has_state, state = get_interrupt_state(Step)
        is_target, has_data, data = get_resume_data(str)
        if calls is not None:
            calls.note(part, (was_interrupted, has_state, is_target, has_data))
        if not is_target:
            interrupt(f"process {part} needs instruction", state if has_state else Step(1))
        return f"process {part} done" + (f" with instruction: {data}" if has_data else "")

    def node(text: str) -> dict[str, str]:
        _, has_state, done = get_interrupt_state(dict)
        results: dict[str, str] = dict(done) if has_state else {}
        stops: list[BaseException] = []
        for part in parts:
            if part not in results:
                try:
                    with address_segment("process", part):
                        results[part] = process(part)
                except InterruptSignal as signal:
                    stops.append(signal)
        if stops:
            raise composite_interrupt(None, results, stops)
        return {part: results[part] for part in parts}

    return node


def two_composites(seen: list[tuple[str, bool]], **options: Any) -> Any:
    """Return an app of two composite nodes A and B that note whether they are targets."""

    def composite(key: str) -> Any:
        run = batch(("p",))

        def node(text: str) -> Any:
            seen.append((key, get_resume_data().is_target))
            return run(text)

        return node

    graph = Graph(str, dict)
    for key in ("A", "B"):
        graph.add_node(key, composite(key), output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    return graph.compile(store=MapStore(), **options)


def test_a_batch(runner: Runner, mode: dict[str, Any], store: MapStore | FileStore) -> None:
    """B090: of three processes one is answered with data, one without, one later; what finished is not run again."""
    calls = Calls()
    app = solo(batch(("p0", "p1", "p2"), calls), key="batch").compile(store=store, **mode)
    first = stopped(runner, app, "in", checkpoint_id="1")
    point = {info.split()[1]: id for info, id in ids(first).items()}

    assert places(first) == [f"runnable:root;node:batch;process:p{number}" for number in range(3)]
    second = stopped_again(runner, app, "1", {point["p0"]: "do it", point["p2"]: NO_DATA})
    assert ids(second) == {"process p1 needs instruction": point["p1"]}
    assert runner.resume(app, "1", {point["p1"]: NO_DATA}) == {
        "p0": "process p0 done with instruction: do it",
        "p1": "process p1 done",
        "p2": "process p2 done",
    }
    assert dict(calls.count) == {"p0": 2, "p1": 3, "p2": 2}


def test_a_child_that_is_not_named(runner: Runner, mode: dict[str, Any]) -> None:
    """B091: a child of a composite that runs sees that it is no target, has its state, and stops under the same id."""
    calls = Calls()
    app = solo(batch(("p0", "p1"), calls), key="batch").compile(store=MapStore(), **mode)
    first = stopped(runner, app, "in", checkpoint_id="1")
    stopped_again(runner, app, "1", {first.interrupts[0].id: "x"})

    assert calls.inputs["p0"] == [(False, False, False, False), (True, True, True, True)]
    assert calls.inputs["p1"] == [(False, False, False, False), (True, True, False, False)]
    (left,) = runner.pending(app, "1")
    assert (left.id, left.created_at) == (first.interrupts[1].id, first.interrupts[1].created_at)


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (NO_DATA, ResumeData(True, False, None)),
        (5, ResumeData(True, False, None)),
        ("text", ResumeData(True, True, "text")),
    ],
    ids=["no data", "other class", "data"],
)
def test_data_of_the_class_asked_for(runner: Runner, mode: dict[str, Any], data: Any, seen: ResumeData) -> None:
    """B091: a target without data, or with data of another class than asked for, is a target that has no data."""
    found: list[ResumeData] = []

    def node(text: str) -> str:
        if not get_interrupt_state().was_interrupted:
            interrupt("q")
        found.append(get_resume_data(str))
        return text

    app = solo(node).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")

    assert runner.resume(app, "1", {stop.interrupts[0].id: data}) == "in"
    assert found == [seen]


def test_a_target_without_data_asks_again(runner: Runner, mode: dict[str, Any]) -> None:
    """P2: a question that is named without data is asked again, and keeps its id since nobody has answered it."""
    calls = Calls()

    def node(text: str) -> str:
        calls.note("n", get_resume_data())
        return text + interrupt("q")

    app = solo(node).compile(store=MapStore(), **mode)
    first = stopped(runner, app, "in", checkpoint_id="1")
    second = stopped_again(runner, app, "1", {ids(first)["q"]: NO_DATA})

    assert ids(second) == ids(first)
    assert calls.inputs["n"] == [ResumeData(False, False, None), ResumeData(True, False, None)]
    assert runner.resume(app, "1", {ids(first)["q"]: "!"}) == "in!"


def test_a_node_that_is_not_named_is_not_entered(runner: Runner, mode: dict[str, Any]) -> None:
    """F03, P2, B091: answering one of two nodes leaves the other one alone, with its id and its state."""
    calls = Calls()
    states: list[InterruptStateView] = []

    def node(key: str) -> Any:
        def run(text: str) -> Any:
            calls.note(key)
            if key == "b":
                states.append(get_interrupt_state())
            return interrupt(f"q{key}", state={"kept": key})

        return run

    graph = Graph(str, dict)
    for key in ("a", "b"):
        graph.add_node(key, node(key), output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore(), **mode)
    first = stopped(runner, app, "in", checkpoint_id="1")
    second = stopped_again(runner, app, "1", {ids(first)["qa"]: "A"})

    assert ids(second) == {"qb": ids(first)["qb"]}
    assert (calls["a"], calls["b"]) == (2, 1)
    assert runner.resume(app, "1", {ids(first)["qb"]: "B"}) == {"a": "A", "b": "B"}
    assert (calls["a"], calls["b"]) == (2, 2)
    assert states[-1] == InterruptStateView(True, True, {"kept": "b"})


def test_parked_again_and_again(runner: Runner, mode: dict[str, Any]) -> None:
    """F03, the second time: a node that stays pending over several resumes and forks is entered once in all."""
    calls = Calls()
    graph = Graph(str, dict)

    def asker(text: str) -> list[Any]:
        calls.note("asker")
        return [interrupt("q1"), interrupt("q2"), interrupt("q3")]

    def patient(text: str) -> str:
        calls.note("patient", text)
        return text + str(interrupt("patient"))

    for key, node in (("asker", asker), ("patient", patient)):
        graph.add_node(key, node, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="0")
    waits = ids(stop)["patient"]
    for number in (1, 2, 3):
        answers = {ids(stop)[f"q{number}"]: number}
        stop = stopped_again(runner, app, str(number - 1), answers, write_to_checkpoint_id=str(number))
        assert ids(stop)["patient"] == waits

    assert asked(stop) == ["patient"]
    assert (calls["asker"], calls["patient"]) == (4, 1)
    assert runner.resume(app, "3", answer="!") == {"asker": [1, 2, 3], "patient": "in!"}
    assert calls.inputs["patient"] == ["in", "in"]


def test_targets_above_and_beside(runner: Runner, mode: dict[str, Any]) -> None:
    """B092, K16: a composite is a target when something inside it is named, not when only a sibling is."""
    seen: list[tuple[str, bool]] = []
    app = two_composites(seen, **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    seen.clear()
    stop = stopped(runner, app, "in", checkpoint_id="1")

    assert sorted(seen) == [("A", False), ("B", False)]
    seen.clear()
    second = stopped_again(runner, app, "1", {stop.interrupts[0].id: NO_DATA})
    assert seen == [("A", True)]
    assert places(second) == ["runnable:root;node:B;process:p"]


def test_a_child_named_inside_one_of_two(runner: Runner, mode: dict[str, Any]) -> None:
    """B092: within a composite, a place is a target when it or something inside it is named, and no other place is."""
    seen: dict[str, bool] = {}

    def node(text: str) -> str:
        stops: list[BaseException] = []
        seen["node"] = get_resume_data().is_target
        for outer in ("x", "y"):
            with address_segment("outer", outer):
                seen[outer] = get_resume_data().is_target
                for part in ("p", "q"):
                    with address_segment("inner", part):
                        seen[outer + part] = get_resume_data().is_target
                        if not get_resume_data().has_data:
                            try:
                                interrupt(outer + part)
                            except InterruptSignal as signal:
                                stops.append(signal)
        if stops:
            raise composite_interrupt(None, None, stops)
        return text

    app = solo(node).compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    stopped_again(runner, app, "1", {ids(stop)["yp"]: "data"})

    assert [key for key, is_target in seen.items() if is_target] == ["node", "y", "yp"]


def test_plans_add_up(runner: Runner, mode: dict[str, Any]) -> None:
    """B093: two plans put together target both; changing the dict while the run is under way has no effect."""
    plan: dict[str, Any] = {}

    def node(key: str) -> Any:
        def run(text: str) -> Any:
            data = get_resume_data().data
            plan.clear()
            return data if get_interrupt_state().was_interrupted else interrupt(key)

        return run

    graph = Graph(str, dict)
    for key in ("a", "b"):
        graph.add_node(key, node(key), output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    app = graph.compile(store=MapStore(), **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    plan.update({ids(stop)["a"]: "initial"} | {ids(stop)["b"]: "additional"})

    assert runner.resume(app, "1", plan) == {"a": "initial", "b": "additional"}


def test_one_plan_for_two_runs(runner: Runner, mode: dict[str, Any]) -> None:
    """B093, K18: a plan is not used up: given to two forks of one stop, it gives both the same targets."""
    seen: list[tuple[str, bool]] = []
    app = two_composites(seen, **mode)
    stop = stopped(runner, app, "in", checkpoint_id="1")
    plan = answer_all(stop, lambda info: "go")
    kept = dict(plan)
    seen.clear()
    results = [runner.resume(app, "1", plan, write_to_checkpoint_id=fork) for fork in ("f1", "f2")]

    assert plan == kept
    assert results[0] == results[1]
    assert results[0]["A"] == results[0]["B"] == {"p": "process p done with instruction: go"}
    assert sorted(seen) == [("A", True), ("A", True), ("B", True), ("B", True)]


def test_delivered_once_in_a_run(runner: Runner) -> None:
    """B095: in a later visit of the same run nothing is left of an answer: no state, no target, no interrupt."""
    calls = Calls()
    graph = Graph(list, list, state=Note)

    def tools(requests: list[str]) -> list[str]:
        calls.note("tools", get_resume_data().is_target)
        results: list[str] = []
        stops: list[BaseException] = []
        for name in requests:
            try:
                with address_segment("tool", "ask", name):
                    calls.note(name, (get_interrupt_state(), get_resume_data()))
                    results.append(str(interrupt(f"approve {name}?", state=name)) if name != "call_3" else "free")
            except InterruptSignal as signal:
                stops.append(signal)
        if stops:
            raise composite_interrupt(None, None, stops)
        return results

    def model(results: list[str]) -> list[str]:
        return ["call_1", "call_2"] if not results else ["call_3"] if len(results) == 2 else ["done"]

    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_branch("model", lambda requests: END if requests == ["done"] else "tools", [END, "tools"])
    graph.add_edge("tools", "model")
    app = graph.compile(store=MapStore())
    stop = stopped(runner, app, [], checkpoint_id="1")
    stopped_again(runner, app, "1", {ids(stop)["approve call_1?"]: "yes"})

    assert runner.resume(app, "1", {ids(stop)["approve call_2?"]: "no"}) == ["done"]
    assert calls.inputs["tools"] == [False, True, True, False]
    assert calls.inputs["call_3"] == [(InterruptStateView(False, False, None), ResumeData(False, False, None))]
    assert calls.inputs["call_2"][-1] == (InterruptStateView(True, True, "call_2"), ResumeData(True, True, "no"))
