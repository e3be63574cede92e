# make test runs every test there is. With a Docker engine within reach the tests on
# real ensembles are required; without one the rest runs, and the last lines say
# what was left out.

SHELL       := /bin/bash
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
TIMEOUT     := 15m

DURATION    := 15m
SEED        := 1

# Modules of their own, so that users of the library do not inherit what they need.
MODULES := bench observe/demo observe/otel observe/prometheus

.PHONY: test race chaos bench lint

test:
	@for m in $(MODULES); do (cd $$m && go test -race ./...) || exit 1; done
	@scripts/test.sh -race -timeout $(TIMEOUT) ./...

race:
	@scripts/test.sh -race -count=3 -timeout 45m ./...

# Faults on real ensembles, for DURATION per recipe; RUN=TestSemaphore is one recipe. It prints a table for
# docs/RELIABILITY.md, and its seed.
chaos: RUN := .
chaos:
	@CHAOS_DURATION=$(DURATION) CHAOS_SEED=$(SEED) scripts/test.sh -v -timeout 24h -run '$(RUN)' ./chaos

# Beside the alternatives, on one server and on three: the tables and plots of docs/PERFORMANCE.md. RUN= is an
# expression for the workloads.
bench: RUN := .
bench:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null && scripts/rivals-image.sh >/dev/null
	@cd bench && go run . -servers 1,3 -with java,kazoo,etcd,redis -run '$(RUN)' -out ../docs

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	@for m in . $(MODULES); do (cd $$m && go vet ./... && GOFLAGS=-mod=mod go run $(STATICCHECK) ./...) || exit 1; done
