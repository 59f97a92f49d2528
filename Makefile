# The two commands of the README. Each sets up everything it needs in .venv, from pinned versions.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test format clean

demo: $(READY)
	$(BIN)/ndp demo

test: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest -n auto

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ndp needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
