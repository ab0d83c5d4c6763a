"""A run that is cut at every stop, and taken through bytes each time, against the same run uncut.

Random graphs ask random questions. Each stop is answered in part or in full, in any order, sometimes forked, sometimes
just run again; every step is made by a freshly built app, as a new process would. The uncut run, which knows all
answers beforehand, is the oracle: same output, same states, every node body finished exactly once.
"""

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
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.mark.timeout(600)  # a failure takes a while to be made small
@pytest.mark.parametrize("runner", RUNNERS)
@given(spec=graph_specs(), seed=SEEDS)
@settings(max_examples=60, suppress_health_check=SLOW_IS_FINE)
def test_cut_and_uncut(runner: Runner, spec: GraphSpec, seed: int) -> None:
    """A run cut at every stop ends as the uncut run does: output, states, and every body finished once."""
    compare(runner, spec, seed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runner", RUNNERS)
@given(spec=graph_specs(depth=1, max_width=2), seed=SEEDS)
@settings(max_examples=25, suppress_health_check=SLOW_IS_FINE)
def test_a_loop_cut_and_uncut(runner: Runner, spec: GraphSpec, seed: int) -> None:
    """The same for a loop that visits a nested graph three times: each visit is asked anew, and is run once."""
    compare(runner, spec, seed, rounds=3)


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("BLOBCP_FULL"), reason="BLOBCP_FULL=1 runs it")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("runner", RUNNERS)
@given(spec=graph_specs(), seed=SEEDS)
@settings(max_examples=1000, suppress_health_check=SLOW_IS_FINE)
def test_cut_and_uncut_for_long(runner: Runner, spec: GraphSpec, seed: int) -> None:
    """The same with many more graphs, some of them in a loop."""
    compare(runner, spec, seed, rounds=2 if seed % 4 == 0 else 0)
