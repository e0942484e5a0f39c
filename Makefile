# Each target does everything from a fresh clone with Python 3.11 to 3.14 and nothing else.
#   make demo       train a speech translator on the embedded corpus and score it
#   make test       the fast tests
#   make test-all   all tests: slow, parity, resume, recipes too
#   make test-serve  all tests of the server, the page in a real browser too (needs Chromium)
#   make lint       style, docstrings, types, the Dockerfile
#   make format     put the style right
#   make docs       the documentation as a site, with pages of the Python interface: site/index.html
#   make wheel-check  build the wheel, install it without the checkout, and run its command
#   make image-check  run the steps of the Dockerfile without Docker, and ask the server that they make
#   make fairseq-env  the real fairseq 0.12.2 in an environment of its own (needs Python 3.10; torch: some GB)
#   make comet-env  the real unbabel-comet 2.2.7 in an environment of its own, and its scores of small checkpoints
#   make parity     fairseq, transformers and this project side by side; writes docs/parity.md
#   make gpu        check a machine with a GPU: tests and benchmarks, eight minutes; recipes: make gpu GPU="--part recipes"
#   make offline    gather the packages that a machine without a network lacks: make offline HAS=list.txt
#   make bench      speed and memory beside others': what there is; make bench BENCH="run NAME" runs one
# PYTHON=python3.12 make test   chooses the interpreter; make gpu takes the one given as it is, without an environment.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FAST := not slow and not parity and not resume and not recipes and not gpu

# fairseq is frozen: it needs Python 3.10, and an old pip for the metadata of what it depends on.
# TORCH_INDEX=https://download.pytorch.org/whl/cpu saves some GB where only a CPU is at hand.
FAIRSEQ_ENV ?= .fairseq-env
FAIRSEQ_PYTHON ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.10.*/bin/python3.10) python3.10)
FAIRSEQ_PIP := $(FAIRSEQ_ENV)/bin/python -m pip install --quiet --disable-pip-version-check

# unbabel-comet wants an older numpy, transformers and protobuf than this project; SentencePiece 0.2.1 a newer protobuf.
COMET_ENV ?= .comet-env

# A machine with a GPU and without a network has its own torch, and no way to make an environment.
GPU_PYTHON := $(if $(filter file,$(origin PYTHON)),$(or $(wildcard $(BIN)/python),$(PYTHON)),$(PYTHON))

# Tests start Python hundreds of times: without bytecode each start compiles the modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-serve lint format docs wheel-check image-check clean fairseq-env comet-env parity bench gpu offline
.DELETE_ON_ERROR:

demo: $(VENV)/installed-demo
	$(BIN)/dragoman demo

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -m "$(FAST)" --hypothesis-profile quick --numprocesses auto --maxprocesses 4 \
	  --dist worksteal $(PYTEST)

test-all: $(VENV)/installed-all
	$(BIN)/python -m pytest $(PYTEST)

test-serve: $(VENV)/installed-browser
	$(BIN)/python -m pytest tests/dragoman/serving $(PYTEST)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site needs no network, neither to be made nor to be read.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel-check: $(VENV)/installed-dev
	$(BIN)/python scripts/check_wheel.py

image-check: $(VENV)/installed-dev
	$(BIN)/python scripts/check_image.py

fairseq-env: $(FAIRSEQ_ENV)/installed

# fairseq is built before torch is there: then it leaves out what only its non-autoregressive models need, and what its
# source archive forgot. scikit-learn and the like are of no use to translation, but it asks for them.
$(FAIRSEQ_ENV)/installed:
	$(FAIRSEQ_PYTHON) -m venv $(FAIRSEQ_ENV)
	$(FAIRSEQ_PIP) 'pip<24.1' 'setuptools<70' wheel 'numpy<1.24' 'cython<3'
	$(FAIRSEQ_PIP) --no-build-isolation --no-deps fairseq==0.12.2
	$(FAIRSEQ_PIP) $(addprefix --extra-index-url ,$(TORCH_INDEX)) torch==2.11.0 torchaudio==2.11.0
	$(FAIRSEQ_PIP) 'numpy<1.24' 'hydra-core<1.1' 'omegaconf<2.1' 'setuptools<70' regex sacrebleu bitarray tqdm cffi \
	  scikit-learn sentencepiece safetensors soundfile 'pandas<2'
	$(FAIRSEQ_ENV)/bin/python -c 'import fairseq; assert fairseq.__version__ == "0.12.2"' 2> /dev/null
	@touch $@

