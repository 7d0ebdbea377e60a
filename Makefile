# Two commands do everything on a fresh Debian 12 or 13: `make demo` and `make test`. Each does its whole set-up
# the first time; a second call does none of it again.
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench simulate screenshots lock clean

# All three twins; make demo BOARDS=virt-rk3568 takes one only.
demo: $(VENV)/.ready
	$(BIN)/farm demo $(addprefix --board ,$(BOARDS))

# Two processes: much of what is tested waits for a board. Tests of one file stay together, since they share a lab.
test: lint
	$(BIN)/pytest -q -n 2 --dist loadfile --durations=10

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.ready-test
	$(BIN)/python -m tests.bench

simulate: $(VENV)/.ready-test
	$(BIN)/python -m farm.analysis.simulate

# The pictures of the report in docs/, from a database and a run.
DB ?= .farm/farm.db
RUN ?= latest
screenshots: $(VENV)/.ready-test
	$(BIN)/python -m tests.screenshots $(DB) $(RUN)

# System packages, virtual environment with the locked versions, farm itself.
$(VENV)/.ready: requirements.lock pyproject.toml .ci/setup .ci/packages
	.ci/setup $(VENV)
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready .ci/packages-test
	.ci/setup $(VENV) test
	@touch $@

# For maintainers: write the lock anew from pyproject.toml.
lock:
	$(BIN)/pip-compile -q --extra dev --generate-hashes --allow-unsafe --strip-extras --upgrade \
	    --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
