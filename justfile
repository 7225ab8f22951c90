# Entry points. `just` alone lists them.

default:
    @just --list --unsorted

# Everything that needs only Rust and a C compiler.
test:
    cargo test --workspace

# Property tests with cases that nobody has seen yet, many of each.
fresh-seeds cases="2000":
    PROPTEST_CASES={{cases}} cargo test --workspace --lib

# Format, clippy and rustdoc, with warnings as errors.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps

# Licences, duplicate crates, crypto providers and (where the database can be fetched) advisories.
deny:
    tools/deny

# Tests against real etcd and real Kubernetes. Builds the binaries on first use (about 10 minutes).
e2e:
    COREDNS="$(tools/coredns)" KUBEBUILDER_ASSETS="$(tools/kube-assets)" cargo test --workspace --features e2e

# Random histories of a federation, searched for broken laws: --seconds N --seed S, or --scenario NAME.
simulate-federation *arguments:
    cargo run --release -p limen-sim -- {{arguments}}

# Each rule of the federation switched off, and how the simulator notices: --seconds N, or names of tools/mutations.toml.
mutate-federation *arguments:
    tools/mutate-federation {{arguments}}

# The store beside a real etcd: writes, memory, start, watches.
bench-store *arguments:
    KUBEBUILDER_ASSETS="$(tools/kube-assets)" cargo bench --profile dist -p limen-store --bench store -- {{arguments}}

# The hub beside a real kube-apiserver and etcd: requests, watches, memory, start.
bench-apiserver *arguments:
    cargo build --profile dist -p limen
    LIMEN="$PWD/target/dist/limen" KUBEBUILDER_ASSETS="$(tools/kube-assets)" cargo bench -p limen --bench apiserver -- {{arguments}}

# A hub with many members: leaves in a second, time to reach all, cost at rest, growth.
bench-federation *arguments:
    cargo build --profile dist -p limen
    LIMEN="$PWD/target/dist/limen" KUBEBUILDER_ASSETS="$(tools/kube-assets)" cargo bench -p limen --bench federation -- {{arguments}}

# One decision with 50 clusters; 10,000 roots over 20 clusters compiled; a changed endpoint to a changed decision at that size; a lost cluster beside HAProxy and Envoy. ENVOY is the path of its binary.
bench-traffic:
    cargo bench --profile dist -p limen-core --bench decide
    cargo bench --profile dist -p limen-core --bench compile
    cargo bench -p limen --bench traffic
    cargo build --profile dist -p limen
    tools/bench-failover

# The gateway beside nginx, HAProxy and Envoy: CPU time for each request. ENVOY is the path of its binary.
bench-gateway *arguments:
    cargo build --profile dist -p limen
    tools/bench-gateway {{arguments}}

# A gateway under load while targets are killed, hang and reset, routes change and clients misbehave; 5 minutes unless --seconds says otherwise.
soak *arguments:
    cargo build --profile dist -p limen
    tools/soak-gateway {{arguments}}

# The DNS server beside Knot and CoreDNS: CPU time for each answer. Then how soon a changed verdict is in the answers of 10,000 names.
bench-dns *arguments:
    cargo build --profile dist -p limen
    COREDNS="$(tools/coredns)" tools/bench-dns {{arguments}}
    tools/bench-dns-verdicts --snapshot
    tools/bench-dns-verdicts --probes

# From the death of a cluster to the first right answer of a client behind unbound, at TTL 5 and 30 (about five minutes).
bench-dns-failover *arguments:
    cargo build --profile dist -p limen
    tools/bench-dns-failover {{arguments}}

# Limen and a real kube-apiserver answer the same requests; every difference is listed or printed.
blackbox:
    tools/python-client
    cargo build -p limen
    KUBEBUILDER_ASSETS="$(tools/kube-assets)" cargo test -p limen-apiserver --features blackbox --test blackbox

# Kubernetes' own conformance tests of the API machinery, against a hub. Builds them on first use (many minutes).
conformance *focus:
    tools/conformance "{{focus}}"

# The dashboard in a real browser: kills a region, drains a cluster, keeps screenshots in target/browser.
browser *folder:
    cargo build -p limen
    tools/browser/run {{folder}}
