# The one way in. `make` lists the targets; every target sets up .venv by itself.

PYTHON  ?= python3
# Three times the cores: most of the long tests wait for real processes (tests/piles.py).
WORKERS ?= $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))
SEEDS   ?= 1000
FAULTS  ?= heavy
ARGS    ?=
KEEP    ?=
FACTOR  ?= 50
MINUTES ?= 8
STORE   ?= sqlite
REPLICAS ?= 3
SEED    ?= 1
JOBS    ?= 1

BIN     := .venv/bin
VENV    := .venv/pyvenv.cfg
READY   := .venv/.ready
APT     := DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends -o Acquire::Retries=0 \
           -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o DPkg::Lock::Timeout=60
SOURCES := $(wildcard src tests bench tools fakes demos action)
PAGE    := src/muster/dashboard/index.html
MODULES := web/node_modules/.muster-lock
WEB     := $(shell find web \( -path web/node_modules -o -path web/generated \) -prune -o -type f -print 2>/dev/null)
# The tests that `test` runs: not the slow ones, unless ARGS asks for them.
MARKS   := not soak$(if $(ARGS),, and not slow)
# What `check` gets for this machine.
EQUIPMENT := browser sandbox sshd engines microvm documents promtool
# Targets that run beside each other speak in turn, where make can do that.
SYNC    := $(if $(filter output-sync,$(.FEATURES)),--output-sync)
# What only wants the page as well goes on without it, if there is no Node.js to be had; `check` and `web` don't.
LENIENT := --if-possible

# Some machines forbid Python to keep what it compiles. Tests start hundreds of servers and commands.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo demo-aks demo-docker demo-ec2 demo-github test check equipment compiled sandbox sshd engines microvm promtool browser lint format types imports lifecycle codes alerts bench simulate storm mutants soak soak-tests soak-fuzz lock clean
.PHONY: web web-test screenshots dist docs image

help: ## List the targets
	@echo 'Usage: make <target> [NAME=value]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo 'PYTHON=python3.12 picks the interpreter for .venv, WORKERS=4 the number of test processes.'

demo: ## See it work on this machine, in under a minute (KEEP=1 leaves it up)
	@$(MAKE) --no-print-directory -j2 $(READY) $(PAGE)
	@KEEP='$(KEEP)' $(BIN)/muster demo $(ARGS)

demo-ec2: $(READY) ## The same on EC2, against a stand-in for it on this machine (KEEP=1 leaves it up)
	@KEEP='$(KEEP)' $(BIN)/python -m demos.ec2

demo-aks: $(READY) $(PAGE) ## See clusters come, fail, be cancelled and go, on a simulated Azure (KEEP=1 leaves it up)
	@KEEP='$(KEEP)' $(BIN)/muster demo-aks $(ARGS)

demo-docker: engines ## See containers as nodes, on a Podman and a dockerd of its own (needs root; KEEP=1 leaves it up)
	@KEEP='$(KEEP)' $(BIN)/python -m demos.docker

demo-github: $(READY) ## See this machine become a pool of runners, for workflows of a small GitHub of our own
	@$(BIN)/python -m demos.github $(ARGS)

# Beside each other: some of these keep one core busy, some wait for a download. Compiled tests are read in a
# third of the time, by each of the workers. What fails beside others and passes alone is named, and fails nothing
# (tools/suite.py).
check: ## Everything that CI runs: style, types, layers, all tests but the soak
	@$(MAKE) --no-print-directory -j3 $(SYNC) LENIENT= types equipment $(PAGE) web-test imports lint compiled
	$(BIN)/python -m tools.suite -n $(WORKERS) --dist worksteal -m 'not soak' $(ARGS)

# One after the other: apt-get has a lock.
equipment: $(READY)
	@for each in $(EQUIPMENT); do $(MAKE) --no-print-directory $$each || exit; done

compiled: $(READY)
	@$(BIN)/pytest --collect-only -qq -p no:cacheprovider >/dev/null 2>&1 || echo 'note: the tests cannot be collected; the run says why'

