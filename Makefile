# `make help` lists every target.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# The version that binaries report and images are tagged with. It is asked for once: a file that is changed meanwhile must not have another image
# deployed than the one that was built.
VERSION := $(or $(VERSION),$(shell git describe --tags --always --dirty --match 'v[0-9]*' 2>/dev/null || echo dev))
# Charts want a semantic version: what is none, such as a commit, comes behind 0.0.0.
CHART_VERSION = $(if $(filter v%,$(VERSION)),$(VERSION:v%=%),0.0.0-$(subst _,-,$(VERSION)))
IMAGE := quay.io/quorate/quorate
IMG ?= $(IMAGE):$(VERSION)
# What deploy, undeploy and build-installer work with; another one is config/namespaced, or an overlay.
CONFIG := config/default
# The base of the final image where a registry can be reached, and what compiles it.
BASE ?= $(shell sed -n 's/^ARG BASE=//p' Dockerfile)
GOLANG ?= $(shell sed -n 's/^ARG GOLANG=//p' Dockerfile)
# auto: multi-stage where the engine can pull BASE and GOLANG, else prebuilt.
# multi-stage: everything inside Docker.  prebuilt: binaries built here, on an empty base.
IMAGE_BUILD ?= auto
DOCKER ?= docker
ARCH ?= $(shell go env GOARCH)
PLATFORMS ?= linux/amd64,linux/arm64
PLUGIN_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

KIND := hack/kind/kind.sh
TOOL := hack/tools.sh
# kubectl against the current kubeconfig; the one of the kind cluster where PATH has none.
KUBECTL ?= "$$(command -v kubectl || $(KIND) bin kubectl)"
# What every target that works on the kind cluster exports.
KIND_ENV = KUBECONFIG="$$($(KIND) kubeconfig)"; KUBECTL="$$($(KIND) bin kubectl)"; IMG="$(IMG)"; export KUBECONFIG KUBECTL IMG
# config/ names the image IMAGE; this puts IMG in its place without touching the tree. No reference
# holds a comma; one with a digest holds an @.
SET_IMAGE := sed -E 's,$(subst .,\.,$(IMAGE))(:[[:alnum:]._-]+)?([^[:alnum:]._/-]|$$),$(IMG)\2,g'

BINARIES := manager agent
# What runs where people are: it is no part of the image.
PLUGIN := ./cmd/kubectl-quorate
# The version is stamped by -ldflags; asking git for it as well fails where the checkout belongs to
# another user, as in many CI systems.
# All but tests with the race detector compile as the image does, so that one cache serves them.
# The linker strips debug information here; not generating it saves a tenth of a cold compile.
export GOFLAGS := $(filter-out -buildvcs% -trimpath -gcflags%,$(shell go env GOFLAGS 2>/dev/null)) -buildvcs=false -trimpath -gcflags=all=-dwarf=false
export CGO_ENABLED := 0
# Tests that lack something skip with `go test`, and fail here.
export QUORATE_NEED_ALL := 1
GO_BUILD = go build -ldflags '-s -w -X main.version=$(VERSION)'
COMMANDS := $(addprefix ./cmd/,$(BINARIES))
BUILD_LINUX = GOOS=linux GOARCH=$(ARCH) $(GO_BUILD) -o bin/linux-$(ARCH)/ $(COMMANDS)
# Test results as JSON lines, one file per level; .ci/run counts them.
REPORTS := bin/reports
GOTESTSUM = mkdir -p $(REPORTS); "$$($(TOOL) gotestsum)" --format $(TEST_FORMAT) --format-hide-empty-pkg
TEST_FORMAT ?= pkgname
TEST_FLAGS ?=

##@ General

.PHONY: help
help: ## List every target
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make [target] [VARIABLE=value]" } \
	  /^##@ / { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  \033[36m%-17s\033[0m %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nVariables: IMG=%s\n           CONFIG=config/default|config/namespaced|... (deploy, undeploy, build-installer)\n           TEST_FLAGS=... (passed to go test), IMAGE_BUILD=auto|multi-stage|prebuilt, ARGS=... (run)\n' '$(IMG)'

