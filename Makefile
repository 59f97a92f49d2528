# The commands of the README. Each sets up everything it needs in .venv, from pinned versions.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo serve test test-gpu browser format clean

demo: $(READY)
	$(BIN)/ndp demo

serve: $(READY)
	$(BIN)/ndp serve

test: $(READY) browser
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest -n auto --dist worksteal

# The tests that need a CUDA device, on a machine that has one, with its own Python and packages: nothing is installed.
test-gpu:
	NDP_TEST_GPU=1 PYTHONPATH=src $(PYTHON) -m pytest -m gpu $$(grep -rl --include='test_*.py' 'mark\.gpu' tests)

# The tests of the page need a Chromium. Where none is and none can be installed, they are skipped, and say so.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && { apt-get update -qq; apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }; } \
	|| echo "No Chromium here, and it cannot be installed: the tests of the page will be skipped."

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