# Never a reason to fail: without it, the tests that need it skip, and pytest's summary names them.
sandbox: ## Install bubblewrap for the sandbox tests, if it is missing and this is root on Debian
	@command -v bwrap >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo 'Installing bubblewrap for the sandbox tests'; \
			$(APT) install bubblewrap >/dev/null 2>&1 || { $(APT) update && $(APT) install bubblewrap; } >/dev/null 2>&1; \
		fi; \
		command -v bwrap >/dev/null || \
			echo 'note: bubblewrap is missing, so the sandbox tests will skip; get them with: apt-get install bubblewrap'; }

sshd: ## Install openssh-server for the tests of ssh hosts, if it is missing and this is root on Debian
	@found() { command -v sshd >/dev/null || [ -x /usr/sbin/sshd ]; }; found || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo 'Installing openssh-server for the tests of ssh hosts'; \
			$(APT) install openssh-server >/dev/null 2>&1 || { $(APT) update && $(APT) install openssh-server; } >/dev/null 2>&1; \
		fi; \
		found || echo 'note: sshd is missing, so the tests of ssh hosts will skip; get them with: apt-get install openssh-server'; }

# As root on Debian a reason to fail; elsewhere the tests that need them skip, and say how to get them.
engines: $(READY) ## Get Podman and dockerd for the tests of containers, if they are missing and this is root on Debian
	@$(BIN)/python -m tools.engines

# Never a reason to fail: without them, the tests of microVMs skip, and say why.
microvm: $(READY) ## Get QEMU and a kernel for the tests of microVMs, if they are missing and this is root on Debian
	@$(BIN)/python -m tools.microvm

# Never a reason to fail: without it, one test of alert rules skips, and says why.
promtool: $(READY) ## Get Prometheus's checker of rules for the test of alerts, if it is missing and this is root on Debian
	@$(BIN)/python -m tools.promtool

# Never a reason to fail: without them, the tests against these documents skip, and say why.
documents: $(READY) ## Get what GitHub and Kubernetes publish of their APIs, for the tests that compare us with it
	@$(BIN)/python -m tools.github_documents
	@$(BIN)/python -m tools.kubernetes_schemas