.PHONY: demo
demo: ## From a bare machine to a kind cluster with the operator and one cluster of each kind
	@IMG="$(IMG)" hack/demo.sh

.PHONY: clean
clean: ## Remove what was built in the tree (not the cache, not the kind cluster)
	rm -rf bin dist coverage.out coverage.html

##@ Development

.PHONY: manifests
manifests: ## Generate CRDs (config/crd/bases), RBAC (config/rbac/role.yaml) and the pages reference.md, planner.md and performance.md of docs/
	@$(TOOL) controller-gen >/dev/null # before anything is removed
	@rm -rf config/crd/bases
	"$$($(TOOL) controller-gen)" crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	go run ./hack/reference
	go run ./hack/planner
	go run ./hack/performance
	"$$($(TOOL) controller-gen)" rbac:roleName=quorate-manager \
	  $(foreach dir,$(wildcard cmd controllers internal),paths=./$(dir)/...) output:rbac:artifacts:config=config/rbac

.PHONY: generate
generate: ## Generate deepcopy functions and apply configurations of the API types, and what follows from the metrics
	@$(TOOL) controller-gen >/dev/null # before anything is removed
	@rm -rf api/v1alpha1/applyconfiguration
	"$$($(TOOL) controller-gen)" \
	  object:headerFile=hack/boilerplate.go.txt \
	  applyconfiguration:headerFile=hack/boilerplate.go.txt,omitToolVersion=true \
	  paths=./api/v1alpha1
	go run ./hack/monitoring

.PHONY: verify-generate
verify-generate: ## Fail when `make generate manifests` would change a file
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	cp -R $(wildcard go.mod go.sum Makefile api cmd config controllers docs hack internal test) "$$tmp"; \
	$(MAKE) -s -C "$$tmp" generate manifests; \
	for dir in api config/crd/bases config/monitoring config/rbac docs; do \
	  [[ -e $$dir || -e $$tmp/$$dir ]] || continue; \
	  diff -ruN "$$dir" "$$tmp/$$dir" || { echo "error: $$dir is out of date: run 'make generate manifests' and commit" >&2; exit 1; }; \
	done

.PHONY: fmt
fmt: ## Format the Go code (gofumpt, goimports)
	"$$($(TOOL) golangci-lint)" fmt ./...

.PHONY: vet
vet: ## Run go vet
	go vet ./...

.PHONY: lint
lint: ## Run golangci-lint, dependency rules included
	"$$($(TOOL) golangci-lint)" run ./...

PKG := ./internal/cluster/etcd/planner
.PHONY: mutate
mutate: ## Change one condition at a time in PKG=./internal/cluster/redis/planner and list what no fast test notices (MUTATE="-files takeover.go -limit 25m")
	go run ./hack/mutate -skip 'Simulation|PlannedStepsKeepData' $(MUTATE) $(PKG)

.PHONY: govulncheck
govulncheck: ## Look for known vulnerabilities in what is called (reports only, where its database is unreachable)
	@rc=0; out=$$("$$($(TOOL) govulncheck)" ./... 2>&1) || rc=$$?; printf '%s\n' "$$out"; \
	if [[ $$rc -ne 0 && $$rc -ne 3 && $$out == *vuln.go.dev* ]]; then \
	  echo "WARNING: the vulnerability database cannot be reached: nothing was checked" >&2; rc=0; \
	fi; exit $$rc

##@ Test

.PHONY: test
test: ## Run what every change has to pass: generated code, lint, unit, adapters, envtest, e2e on kind, six minutes of chaos
	@for part in verify-generate lint test-unit test-e2e "chaos DURATION=6m"; do $(call timed,$$part,$(MAKE) $$part); done

# timed runs a command, and notes how long it took under a name.
timed = began=$$SECONDS; $(2); mkdir -p $(REPORTS); echo "$(1): $$((SECONDS - began)) s" >>$(REPORTS)/times

