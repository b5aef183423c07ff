# Everything is done from here; `make` lists it. BIN is the virtual environment that `make venv` keeps up to date.
.POSIX:
.NOTPARALLEL:

BIN = .venv/bin
# Debian's Python is built with profile-guided optimization, others that stand before it in PATH often are not.
PYTHON = /usr/bin/python3
WORKERS = 2
# Files go to the workers in the order of collection, which tools/order_plugin makes; xdist's own has the fewest tests last.
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TIMES)
TIMES =
BASE = HEAD
JSON =
PAGE =
FUZZ = 3000
FUZZED = tests/fuzz tests/address tests/kubernetes/claims
MESSAGES = 1000000
SAME =
KILLS = 200
ROUNDS = 100
FUZZ_FROM =
FUZZ_SECONDS =
ONLY =
BUT =
VERSION =
KEY =
SEEDS = 0-9999
COVERED = 0-149
MINUTES = 60
RUNS = 1
FIRST = 1
N = 500
SEED =
SUITE = bookworm
PACKAGERS = build-essential,debhelper,lintian,python3-venv
MUTANTS =
STAGES =
CONSOLE = src/gantry/doors/console/static/index.html

# Some machines tell Python to keep no compiled code: then every command and daemon would compile its modules anew.
export PYTHONDONTWRITEBYTECODE =

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

demo: system-demo .venv/demo-stamp console-if-possible ## three nodes and a virtual machine on this one machine, as root
	@demo/demo.sh up

picture: venv ## draws the terminal in README.md with commands on the demonstration, which must be up, as root
	@$(BIN)/python -m tools.picture

console-pictures: venv ## takes the pictures of docs/reference/console.md on the demonstration, which must be up, as root
	@$(BIN)/python -m tools.console_pictures

demo-down: ## takes away all that the demo made
	@demo/demo.sh down

system: ## installs the Debian packages of the tests that are missing, as root
	@tools/install-system.sh

system-demo: ## installs the Debian packages of the demonstration that are missing, as root
	@tools/install-system.sh demo

venv: .venv/stamp ## the virtual environment with the libraries that requirements.lock names

# The demonstration has the product's libraries alone: with those of the tests it takes twice as long.
.venv/demo-stamp: EXTRAS = postgresql,pkcs11,traces
.venv/stamp: EXTRAS = dev
.venv/stamp .venv/demo-stamp: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Gantry needs Python 3.11 or newer: make venv PYTHON=...; $(PYTHON): $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	@echo 'installing the libraries into .venv'
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@# What is imported is compiled then: a fifth of the time was spent on modules that nothing imports.
	@$(BIN)/pip install --quiet --quiet --no-compile --retries 2 --constraint requirements.lock --editable '.[$(EXTRAS)]' || \
	{ echo 'the libraries are not installed: pip says why above; without a network it needs a folder: PIP_FIND_LINKS, PIP_NO_INDEX=1' >&2; exit 1; }
	@touch $@ .venv/demo-stamp

check: check-sources check-types ## format, lint, import contracts, banned calls, dead modules, long files, citations, language, types

check-sources: check-format check-lint check-layers check-seam check-reach check-length check-citations check-language

check-format: venv
	@$(BIN)/ruff format --check --quiet . || { echo 'ruff format mends these' >&2; exit 1; }
	@echo 'format: fine'

check-lint: venv
	@$(BIN)/ruff check --quiet .
	@echo 'lint: fine'

check-layers: venv
	@said=$$($(BIN)/lint-imports 2>&1) || { echo "$$said" >&2; exit 1; }
	@echo 'import contracts: kept'

check-seam: venv
	@$(BIN)/python tools/seam.py
	@echo 'banned calls: none'

check-reach: venv
	@$(BIN)/python tools/unreached.py
	@echo 'dead modules: none'

check-length: venv
	@$(BIN)/python tools/long_files.py
	@echo 'long files: each with its reason'

check-citations: venv
	@$(BIN)/python tools/citations.py
	@echo 'citations: each leads somewhere'

check-language: venv
	@$(BIN)/python tools/language.py
	@echo 'language: plain'

check-types: venv
	@$(BIN)/mypy --no-error-summary
	@echo 'types: fine'

test: ## the gate: checks, unit tests, a short round of each real part, 100 simulated clusters; minutes, as root
	@tools/own-environment.sh $(MAKE) system
	@tools/own-environment.sh $(PYTHON) -m tools.gate

test-all: ## everything in stages, an hour or more, as root; STAGES='real bench' runs these; the table is build/test-all.md
	@tools/own-environment.sh $(MAKE) system
	@tools/own-environment.sh $(PYTHON) -m tools.everything $(STAGES)

