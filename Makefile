# Each target sets up what it needs in .venv. `make` alone lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TREE := build/shipped/streamval

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-ray test-clients fuzz lint format typecheck bench bench-view bench-schema bench-gateway bench-exposure bench-leaks bench-faults bench-conformance bench-batch bench-local bench-loops notebooks docs package audit lock clean
SECONDS ?= 60

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: $(VENV)/.local ## Watch a real model being checked, cancelled, repaired and finished
	$(BIN)/streamval demo

# One process for each processor; the tests that load the model run in one of them.
test: $(VENV)/.dev ## Run every test: unit, property, chaos, notebooks, and the embedded model
	$(BIN)/python -X dev -m pytest -n auto --dist loadgroup --durations 10

test-fast: $(VENV)/.dev ## The same without the embedded model, and without what takes many seconds
	$(BIN)/python -m pytest -n auto -m "not local_model and not slow"

# The tools are installed beside the package, so that they list what it brings. Known vulnerabilities come from
# the network: where there is none, the versions and licences are listed all the same. `--strict`, as a
# package that could not be asked about would count as one without vulnerabilities.
audit: $(VENV)/.dev ## List versions, licences and known vulnerabilities of what is installed
	$(BIN)/python -m pip install --quiet pip-licenses pip-audit
	$(BIN)/pip-licenses --order license
	$(BIN)/pip-audit --skip-editable --strict || echo "pip-audit found something, or could not ask: see above"

# Of what `.ci/run` installs, for every Python. Users get the newest that the bounds in pyproject.toml admit.
lock: $(VENV)/.dev ## Renew .ci/lock.txt, the versions that are tested
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev --extra ray \
		--no-annotate --no-header pyproject.toml -o .ci/lock.txt

# Ray takes 600 MB, so it has an environment of its own, which the other tests do not need.
test-ray: $(VENV)-ray/.installed ## Test the batch on a real Ray cluster on this machine
	$(VENV)-ray/bin/python -m pytest -W default -p no:cacheprovider tests/batch/test_ray.py

# instructor needs older versions than ours of what both use, and langchain-tests brings plugins of pytest, so both
# lie over the environment of the other tests. LiteLLM's proxy pins what it uses, so it has one of its own. The clients of
# the table that cannot be beside ours are programs in `$(VENV)-apart`, whose versions are in `.ci/clients.txt`.
test-clients: $(VENV)-clients/.installed $(VENV)-proxy/.installed $(VENV)-apart/.installed build/suites/.openai ## Test before clients of others, and run the standard tests of LangChain
	STREAMVAL_CLIENTS=$(VENV)-apart/bin/python $(BIN)/python -m pytest -p no:cacheprovider tests/serve/test_client_table.py -m apart
	$(VENV)-clients/bin/python -m pytest -p no:cacheprovider tests/serve/test_clients.py -k instructor
	$(VENV)-clients/bin/python -m pytest -W default -p no:cacheprovider tests/integrations/test_langchain_standard.py \
		tests/integrations/test_langchain_gateway.py tests/integrations/test_openai_suite.py
	STREAMVAL_LITELLM=$(VENV)-proxy/bin/litellm $(VENV)-proxy/bin/python -m pytest -W default -p no:cacheprovider \
		tests/integrations/test_litellm_proxy.py

fuzz: $(VENV)/.dev ## Try random types, documents, texts and slices for SECONDS=60
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

lint: $(VENV)/.dev shipped ## Lint, check the formatting, and that imports go one way
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	cd build/shipped && ../../$(BIN)/lint-imports --config ../../pyproject.toml

format: $(VENV)/.dev ## Format, and fix what the linter can fix
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

