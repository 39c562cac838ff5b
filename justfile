# What one does with this repository; see CONTRIBUTING.md.

# Lint, types, import rules and the quickest tests, in under a minute.
check:
    ruff check .
    ruff format --check .
    mypy
    lint-imports
    pytest -q -n auto tests/contract/test_one_declaration.py tests/unit/base/test_metric.py tests/unit/base/test_kinds.py tests/contract/test_docs.py tests/contract/test_words.py tests/contract/test_test_names.py

# The default tests.
test:
    pytest -n auto

# Years of many seeds and the largest sites, which CI leaves out: some minutes.
accept:
    pytest -n auto -m "accept and not bench"
    pytest -m "accept and bench"

# All that must hold, as CI does.
test-all:
    .ci/run

# The site, strictly, into site/.
docs:
    mkdocs build --strict

# The profiles that ship, from the published facts.
profiles:
    python -m profiles.build

# docs/VALIDATION.md, simulated anew: some minutes.
validation *files:
    PYTHONPATH=.:tests python tests/paper/validation.py {{files}}

# The colocation week, from readings of the paper's figures, into the scenarios that share it.
calendars:
    PYTHONPATH=.:tests python tests/paper/calendars.py

# docs/SPEED.md, measured anew in a folder: some minutes and 2 GB.
speed folder:
    python tests/bench/costs.py {{folder}}

# What a base commit (that of .ci/net.toml) and this tree give, compared; `--keep FOLDER` keeps the base's results.
net *options:
    python .ci/net.py {{options}}

# Syntax nodes of each package beside the budget in .ci/nodes.toml.
nodes:
    python .ci/nodes.py
