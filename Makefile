# Every target sets up what it needs on a bare Debian 12 as root with Node 20 and npm, and is quick when nothing is missing.
SHELL := /bin/bash
NODE := node_modules/.bin/node
# There once the modules of exactly this lock are in place.
LOCKED := node_modules/.netplug-lock.$(shell sha256sum package-lock.json | cut -c1-16)
PACKAGES := etcd-server etcd-client containernetworking-plugins runc podman nftables iptables iproute2 \
	iputils-ping iperf3 busybox-static openssl jq netcat-openbsd dnsmasq-base gcc libc6-dev musl-tools util-linux procps curl python3-pip \
	conntrack bird2 wget fish zsh libseccomp-dev pkg-config bind9-dnsutils binutils

.PHONY: demo test quick soak fuzz build manifests chart bench ok clean setup modules deb components cluster cluster-empty cluster-down \
	release images images-lock images-sbom images-sign images-report images-sources

# On Debian's etcd and plugins, so that nothing but netplug is built.
demo: build
	NETPLUG_COMPONENTS=debian $(NODE) scripts/demo.ts

# Builds the components that are missing while tests that need none of them run.
test: build
	$(NODE) scripts/test.ts

# Static checks, unit tests and a short simulation: without root, and without components.
quick: modules
	$(NODE) scripts/test.ts --quick

# What `make test` leaves out (test/soak-cases.ts): all of it, which takes hours, cases whose names contain one of the words in
# CASES, or a share that ends at UNTIL, seconds since 1970.
soak: build
	$(NODE) scripts/soak.ts $(CASES) $(if $(UNTIL),--until $(UNTIL))

# What a hostile agent may say to the shim, with coverage, AddressSanitizer and UBSan.
FUZZ_SECONDS := 180
fuzz:
	@command -v clang >/dev/null && ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 || \
	  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends clang libclang-rt-14-dev; }
	@mkdir -p build/shim-corpus
	clang -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Wno-unused-function \
	  -o build/shim-fuzz native/shim-fuzz.c native/standalone.c
	printf '\0\010NPA1\0\0\0\0\003\0\0\0\003\0\0\0outerr' > build/shim-corpus/answer
	build/shim-fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -malloc_limit_mb=64 build/shim-corpus

bench: build components
	$(NODE) scripts/build-components.ts kwok
	$(NODE) scripts/bench.ts

# Kubernetes, containerd, etcd and other real programs that tests and the cluster run; built once, outside the repository.
components: setup
	$(NODE) scripts/build-components.ts

# A cluster to play with, in which netplug is installed by its one command with every feature on, or without a network:
# docs/cluster.md. METHOD is operator, chart or manifest; DATASTORE is orch or kv, which only manifest supports;
# TYPHA=off leaves the fan-out out, which etcd does not have. MESH=on adds Istio, which takes five minutes to build, and a demo of
# rules about requests: docs/mesh-demo.md.
cluster: build components
	@$(if $(filter on,$(MESH)),$(NODE) scripts/build-components.ts mesh)
	@$(NODE) scripts/cluster.ts up $(if $(METHOD),--method $(METHOD)) $(if $(DATASTORE),--datastore $(DATASTORE)) \
	  $(if $(TYPHA),--typha $(TYPHA)) $(if $(MESH),--mesh $(MESH))

cluster-empty: build components
	@$(NODE) scripts/cluster.ts up --network none

cluster-down:
	@$(NODE) scripts/cluster.ts down

# OCI images in dist/images, for ARCHITECTURES: docs/images.md.
ARCHITECTURES := amd64 arm64
REGISTRY := netplug.io
images: build $(if $(filter-out $(shell dpkg --print-architecture),$(ARCHITECTURES)),build/.cross)
	$(NODE) scripts/build-components.ts assemble host-local loopback portmap bandwidth \
	  $(if $(filter arm64,$(ARCHITECTURES)),host-local-arm64 loopback-arm64 portmap-arm64 bandwidth-arm64)
	$(NODE) scripts/images.ts $(addprefix --architecture ,$(ARCHITECTURES)) --registry $(REGISTRY)

# What it takes to build for arm64 on amd64: compilers, and an emulator for the cache of compiled code that only Node makes.
CROSS_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross libstdc++6-arm64-cross qemu-user-static
build/.cross: Makefile
	@mkdir -p build
	@missing=$$(for p in $(CROSS_PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; fi
	@touch $@

# What is released: the images, and manifests, charts and programs that name them by tag and digest.
release: images
	digests=$$($(NODE) scripts/image-digests.ts) && \
	NETPLUG_IMAGE_DIGESTS=$$digests $(NODE) scripts/write-manifests.ts && \
	NETPLUG_IMAGE_DIGESTS=$$digests $(NODE) scripts/write-charts.ts && \
	BUILT_IN_DIGESTS=$$digests $(NODE) scripts/build.ts

# Newest packages of Debian for the images.
images-lock: setup
	$(NODE) scripts/images-lock.ts

# Software bills of materials, for images in dist/images.
images-sbom: setup
	$(NODE) scripts/build-components.ts syft
	$(NODE) scripts/images-sbom.ts

# Signs what is in dist/images with COSIGN_KEY; with SIGN_REGISTRY also images that were pushed there.
images-sign: setup
	$(NODE) scripts/build-components.ts cosign crane
	$(NODE) scripts/images-sign.ts --key '$(COSIGN_KEY)' $(if $(SIGN_REGISTRY),--registry $(SIGN_REGISTRY))

# Known vulnerabilities, as far as the registries of npm and Debian say.
images-report: setup
	@$(NODE) scripts/images-report.ts

# Source packages of what the images take from Debian.
images-sources: setup
	$(NODE) scripts/images-sources.ts

ok: setup
	npm run --silent ok

build: setup manifests chart
	$(NODE) scripts/build.ts

# The Debian package for hosts without an orchestrator, in dist/: docs/hosts.md.
deb: build
	$(NODE) scripts/build-deb.ts

# What users apply, in dist/manifests: docs/install.md.
manifests: setup
	$(NODE) scripts/write-manifests.ts

# The charts of the operator and of its definitions, in dist/chart: docs/install.md.
chart: setup
	$(NODE) scripts/write-charts.ts

setup: build/.packages modules

build/.packages: Makefile
	@mkdir -p build
	@missing=$$(for p in $(PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; fi
	@touch $@

# Installs exactly the packages of the lock file, only when they differ from the installed ones.
modules:
	@test -e $(LOCKED) || { npm ci --no-audit --no-fund --loglevel=error && touch $(LOCKED); }

clean:
	rm -rf build dist node_modules