.PHONY: test-all
test-all: export QUORATE_SWEEP_STRIDE = 1
test-all: export QUORATE_ALL_ENGINES = 1
test-all: test test-olm test-e2e-long test-e2e-fresh chaos fuzz govulncheck bench-ready ## Run everything, the long end-to-end tests, those of a second cluster, fuzz targets, govulncheck and the benchmarks too

# Packages that need Go alone and are fast; of slow ones, the few tests of FAST_CORE.
NOT_FAST := /test/(bench|chart|controllersim|e2e|envtest|monitoring|recorded|skew)|/(autoscaler|dbuser|etcdcluster|rediscluster)$$
NOT_FAST := $(NOT_FAST)|/(etcdclient|redisclient|redisdump|etcdhistory|etcdrestore|etcdsnapshot)$$|/internal/backup$$|/cmd/|/hack/
FAST_CORE := \
  TestACachedObjectDecidesLikeTheWholeOne \
  TestAChangeIsRolledOutOneMemberAtATime \
  TestAnEtcdClusterBecomesReadyAndThenCostsNoWrite \
  TestARedisClusterBecomesReadyAndIsThenLeftAlone \
  TestARedisRolloutRestartsEveryPodAndNoPrimary
.PHONY: test-fast
test-fast: ## Run what answers within a minute and needs Go alone
	@go test -short $$(go list ./... | grep -vE '$(NOT_FAST)')
	@go test -short -run '^($(subst $(empty) $(empty),|,$(strip $(FAST_CORE))))$$' ./controllers/etcdcluster ./controllers/rediscluster

.PHONY: deps
deps:
	@hack/install-deps.sh

# What takes the race detector a minute or so each. test-sweeps has them without it, and test-all with it too.
SLOW_RACES := \
  TestABackupOfAnotherHistoryDoesNotCount \
  TestACachedObjectDecidesLikeTheWholeOne \
  TestAMemoryLimitThatWasTooLowIsSetBack \
  TestAServiceThatCannotBeMadeStopsNothingInside \
  TestAStatusIsWrittenWhateverPodsSay \
  TestAUserComesToLifeWhateverWriteTheOperatorCrashesAfter \
  TestAnIssuerMayChangeItsAuthorityAgainAtAnyTime \
  TestAnOperatorThatCrashesWhileTheIssuerHasAnotherAuthorityGoesOn \
  TestClientsAreSentNowhereThatTheCertificateIsNotFor \
  TestMetricsOfMembersAreReadSeldomAndCostNoWrites \
  TestNoClientOfRedisIsLockedOutByACrashWhileThePasswordChanges \
  TestNobodyIsLockedOutByACrashWhileThePasswordChanges \
  TestRedisFieldsDoSomethingAndCanBeSetBack \
  TestRedisIsDeletedInTheMiddle \
  TestRedisObjectsThatDriftArePutBack \
  TestTheSameWorkCostsTheSameCalls \
  TestWhatAnIssuerGivesIsChecked \
  TestWhatGoesWrongOnTheSideKeepsNothingElseFromBeingDone \
  TestWhomToTrustIsFoundAgain
empty :=
SLOW_RACES := $(subst $(empty) $(empty),|,$(strip $(SLOW_RACES)))
# What runs elsewhere, and the planners, which have no goroutines: test-sweeps runs their tests.
NO_RACES := /test/(bench(/|$$)|e2e($$|/chaos|/install))|/internal/cluster/(etcd|redis)/planner$$
.PHONY: test-unit
test-unit: deps ## Run every test that needs no cluster: rules, simulation, loop, adapters on real servers, envtest
	@for tool in age fake-gcs-server helm versitygw; do $(TOOL) $$tool >/dev/null; done
	@hack/podmonitor-crd.sh >/dev/null
	@KUBEBUILDER_ASSETS="$$($(KIND) envtest-assets)"; QUORATE_SERVERS="$$($(KIND) servers)"; \
	export KUBEBUILDER_ASSETS QUORATE_SERVERS CGO_ENABLED=1; $(GOTESTSUM) --jsonfile $(REPORTS)/unit.json -- \
	  -race -short -parallel 4 -timeout 60m $(if $(QUORATE_ALL_ENGINES),,-skip '^($(SLOW_RACES))$$') $(TEST_FLAGS) $$(go list ./... | grep -v -E '$(NO_RACES)')
	@$(call timed,test-sweeps (a part of test-unit),$(MAKE) test-sweeps)

