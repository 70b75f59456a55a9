# make demo: set up and run the main job on a capture with known truth
# make test: set up and run the tests; make test-env: build a real environment, too
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: setup setup-dev demo test test-env check clean

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints-dev.txt --editable ".[dev]"
	@touch $@ $(VENV)/.installed

demo: setup
	$(BIN)/smr demo --out demo

check: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: setup-dev check
	$(BIN)/python -m pytest -m "not slow"

# an environment from plan to offline restore, with the real torch: minutes, and 200 MB from the package index
test-env: setup-dev
	$(BIN)/python -m pytest -m slow tests/test_env_source.py

clean:
	rm -rf $(VENV) demo out
