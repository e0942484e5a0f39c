# Each target does everything from a fresh clone with Python 3.11 to 3.13 and nothing else.
#   make demo       train a speech translator on the embedded corpus and score it
#   make test       the fast tests
#   make test-all   all tests: slow, parity, resume, recipes too
#   make lint       style, docstrings, types
#   make format     put the style right
# PYTHON=python3.12 make test   chooses the interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FAST := not slow and not parity and not resume and not recipes

.PHONY: demo test test-all lint format clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed-demo
	$(BIN)/dragoman demo

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -m "$(FAST)" $(PYTEST)

test-all: $(VENV)/installed-hf
	$(BIN)/python -m pytest $(PYTEST)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 14) else \
	  "dragoman needs Python 3.11 to 3.13, and $(PYTHON) is %d.%d: choose another with PYTHON=python3.12 make ..." % v)'
	$(PYTHON) -m venv $(VENV)

# The tests run the demo's corpus too; the linter reads everything.
$(VENV)/installed-demo: EXTRAS := demo
$(VENV)/installed-test: EXTRAS := demo,test
$(VENV)/installed-hf: EXTRAS := demo,test,hf
$(VENV)/installed-dev: EXTRAS := demo,test,dev

$(VENV)/installed-%: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@
