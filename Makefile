# From a bare Python 3.11 or newer, each target makes the environment it needs, then uses it.
#   make test PYTHON=python3.14 VENV=.venv-3.14 ARGS="-k planner"
PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
INSTALL := -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
PINNED_BUILD := --build-constraint constraints.txt

.DEFAULT_GOAL := help
.SECONDARY:
.PHONY: help demo test lint check bench peers docs kernel package pins clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*  ## /\1\t/p' Makefile | expand -t 10

demo: $(VENV)/.base  ## run the demonstration agent on its simulated model
	@$(BIN)/loom --config examples/j1/demo/loom.yaml run demo "Combien font 12 × 7 + 3 ?"

test: $(VENV)/.dev  ## run every test; ARGS goes to pytest
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.dev  ## check format, style, types and imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

check: lint  ## lint, then run the fast tests
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

bench: $(VENV)/.dev  ## print our speed as ratios to a hand-written floor
	$(BIN)/python benchmarks/floor.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/sessions.py

peers: $(VENV)/.dev  ## print our speed beside that of other engines, each installed apart
	$(BIN)/python benchmarks/peers/compare.py

docs: $(VENV)/.dev  ## build the documents, then check what they say
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	$(BIN)/python -m pytest tests/docs $(ARGS)

kernel: $(VENV)-kernel/.base  ## test the kernel where no extra is installed
	$(VENV)-kernel/bin/python $(INSTALL) --group dev
	$(VENV)-kernel/bin/python -c "import loom_ia.core, loom_ia.engine"
	$(VENV)-kernel/bin/python -m pytest tests/unit/core tests/architecture/test_imports.py $(ARGS)

package: $(VENV)/.dev $(VENV)-wheel/.pip  ## build the wheel, then test what it installs
	rm -rf dist
	PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m build --outdir dist
	$(VENV)-wheel/bin/python $(INSTALL) --force-reinstall dist/*.whl pytest
	$(VENV)-wheel/bin/loom --help >/dev/null
	$(VENV)-wheel/bin/python -m pytest -c /dev/null --rootdir . --noconftest \
		tests/architecture/test_origin.py

pins: $(VENV)-pins/bin/python  ## write constraints.txt again, with today's versions
	$(VENV)-pins/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-pins/bin/python -m pip install --quiet '.[all]' hatchling editables \
		--group dev --group types --group bench --group build --group docs
	$(VENV)-pins/bin/python -m pip freeze --all --exclude loom-ia --exclude setuptools \
		> constraints.txt
	rm -rf $(VENV)-pins

clean:  ## remove environments, builds and caches
	rm -rf $(VENV) $(VENV)-kernel $(VENV)-wheel $(VENV)-pins dist .coverage htmlcov \
		.hypothesis .import_linter_cache .pytest_cache .ruff_cache

# What is installed is this tree, in place; the name of the distribution is never asked to an index.
%/.dev: %/.pip
	$*/bin/python $(INSTALL) $(PINNED_BUILD) --editable '.[all]' \
		--group dev --group types --group bench --group build --group docs
	@touch $*/.base $@

%/.base: %/.pip
	$*/bin/python $(INSTALL) $(PINNED_BUILD) --editable .
	@touch $@

# An environment made by another tool may have no pip.
%/.pip: pyproject.toml constraints.txt %/bin/python
	@$*/bin/python -m pip --version >/dev/null 2>&1 || $*/bin/python -m ensurepip >/dev/null
	$*/bin/python $(INSTALL) --upgrade pip
	@touch $@

%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Loom-IA needs Python 3.11 or newer, and $(PYTHON) is not:" \
			"name another one with PYTHON=, as in: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo "$(PYTHON) cannot make an environment:" \
			"install its venv module (python3-venv on Debian and Ubuntu)" >&2; \
		exit 1; }
	@rm -f $*/bin/python*  # links to an interpreter that is gone
	$(PYTHON) -m venv $*
