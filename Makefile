# The commands of this repository; each makes .venv ready first. ADDR=HOST:PORT moves `make start`.

.DEFAULT_GOAL := help
.PHONY: help start test test-hosts test-windows check demo bench generate format

help:
	@echo 'make start PROJECT=/path/to/repository   start WebCodex for that repository'
	@echo 'make demo                                see a handoff happen, start to end'
	@echo 'make test                                run the tests'
	@echo 'make test-hosts                          run the tests with other people'\''s clients'
	@echo 'make test-windows                        run the tests of the adapters with a Windows Python under Wine'
	@echo 'make check                               run every other check a change has to pass'
	@echo 'make format                              format the sources'
	@echo 'make generate                            write the generated pages anew'
	@echo 'make bench                               measure the figures of the README'

start:
	@test -n "$$PROJECT" || { echo 'Say which repository: make start PROJECT=/path/to/repository' >&2; exit 2; }
	@scripts/bootstrap.sh runtime
	@# With a process group of its own, Ctrl-C reaches the program alone and make reports its exit code.
	@if [ -t 0 ]; then exec sh -mc '.venv/bin/webcodex up --project "$$PROJECT" $${ADDR:+--addr "$$ADDR"}; exit $$?'; fi; \
	exec .venv/bin/webcodex up --project "$$PROJECT" $${ADDR:+--addr "$$ADDR"}

test:
	@scripts/bootstrap.sh dev
	@# Tests wait for processes and disks, so there is one worker more than cores; what they compile is kept.
	@env -u PYTHONDONTWRITEBYTECODE .venv/bin/pytest -n 3

test-hosts:
	@scripts/bootstrap.sh dev
	@.venv/bin/python -m tests.hosts.packages
	@.venv/bin/pytest tests/hosts

test-windows:
	@scripts/bootstrap.sh dev
	@.venv/bin/python scripts/test_windows.py

check:
	@scripts/bootstrap.sh dev
	@.venv/bin/python scripts/check

demo:
	@scripts/bootstrap.sh runtime
	@.venv/bin/python scripts/demo.py

bench:
	@scripts/bootstrap.sh dev
	@.venv/bin/python -m benchmarks

generate:
	@scripts/bootstrap.sh runtime
	@.venv/bin/python -m webcodex.cli.generate

format:
	@scripts/bootstrap.sh dev
	@.venv/bin/ruff format
	@.venv/bin/ruff check --quiet --select I --fix
