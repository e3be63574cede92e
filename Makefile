# make test runs every test there is. With a Docker engine within reach the tests on
# real ensembles are required; without one the rest runs, and the last lines say
# what was left out.

SHELL       := /bin/bash
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
TIMEOUT     := 15m

DURATION    := 15m
SEED        := 1

# All packages of all modules that go.work lists.
PACKAGES = $(shell go list -m -f '{{.Dir}}/...')

.PHONY: test race model chaos sim sim-mutations bench bench-network bench-caches bench-elections lint tidy

test:
	@scripts/test.sh -race -timeout $(TIMEOUT) $(PACKAGES)

race:
	@scripts/test.sh -race -count=3 -timeout 45m $(PACKAGES)

# The rule of docs/PROTOCOL.md in all executions of small worlds, of which STATES are tried in each.
model: STATES := 4000000
model:
	@go test -v -count=1 -timeout 4h ./internal/model -model.states $(STATES) -model.time 20m

# Faults on real ensembles, for DURATION per recipe; RUN=TestSemaphore is one recipe. It prints a table for
# docs/RELIABILITY.md, and its seed.
chaos: RUN := .
chaos:
	@CHAOS_DURATION=$(DURATION) CHAOS_SEED=$(SEED) scripts/test.sh -v -timeout 24h -run '$(RUN)' ./chaos

# The locks in SEEDS simulated worlds, see docs/SIMULATION.md. SEED=7 is one world, with its history; RECIPE=mutex one recipe.
sim: SEEDS := 100000
sim:
	@go test -v -count=1 -timeout 24h -run TestWorlds ./sim -sim.seeds $(SEEDS) -sim.progress 5000 -sim.recipe '$(RECIPE)' \
		$(if $(findstring command,$(origin SEED)),-sim.seed $(SEED))

# Bugs put back one by one: after how many worlds is each found? BUG= is an expression for names.
sim-mutations:
	@go test -v -count=1 -timeout 24h -run TestPlantedBugs ./sim -sim.mutations -sim.mutation '$(BUG)'

# Beside the alternatives, on one server and on three: the tables and plots of docs/PERFORMANCE.md. RUN= is an
# expression for the workloads.
bench: RUN := .
bench:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null && scripts/rivals-image.sh >/dev/null
	@cd bench && go run . -servers 1,3 -with java,kazoo,etcd,redis -run '$(RUN)' -out ../docs

# The same with 1 ms of network each way.
bench-network: RUN := ^uncontended|^2 waiters, a client|^10 waiters, a client|^100 waiters, a client
bench-network:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null && scripts/rivals-image.sh >/dev/null
	@cd bench && go run . -servers 1,3 -network 1ms -with java,kazoo,etcd,redis -run '$(RUN)' -out ../docs

# Our caches beside Java's CuratorCache, on one server: the table in docs/PERFORMANCE.md.
bench-caches:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null
	@cd bench && go run . -caches -with java -rounds 6

# Our elections beside Java's LeaderLatch: how long nobody leads.
bench-elections:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null
	@cd bench && go run . -elections -servers 1,3 -with java

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	@go vet $(PACKAGES)
	@go run $(STATICCHECK) $(PACKAGES)

# go mod tidy in every module, also while the version that they require of each other is not released.
tidy:
	@scripts/tidy.sh