# Without a limit, go minimizes one large input for all of FUZZTIME.
FUZZTIME := 60s
.PHONY: fuzz
fuzz: deps ## Run every fuzz target for FUZZTIME=60s; what one finds is a file in testdata/fuzz, to be committed with the cure
	@QUORATE_SERVERS="$$($(KIND) servers)"; export QUORATE_SERVERS; \
	for target in $$(grep -rE --include='*_test.go' '^func Fuzz' . | sed -E 's,^(.*)/[^/]+:func (Fuzz[A-Za-z0-9_]+).*,\1:\2,' | sort); do \
	  go test -run '^$$' -fuzz "^$${target#*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$${target%%:*}" || exit 1; \
	done

.PHONY: test-olm
test-olm: ## Validate the bundle for the Operator Lifecycle Manager (a module of its own)
	cd test/olm && go test -count 1 ./...

# What the race detector saw a sample of.
SWEEPS := ./controllers/... ./test/controllersim ./internal/backup/planner ./internal/cluster/autoscale ./internal/cluster/etcd/planner \
  ./internal/cluster/etcd/users ./internal/cluster/redis/planner ./internal/cluster/redis/users
.PHONY: test-sweeps
test-sweeps: ## Run all simulations and crash sweeps, without the race detector
	@$(GOTESTSUM) --jsonfile $(REPORTS)/sweeps.json -- -timeout 180m $(TEST_FLAGS) $(SWEEPS)

# The end-to-end tests that every change has to pass, beside chaos: the life of a cluster of each kind under load, data that comes back, and
# what must never happen. test-all has the others.
CORE := TestEtcdClusterBecomesReady|TestRedisClusterBecomesReady|TestEtcdIsChangedUnderLoad|TestRedisIsChangedUnderLoad|TestAnEtcdClusterComesBackFromABackup|TestARedisClusterIsRestoredInPlace|TestALostQuorumIsRecovered|TestRetainedClaimsBringTheDataBack|TestDeletedClaimsGoWithTheCluster|TestADeletedChildIsPutBack|TestAForeignObjectIsNotAdopted|TestOthersMayAnnotateAllTheTime|TestAPausedClusterIsLeftAlone|TestProtectionStopsPeopleAndNobodyElse|TestEtcdUsers|TestRedisUsers|TestASecretThatIsPlantedIsFound|TestMetricsAreServedToWhoeverMayReadThem|TestANamespacedOperatorKeepsToItsNamespace|TestAnIdleOperatorWritesNothing|TestTheCommandsOfBriefPages
# They make a second kind cluster.
FRESH := TestAnotherKubernetesRestoresFromTheURLAlone|TestHelmInstallsUpgradesAndUninstalls
E2E = $(KIND_ENV); $(GOTESTSUM) --jsonfile $(REPORTS)/$(@:test-%=%).json -- -count 1 -p 1 -v -timeout 120m

.PHONY: test-e2e
test-e2e: TEST_FORMAT := standard-verbose
test-e2e: deps kind-image image-size ## Run the core of the end-to-end tests on the kind cluster (others: TEST_FLAGS="-run TestName")
	@$(E2E) $(or $(TEST_FLAGS),-run '^($(CORE))$$') ./test/e2e

.PHONY: test-e2e-long
test-e2e-long: TEST_FORMAT := standard-verbose
test-e2e-long: deps kind-image ## Run all other end-to-end tests on the kind cluster, for hours
	@$(E2E) -timeout 300m -skip '^($(CORE)|$(FRESH))$$' ./test/e2e