# Checkers cannot follow the mapping of folders in pyproject.toml, so they see the package as it is
# installed: the four folders copied into one.
.PHONY: shipped
shipped:
	@rm -rf build/shipped && mkdir -p $(TREE)
	@cp -r streamval/* operators chunkers sinks $(TREE)/

typecheck: $(VENV)/.dev shipped ## Check types of the package as it is installed
	MYPYPATH=build/shipped $(BIN)/mypy -p streamval
	MYPYPATH=build/shipped $(BIN)/mypy tests/typing
	$(BIN)/python tests/support/extract.py build/typed
	for file in build/typed/*.py; do MYPYPATH=build/shipped $(BIN)/mypy --strict $$file || exit 1; done
	$(BIN)/pyright --project build/typed --pythonpath $(BIN)/python

bench: $(VENV)/.dev build/mellea/.installed ## Measure, beside a bare `async for` and beside mellea
	$(BIN)/python tests/benchmarks/bench.py --mellea build/mellea/bin/python

bench-view: $(VENV)/.dev ## Measure what seeing a run costs: folding, drawing, a live view
	$(BIN)/python tests/benchmarks/view.py

# JSONSCHEMABENCH is maskbench/data of a clone of guidance-ai/jsonschemabench; without it, a small sample is judged.
bench-schema: $(VENV)/.dev build/suites/.unpacked ## Judge the JSON Schema Test Suite and JSONSchemaBench, and measure the cost
	$(BIN)/python tests/benchmarks/schema.py --suite build/suites/jsonschema-4.26.0/json \
		$(if $(JSONSCHEMABENCH),--bench $(JSONSCHEMABENCH))

bench-conformance: $(VENV)-clients/.installed build/suites/.openai build/suites/.unpacked ## Run the suites that others made, and write docs/conformance.md
	$(BIN)/python tests/benchmarks/conformance.py --suite build/suites/jsonschema-4.26.0 \
		--clients $(VENV)-clients/bin/python $(if $(JSONSCHEMABENCH),--bench $(JSONSCHEMABENCH))

PEERS := llm-stream-guard==0.1.2 tripwire-llm==0.1.1 reliable-ai-streams-py==0.22.0 nemoguardrails[server]==0.24.1 litellm[proxy]==1.108.5 langchain[openai]==1.5.2
peer = $(firstword $(subst ==, ,$(subst [, ,$(1))))
peers = $(foreach one,$(1),--peer $(call peer,$(one))=build/peers/$(call peer,$(one))/bin/python)

bench-gateway: $(VENV)/.dev build/peers/.installed ## Measure the gateway beside two others: its cost, 500 streams, 20,000 requests
	$(BIN)/python tests/benchmarks/gateway.py $(call peers,$(filter nemo% litellm%,$(PEERS)))

bench-exposure: $(VENV)/.dev build/peers/.installed ## Count what clients see of planted violations, beside six peers
	$(BIN)/python tests/benchmarks/exposure.py $(call peers,$(PEERS))

bench-leaks: $(VENV)/.dev build/peers/privacy/.installed ## Count secrets and personal data found, and false alarms, beside two others
	$(BIN)/python tests/benchmarks/leaks.py --peers build/peers/privacy/bin/python

build/peers/privacy/.installed: Makefile
	$(PYTHON) -m venv build/peers/privacy
	PIP_CONSTRAINT= build/peers/privacy/bin/python -m pip install --quiet --disable-pip-version-check \
		detect-secrets==1.5.0 presidio-analyzer==2.2.366
	@touch $@

FAULTS_PEER := $(filter reliable-ai-streams-py%,$(PEERS))

bench-faults: $(VENV)/.dev build/peers/reliable-ai-streams-py/.installed ## Break streams at every frame, beside three others
	$(BIN)/python -m tests.benchmarks.faults $(call peers,$(FAULTS_PEER))

build/peers/reliable-ai-streams-py/.installed: Makefile
	$(PYTHON) -m venv build/peers/reliable-ai-streams-py
	build/peers/reliable-ai-streams-py/bin/python -m pip install --quiet $(FAULTS_PEER) openai
	touch $@

bench-batch: $(VENV)/.dev $(VENV)-ray/.installed ## Measure jobs of 10,000 and a million rows beside Ray Data
	$(BIN)/python tests/benchmarks/batch.py --ray $(VENV)-ray/bin/python

bench-local: $(VENV)/.dev ## Count tokens until a valid answer on the embedded model, and try it as a judge
	$(BIN)/python tests/benchmarks/local_model.py

bench-loops: $(VENV)/.dev ## Count the tokens saved where reasoning goes round in circles
	$(BIN)/python -m tests.benchmarks.loops

notebooks: $(VENV)/.dev ## Execute the notebooks, and save them with their outputs
	$(BIN)/python tests/support/renew_notebooks.py

docs: $(VENV)/.dev shipped ## Build the site of the documentation into build/site/html, and look at it in Chromium
	@rm -rf build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python tests/support/site.py build/site
	$(BIN)/python tests/support/look.py build/site/html

package: $(VENV)/.dev ## Build sdist and wheel, install the wheel into an empty environment, try it
	@rm -rf build/dist build/empty && mkdir -p build
	$(BIN)/python -m build --outdir build/dist . >build/package.log || (tail -30 build/package.log; exit 1)
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check build/dist/*.whl
	cd build && empty/bin/python ../tests/support/smoke.py

clean: ## Remove what the other targets made
	rm -rf $(VENV) $(VENV)-ray $(VENV)-clients $(VENV)-apart $(VENV)-proxy build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), 'streamval needs Python 3.11 or later'"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.local: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[local]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@ $(VENV)/.local

$(VENV)-clients/.installed: $(VENV)/.dev
	$(PYTHON) -m venv $(VENV)-clients
	$(VENV)-clients/bin/python -c "import site, pathlib; \
		pathlib.Path(site.getsitepackages()[0], 'over.pth').write_text('import site; site.addsitedir(\"' + \
		site.getsitepackages()[0].replace('$(VENV)-clients', '$(VENV)') + '\")')"
	PIP_CONSTRAINT= $(VENV)-clients/bin/python -m pip install --quiet --disable-pip-version-check instructor==1.17.0 \
		langchain-tests==1.1.9 respx==0.23.1 dirty-equals==0.11 httpx-aiohttp==0.2.0
	@touch $@

$(VENV)-apart/.installed: .ci/clients.txt
	$(PYTHON) -m venv $(VENV)-apart
	PIP_CONSTRAINT= $(VENV)-apart/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r .ci/clients.txt
	@touch $@

$(VENV)-proxy/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-proxy
	PIP_CONSTRAINT= $(VENV)-proxy/bin/python -m pip install --quiet --disable-pip-version-check -e . \
		'litellm[proxy]==1.106.2' pytest pytest-asyncio pytest-timeout hypothesis
	@touch $@

$(VENV)-ray/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip install --quiet --disable-pip-version-check -e ".[ray]" psutil pytest pytest-asyncio pytest-timeout hypothesis
	@touch $@

build/peers/.installed: Makefile
	$(foreach one,$(PEERS),$(PYTHON) -m venv build/peers/$(call peer,$(one)) && build/peers/$(call peer,$(one))/bin/python \
		-m pip install --quiet --disable-pip-version-check '$(one)' &&) true
	@touch $@

# The JSON Schema Test Suite is in the sdist of `jsonschema`.
build/suites/.unpacked:
	PIP_CONSTRAINT= $(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
		--dest build/suites jsonschema==4.26.0
	tar -xzf build/suites/jsonschema-4.26.0.tar.gz -C build/suites
	@touch $@

# The tests of the `openai` package are in its sdist.
build/suites/.openai: $(VENV)/.dev
	version=$$($(BIN)/python -c "import openai; print(openai.__version__)") && \
	PIP_CONSTRAINT= $(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
		--dest build/suites openai==$$version && \
	mkdir -p build/suites/openai && tar -xzf build/suites/openai-$$version.tar.gz -C build/suites/openai --strip-components=1
	@touch $@

build/mellea/.installed:
	$(PYTHON) -m venv build/mellea
	build/mellea/bin/python -m pip install --quiet --disable-pip-version-check mellea==0.8.0
	@touch $@