steady: venv ## the gate's tests RUNS times, quiet, beside busy loops, in random order, on one core: which of them are unstable; FIRST=4 continues with the fourth
	@tools/own-environment.sh $(PYTHON) -m tools.steady --runs $(RUNS) --first $(FIRST)

quick: venv check ## check, then the unit tests nearest to what changed since BASE=commit (HEAD)
	@$(BIN)/python tools/quick.py $(BASE)

unit: venv ## the tests that need neither root nor minutes: what plain pytest runs
	@$(PYTEST)

test-slow: venv ## the tests that take long or need real time, and neither root nor real parts
	@$(PYTEST) -m 'slow and not (real or kube or install)'

test-clean: system ## the README's two commands in a clean Debian, as root: what a Debian without make system's packages would miss
	@tools/clean-root.sh demo demo-down test

test-real: system venv console ## the tests with VMs, namespaces, LVM and DRBD, as root; those that take minutes too
	@GANTRY_REAL=1 $(PYTEST) -m real

kube-server: system venv ## compiles the API server of test-kube, once, as root
	@$(BIN)/python -m tests.kubernetes.real.server

test-kube: kube-server ## the tests of Kubernetes on a real API server, as root
	@GANTRY_KUBE=1 $(PYTEST) -m kube

test-install: system venv ## installs the packages in dist on machines with systemd, as root; make packages builds them
	@ls dist/gantry_*.deb >/dev/null || { echo 'there are no packages: make packages' >&2; exit 1; }
	@$(BIN)/pytest -m install tests/install --ignore tests/install/test_images.py --ignore tests/install/test_upgrade.py

test-upgrade: system venv ## upgrades machines with the packages in dist to a later version and back, as root; make packages builds them
	@ls dist/gantry_*.deb >/dev/null || { echo 'there are no packages: make packages' >&2; exit 1; }
	@$(BIN)/pytest -m install tests/install/test_upgrade.py

test-images: system venv ## starts the container images in dist, as root; make images builds them
	@ls dist/gantry-*.oci.tar >/dev/null || { echo 'there are no images: make images' >&2; exit 1; }
	@$(BIN)/pytest -m install tests/install/test_images.py

test-long: system venv ## kills of a master, cut cables, fuzzers, state machines, mutants: KILLS=200, ROUNDS=100, FUZZ=3000 examples, MESSAGES=1000000 to each server, FUZZ_SECONDS ends each, N=500; hours
	@# A master that was killed has two seconds to come back, so nothing else runs meanwhile.
	@GANTRY_LONG=1 GANTRY_KILLS=$(KILLS) GANTRY_ROUNDS=$(ROUNDS) $(BIN)/pytest -m '' tests/long
	@GANTRY_LONG=1 GANTRY_FUZZ=$(FUZZ) GANTRY_SAME=$(SAME) GANTRY_MESSAGES=$(MESSAGES) GANTRY_FUZZ_FROM=$(FUZZ_FROM) \
	GANTRY_FUZZ_SECONDS=$(FUZZ_SECONDS) $(PYTEST) -m '' $(FUZZED)
	@[ '$(N)' = 0 ] || $(BIN)/python -m tools.mutants --number $(N) --seed '$(SEED)'

test-landing: ## what make test-all has of test-long: 20 kills, a cut cable, 1,000 examples of each quick fuzzer, 10,000 messages to each server; 4 minutes
	@$(MAKE) test-long KILLS=20 ROUNDS=2 FUZZ=50 SAME=1 MESSAGES=10000 FUZZED=tests/fuzz N=0

mutants: venv ## the unit tests on N=500 faulty copies of the product, drawn by a new seed; SEED=7 repeats one, MUTANTS='--keep --portion 60' continues a run
	@$(BIN)/python -m tools.mutants --number $(N) --seed '$(SEED)' $(MUTANTS)

simulate: venv ## whole clusters under faults, from 10,000 seeds: SEEDS=0-99 runs fewer, SEEDS=7-7 the one; half an hour
	@PYTHONHASHSEED=0 $(BIN)/python -m gantry.sim.program --seeds $(SEEDS)

simulate-coverage: venv ## which lines of the operations COVERED=0-149 seeds of the simulation execute; fails below 80 % of those in functions
	@PYTHONHASHSEED=0 $(BIN)/python tools/simulation_coverage.py --seeds $(COVERED)

golden: venv ## writes the golden files anew; read the difference before you commit it
	@GOLDEN=1 $(PYTEST) -m '' tests/golden tests/cli/framework/test_help.py

bench: venv console-if-possible ## the benchmarks; JSON=file and PAGE=file keep the figures, ONLY=word runs those whose name has the word, BUT=word the others, RUNS=3 repeats
	@tools/own-environment.sh $(BIN)/python benchmarks/run.py --json '$(JSON)' --page '$(PAGE)' --only '$(ONLY)' --but '$(BUT)' --runs $(RUNS)