.PHONY: test-e2e-fresh
test-e2e-fresh: TEST_FORMAT := standard-verbose
test-e2e-fresh: deps kind-image ## Run what needs a second kind cluster, which it makes and removes: restore there, install by Helm
	@$(E2E) -run '^($(FRESH))$$' ./test/e2e/...

.PHONY: chaos
chaos: TEST_FORMAT := standard-verbose
chaos: kind-image ## Break clusters on kind for DURATION (10m) from SEED, check every promise, and draw a report (KINDS=etcd,redis,valkey)
	@export DURATION="$(DURATION)" SEED="$(SEED)" KINDS="$(KINDS)"; $(E2E) $(TEST_FLAGS) ./test/e2e/chaos

.PHONY: bench
bench: bench-ready bench-gap bench-loss bench-replace bench-reshard bench-backup bench-memory bench-scale ## Run every benchmark, for hours

.PHONY: performance
performance: ## Write docs/performance.md from what the benchmarks have measured
	go run ./hack/performance bin/bench

.PHONY: bench-ready
bench-ready: kind-image ## Measure on kind the time from apply to Ready against the floor
	@$(KIND_ENV); go test -run '^$$' -bench Ready -benchtime 1x -count 1 -timeout 60m $(TEST_FLAGS) ./test/bench

.PHONY: bench-gap
bench-gap: kind-image ## Measure on kind how long writes stall when a leader is lost or replaced, with an operator and without, and in a rolling restart
	@$(KIND_ENV); go test -run '^$$' -bench '^Benchmark(Kill|Stop|Switch|Restart|Return)' -benchtime 1x -count 1 -timeout 240m $(TEST_FLAGS) ./test/bench

.PHONY: bench-loss
bench-loss: kind-image ## Measure on kind how long it takes until all copies of the data are there again after a node is lost
	@$(KIND_ENV); go test -run '^$$' -bench Loss -benchtime 1x -count 1 -timeout 120m $(TEST_FLAGS) ./test/bench

.PHONY: bench-replace
bench-replace: kind-image ## Measure on kind how long a member is missed whose disk with 1 GiB is lost
	@$(KIND_ENV); go test -run '^$$' -bench Replace -benchtime 1x -count 1 -timeout 120m $(TEST_FLAGS) ./test/bench

.PHONY: bench-memory
bench-memory: ## Measure the memory of the manager with 100 clusters of each kind
	@KUBEBUILDER_ASSETS="$$($(KIND) envtest-assets)" go test -run '^$$' -bench . -benchtime 1x -count 1 -timeout 60m $(TEST_FLAGS) ./test/bench/memory

CLUSTERS := 1000
.PHONY: bench-scale
bench-scale: ## Measure the manager with CLUSTERS=1000 clusters on simulated pods (TEST_FLAGS="-window 2m -profile"); figures go to bin/bench/scale
	@KUBEBUILDER_ASSETS="$$($(KIND) envtest-assets)" go test -run '^$$' -bench . -benchtime 1x -count 1 -timeout 6h ./test/bench/scale -clusters $(CLUSTERS) $(TEST_FLAGS)

.PHONY: test-scale
test-scale: ## Run what bench-scale does with twenty clusters, so that it is known to work
	@KUBEBUILDER_ASSETS="$$($(KIND) envtest-assets)" go test -count 1 -timeout 10m ./test/bench/scale

.PHONY: bench-reshard
bench-reshard: ## Measure keys/s from 3 to 4 shards against the servers' own tools (TEST_FLAGS="-mib 64 -rounds 3 -engine valkey-9.1")
	@QUORATE_SERVERS="$$($(KIND) servers)" go test -run '^$$' -bench . -benchtime 1x -count 1 -timeout 4h ./test/bench/reshard $(TEST_FLAGS)

