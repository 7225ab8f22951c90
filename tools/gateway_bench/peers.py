"""The configuration of every proxy: the same routes, health checks and metrics on.

A proxy listens on one port for HTTP and on the next for HTTPS; all show the same certificate.
"""

import json
import shutil

UP = [19101, 19102, 19103]
PORT = {"nginx": 19210, "haproxy": 19220, "envoy": 19230, "limen": 19240}
SECURE = {name: port + 1 for name, port in PORT.items()}
ADMIN = 19205


def nginx_upstream(folder):
    servers = "".join(
        f"""server {{ listen 127.0.0.1:{port} backlog=4096; access_log off;
        location / {{ default_type text/plain; return 200 "hello from upstream, some small body\\n"; }}
        location /big {{ alias {folder}/big; }} }}\n"""
        for port in UP
    )
    (folder / "big").write_bytes(b"x" * (1 << 20))
    return f"""worker_processes 1; pid {folder}/up.pid; error_log {folder}/up.log; daemon off;
    events {{ worker_connections 8192; }}
    http {{ keepalive_requests 10000000; keepalive_timeout 300s; sendfile on;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    {servers} }}"""


def nginx_proxy(folder, hosts, paths, workers, tls=True):
    """Without TLS it loads far sooner: it makes a context of TLS for each server."""
    secure = lambda more="": f"listen 127.0.0.1:{SECURE['nginx']} ssl http2{more};" if tls else ""
    certificate = (f"ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; "
                   "ssl_protocols TLSv1.2 TLSv1.3;") if tls else ""
    locations = "".join(
        f"location /p{p}/ {{ proxy_pass http://up; }} " for p in range(paths)
    ) + "location / { proxy_pass http://up; }"
    servers = "".join(
        f"server {{ listen 127.0.0.1:{PORT['nginx']}; {secure()} "
        f"server_name h{h}.bench.test; {locations} }}\n"
        for h in range(hosts)
    )
    up = " ".join(f"server 127.0.0.1:{port} max_fails=5;" for port in UP)
    return f"""worker_processes {workers}; pid {folder}/ng.pid; error_log {folder}/ng.log crit; daemon off;
    events {{ worker_connections 16384; }}
    http {{ access_log off; keepalive_requests 10000000; keepalive_timeout 300s;
    client_body_temp_path {folder}/n1; proxy_temp_path {folder}/n2; fastcgi_temp_path {folder}/n3;
    uwsgi_temp_path {folder}/n4; scgi_temp_path {folder}/n5;
    server_names_hash_max_size 8192; server_names_hash_bucket_size 128;
    upstream up {{ {up} keepalive 512; keepalive_requests 10000000; }}
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Request-Id $request_id;
    {certificate}
    server {{ listen 127.0.0.1:{PORT['nginx']} default_server backlog=4096;
    {secure(" default_server backlog=4096")} location /status {{ stub_status; }}
    location / {{ return 404; }} }}
    {servers} }}"""


def haproxy_proxy(folder, hosts, paths, workers):
    lines = []
    for h in range(hosts):
        lines += [f"h{h}.bench.test/p{p}/ up" for p in range(paths)] + [f"h{h}.bench.test/ up"]
    (folder / "routes.map").write_text("\n".join(lines) + "\n")
    servers = "\n".join(f"  server s{i} 127.0.0.1:{port} check inter 1s" for i, port in enumerate(UP))
    return f"""global
  nbthread {workers}
  maxconn 9500
  stats socket {folder}/haproxy.sock level admin
defaults
  mode http
  timeout connect 1s
  timeout client 300s
  timeout server 60s
  option http-keep-alive
  http-reuse always
frontend in
  bind 127.0.0.1:{PORT['haproxy']} backlog 4096
  bind 127.0.0.1:{SECURE['haproxy']} ssl crt {folder}/both.pem alpn h2,http/1.1 backlog 4096
  option forwardfor
  http-request set-header X-Forwarded-Proto http
  unique-id-format %{{+X}}o%ci%cp%Ts%rt%pid
  unique-id-header X-Request-Id
  use_backend %[base,map_beg({folder}/routes.map)]
backend up
  balance leastconn
  option httpchk GET /
{servers}
"""


