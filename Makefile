# Every target that needs Python makes .venv by itself, where it is missing or older than its lock: `demo` from
# requirements.lock, what gradebook runs with; the others from requirements-dev.lock, which adds the developers' tools.
# PYTHON=python3.12 names the interpreter. A pinned pip installs everything; uv is needed for `make lock` alone.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?=
ARGS ?=
ADVISORIES ?=
MODELS ?= .models
VENV := .venv
STAMP := $(VENV)/.stamp
DEV_STAMP := $(VENV)/.dev-stamp
RUN := $(VENV)/bin/python -m
# Without bytecode, which takes longer than the files themselves: Python stores that of what is imported.
INSTALL := $(RUN) pip install --quiet --disable-pip-version-check --no-compile
# One worker more than there are cores, as tests wait for servers and processes; each imports and collects all tests.
TEST := $(RUN) pytest -n $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
QUICK := tests/unit tests/laws $(addprefix tests/integration/,sql tasks/judging tasks/collecting tasks/runs)
# Seconds of CPU of all processes that a tier usually takes; printed beside what it took. With --enforce-cpu-budget, as in
# CI, a tier that takes more than a third beyond that fails, and names its dearest tests.
TEST_BUDGET := 700
QUICK_BUDGET := 300
NIGHTLY_BUDGET := 3300
# The tests start hundreds of processes: without stored bytecode, each would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-quick test-nightly test-browser test-server test-models test-install lint format docs bench pictures audit sbom lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP)  ## score the shipped example, no key needed
	@$(VENV)/bin/gradebook demo --prefect $(ARGS)

test: $(DEV_STAMP)  ## what a change has to pass, in parallel (ARGS="-k words" for some)
	@$(TEST) -m "not (nightly or server or browser or postgres or model)" --cpu-budget $(TEST_BUDGET) $(ARGS)

test-quick: $(DEV_STAMP)  ## units, laws of form, SQL and the talk with judges: while you work (ARGS as above)
	@$(TEST) -m "not (nightly or slow or server or postgres or browser or hypothesis or model)" --cpu-budget $(QUICK_BUDGET) $(QUICK) $(ARGS)

test-nightly: $(DEV_STAMP)  ## whole matrices, seeds, kill points, second examples, Prefect servers, chromium: minutes
	@$(TEST) -m "nightly or server or browser or postgres or hypothesis" --hypothesis-profile nightly --cpu-budget $(NIGHTLY_BUDGET) $(ARGS)

test-browser: $(DEV_STAMP)  ## open the pages in chromium, with the network off; a part of `make test-nightly` where chromium is
	@$(RUN) pytest tests/integration/browser $(ARGS)

test-server: $(DEV_STAMP)  ## a day on a real Prefect server with a worker that is killed: about four minutes
	@PYTHON="$(abspath $(VENV))/bin/python" tests/support/e2e_server.sh

test-models: $(DEV_STAMP)  ## a real model behind llama.cpp's server, and the LiteLLM proxy: built once into .models, in about 10 minutes
	@tests/support/real_models.sh "$(MODELS)"
	@GRADEBOOK_MODELS="$(abspath $(MODELS))" $(RUN) pytest -m model tests/integration/tasks/judging $(ARGS)

test-install:  ## a new clone, a new home, no uv: `make demo` by each Python on the machine
	@tests/support/fresh_clone.sh

lint: $(DEV_STAMP)  ## check style, format and types
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy

format: $(DEV_STAMP)  ## put the code into its format
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

docs: $(DEV_STAMP)  ## build the site into build/site, with the reference and an offline search; no dead link
	@$(RUN) tests.support.reference
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict

bench: $(DEV_STAMP)  ## run every benchmark; each prints its figure last
	@for file in bench/*.py; do \
		if [ -e "$$file" ]; then echo "== $$file" && $(VENV)/bin/python "$$file" || exit 1; fi; \
	done

pictures: $(DEV_STAMP)  ## draw the pictures of the README and the docs anew, in chromium
	@$(RUN) tests.support.pictures

audit: $(DEV_STAMP)  ## hold the locks against advisories on disk (ADVISORIES=all.zip, OSV's export of PyPI); asks no network
	@$(RUN) tests.support.supply audit "$(ADVISORIES)"

sbom: $(DEV_STAMP)  ## write the bill of materials of what users install: CycloneDX, on stdout
	@$(RUN) tests.support.supply sbom

lock:  ## resolve pyproject.toml into the two locks (needs uv; ARGS=--upgrade for newer ones)
	@command -v uv >/dev/null || { echo "make lock: found no uv on the path, expected it: https://docs.astral.sh/uv" >&2; exit 1; }
	@uv pip compile pyproject.toml --group dev --python-version 3.11 --universal --generate-hashes --no-header -q \
		$(ARGS) -o requirements-dev.lock
	@uv pip compile pyproject.toml --group build --python-version 3.11 --universal --generate-hashes --no-header -q \
		-c requirements-dev.lock -o requirements.lock

clean:  ## remove the environment and the caches; a lake is left alone
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): requirements.lock requirements-pip.lock pyproject.toml
	@"$(or $(PYTHON),python3)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "make: $(or $(PYTHON),python3) is no Python >= 3.11, expected one: name it with PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "make: installing the pinned dependencies into $(VENV), once: about two minutes" >&2
	@$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || "$(or $(PYTHON),python3)" -m venv --clear $(VENV)
	@$(INSTALL) --require-hashes -r requirements-pip.lock
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(DEV_STAMP): $(STAMP) requirements-dev.lock
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@
