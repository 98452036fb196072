# `make help` lists the targets. Needed: Go, make and git; a C compiler as well
# for the race detector, and Docker for the images.

# What is built once and outlives a checkout: the tools below, and the control
# plane of the development cluster.
CACHE := $(or $(AGENTCUBE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/agentcube)

# The tools of tools/go.mod, in a folder of their own for each set of versions.
TOOLS := $(CACHE)/tools/$(shell (go env GOVERSION; cat tools/go.mod tools/go.sum) | cksum | tr ' ' '-')
GOLANGCI_LINT := $(TOOLS)/golangci-lint
GOFUMPT := $(TOOLS)/gofumpt
GOTESTSUM := $(TOOLS)/gotestsum
GREMLINS := $(TOOLS)/gremlins
KUSTOMIZE := $(TOOLS)/kustomize

# The race detector where it can be built: it needs cgo and a C compiler.
# `make test RACE=` does without.
RACE ?= $(if $(and $(filter 1,$(shell go env CGO_ENABLED)),$(shell command -v $$(go env CC))),-race)

# Draws the charts of bench-router; a module of its own, which `./...` leaves out.
PLOTTER := test/bench/router/plot

# The folders whose tests start the development cluster, as a pattern for grep.
# The bound leaves room for a machine that builds the control plane first.
CLUSTER_TESTS := /test/(cluster|e2e)(/|$$)|/test/chaos$$
CLUSTER_TIMEOUT := 30m
VERBOSE_TEST := $(GOTESTSUM) --format standard-verbose --

# Folders with tests that patch functions (build tag gomonkey).
PATCHED_TESTS = $(shell grep -rl --include='*_test.go' '^//go:build gomonkey$$' cmd pkg test | xargs -r -n1 dirname | sort -u | sed 's|^|./|')

.DEFAULT_GOAL := help
.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Try it

.PHONY: demo
demo: ## Tell the story of one session, step by step, on a real control plane.
	go run ./test/demo

.PHONY: dev
dev: ## Keep the whole system running until Ctrl-C, with curl and kubectl lines to try.
	go run ./test/demo -dev

.PHONY: cluster
cluster: ## Keep only the development cluster running until Ctrl-C.
	go run ./test/cluster/dev-cluster --crds manifests/crds

##@ Build

.PHONY: build
build: ## Build the programs into bin/.
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./cmd/...

.PHONY: images
images: ## Build one container image per program.
	docker build --target workload-manager -t agentcube/workload-manager:latest .
	docker build --target router -t agentcube/router:latest .

.PHONY: generate
generate: ## Write the generated files anew.
	go generate ./...

.PHONY: clean
clean: ## Remove what was built in this folder; the cache stays.
	rm -rf bin dist coverage.out

##@ Test

.PHONY: test
test: test-unit test-patched test-e2e test-chaos ## Run the tests, those on the development cluster and a short storm too.

.PHONY: test-unit
test-unit: ## Run the tests that need no cluster.
	packages=$$(go list ./...) && go test $(RACE) $$(echo "$$packages" | grep -vE '$(CLUSTER_TESTS)')
	cd $(PLOTTER) && go test $(RACE) ./...

.PHONY: test-patched
# Inlined functions cannot be patched, and a patch that does not hold is silent:
# these files have a build tag, so that a plain `go test` does not run them.
test-patched: ## Run the tests that patch functions, without inlining.
	$(if $(PATCHED_TESTS),go test -tags gomonkey -gcflags=all=-l -run '^TestPatched' $(PATCHED_TESTS),@echo 'no test patches functions')

.PHONY: test-e2e
# One package at a time: two control planes at once would slow each other down.
# A result is never taken from the cache, since the go command does not see the
# programs that these tests build and start. The output comes as it is made, so
# that whoever waits sees what for; what failed is said again at the end, which
# is a long way from where it did.
test-e2e: $(GOTESTSUM) ## Run the tests on the development cluster.
	packages=$$(go list ./...) && \
	$(VERBOSE_TEST) $(RACE) -count 1 -p 1 -timeout $(CLUSTER_TIMEOUT) $$(echo "$$packages" | grep -E '$(CLUSTER_TESTS)' | grep -v '/test/chaos$$')

.PHONY: test-chaos
test-chaos: $(GOTESTSUM) ## Pass two short storms, and look for the planted bugs (seven minutes).
	$(VERBOSE_TEST) $(RACE) -count 1 -timeout $(CLUSTER_TIMEOUT) ./test/chaos

.PHONY: cover
cover: ## Show how much of the store and the workload-manager the unit tests reach.
	go test -coverprofile coverage.out ./pkg/store/... ./pkg/workloadmanager/...
	go tool cover -func coverage.out | tail -1

.PHONY: mutation
mutation: $(GREMLINS) ## Change the store and the workload-manager; 70 % must be noticed (long).
	$(GREMLINS) unleash --threshold-efficacy 70 ./pkg/store
	$(GREMLINS) unleash --threshold-efficacy 70 ./pkg/workloadmanager

# A run of 2,000 steps takes about three quarters of an hour. The last line says
# the verdict.
STEPS ?= $(if $(DURATION),0,2000)
.PHONY: chaos
chaos: ## Pass a storm over the system: STEPS=2000 or DURATION=30m, SEED=1.
	go run ./test/chaos -steps $(STEPS) $(if $(DURATION),-duration $(DURATION)) $(if $(SEED),-seed $(SEED))

.PHONY: bench-create
bench-create: ## Measure creates against the floor of the cluster.
	go run ./test/bench/create

.PHONY: bench-api
# BASE=main measures the writes of that revision too, side by side.
bench-api: ## Measure lists and reads among 100,000 sessions.
	go run ./test/bench/api $(if $(BASE),-base $(BASE))

.PHONY: bench-lifecycle
# The workload-manager, the API server and Redis are processes of their own. The
# sizes and the rest can be chosen: `go run ./test/bench/lifecycle -h`.
bench-lifecycle: ## Measure resync, collection and memory with up to 100,000 sessions.
	go run ./test/bench/lifecycle

.PHONY: bench-router
# The sandbox, the bare proxy, the routers, Redis and the load generator wrk are
# processes of their own; a run takes about half an hour. The parts and the
# sizes can be chosen, and plots written: `go run ./test/bench/router -h`.
bench-router: ## Measure the router against the bare reverse proxy of Go.
	go run ./test/bench/router $(if $(PLOTS),-plots $(PLOTS))

##@ Verify

.PHONY: verify
verify: verify-tidy verify-format verify-manifests verify-generated vet lint race ## Run every check that a change must pass.

.PHONY: verify-tidy
verify-tidy: ## Check that go.mod and go.sum are tidy.
	go mod tidy -diff
	cd tools && go mod tidy -diff
	cd $(PLOTTER) && go mod tidy -diff

.PHONY: verify-format
verify-format: $(GOFUMPT) ## Check the formatting.
	@unformatted=$$($(GOFUMPT) -l cmd pkg test) && \
	if [ -n "$$unformatted" ]; then echo "run make format for:"; echo "$$unformatted"; exit 1; fi

.PHONY: verify-manifests
verify-manifests: $(KUSTOMIZE) ## Check that the manifests render.
	$(KUSTOMIZE) build manifests/base > /dev/null
	$(KUSTOMIZE) build manifests/overlays/dev > /dev/null

.PHONY: verify-generated
verify-generated: ## Check that generated files are as their generators write them.
	./tools/verify-generated.sh

.PHONY: vet
vet: ## Run go vet.
	go vet -tags gomonkey,chaos ./...
	cd $(PLOTTER) && go vet ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run the linters of .golangci.yml.
	$(GOLANGCI_LINT) run ./...
	cd $(PLOTTER) && $(GOLANGCI_LINT) run ./...

.PHONY: race
# The very command of `make test` where there is a C compiler: what the go command
# has just seen pass is not run again. The tests on the development cluster have
# the race detector in `make test`.
race: ## Run the tests that need no cluster with the race detector.
	$(MAKE) test-unit RACE=-race

.PHONY: format
format: $(GOLANGCI_LINT) ## Format the sources.
	$(GOLANGCI_LINT) fmt

# Built into a folder of its own first: a build that was interrupted leaves no
# half tool behind.
$(GOLANGCI_LINT): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(GOFUMPT): PACKAGE := mvdan.cc/gofumpt
$(GOTESTSUM): PACKAGE := gotest.tools/gotestsum
$(GREMLINS): PACKAGE := github.com/go-gremlins/gremlins/cmd/gremlins
$(KUSTOMIZE): PACKAGE := sigs.k8s.io/kustomize/kustomize/v5
$(GOLANGCI_LINT) $(GOFUMPT) $(GOTESTSUM) $(GREMLINS) $(KUSTOMIZE):
	@echo "building $(@F) (once for these versions; golangci-lint takes minutes) …"
	@mkdir -p $(TOOLS)/build
	@cd tools && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $(TOOLS)/build/$(@F) $(PACKAGE)
	@mv $(TOOLS)/build/$(@F) $@
