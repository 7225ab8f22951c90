"""One round: three clusters, a proxy, clients at a rate, and the loss of one cluster."""

import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

from gateway_bench import measure

from . import peers

LOSSES = {"killed": signal.SIGKILL, "resets": signal.SIGUSR1, "silent": signal.SIGUSR2}
BEFORE, AFTER = 2.0, 5.0
CLIENTS = 50
SLICE = 0.1
# Milliseconds after the loss in which a request can still meet it.
MOMENT = 500
# Health checks and the noise of a machine at rest, in a slice.
USUAL_REFUSALS = 3


class Result:
    """What one round came to; times are in milliseconds."""

    def __init__(self, made, rows, lost, sent, last):
        self.requests, self.failed = made, made - sum(status == 200 for _, status, _ in rows)
        # Under way when the cluster was lost, or asked for while it may still have been sent to; what
        # is slow at other times has nothing to do with the loss.
        meets = lambda began, took: began + took >= lost and began <= lost + MOMENT
        good = [(took, meets(began, took)) for began, status, took in rows if status == 200]
        self.slowest = max((took for took, met in good if met), default=float("nan"))
        self.otherwise = max((took for took, met in good if not met), default=float("nan"))
        self.sent, self.last = sent, last


def run(name, loss, options, folder):
    records = [folder / f"cluster-{port}" for port in peers.CLUSTERS]
    script = str(pathlib.Path(__file__).with_name("cluster.py"))
    started = []

    def start(command, port):
        log = open(folder / "out", "a")
        started.append(subprocess.Popen(command, stdout=log, stderr=log))
        measure.wait_for(port, started[-1])

    try:
        for port, record in zip(peers.CLUSTERS, records):
            record.write_text("")
            start([sys.executable, script, str(port), str(record)], port)
        start(peers.command(name, options, folder), peers.PORT[name])
        load = Load(peers.PORT[name], options.rate, folder)
        time.sleep(BEFORE)
        refusals = Refusals() if loss == "killed" else None
        lost, clock = time.monotonic_ns(), time.time() * 1000
        started[0].send_signal(LOSSES[loss])
        made, rows = load.rows()
        if refusals:
            return Result(made, rows, clock, *refusals.over())
        sent = [int(line) - lost for line in records[0].read_text().split()]
        return Result(made, rows, clock, len(sent), max(sent, default=0) / 1e6)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


class Load:
    """Clients that ask at a rate that does not depend on the answers."""

    def __init__(self, port, rate, folder):
        self.log = folder / "h2load.log"
        self.log.unlink(missing_ok=True)
        # It makes one request of each client at once, and the rest at its pace.
        self.process = subprocess.Popen(
            ["h2load", "--h1", f"-c{CLIENTS}", "-t1", f"--rps={rate / CLIENTS:g}", "-D", f"{BEFORE + AFTER:g}",
             f"--log-file={self.log}", f"--connect-to=127.0.0.1:{port}", f"http://{peers.HOST}/"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def rows(self):
        """How many requests were made; and of every answer when it was asked for, its status, and how long it took."""
        said, _ = self.process.communicate(timeout=60)
        rows = [line.split() for line in self.log.read_text().splitlines()]
        # A request that is still under way at the end is neither answered nor failed.
        done = int(re.search(r"(\d+) done", said).group(1))
        return done, [(int(began) / 1000, int(status), int(took) / 1000) for began, status, took in rows]


class Refusals:
    """Connections that are refused on this machine, slice by slice, in a thread of its own."""

    def __init__(self):
        self.began, self.slices, self.running = time.monotonic(), [], True
        self.thread = threading.Thread(target=self.count)
        self.thread.start()

    def count(self):
        before = refused()
        while self.running:
            time.sleep(SLICE)
            now = refused()
            self.slices.append((time.monotonic() - self.began, now - before))
            before = now

    def over(self):
        """How many there were beyond the usual, and when the last slice with such was over."""
        self.running = False
        self.thread.join()
        many = [(at, count) for at, count in self.slices if count > USUAL_REFUSALS]
        return sum(count for _, count in many), max((at * 1000 for at, _ in many), default=0)


def refused():
    names, numbers = [line.split() for line in pathlib.Path("/proc/net/snmp").read_text().splitlines()
                      if line.startswith("Tcp:")]
    return int(numbers[names.index("AttemptFails")])