.PHONY: bench-backup
bench-backup: ## Measure backup and restore against etcdctl, etcdutl and redis-cli (TEST_FLAGS="-mib 1024 -rounds 3")
	@QUORATE_SERVERS="$$($(KIND) servers)" QUORATE_S3="$$($(TOOL) versitygw)" \
	  go test -run '^$$' -bench . -benchtime 1x -count 1 -timeout 4h ./test/bench/backup $(TEST_FLAGS)

##@ Build

.PHONY: build
build: ## Build bin/manager, bin/agent and bin/kubectl-quorate for this machine
	$(GO_BUILD) -o bin/ $(COMMANDS) $(PLUGIN)

.PHONY: build-linux
build-linux: ## Build the same for linux/ARCH, where the prebuilt image takes them from
	$(BUILD_LINUX)

# With the lease of the deployed manager: two that work would undo each other's changes.
.PHONY: run
run: build ## Run the manager here, against the current kubeconfig, while no deployed one works (ARGS="--flags")
	$(KUBECTL) apply --server-side -f config/manager/namespace.yaml
	@echo "to take over from a deployed manager: kubectl -n quorate-system scale deployment quorate-manager --replicas=0" >&2
	bin/manager --agent-image=$(IMG) --dial=port-forward --leader-election-namespace=quorate-system --metrics-bind-address=0 $(ARGS)

.PHONY: docker-build
docker-build: ## Build the image IMG (see IMAGE_BUILD)
	@pulled() { $(DOCKER) image inspect "$$1" >/dev/null 2>&1 || timeout "$$2" $(DOCKER) pull -q "$$1" >/dev/null 2>&1; }; \
	mode=$(IMAGE_BUILD); \
	if [[ $$mode == auto ]]; then \
	  if pulled $(BASE) 60 && pulled $(GOLANG) 600; then mode=multi-stage; else mode=prebuilt; fi; \
	fi; \
	echo "build image $(IMG) ($$mode)" >&2; \
	if [[ $$mode == prebuilt ]]; then \
	  $(BUILD_LINUX); \
	  DOCKER_BUILDKIT=0 $(DOCKER) build -q --target prebuilt --build-arg BASE=scratch --build-arg TARGETARCH=$(ARCH) -t $(IMG) .; \
	else \
	  DOCKER_BUILDKIT=1 $(DOCKER) build --build-arg BASE=$(BASE) --build-arg GOLANG=$(GOLANG) --build-arg VERSION=$(VERSION) -t $(IMG) .; \
	fi

# In MB, as a registry keeps it and every node loads it.
IMAGE_LIMIT := 60
.PHONY: image-size
image-size: ## Fail when the image IMG has more than IMAGE_LIMIT MB compressed
	@bytes=$$($(DOCKER) save $(IMG) | gzip | wc -c); \
	echo "FIGURE image: $$((bytes / 100000 / 10)).$$((bytes / 100000 % 10)) MB compressed (limit $(IMAGE_LIMIT))"; \
	if ((bytes > $(IMAGE_LIMIT) * 1000000)); then echo "error: the image $(IMG) is too large: look for a dependency that came in" >&2; exit 1; fi

.PHONY: docker-buildx
docker-buildx: ## Build the image IMG for PLATFORMS and push it (needs docker buildx and a registry)
	$(DOCKER) buildx build --platform $(PLATFORMS) --build-arg BASE=$(BASE) --build-arg GOLANG=$(GOLANG) --build-arg VERSION=$(VERSION) --push -t $(IMG) .

.PHONY: docker-push
docker-push: ## Push the image IMG
	$(DOCKER) push $(IMG)

.PHONY: build-installer
build-installer: manifests ## Write dist/install.yaml: everything that `make deploy` applies, in one file
	@mkdir -p dist
	$(KUBECTL) kustomize $(CONFIG) | $(SET_IMAGE) > dist/install.yaml

.PHONY: chart
chart: ## Write dist/quorate-<version>.tgz: the Helm chart, of the version VERSION and with its image
	@mkdir -p dist
	"$$($(TOOL) helm)" package charts/quorate --version "$(CHART_VERSION)" --app-version "$(VERSION)" --destination dist