comet-env: $(COMET_ENV)/installed $(VENV)/installed-all
	rm -rf $(COMET_ENV)/fixtures
	$(COMET_ENV)/bin/python tests/parity/make_comet_fixtures.py --out $(COMET_ENV)/fixtures --seed 2
	COMET_FIXTURES=$(abspath $(COMET_ENV))/fixtures $(BIN)/python -m pytest tests/parity/test_comet.py $(PYTEST)

$(COMET_ENV)/installed:
	$(PYTHON) -m venv $(COMET_ENV)
	$(COMET_ENV)/bin/python -m pip install --quiet --disable-pip-version-check \
	  $(addprefix --extra-index-url ,$(TORCH_INDEX)) unbabel-comet==2.2.7 sentencepiece==0.2.0 'setuptools<82'
	@touch $@

# Fixtures made anew, with other random weights and another model trained: nothing committed is looked at.
parity: $(VENV)/installed-all $(FAIRSEQ_ENV)/installed
	$(BIN)/python -c 'from dragoman.almanac import Almanac; Almanac(root="$(FAIRSEQ_ENV)/almanac", layouts=["moses"], \
	  pairs=[["en", "de"]], languages=["en", "de"], sizes={"text": 6000}).write()'
	$(BIN)/python -m tests.parity.lines $(FAIRSEQ_ENV)/lines.json
	$(FAIRSEQ_ENV)/bin/python tests/parity/make_fairseq_fixtures.py --out $(FAIRSEQ_ENV)/fixtures --seed 2 \
	  --corpus $(FAIRSEQ_ENV)/almanac/text --lines $(FAIRSEQ_ENV)/lines.json
	$(FAIRSEQ_ENV)/bin/python tests/parity/make_fairseq_speech_fixtures.py --out $(FAIRSEQ_ENV)/speech --seed 2
	FAIRSEQ_FIXTURES=$(abspath $(FAIRSEQ_ENV))/fixtures FAIRSEQ_SPEECH_FIXTURES=$(abspath $(FAIRSEQ_ENV))/speech \
	  $(BIN)/python -m pytest tests/parity --junitxml $(FAIRSEQ_ENV)/parity.xml -o junit_family=xunit1 $(PYTEST)
	$(BIN)/python tests/parity/table.py $(FAIRSEQ_ENV)/parity.xml

# With fairseq among the others if `make fairseq-env` has been run.
bench: $(VENV)/installed-all
	FAIRSEQ_ENV=$(abspath $(FAIRSEQ_ENV)) $(BIN)/python -m benchmarks $(BENCH)

gpu:
	$(GPU_PYTHON) -m benchmarks.gpu $(GPU)

offline: $(VENV)/installed-test
	$(BIN)/python -m benchmarks.offline $(if $(HAS),--has $(HAS)) $(OFFLINE)

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 15) else \
	  "dragoman needs Python 3.11 to 3.14, and $(PYTHON) is %d.%d: choose another with PYTHON=python3.12 make ..." % v)'
	$(PYTHON) -m venv $(VENV)

# The tests run the demo's corpus too; the linter reads everything.
$(VENV)/installed-demo: EXTRAS := demo
$(VENV)/installed-test: EXTRAS := demo,test,vad
$(VENV)/installed-all: EXTRAS := demo,test,vad,resegment,hf,export,adapters,adam8bit,parity
$(VENV)/installed-dev: EXTRAS := demo,test,dev
$(VENV)/installed-docs: EXTRAS := docs
$(VENV)/installed-browser: EXTRAS := demo,test,browser

# Modules are compiled when they are first imported: most never are, and all of them take two minutes.
$(VENV)/installed-%: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@