soak: venv ## a busy cluster of three nodes for MINUTES=60; fails if files, memory, descriptors or waits grow
	@$(BIN)/python benchmarks/soak.py --minutes '$(MINUTES)'

docs: .venv/docs-stamp ## the documentation as a site in build/site; fails on a dead link
	@rm -rf build/site
	@$(BIN)/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going -d build/doctrees docs build/site
	@$(BIN)/python tools/dead_links.py build/site
	@echo 'site: build/site/index.html'

.venv/docs-stamp: .venv/stamp
	@$(BIN)/pip install --quiet --quiet --constraint requirements.lock --editable '.[docs]'
	@touch $@

console: .venv/console-stamp ## the web console in src/gantry/doors/console/static, after format, types and tests
	@tools/console.sh $(BIN)/python check test build

# Builds the console if its sources have changed since. A machine that cannot get the libraries goes without; a fault fails.
console-if-possible: .venv/demo-stamp
	@[ -e $(CONSOLE) ] && [ -z "$$(find console -path '*/node_modules' -prune -o -newer $(CONSOLE) -type f -print)" ] || \
	{ echo 'building the console'; $(MAKE) --no-print-directory .venv/console-stamp && tools/console.sh $(BIN)/python; \
	status=$$?; [ $$status -ne 1 ] || exit 1; [ $$status -eq 0 ]; } || \
	echo 'the console is not built: the reason is above; everything else works without it' >&2

.venv/console-stamp: .venv/demo-stamp
	@$(BIN)/pip install --quiet --quiet --retries 2 --constraint requirements.lock --editable '.[console]'
	@touch $@

man: .venv/docs-stamp ## the man pages in build/man, from the reference pages
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b man -d build/man-doctrees docs build/man

packages: system ## the Debian packages in dist/, built in a clean Debian (SUITE=bookworm), as root
	@tools/clean-root.sh --suite $(SUITE) --with $(PACKAGERS) --out dist build-packages

packages-twice: system ## builds the packages in two clean Debians and names each file in which they differ, as root
	@tools/packaging/twice.sh --suite $(SUITE) --with $(PACKAGERS)

images: system ## the container images of the packages in dist/, there as OCI archives, as root; make packages builds those
	@tools/packaging/images.sh --suite $(SUITE)

build-packages: ## the Debian packages of this machine's Debian, without a clean one; needs what debian/control names
	@dpkg-buildpackage --build=binary --no-sign
	@lintian --fail-on error --pedantic ../gantry_*.changes
	@mkdir -p dist
	@mv ../gantry*.deb ../gantry_*.changes ../gantry_*.buildinfo dist/

wheel: venv console ## the wheel in dist/
	@$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

sbom: .venv/release-stamp ## dist/gantry-VERSION.cdx.json: the libraries that the packages hold, in the form of CycloneDX
	@$(PYTHON) -m venv --without-pip --clear build/sbom
	@$(BIN)/pip --python build/sbom install --quiet --quiet --constraint requirements.lock '.[postgresql,pkcs11,traces]'
	@mkdir -p dist
	@version=$$(build/sbom/bin/python -c 'import gantry; print(gantry.__version__)') && \
	sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml >build/sbom/pyproject.toml && \
	$(BIN)/cyclonedx-py environment --pyproject build/sbom/pyproject.toml --output-reproducible --output-format JSON \
	--output-file "dist/gantry-$$version.cdx.json" build/sbom

.venv/release-stamp: .venv/stamp
	@$(BIN)/pip install --quiet --quiet --constraint requirements.lock --editable '.[release]'
	@touch $@

release: .venv/release-stamp ## VERSION=1.0.0 as commit and tag; packages, images, wheel, SBOM and checksums in dist/, signed with KEY=, as root
	@$(BIN)/python -m tools.packaging.release begin '$(VERSION)' --key '$(KEY)'
	@rm -rf dist
	@$(MAKE) packages images wheel sbom
	@$(BIN)/python -m tools.packaging.release sign --key '$(KEY)'

changelog: venv ## the notes in changes/ as the next version will have them
	@$(BIN)/towncrier build --draft

promises: venv ## how many promises the last runs of the tests of this tree kept, and which not
	@$(BIN)/python -m tools.promises

.PHONY: help demo picture console-pictures demo-down system system-demo venv check check-sources check-format check-lint check-layers check-seam check-reach check-length check-citations check-language check-types \
	test test-all test-clean steady quick unit test-slow test-real kube-server test-kube test-install test-upgrade test-images test-long test-landing mutants simulate simulate-coverage \
	golden bench soak docs console console-if-possible changelog promises man packages packages-twice images build-packages wheel sbom release