def envoy_routes(hosts, paths):
    route = lambda prefix: f'{{ match: {{ prefix: "{prefix}" }}, route: {{ cluster: up }} }}'
    routes = ", ".join([route(f"/p{p}/") for p in range(paths)] + [route("/")])
    return "\n".join(
        f'              - {{ name: h{h}, domains: ["h{h}.bench.test"], routes: [{routes}] }}'
        for h in range(hosts)
    )


def envoy_listener(name, port, virtual, tls=""):
    return f"""  - name: {name}
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: {name}
          use_remote_address: true
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
          route_config:
            virtual_hosts:
{virtual}
{tls}"""


def envoy_proxy(folder, hosts, paths, workers):
    virtual = envoy_routes(hosts, paths)
    tls = f"""      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_certificates:
            - certificate_chain: {{ filename: {folder}/cert.pem }}
              private_key: {{ filename: {folder}/key.pem }}
"""
    ends = "\n".join(
        f"        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }}"
        for port in UP
    )
    return f"""static_resources:
  listeners:
{envoy_listener("plain", PORT["envoy"], virtual)}
{envoy_listener("secure", SECURE["envoy"], virtual, tls)}
  clusters:
  - name: up
    type: STATIC
    connect_timeout: 1s
    lb_policy: LEAST_REQUEST
    circuit_breakers: {{ thresholds: [{{ max_connections: 100000, max_pending_requests: 100000, max_requests: 100000 }}] }}
    health_checks: [{{ timeout: 1s, interval: 1s, unhealthy_threshold: 2, healthy_threshold: 2, http_health_check: {{ path: "/" }} }}]
    load_assignment:
      cluster_name: up
      endpoints:
      - lb_endpoints:
{ends}
"""


def limen_spec(host, paths):
    """A GlobalIngress for one host, as what JSON and YAML have in common."""
    rules = [{"path": f"/p{p}/", "backend": "up"} for p in range(paths)] + [{"path": "/", "backend": "up"}]
    addresses = [{"host": "127.0.0.1", "port": port} for port in UP]
    return {
        "rules": [{"host": host, "paths": rules}],
        "backends": [{"name": "up", "targets": [{"cluster": "c", "addresses": addresses}]}],
        "tls": [{"hosts": [host], "secretName": "cert"}],
        "client": {"redirectToHttps": False},
        "traffic": {"healthCheck": {"kind": "Http", "path": "/", "host": "probe.bench.test"}},
    }


def limen_secret(folder):
    parts = {"tls.crt": (folder / "cert.pem").read_text(), "tls.key": (folder / "key.pem").read_text()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert"}, "stringData": parts}


def limen_proxy(folder, hosts, paths):
    objects = [limen_secret(folder)]
    for h in range(hosts):
        spec = limen_spec(f"h{h}.bench.test", paths)
        objects.append({"kind": "GlobalIngress", "metadata": {"name": f"h{h}"}, "spec": spec})
    return "\n---\n".join(json.dumps(one) for one in objects)


def command(name, options, folder, hosts, paths, workers=1):
    """How a proxy is started; nothing if it is not there."""
    def write(file, text):
        (folder / file).write_text(text)
        return str(folder / file)

    if name == "nginx" and shutil.which("nginx"):
        return ["nginx", "-c", write("nginx.conf", nginx_proxy(folder, hosts, paths, workers)), "-p", str(folder)]
    if name == "haproxy" and shutil.which("haproxy"):
        return ["haproxy", "-f", write("haproxy.cfg", haproxy_proxy(folder, hosts, paths, workers))]
    if name == "envoy" and options.envoy:
        conf = write("envoy.yaml", envoy_proxy(folder, hosts, paths, workers))
        return [options.envoy, "-c", conf, "--concurrency", str(workers), "-l", "error"]
    if name == "limen":
        return limen_command(options, ["--config", write("limen.yaml", limen_proxy(folder, hosts, paths))], workers)
    return None


def limen_command(options, source, workers=1):
    return [options.limen, "gateway", *source, "--http", f"127.0.0.1:{PORT['limen']}",
            "--https", f"127.0.0.1:{SECURE['limen']}", "--admin", f"127.0.0.1:{ADMIN}", "--workers", str(workers)]