# A reason to fail, and only in `check`: without it, `make test` skips the browser tests and says how to get them.
browser: ## Install Chromium for the browser tests, if it is missing and this is root on Debian
	@found() { command -v "$${MUSTER_BROWSER:-chromium}" >/dev/null; }; found || { \
		if [ -z "$$MUSTER_BROWSER" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo 'Installing Chromium for the browser tests'; \
			$(APT) install chromium >/dev/null 2>&1 || { $(APT) update && $(APT) install chromium; } >/dev/null 2>&1; \
		fi; \
		found || { echo "error: cannot run the browser tests: there is no $${MUSTER_BROWSER:-chromium};" \
			'install it (apt-get install chromium), or name a Chromium: MUSTER_BROWSER=/path/to/chromium' >&2; exit 1; }; }

test: $(READY) $(PAGE) $(if $(ARGS),,web-test) ## Run the quick tests (ARGS="-k claim" runs these, slow or not; WORKERS=0 in one process)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m '$(MARKS)' $(ARGS)

web: LENIENT :=
web: $(READY) $(PAGE) ## Build the page that the server shows at / (with this machine's Node.js, else one from PyPI)

# After the page, if it must be built: both install the tools and write the types.
web-test: $(READY) | $(PAGE) ## Check the page's types against the API's document and run its component tests
	@$(BIN)/python -m tools.web test $(LENIENT)

# Beside $(READY), not after it: each of both takes a while.
$(MODULES): web/package-lock.json | $(VENV)
	@$(BIN)/python -m tools.web install $(LENIENT)

$(PAGE): $(WEB) | $(READY) $(MODULES)
	@$(BIN)/python -m tools.web build $(LENIENT)

screenshots: browser web ## Take the README's pictures anew, of a real server with real nodes (docs/images)
	@$(BIN)/python -m tools.screenshots

dist: web ## Build the wheel and the source archive, with the page
	$(BIN)/hatchling build -d dist

docs: $(READY) ## Build the documentation as a site, in build/site; a broken link fails
	@$(BIN)/python -m tools.docs

image: web ## Build the server's image with Podman or Docker (ARGS="--tag registry.example.com/muster:0.2.0")
	@$(BIN)/python -m tools.image $(ARGS)

lint: $(READY) ## Check style and format
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: $(READY) ## Format the code and fix what can be fixed safely
	$(BIN)/ruff check --fix-only --exit-zero $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

types: $(READY) ## Check the types of source, tests and benchmarks
	$(BIN)/mypy $(SOURCES)

imports: $(READY) ## Check that imports point inwards
	$(BIN)/lint-imports --no-logo

lifecycle: $(READY) ## Write docs/lifecycle.md anew from the node table
	@mkdir -p docs
	$(BIN)/python -m tools.reference lifecycle > .venv/lifecycle.md
	@mv .venv/lifecycle.md docs/lifecycle.md

# For nights. A part that fails stops no other. docs/testing.md says how to read what they print.
soak: $(READY) ## Run what takes hours: tests marked soak, fuzzing, worlds, a storm, mutants (FACTOR=50 SEEDS=1000 MINUTES=8)
	@$(MAKE) --no-print-directory --keep-going soak-tests soak-fuzz simulate storm mutants

soak-tests: $(READY)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --timeout 0 -m soak

soak-fuzz: $(READY)
	MUSTER_FUZZ_FACTOR=$(FACTOR) $(BIN)/pytest -n $(WORKERS) --timeout 0 tests/fuzz

codes: $(READY) ## Write docs/codes.md anew from the codes
	$(BIN)/python -m tools.reference codes > .venv/codes.md
	@mv .venv/codes.md docs/codes.md

alerts: $(READY) ## Write docs/alerts.md anew from the alerts
	$(BIN)/python -m tools.reference alerts > .venv/alerts.md
	@mv .venv/alerts.md docs/alerts.md

bench: $(READY) ## Measure what has a target, each figure beside its floor (ARGS=all for everything)
	$(BIN)/python -m bench $(ARGS)

simulate: $(READY) ## Run many seeds on all cores (SEEDS=10000 FAULTS=heavy)
	$(BIN)/muster simulate --seeds $(SEEDS) --faults $(FAULTS) $(ARGS)

# A short one on SQLite is part of `test` (tests/e2e/test_storm.py).
storm: $(READY) ## Kill servers and agents at random under load, then audit (MINUTES=8 STORE=sqlite|postgres|dynamodb REPLICAS=3 SEED=1)
	$(BIN)/python -m tools.storm --minutes $(MINUTES) --store $(STORE) --replicas $(REPLICAS) --seed $(SEED)

# Not in `check`: it takes long, and what it finds wants thought.
mutants: $(READY) ## Break the domain's rules one by one, list what no test notices (ARGS="health boot" JOBS=2)
	$(BIN)/python -m tools.mutants --jobs $(JOBS) $(ARGS)

lock: $(READY) ## Write requirements.lock anew (ARGS=--upgrade moves to the newest versions)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --group dev --all-extras $(ARGS) --output-file requirements.lock pyproject.toml
	@if grep -nE '://|file:|via -r /|^ *-[^-]|^--' requirements.lock; then \
		echo 'error: requirements.lock names a host, a path or an option; the lines are above' >&2; exit 1; fi

clean: ## Remove .venv, caches and builds
	rm -rf .venv build dist src/muster/dashboard web/generated web/node_modules .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests bench tools fakes demos action -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Set up once, and again when the lock or the project file changes. A set-up that fails leaves no stamp.
$(READY): requirements.lock pyproject.toml | $(VENV)
	@$(BIN)/python -m tools.environment
	@touch $@

$(VENV):
	@command -v $(PYTHON) >/dev/null || { \
		echo 'error: cannot find $(PYTHON); install Python 3.11 or newer, or name one: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: Muster needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.12" >&2; \
		exit 1; }
	@$(PYTHON) -m tools.progress "Setting up .venv with $$($(PYTHON) -V)" $(PYTHON) -m venv .venv
