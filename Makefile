# Every target sets up what it needs on a bare Debian 12 as root with Node 20 and npm, and is quick when nothing is missing.
SHELL := /bin/bash
NODE := node_modules/.bin/node
# There once the modules of exactly this lock are in place.
LOCKED := node_modules/.netplug-lock.$(shell sha256sum package-lock.json | cut -c1-16)
PACKAGES := etcd-server etcd-client containernetworking-plugins runc podman nftables iptables iproute2 \
	iputils-ping iperf3 busybox-static openssl jq netcat-openbsd dnsmasq-base gcc libc6-dev musl-tools util-linux procps curl \
	conntrack bird2 wget fish zsh libseccomp-dev pkg-config bind9-dnsutils

.PHONY: demo test soak fuzz build bench ok clean setup modules components cluster cluster-empty cluster-down

# On Debian's etcd and plugins, so that nothing but netplug is built.
demo: build
	NETPLUG_COMPONENTS=debian $(NODE) scripts/demo.ts

# Builds the components that are missing while tests that need none of them run.
test: build
	$(NODE) scripts/test.ts

# What is too heavy for every day: long simulations, 50 000 calls while everything dies now and then, 10 000 on an API
# server, a storm of a hundred pods while the API server dies, one of 200 pods and 50 policies, Kubernetes' own tests of its
# networks, every case of cyclonus.
soak: build
	$(NODE) scripts/build-components.ts soak
	NETPLUG_SIM_RUNS=100000 NETPLUG_STORM=100 NETPLUG_SOAK=1 NETPLUG_SOAK_CALLS=50000 \
	  $(NODE) scripts/test.ts --project sim --project 'e2e*' test/sim cluster-datastores orch-pods sig-network cyclonus agent-policy-storm test/e2e/soak.test
	NETPLUG_SOAK_CALLS=10000 $(NODE) scripts/test.ts --project e2e test/e2e/soak-orch
	KUBERNETES=1.34 $(NODE) scripts/build-components.ts test
	KUBERNETES=1.34 $(NODE) scripts/test.ts --project 'e2e-agent-clusters' cluster playground

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

# A cluster to play with, with netplug as its network or without any: docs/cluster.md.
cluster: build components
	@$(NODE) scripts/cluster.ts up

cluster-empty: build components
	@$(NODE) scripts/cluster.ts up --network none

cluster-down:
	@$(NODE) scripts/cluster.ts down

ok: setup
	npm run --silent ok

build: setup
	$(NODE) scripts/build.ts

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
