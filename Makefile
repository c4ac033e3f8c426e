# make demo | test | check: each sets up what it needs in .venv, from nothing but Python 3.11 or later.
# PYTHON=/path/to/python3.12 chooses the interpreter, WORKERS=1 how many test processes run at once.

VENV := .venv
WORKERS ?= 2
SECONDS ?= 1800
SEED ?= 1
EXAMPLES ?= 200
CASES ?= 2000
RATE ?= 500
PROFILE ?= quick
POSTGRES ?= 14 15 16 17 18
.PHONY: help demo test versions bench properties nightly churn torture soak mutants walks check format clean
.DELETE_ON_ERROR:

help:
	@echo "make demo        the travel example on embedded databases, from nothing to a verified warehouse"
	@echo "make test        all tests"
	@echo "make versions    the tests of sources and warehouse on several versions: POSTGRES='14 15 16 17 18'"
	@echo "make properties  random views, data and schema changes, other ones each time: EXAMPLES=200"
	@echo "make nightly     random nestings of every operator, judged by PostgreSQL; about an hour: CASES=2000"
	@echo "make churn       random changes while the daemon is killed again and again: SECONDS=1800 SEED=1"
	@echo "make soak        a steady load on four databases with schema changes: SECONDS=1200 SEED=1 RATE=500"
	@echo "make mutants     break each rule on purpose and see that the checker notices; about 15 minutes"
	@echo "make walks       count how often one update crosses from package to package on its way through the code"
	@echo "make torture     random changes, readers and every kind of fault, judged by PostgreSQL: SECONDS=1800 SEED=1"
	@echo "make bench       measure against refresh, recompute and the limit: BENCHMARKS='six …' PROFILE=quick|full"
	@echo "make check       format, lint, types, import contracts, and advisories about dependencies"
	@echo "make format      let ruff format and fix the code"
	@echo "make clean       remove $(VENV) and caches"

demo: $(VENV)/.ready
	@$(VENV)/bin/python -m dyda demo

test: $(VENV)/.ready-dev $(VENV)/spark-classes.jsa
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder

versions: $(VENV)/.ready-dev $(VENV)/spark-classes.jsa
	$(VENV)/bin/python -m tests.versions $(POSTGRES)

bench: $(VENV)/.ready-bench
	$(VENV)/bin/python -m benchmarks $(BENCHMARKS) --profile $(PROFILE)

properties: $(VENV)/.ready-dev $(VENV)/spark-classes.jsa
	DYDA_EXAMPLES=$(EXAMPLES) $(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder tests/properties

# A town has five views and five batches: 25 cases.
nightly: $(VENV)/.ready-dev
	DYDA_CASES=$(CASES) DYDA_EXAMPLES=$$(( ($(CASES) + 24) / 25 )) $(VENV)/bin/python -m pytest tests/properties/test_operators.py
	DYDA_EXAMPLES=20 $(VENV)/bin/python -m pytest tests/integration/tpch

churn: $(VENV)/.ready-dev
	$(VENV)/bin/python -m tests.torture.churn --seconds $(SECONDS) --seed $(SEED)

soak: SECONDS = 1200
soak: $(VENV)/.ready-dev
	$(VENV)/bin/python -m tests.torture.soak --seconds $(SECONDS) --seed $(SEED) --rate $(RATE)

mutants: $(VENV)/.ready-dev
	$(VENV)/bin/python -m tests.torture.mutants $(MUTANTS)

walks: $(VENV)/.ready-dev
	$(VENV)/bin/python -m tests.walks

torture: $(VENV)/.ready-dev
	$(VENV)/bin/python -m tests.torture --seconds $(SECONDS) --seed $(SEED)

check: $(VENV)/.ready-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m tests.audit

format: $(VENV)/.ready-dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# A virtual environment that pip can install into. The first suitable interpreter wins.
$(VENV)/bin/python:
	@found=; \
	for candidate in $(PYTHON) python3 python3.11 python3.12 python3.13 python3.14 python; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "DyDa needs Python 3.11 or later: install python3 (or name it: make PYTHON=/path/to/python3)" >&2; exit 1; fi; \
	if ! "$$found" -c 'import venv, ensurepip' >/dev/null 2>&1; then echo "$$found has no venv module: install it (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; fi; \
	echo "making $(VENV) with $$("$$found" --version)"; \
	rm -rf $(VENV) && "$$found" -m venv $(VENV)

$(VENV)/.ready: pyproject.toml | $(VENV)/bin/python
	@echo "installing DyDa and what it needs (PySpark is large: a few minutes the first time)"
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable . || \
	  { echo "the packages could not be installed: pip must reach a package index (see its message above)" >&2; exit 1; }
	@touch $@

$(VENV)/.ready-dev: pyproject.toml $(VENV)/.ready | $(VENV)/bin/python
	@echo "installing the tools for tests and checks"
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' || \
	  { echo "the packages could not be installed: pip must reach a package index (see its message above)" >&2; exit 1; }
	@touch $@

$(VENV)/.ready-bench: pyproject.toml $(VENV)/.ready-dev | $(VENV)/bin/python
	@echo "installing what the benchmarks compare with"
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]' || \
	  { echo "the packages could not be installed: pip must reach a package index (see its message above)" >&2; exit 1; }
	@touch $@

$(VENV)/spark-classes.jsa: $(VENV)/.ready-dev
	@echo "letting Java keep Spark's classes: the tests start many JVMs"
	@$(VENV)/bin/python -m tests.spark_class_sharing $@
