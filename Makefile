# make check is for each change, make test for each push, make nightly for each night: CONTRIBUTING.md says what each
# runs. With a Docker engine within reach the tests on real ensembles are required by make test; without one the rest
# runs. The last lines say what was left out.

SHELL       := /bin/bash
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# TIMEOUT ends a package that hangs. No verdict depends on the speed of the machine.
TIMEOUT     := 60m

DURATION    := 15m
SEED        := 1

# The packages that wait longest come first, so that none is left alone at the end. PACKAGES has those of all modules that go.work lists.
ORDERED  := ./zktest ./recipes/lock ./recipes/cache ./recipes/node ./cmd/zklock ./framework ./cmd/... ./...
PACKAGES = $(shell go list -m -f '{{.Dir}}/...' | sort -r | sed '$$d') $(ORDERED)
LINTED = $(PACKAGES)

.PHONY: check test tests worlds times nightly everything race mutations model chaos sim pictures schedules sim-coverage mutation-worlds bench bench-network bench-caches bench-elections bench-counters lint tidy

# Most tests wait for others or for time: several at once, of several packages, need no more processors.
check: LINTED = ./... ./cmd/...
check: lint
	@CURATOR_TESTS=check scripts/test.sh -count=1 -vet=off -p 6 -parallel 8 $(ORDERED)

test:
	@$(MAKE) --no-print-directory -j 2 tests worlds

tests:
	@scripts/test.sh -race -vet=off -p 6 -parallel 6 -timeout $(TIMEOUT) $(PACKAGES)

# Without -race, which makes them five times as slow.
worlds:
	@CURATOR_TESTS=test go test -vet=off -timeout $(TIMEOUT) ./test/sim -run 'Worlds|TestSeedsWorthKeeping' -sim.seeds 300
	@go test -vet=off -timeout $(TIMEOUT) ./test/sim -run 'TestWorlds$$' -sim.only shards -sim.seeds 2300
	@go test -vet=off -timeout $(TIMEOUT) ./test/matrix ./discovery/grpcresolver ./discovery/kratosregistry -run TestMatrix -matrix.core

# Where the time of make test goes: the table of test/README.md.
times:
	@TIMES=1 $(MAKE) --no-print-directory test; bin/testtimes table bin/actions.json bin/times.jsonl

# Hours on 2 cores. Each part runs, also after one that has failed.
nightly:
	@failed=; for part in lint everything race "sim SEEDS=100000" "schedules SEEDS=2000" sim-coverage; do \
		echo "== make $$part"; $(MAKE) --no-print-directory $$part || failed="$$failed, $$part"; done; \
		if [ -n "$$failed" ]; then echo "failed:$${failed#,}"; exit 1; fi

# All tests there are, once, one package at a time.
everything:
	@CURATOR_TESTS=nightly scripts/test.sh -count=1 -p 1 -parallel 8 -timeout 4h $(PACKAGES)

race:
	@scripts/test.sh -race -count=3 -timeout 45m $(PACKAGES)
	@go test -race -count=1 -timeout 45m ./test/sim -run TestWorlds -sim.seeds 1000

# Bugs put back one by one: is each found by the test that it names?
mutations:
	@CURATOR_TESTS=nightly go test -v -count=1 -parallel 8 -timeout 1h ./test/mutation -skip InWorlds

# The same: does a world of package sim fail? BUG= is an expression for names; TRY=3000 tries so many seeds, whatever is known.
mutation-worlds: TRY := 0
mutation-worlds:
	@CURATOR_TESTS=nightly go test -v -count=1 -timeout 24h ./test/mutation -run 'InWorlds/($(BUG))' -mutation.seeds $(TRY)

# The rule of docs/PROTOCOL.md in all executions of small worlds, of which STATES are tried in each.
model: STATES := 4000000
model:
	@CURATOR_TESTS=nightly go test -v -count=1 -timeout 4h ./internal/test/model -model.states $(STATES) -model.time 20m

# Faults on real ensembles, for DURATION per recipe; RUN=TestSemaphore is one recipe. It prints its seed, and a
# table for test/chaos/README.md.
chaos: RUN := .
chaos:
	@CURATOR_TESTS=nightly CHAOS_DURATION=$(DURATION) CHAOS_SEED=$(SEED) scripts/test.sh -v -timeout 24h -run '$(RUN)' ./test/chaos

# The locks in SEEDS simulated worlds, see test/sim/README.md. SEED=7 is one world, with its history; RECIPE=mutex one recipe.
sim: SEEDS := 100000
sim:
	@go test -v -count=1 -timeout 24h -run TestWorlds ./test/sim -sim.seeds $(SEEDS) -sim.progress 5000 -sim.recipe '$(RECIPE)' \
		$(if $(findstring command,$(origin SEED)),-sim.seed $(SEED))

# The pictures of docs, from runs in virtual time.
pictures:
	@scripts/pictures.sh

# The same worlds with goroutines that pause at random, see test/schedules/README.md.
SCHEDULED := ./recipes/lock ./recipes/lock/internal/view ./recipes/shard ./internal/session ./internal/engine ./internal/engine/wire ./internal/engine/debt
schedules: SEEDS := 300
schedules:
	@go run ./test/schedules -out bin/schedules $(SCHEDULED)
	@go test -vet=off -count=1 -timeout 4h -overlay bin/schedules/overlay.json ./test/sim -run 'TestWorlds$$' -sim.seeds $(SEEDS)

# Which statements of each package SEEDS worlds reach. It fails if they never reach a branch that scripts/sim-unreached.txt does not explain.
sim-coverage: SEEDS := 1000
sim-coverage:
	@scripts/sim-coverage.sh $(SEEDS)

# The jars of newer ZooKeeper and Curator, if there are some: see internal/test/jvm.
BENCH := go run . $(if $(CURATOR_TEST_JARS),-jars '$(CURATOR_TEST_JARS)')

# Beside the alternatives, on one server and on three: the tables and plots of docs/PERFORMANCE.md. RUN= is an
# expression for the workloads.
bench: RUN := .
bench:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null && scripts/rivals-image.sh >/dev/null
	@cd test/bench && $(BENCH) -servers 1,3 -with java,kazoo,etcd,redis -run '$(RUN)' -out results

# The same with 1 ms of network each way.
bench-network: RUN := ^uncontended|^2 waiters, a client|^10 waiters, a client|^100 waiters, a client
bench-network:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null && scripts/rivals-image.sh >/dev/null
	@cd test/bench && $(BENCH) -servers 1,3 -network 1ms -with java,kazoo,etcd,redis -run '$(RUN)' -out results

# Our caches beside Java's CuratorCache, on one server: the table in docs/PERFORMANCE.md.
bench-caches:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null
	@cd test/bench && $(BENCH) -caches -with java -rounds 6

# Our elections beside Java's LeaderLatch: how long nobody leads.
bench-elections:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null
	@cd test/bench && $(BENCH) -elections -servers 1,3 -with java

# Increments of one number, beside Java's DistributedAtomicLong and etcd's transactional memory.
bench-counters:
	@scripts/zookeeper-image.sh >/dev/null && scripts/peer-image.sh >/dev/null && scripts/rivals-image.sh >/dev/null
	@cd test/bench && $(BENCH) -servers 1,3 -with java,etcd -run '^counter'

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	@go vet $(LINTED)
	@go run -race=false $(STATICCHECK) $(LINTED)

# go mod tidy in every module, also while the version that they require of each other is not released.
tidy:
	@scripts/tidy.sh
