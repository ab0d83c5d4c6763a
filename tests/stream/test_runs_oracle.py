"""Stream runs of random graphs with streaming nodes, cut at every stop and resumed by either kind of run."""

from __future__ import annotations

import os

import pytest
from cutting import compare
from drivers import AsyncRunner, Runner, SyncRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import GraphSpec, graph_specs

RUNNERS = [pytest.param(SyncRunner(), id="sync"), pytest.param(AsyncRunner(), id="async")]
SEEDS = st.integers(0, 2**32)
KINDS = st.sampled_from(["s", "vs"])
SHAPES = ("invoke", "stream", "transform")
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.mark.timeout(600)  # a failure takes a while to be made small
@pytest.mark.parametrize("runner", RUNNERS)
@given(spec=graph_specs(shapes=SHAPES), seed=SEEDS, kinds=KINDS)
@settings(max_examples=40, suppress_health_check=SLOW_IS_FINE)
def test_streams_cut_and_uncut(runner: Runner, spec: GraphSpec, seed: int, kinds: str) -> None:
    """A stream run cut at every stop ends as the uncut value run does: output, states, every body finished once."""
    compare(runner, spec, seed, kinds=kinds)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runner", RUNNERS)
@given(spec=graph_specs(depth=1, max_width=2, shapes=SHAPES), seed=SEEDS, kinds=KINDS)
@settings(max_examples=15, suppress_health_check=SLOW_IS_FINE)
def test_a_loop_of_streams_cut_and_uncut(runner: Runner, spec: GraphSpec, seed: int, kinds: str) -> None:
    """The same for a loop that visits a nested graph three times."""
    compare(runner, spec, seed, rounds=3, kinds=kinds)


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("BLOBCP_FULL"), reason="BLOBCP_FULL=1 runs it")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("runner", RUNNERS)
@given(spec=graph_specs(shapes=SHAPES), seed=SEEDS, kinds=KINDS)
@settings(max_examples=1000, suppress_health_check=SLOW_IS_FINE)
def test_streams_cut_and_uncut_for_long(runner: Runner, spec: GraphSpec, seed: int, kinds: str) -> None:
    """The same with many more graphs, some of them in a loop."""
    compare(runner, spec, seed, rounds=2 if seed % 4 == 0 else 0, kinds=kinds)
