"""Processes and what they cost, and the clients that give them something to do."""

import os
import pathlib
import re
import socket
import ssl
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")


class Result:
    """What one round of one proxy came to."""

    def __init__(self, micros, rate, p99=None, failed=0, spoken=None):
        self.micros, self.rate, self.p99, self.failed, self.spoken = micros, rate, p99, failed, spoken


def processes(root):
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                queue += [int(child) for child in task.read_text().split()]
            except OSError:
                pass
    return found


def cpu(root):
    total = 0
    for pid in processes(root):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return total / TICK


def memory(root):
    total = 0
    for pid in processes(root):
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        total += int(re.search(r"VmRSS:\s+(\d+)", text).group(1))
    return total / 1024


def wait_for(port, process):
    for _ in range(1200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise SystemExit(f"{process.args[0]} ended with {process.returncode}")
        time.sleep(0.1)
    raise SystemExit(f"nothing listens on {port}")


def lua(hosts, paths, close=False, big=False):
    connection = 'wrk.headers["Connection"] = "close"\n' if close else ""
    path = '"/big"' if big else f'"/p" .. (n % {paths}) .. "/item"'
    return f"""{connection}local requests, n = {{}}, 0
init = function()
  for n = 0, {hosts - 1} do
    wrk.headers["Host"] = "h" .. n .. ".bench.test"
    requests[n] = wrk.format("GET", {path})
  end
end
request = function()
  n = (n + 617) % {hosts}
  return requests[n]
end
"""


def said(tool, out, rate):
    """Complaints of a client about answers are printed: figures of failures mean nothing."""
    bad = re.search(r"Non-2xx or 3xx responses: \d+", out) or re.search(r"Socket errors: .*", out)
    if bad:
        print(f"  {tool}: {bad.group(0)}")
    return rate


def wrk(pid, port, script, seconds, connections):
    before = cpu(pid)
    out = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", script, f"http://127.0.0.1:{port}/"],
        capture_output=True, text=True, check=True).stdout
    used = cpu(pid) - before
    count = int(re.search(r"(\d+) requests in", out).group(1))
    rate = said(f"wrk on {port}", out, float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)))
    return Result(used / max(count, 1) * 1e6, rate, re.search(r"99%\s+(\S+)", out).group(1))


def h2load(pid, secure, folder, seconds, clients=16, streams=16):
    """HTTP/2 over TLS, as browsers speak it."""
    before = cpu(pid)
    out = subprocess.run(
        ["h2load", f"-c{clients}", f"-m{streams}", "-t1", "-D", f"{seconds:g}", f"--connect-to=127.0.0.1:{secure}",
         "https://h0.bench.test/p0/item"], capture_output=True, text=True, check=True).stdout
    used = cpu(pid) - before
    done, failed = (int(n) for n in re.search(r"(\d+) succeeded, (\d+) failed", out).groups())
    if failed or not done:
        print(f"  h2load on {secure}: {failed} failed, {done} succeeded")
    return Result(used / max(done, 1) * 1e6, done / seconds)


def steady(pid, port, folder, seconds, rate, clients=32):
    """HTTP/1.1 at a rate that does not depend on the answers; the p99 is of every request."""
    log = folder / "h2load.log"
    log.unlink(missing_ok=True)
    before = cpu(pid)
    subprocess.run(
        ["h2load", "--h1", f"-c{clients}", "-t1", f"--rps={rate / clients:g}", "-D", f"{seconds:g}",
         f"--log-file={log}", f"--connect-to=127.0.0.1:{port}", "http://h0.bench.test/p0/item"],
        capture_output=True, text=True, check=True)
    used = cpu(pid) - before
    rows = [line.split() for line in log.read_text().splitlines()]
    bad = sum(row[1] != "200" for row in rows)
    if bad or not rows:
        print(f"  steady on {port}: {bad} of {len(rows)} failed")
    times = sorted(int(row[2]) for row in rows)
    p99 = times[len(times) * 99 // 100] / 1000 if times else float("nan")
    return Result(used / max(len(rows), 1) * 1e6, len(rows) / seconds, p99, bad)


def handshakes(pid, secure, seconds, resumed, version):
    """One request after the other, each on a TLS connection of its own.

    All proxies speak the version that is asked for: resuming is another matter in TLS 1.2, which
    then has no key exchange.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    request = b"GET /p0/item HTTP/1.1\r\nHost: h0.bench.test\r\nConnection: close\r\n\r\n"
    session, count, odd, spoken = None, 0, 0, None
    before, end = cpu(pid), time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.create_connection(("127.0.0.1", secure)) as stream:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with context.wrap_socket(stream, server_hostname="h0.bench.test", session=session) as tls:
                tls.sendall(request)
                answer = b""
                try:
                    while part := tls.recv(65536):
                        answer += part
                except (ssl.SSLEOFError, ConnectionResetError):
                    pass
                odd += answer[9:12] != b"200" or (session is not None and not tls.session_reused)
                session, spoken = tls.session if resumed else None, tls.cipher()[0]
                count += 1
    used = cpu(pid) - before
    if odd:
        print(f"  handshakes on {secure}: {odd} of {count} were not what they should be")
    return Result(used / max(count, 1) * 1e6, count / seconds, spoken=spoken)


def hold(port, count):
    """Connections on which one request has been answered, and nothing is asked any more."""
    request = b"GET /p0/item HTTP/1.1\r\nHost: h0.bench.test\r\n\r\n"
    held = []
    try:
        while len(held) < count:
            stream = socket.create_connection(("127.0.0.1", port))
            stream.sendall(request)
            if not stream.recv(65536):
                break
            held.append(stream)
    except OSError as error:
        print(f"  {len(held)} connections to {port}, then {error}")
    time.sleep(1)
    return held
