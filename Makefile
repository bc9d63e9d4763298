# make demo and make test do everything on a fresh machine with Go.

GO ?= go

# Versions of the tools that lint uses.
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# How many packages are tested at once: their tests also wait, for leases say.
PACKAGES ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

# How long faults are struck, and which plan; SEED=0 draws one.
FAULTS ?= 10m
SEED   ?= 0

# Major versions of PostgreSQL that test-versions tests against.
VERSIONS ?= 14 15 16 17 18

.PHONY: demo test test-versions teeth faults bench lint postgres pgbouncer languages

# demo works a queue and proves, on its own data, that nothing was lost,
# overlapped or out of order.
demo: postgres
	$(GO) run ./cmd/lockstep demo

# test runs everything, with the race detector, whether it passed before or not.
# The detector has every process wait for a second at its end, and there are
# hundreds: tests end their goroutines before.
test: postgres pgbouncer languages
	$(GO) vet ./...
	GORACE="atexit_sleep_ms=0 $$GORACE" $(GO) test -race -count=1 -timeout 10m -p $(PACKAGES) ./...

# faults strikes a queue at work with every kind of fault, for FAULTS and until
# each was struck once, and has an independent checker judge what became of it.
faults: postgres
	$(GO) test -count=1 -timeout 2h -v -run '^TestFaults$$' ./integration/faults -faults.length=$(FAULTS) -faults.seed=$(SEED)

# teeth takes rules out of the code, one at a time, and fails unless the tests
# turn red that must. It prints which did.
teeth: postgres
	$(GO) test -count=1 -timeout 30m -v -run '^TestTeeth$$' ./integration/teeth -teeth

# test-versions runs the tests that need a database against other versions of
# PostgreSQL, without the race detector, and prints a table of the results.
test-versions: pgbouncer languages
	$(GO) run ./integration/versions $(VERSIONS)

# bench measures speed and latency on this machine and prints its set-up.
bench: postgres
	$(GO) test -run '^$$' -bench . -benchmem -timeout 30m ./...

# lint fails on a file that is not formatted, and on what vet or staticcheck
# finds.
lint:
	@unformatted=$$($(GO) run $(GOFUMPT) -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofumpt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

# postgres finds PostgreSQL's server binaries, or gets them and says how.
postgres:
	@integration/postgres/install.sh

# pgbouncer finds the pooler that some tests need, or gets it.
pgbouncer:
	@integration/pgbouncer/install.sh

# languages finds what the examples in other languages need, or gets it.
languages:
	@integration/languages/install.sh >/dev/null
