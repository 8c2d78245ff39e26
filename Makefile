# Every target makes and updates the virtual environment that it needs: .venv, from Python >= 3.11 alone.
#
#   make demo        compute a picture: examples/photo.py
#   make test        everything that CI checks: lint, types, layers, wheel, documentation, tests
#
#   make lint | wheel | doc-blocks | pytest    the parts of it
#   make rooms       compile the hot rooms of the tracer again, if their sources have changed
#   make exhaustive  the long tests as well        make bench   benchmarks, as ratios
#   make conformance the suite of the array API standard, of which ARRAY_API_TESTS names a checkout
#   make ptx         assemble kernels for GPUs, if an assembler is installed
#   make consumers   scikit-learn and SciPy on arrays of drjit.array_api, as a table
#   make docs        HTML in docs/_build/html      make stubs   write drjit/**/*.pyi
#   make reference   write docs/what-exists.md
#   make clean       remove what was built

VENV := .venv
BIN := $(VENV)/bin
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
SUITABLE := import sys; sys.exit(sys.version_info < (3, 11))
# The first of the candidates that is new enough; `make PYTHON=…` chooses another one.
PYTHON ?= $(shell for p in $(CANDIDATES); do $$p -c '$(SUITABLE)' 2>/dev/null && { echo $$p; break; }; done)
# Bytecode is made of what is imported, when it is, and kept: each process of the tests would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check install --progress-bar off --quiet --no-compile
BUILDERS := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])
NEEDED_BY_demo := first examples need
NEEDED_BY_dev := tests, checks and examples need
NEEDED_BY_docs := documentation needs
WORKERS ?= 2
WITH_PLAIN_ROOMS := $(addprefix tests/,arrays control core derivatives math ops runtime)
BENCHMARKS := $(wildcard benchmarks/*.py)

.DEFAULT_GOAL := help
.PHONY: help demo test lint wheel doc-blocks pytest rooms exhaustive bench conformance ptx consumers docs stubs reference clean

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//;p' Makefile

# What is installed is unpacked while the rooms are compiled.
demo: $(VENV)/.installed-build
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.installed-demo rooms
	$(BIN)/python examples/photo.py

test: lint wheel doc-blocks pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/mypy

wheel: $(VENV)/.installed-dev rooms
	$(BIN)/python conformance/check_wheel.py

doc-blocks: $(VENV)/.installed-dev rooms
	$(BIN)/python conformance/run_doc_blocks.py

# Each test runs in one form of the rooms, plain or compiled (see tests/conftest.py).
pytest: $(VENV)/.installed-dev rooms
	DRJIT_PURE=1 DRJIT_OPT_LEVEL=2 $(BIN)/python -m pytest -n $(WORKERS) --form=plain
	$(BIN)/python -m pytest -n $(WORKERS) --second --one-of 4 tests/arrays tests/core
	$(BIN)/python -m pytest -n $(WORKERS) --cuda=machine --one-of 40 tests/arrays tests/control tests/core tests/derivatives
	$(BIN)/python -m pytest --cuda=machine tests/interop/test_gpu.py
	$(BIN)/python -m pytest -n $(WORKERS) --cuda=machine tests/array_api/test_devices.py
	$(BIN)/python -m pytest -n $(WORKERS) --form=compiled

# The one recipe that compiles: installations take what it made (see setup.py).
rooms: $(VENV)/.installed-build
	@$(BIN)/python setup.py --quiet build_ext --inplace

exhaustive: $(VENV)/.installed-dev rooms
	DRJIT_PURE=1 DRJIT_OPT_LEVEL=2 $(BIN)/python -m pytest -n $(WORKERS) $(WITH_PLAIN_ROOMS)
	$(BIN)/python -m pytest -n $(WORKERS) -m "exhaustive or not exhaustive"

bench: $(VENV)/.installed-dev rooms
	@for program in $(BENCHMARKS); do echo "== $$program"; $(BIN)/python $$program || exit 1; done

conformance: $(VENV)/.installed-dev rooms
	$(BIN)/python -m conformance.array_api $(ARRAY_API_TESTS)

ptx: $(VENV)/.installed-dev rooms
	$(BIN)/python -m conformance.ptx --jobs $(WORKERS)

consumers: $(VENV)/.installed-dev rooms
	$(BIN)/python -m conformance.consumers

stubs: $(VENV)/.installed-dev
	$(BIN)/python -m conformance.stubs

reference: $(VENV)/.installed-dev
	$(BIN)/python -m conformance.reference.coverage

docs: $(VENV)/.installed-docs rooms
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) build dist *.egg-info docs/_build docs/reference .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf .cache/rooms
	find compiler drjit -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- environments: one, whose stamps say which extras it has ---------------------------------------------------------

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer was not found; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "The module venv of $(PYTHON) does not work; Debian and" \
	  "Ubuntu have it in the package python3-venv." >&2; exit 1; }

$(VENV)/.installed-dev $(VENV)/.installed-docs: | $(VENV)/.installed-demo

# Setuptools and Cython are installed once, not for each installation; and what pip does, it does without a word.
$(VENV)/.installed-build: pyproject.toml | $(BIN)/python
	@$(PIP) $$($(BIN)/python -c '$(BUILDERS)')
	@touch $@

$(VENV)/.installed-%: pyproject.toml setup.py $(VENV)/.installed-build
	@echo "Installing drjit-python with what its $(NEEDED_BY_$*) (half a minute, beyond downloads)"
	@DRJIT_PURE=1 $(PIP) --no-build-isolation --editable ".[$*]"
	@touch $@
