"""One of 10,000 routes is changed again and again under load: how soon it is in effect, and who notices.

Limen gets its routes from a hub, one object for each host, and one object is patched. nginx is
reloaded with its whole configuration, in which there is no TLS: with it that takes twenty times as
long. HAProxy gets an entry of its map over its socket. Envoy would need a control plane, and is left
out. The time counts from the moment the change is handed in (for nginx: the signal, with the file
already written) to the first answer by it.

The hub and whoever asks for the new route share the cores with the proxy. What they do to the p99
by themselves is seen when the hub changes something that the gateway does not obey.
"""

import http.client
import json
import signal
import socket
import ssl
import statistics
import subprocess
import threading
import time

from . import measure, peers

HOSTS = 10000
RATE = 3000
TOKEN = "bench-gateway"
HUB = 19250


def run(bench):
    print(f"\n| one of {HOSTS} routes changed every 0.5 s at {RATE} requests/s, proxy | changes | in effect after, "
          "ms (median, most) | failed requests | p99 ms undisturbed | hub busy with something else | with changes "
          "| with changes / undisturbed |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    kinds = {"nginx": Nginx, "haproxy": Haproxy, "limen": Limen}
    for name in bench.wanted:
        if name in kinds and peers.command(name, bench.options, bench.folder, 1, 1):
            one(bench, name, kinds[name](bench))


def one(bench, name, proxy):
    proxy.start()
    calm, beside, busy, took = [], [], [], []
    seconds = bench.options.seconds
    load = lambda seconds: measure.steady(bench.pid(name), peers.PORT[name], bench.folder, seconds, RATE)

    def during(found, act):
        thread = threading.Thread(target=lambda: found.append(load(seconds)))
        thread.start()
        while thread.is_alive():
            act()
            thread.join(0.5)

    def change():
        version = len(took) + 1
        proxy.prepare(version)
        took.append(effect(name, lambda: proxy.change(version), f"v{version}.change.test"))

    load(1)
    for _ in range(bench.options.rounds):
        calm.append(load(seconds))
        if hasattr(proxy, "change_something_else"):
            during(beside, lambda: effect(name, proxy.change_something_else, "h0.bench.test"))
        during(busy, change)
    proxy.stop()
    failed = sum(round_.failed for round_ in calm + beside + busy)
    before, other, after = (statistics.median([round_.p99 for round_ in rounds] or [0]) for rounds in (calm, beside, busy))
    print(f"| {name} | {len(took)} | {statistics.median(took):.1f}, {max(took):.1f} | {failed} | {before:.2f} "
          f"| {f'{other:.2f}' if beside else ''} | {after:.2f} | {after / before:.2f}x |", flush=True)


def effect(name, change, host):
    """Milliseconds from a change to the first answer for its host."""
    request = f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    began = time.monotonic()
    change()
    while time.monotonic() < began + 60:
        with socket.create_connection(("127.0.0.1", peers.PORT[name])) as stream:
            stream.sendall(request)
            if stream.recv(1024)[9:12] == b"200":
                return (time.monotonic() - began) * 1000
        time.sleep(0.001)
    raise SystemExit(f"{name} never obeys a change")


class Nginx:
    def __init__(self, bench):
        self.bench = bench

    def prepare(self, version):
        text = peers.nginx_proxy(self.bench.folder, HOSTS, 1, 1, tls=False)
        text = text.replace("server_name h1.bench.test", f"server_name v{version}.change.test")
        text = text.replace("server_names_hash_max_size 8192", "server_names_hash_max_size 65536")
        new = self.bench.folder / "nginx.new"
        new.write_text(text)
        new.rename(self.bench.folder / "nginx.conf")

    def start(self):
        self.prepare(0)
        conf = str(self.bench.folder / "nginx.conf")
        self.bench.run("nginx", ["nginx", "-c", conf, "-p", str(self.bench.folder)], peers.PORT["nginx"])

    def change(self, version):
        self.bench.started["nginx"].send_signal(signal.SIGHUP)

    def stop(self):
        self.bench.stop("nginx")


class Haproxy:
    def __init__(self, bench):
        self.bench = bench

    def start(self):
        self.bench.start("haproxy", hosts=HOSTS, paths=1)

    def prepare(self, version):
        pass

    def change(self, version):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(self.bench.folder / "haproxy.sock"))
            stream.sendall(f"add map {self.bench.folder}/routes.map v{version}.change.test/ up\n".encode())
            stream.recv(1024)

    def stop(self):
        self.bench.stop("haproxy")


class Limen:
    def __init__(self, bench):
        self.bench, self.folder = bench, bench.folder / "hub"

    def ask(self, method, path, value, kind="application/json", wanted=(200, 201)):
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
        self.hub.request(method, path, json.dumps(value), headers)
        answer = self.hub.getresponse()
        body = answer.read()
        if answer.status not in wanted:
            raise SystemExit(f"{method} {path} on the hub: {answer.status} {body[:300]}")
        return answer.status

    def start(self):
        limen = self.bench.options.limen
        tokens = self.bench.folder / "tokens"
        tokens.write_text(f'{TOKEN},bench,1,"system:masters"\n')
        self.bench.run("hub", [limen, "hub", "--api-only", "--data-dir", str(self.folder), "--listen",
                               f"127.0.0.1:{HUB}", "--token-auth-file", str(tokens)], HUB)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.hub = http.client.HTTPSConnection("127.0.0.1", HUB, context=context)
        kinds = json.loads(subprocess.run([limen, "crds"], capture_output=True, text=True, check=True).stdout)
        for kind in kinds["items"]:
            if kind["metadata"]["name"] == "globalingresses.limen.dev":
                self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kind)
        # Gateways see copies of Secrets, which the federation makes; there is none here.
        secret = peers.limen_secret(self.bench.folder)
        secret["metadata"]["annotations"] = {"limen.dev/copy-of": "default/cert"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "limen-gateways"}}
        self.ask("POST", "/api/v1/namespaces", namespace, wanted=(201, 409))
        self.ask("POST", "/api/v1/namespaces/limen-gateways/secrets", secret)
        self.path = "/apis/limen.dev/v1alpha1/namespaces/default/globalingresses"
        for h in range(HOSTS):
            root = {"apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress", "metadata": {"name": f"h{h}"},
                    "spec": peers.limen_spec(f"h{h}.bench.test", 1)}
            # The new kind is served a moment after its definition.
            while self.ask("POST", self.path, root, wanted=(200, 201, 404)) == 404:
                time.sleep(0.05)
        command = peers.limen_command(self.bench.options, ["--hub-kubeconfig", str(self.folder / "kubeconfig")])
        self.bench.run("limen", command, peers.PORT["limen"])

    def prepare(self, version):
        pass

    def change_something_else(self):
        value = {"metadata": {"annotations": {"at": str(time.monotonic())}}}
        self.ask("PATCH", "/api/v1/namespaces/default", value, "application/merge-patch+json")

    def change(self, version):
        rules = peers.limen_spec(f"v{version}.change.test", 1)["rules"]
        self.ask("PATCH", f"{self.path}/h1", {"spec": {"rules": rules}}, "application/merge-patch+json")

    def stop(self):
        self.hub.close()
        self.bench.stop("limen")
        self.bench.stop("hub")
