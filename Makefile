# Needs nothing but Python >= 3.11, pip and make: every target makes the virtual environment that it runs in.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check soak bench clean

demo: $(VENV)/installed-core
	$(BIN)/python examples/refund_agent.py

test: $(VENV)/installed-test
	$(BIN)/pytest -m "not soak"

check: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy blobcp tests/typing examples
	$(BIN)/pytest -q tests/test_layering.py

# The long, random tests; BLOBCP_FULL=1 asks those that scale for their full number of rounds.
soak: $(VENV)/installed-test
	BLOBCP_FULL=1 $(BIN)/pytest -m soak

bench: $(VENV)/installed-bench
	$(BIN)/python benchmarks/step_cost.py
	$(BIN)/python benchmarks/stream_cost.py
	$(BIN)/python benchmarks/codec_cost.py
	$(BIN)/python benchmarks/store_cost.py
	$(BIN)/python benchmarks/migration_cost.py

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "blobcp needs Python 3.11 or newer; say make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-core: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@
