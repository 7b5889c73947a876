# make demo: all set-up, then the main job on a real Triton.   make test: all set-up, then every check.
PYTHON ?= $(shell for p in python3.12 python3.11 python3; do \
  if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
SCENARIO ?= delay-too-long
# Some images set this; then every start of a program would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup system-packages demo test lint unit live bench-twin bench-timelines bench-fidelity bench-queue-parts check-docs constraints vendor clean

help: ## this text
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(VENV)/.ready ## the project's own environment, in .venv

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and none was found; install python3.11." >&2; exit 1; }
	@sh scripts/system_packages.sh setup
	@echo "Setting up $(VENV) with $(PYTHON) (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e . --group dev
	@touch $@

system-packages: ## what pip cannot bring for the tests (chromium, hey, libpython); installed where we are root on Debian
	@sh scripts/system_packages.sh test

demo: setup ## [SCENARIO=name] start a real Triton with an exploded p99, find out why, tune it, report
	@sh scripts/system_packages.sh demo
	@$(BIN)/tritune demo --scenario $(SCENARIO) $(DEMO_FLAGS)

test: setup system-packages lint unit live ## every check: style, types, layers, unit, browser and live tests

lint: setup ## style, types, import rule
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup ## tests that need no server, two files at a time
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not live and not demo"

live: setup ## tests on the real Triton, and whole demos
	$(BIN)/pytest -q -m "live or demo"

bench-twin: setup ## how fast the twin simulates, beside SimPy and Ciw (benchmarks/results/twin-speed.json)
	$(BIN)/python benchmarks/bench_twin_speed.py

bench-timelines: setup ## does the twin batch as the real Triton does? seven minutes (benchmarks/results/timelines.json)
	$(BIN)/python benchmarks/bench_timelines.py

bench-fidelity: setup ## does the twin predict what the real Triton then does? 25 minutes (benchmarks/results/fidelity.json)
	$(BIN)/python benchmarks/bench_fidelity.py

bench-queue-parts: setup ## where the time in the queue goes, against traces; four minutes (benchmarks/results/queue-parts.json)
	$(BIN)/python benchmarks/bench_queue_parts.py

constraints: setup ## write constraints.txt from what is installed
	@$(BIN)/pip freeze --exclude-editable --exclude pip > constraints.txt

vendor: setup ## fetch the report's JavaScript from npm again
	$(BIN)/python scripts/vendor_js.py

clean: ## remove what make made here (the Triton environment in the cache folder stays)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