.PHONY: dist
dist: build-installer chart ## Write all that a release has beside the image: manifests, chart, list of images, plugin
	$(KUBECTL) kustomize config/namespaced | $(SET_IMAGE) > dist/install-namespaced.yaml
	go run ./hack/images $(IMG) > dist/images.txt
	$(MAKE) bundle
	$(MAKE) dist-plugin

.PHONY: dist-plugin
dist-plugin: ## Write the plugin for PLUGIN_PLATFORMS to dist, and krew's manifest of it when that is for all platforms
	@mkdir -p dist; krew=$$(sed '/^#/d; s,: VERSION$$,: v$(CHART_VERSION),; s,/VERSION/,/v$(CHART_VERSION)/,' config/krew/quorate.yaml); \
	for platform in $(PLUGIN_PLATFORMS); do \
	  name=$${platform%/*}_$${platform#*/}; file=dist/kubectl-quorate_$$name.tar.gz; tmp=$$(mktemp -d); \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO_BUILD) -o "$$tmp/" $(PLUGIN); \
	  cp LICENSE "$$tmp"; tar -C "$$tmp" -czf "$$file" LICENSE kubectl-quorate; rm -r "$$tmp"; \
	  sum=$$(sha256sum "$$file"); krew=$${krew//SHA256_$${name^^}/$${sum%% *}}; \
	done; \
	if [[ $$krew != *SHA256_* ]]; then printf '%s\n' "$$krew" > dist/krew.yaml; \
	else rm -f dist/krew.yaml; echo "dist/krew.yaml is of all platforms: it is not written" >&2; fi

.PHONY: bundle
bundle: ## Write dist/olm, the bundle for the Operator Lifecycle Manager, and dist/olm-catalog.yaml, its entry in a file-based catalog
	go run ./hack/bundle $(CHART_VERSION) $(IMG) dist/olm
	cp dist/olm/catalog/quorate/catalog.yaml dist/olm-catalog.yaml

##@ Deployment (current kubeconfig)

.PHONY: install
install: manifests ## Install the CRDs
	$(KUBECTL) apply --server-side -f config/crd/bases

.PHONY: uninstall
uninstall: no-clusters ## Delete the CRDs (refuses while there are clusters, unless FORCE=1)
	$(KUBECTL) delete --ignore-not-found -f config/crd/bases

.PHONY: deploy
deploy: manifests ## Install the CRDs and the operator (image IMG)
	$(KUBECTL) kustomize $(CONFIG) | $(SET_IMAGE) | $(KUBECTL) apply --server-side $(APPLY_FLAGS) -f -

.PHONY: undeploy
undeploy: no-clusters ## Delete the operator and the CRDs (refuses while there are clusters, unless FORCE=1)
	$(KUBECTL) kustomize $(CONFIG) | $(KUBECTL) delete --ignore-not-found -f -

# Deleting a CRD deletes every resource of that kind, and with it data.
.PHONY: no-clusters
no-clusters:
	@[[ -z "$(FORCE)" ]] || exit 0; \
	kinds=$$($(KUBECTL) get crds -o name | sed -n 's@.*/\(.*\.quorate\.dev\)$$@\1@p'); \
	for kind in $$kinds; do \
	  found=$$($(KUBECTL) get "$$kind" -A --no-headers -o custom-columns=:.kind,:.metadata.namespace,:.metadata.name); \
	  [[ -z $$found ]] || { printf 'error: this would delete them with their data:\n%s\n  cure: delete them first, or set FORCE=1\n' "$$found" >&2; exit 1; }; \
	done

##@ Test cluster (kind)

.PHONY: kind-up
kind-up: ## Bring up the kind cluster: three nodes; installs and builds what is missing
	@$(KIND) up

.PHONY: kind-down
kind-down: ## Delete the kind cluster
	@$(KIND) down

.PHONY: kind-image
kind-image: kind-up docker-build ## Build the image IMG and load it into the kind cluster
	@$(KIND) load $(IMG)
