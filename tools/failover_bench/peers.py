"""The configuration of every proxy: equal shares, a health check every 0.1 s with two failures to
be down, ejection after five failures in a row, and two more attempts, each on another cluster.

An attempt that is not answered within a second is given up. Every proxy has one worker.
"""

import json
import shutil

CLUSTERS = [19301, 19302, 19303]
PORT = {"haproxy": 19320, "envoy": 19330, "limen": 19340}
ALL = list(PORT)
HOST = "h.bench.test"
CHECK_MS, CHECK_TIMEOUT_MS, ATTEMPT_MS = 100, 100, 1000


def there(name, options):
    if name == "envoy":
        return bool(options.envoy)
    return name == "limen" or (name in PORT and bool(shutil.which(name)))


def haproxy():
    servers = "\n".join(f"  server c{i} 127.0.0.1:{port}" for i, port in enumerate(CLUSTERS))
    return f"""global
  nbthread 1
  maxconn 9000
defaults
  mode http
  timeout connect {ATTEMPT_MS}ms
  timeout client 60s
  timeout server {ATTEMPT_MS}ms
  timeout check {CHECK_TIMEOUT_MS}ms
  option http-keep-alive
  http-reuse always
frontend in
  bind 127.0.0.1:{PORT['haproxy']}
  default_backend clusters
backend clusters
  balance roundrobin
  option httpchk GET /healthz
  option redispatch 1
  retries 2
  retry-on all-retryable-errors
  default-server check inter {CHECK_MS}ms fall 2 rise 2 observe layer7 error-limit 5 on-error mark-down
{servers}
"""


def envoy():
    ends = "\n".join(
        f"        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }}"
        for port in CLUSTERS)
    ms = lambda number: f"{number / 1000:g}s"
    return f"""static_resources:
  listeners:
  - name: in
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: {PORT['envoy']} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{ prefix: "/" }}
                route:
                  cluster: clusters
                  timeout: 60s
                  retry_policy:
                    retry_on: 5xx,reset,connect-failure,refused-stream
                    num_retries: 2
                    per_try_timeout: {ms(ATTEMPT_MS)}
                    retry_back_off: {{ base_interval: 0.001s, max_interval: 0.001s }}
                    retry_host_predicate:
                    - name: envoy.retry_host_predicates.previous_hosts
                      typed_config: {{ "@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate }}
                    host_selection_retry_max_attempts: 5
  clusters:
  - name: clusters
    type: STATIC
    connect_timeout: {ms(ATTEMPT_MS)}
    lb_policy: ROUND_ROBIN
    circuit_breakers: {{ thresholds: [{{ max_connections: 10000, max_pending_requests: 10000, max_requests: 10000, max_retries: 10000 }}] }}
    health_checks:
    - timeout: {ms(CHECK_TIMEOUT_MS)}
      interval: {ms(CHECK_MS)}
      interval_jitter: 0s
      no_traffic_interval: {ms(CHECK_MS)}
      unhealthy_threshold: 2
      healthy_threshold: 2
      http_health_check: {{ path: /healthz }}
    outlier_detection: {{ consecutive_5xx: 5, consecutive_gateway_failure: 5, enforcing_consecutive_gateway_failure: 100, interval: 0.1s, base_ejection_time: 10s, max_ejection_percent: 50 }}
    load_assignment:
      cluster_name: clusters
      endpoints:
      - lb_endpoints:
{ends}
"""


def limen():
    target = lambda i, port: {"cluster": f"c{i}", "addresses": [{"host": "127.0.0.1", "port": port}]}
    check = {"kind": "Http", "path": "/healthz", "intervalMilliseconds": CHECK_MS,
             "timeoutMilliseconds": CHECK_TIMEOUT_MS, "unhealthyThreshold": 2, "healthyThreshold": 2}
    spec = {
        "rules": [{"host": HOST, "paths": [{"path": "/", "backend": "all"}]}],
        "backends": [{"name": "all", "targets": [target(i, port) for i, port in enumerate(CLUSTERS)]}],
        "traffic": {"healthCheck": check, "retries": {"attempts": 2},
                    "outliers": {"consecutiveFailures": 5, "ejectSeconds": 10, "maxEjectedPercent": 50},
                    "timeouts": {"connectMilliseconds": ATTEMPT_MS, "responseMilliseconds": ATTEMPT_MS}},
    }
    return json.dumps({"kind": "GlobalIngress", "metadata": {"name": "all"}, "spec": spec})


def command(name, options, folder):
    def write(file, text):
        (folder / file).write_text(text)
        return str(folder / file)

    if name == "haproxy":
        return ["haproxy", "-f", write("haproxy.cfg", haproxy())]
    if name == "envoy":
        conf = write("envoy.yaml", envoy())
        return [options.envoy, "-c", conf, "--concurrency", "1", "-l", "error", "--use-dynamic-base-id"]
    return [options.limen, "gateway", "--config", write("limen.yaml", limen()), "--http",
            f"127.0.0.1:{PORT['limen']}", "--workers", "1"]
