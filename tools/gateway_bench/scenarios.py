"""What is measured, in which order, and the tables that come of it."""

import ssl
import statistics
import threading

from . import change, measure, peers

TURNS = ["keep-alive", "new connection", "1 MB", "TLS new", "TLS resumed", "TLS 1.2 new", "TLS 1.2 resumed", "HTTP/2"]
OTHERS = ["half rate", "workers", "routes", "change", "idle"]
ALL = TURNS + OTHERS


def run(bench, wanted):
    rates = {}
    if any(name in wanted for name in TURNS + ["half rate", "idle"]):
        proxies = bench.start_all()
        turns = [name for name in TURNS if name in wanted]
        if "half rate" in wanted and "keep-alive" not in turns:
            turns.insert(0, "keep-alive")
        if turns:
            rates = by_turns(bench, proxies, turns)
        if "half rate" in wanted:
            half_rate(bench, proxies, rates)
        print("\nResident memory: " + ", ".join(
            f"{name} {measure.memory(bench.pid(name)):.0f} MB" for name in proxies))
        if "idle" in wanted:
            idle(bench, proxies)
        for name in proxies:
            bench.stop(name)
    if "workers" in wanted:
        workers(bench)
    if "routes" in wanted:
        routes(bench)
    if "change" in wanted:
        change.run(bench)


def once(bench, scenario, name, seconds):
    pid, folder = bench.pid(name), bench.folder
    if scenario == "HTTP/2":
        return measure.h2load(pid, peers.SECURE[name], folder, seconds)
    if scenario.startswith("TLS"):
        version = ssl.TLSVersion.TLSv1_2 if "1.2" in scenario else ssl.TLSVersion.TLSv1_3
        return measure.handshakes(pid, peers.SECURE[name], seconds, "resumed" in scenario, version)
    script = folder / "wrk.lua"
    close, big = scenario == "new connection", scenario == "1 MB"
    script.write_text(measure.lua(bench.hosts, bench.paths, close, big))
    connections = 16 if big else bench.options.connections
    return measure.wrk(pid, peers.PORT[name], str(script), seconds, connections)


def interleaved(bench, variants, measured):
    """Results of rounds in which every variant has its turn, after one round to warm up."""
    results = {variant: [] for variant in variants}
    for number in range(-1, bench.options.rounds):
        for variant in variants:
            result = measured(variant, 1 if number < 0 else bench.options.seconds)
            if number >= 0:
                results[variant].append(result)
    return results


def micros(rounds):
    return statistics.median(one.micros for one in rounds)


def rate(rounds):
    return statistics.median(one.rate for one in rounds)


def each(rounds):
    return ", ".join(f"{one.micros:.1f}" for one in rounds)


def by_turns(bench, proxies, turns):
    """The rate of each proxy for requests on connections that are kept."""
    rates = {}
    print("\n| scenario | proxy | CPU µs/request (median) | rounds | requests/s | p99, or cipher | Limen / this |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for scenario in turns:
        results = interleaved(bench, proxies, lambda name, seconds: once(bench, scenario, name, seconds))
        for name, rounds in results.items():
            ratio = f"{micros(results['limen']) / micros(rounds):.2f}x" if "limen" in results else ""
            last = rounds[-1].p99 or rounds[-1].spoken or ""
            print(f"| {scenario} | {name} | {micros(rounds):.1f} | {each(rounds)} | {rate(rounds):.0f} | {last} | {ratio} |",
                  flush=True)
            if scenario == "keep-alive":
                rates[name] = rate(rounds)
    return rates


def half_rate(bench, proxies, rates):
    """All get half of what the slowest of them can do, except Envoy, which may need a rate of its own."""
    others = [rates[name] for name in proxies if name != "envoy"] or list(rates.values())
    common = min(others) / 2
    wanted = {name: min(common, rates[name] / 2) for name in proxies}
    results = interleaved(bench, proxies, lambda name, seconds: measure.steady(
        bench.pid(name), peers.PORT[name], bench.folder, seconds, wanted[name]))
    print("\n| half of saturation, proxy | requests/s asked | got | p99 ms (median) | rounds | CPU µs/request |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, rounds in results.items():
        p99 = statistics.median(one.p99 for one in rounds)
        all_of_them = ", ".join(f"{one.p99:.2f}" for one in rounds)
        print(f"| {name} | {wanted[name]:.0f} | {rate(rounds):.0f} | {p99:.2f} | {all_of_them} | {micros(rounds):.1f} |",
              flush=True)


def idle(bench, proxies, count=9000):
    print(f"\n| {count} idle connections, proxy | KB each |\n| --- | --- |")
    for name in proxies:
        before = measure.memory(bench.pid(name))
        held = measure.hold(peers.PORT[name], count)
        after = measure.memory(bench.pid(name))
        print(f"| {name} | {(after - before) * 1024 / len(held):.1f} ({len(held)} held) |", flush=True)
        for stream in held:
            stream.close()


def keep_alive_of(bench, hosts, paths, clients=1):
    """Measures whichever proxy runs; several clients where one would be the limit."""
    script = bench.folder / "wrk.lua"

    def measured(name, seconds):
        script.write_text(measure.lua(hosts, paths))
        found = []
        ask = lambda: found.append(measure.wrk(
            bench.pid(name), peers.PORT[name], str(script), seconds, bench.options.connections))
        threads = [threading.Thread(target=ask) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        total = sum(one.rate for one in found)
        # Each client saw the CPU time of all.
        return measure.Result(statistics.mean(one.micros for one in found) / len(found), total, found[-1].p99)

    return measured


def workers(bench):
    """One worker and two, the proxy started anew for every turn."""
    variants = [(name, count) for name in bench.wanted for count in (1, 2)]
    measured = keep_alive_of(bench, bench.hosts, bench.paths, clients=2)

    def turn(variant, seconds):
        name, count = variant
        if not bench.start(name, workers=count):
            return None
        measured(name, 1)
        result = measured(name, seconds)
        bench.stop(name)
        return result

    results = interleaved(bench, variants, turn)
    print("\n| keep-alive, proxy | 1 worker, requests/s | 2 workers | ratio | 1 worker, CPU µs/request | 2 workers |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in bench.wanted:
        one, two = results[(name, 1)], results[(name, 2)]
        if one and one[0]:
            print(f"| {name} | {rate(one):.0f} | {rate(two):.0f} | {rate(two) / rate(one):.2f}x | {micros(one):.1f} "
                  f"| {micros(two):.1f} |", flush=True)


def routes(bench, many=5000):
    """Ten routes and fifty thousand. nginx is left out: it needs a gigabyte for them.

    What finding a route costs is seen when both tables are asked for the same one host. Asking all
    5,000 hosts in turn costs every proxy more for another reason: what belongs to a host is no
    longer in the caches of the processor when its turn comes.
    """
    loaded_and_asked = [(1, 1), (many, 1), (many, many)]
    variants = [(name, *hosts) for name in bench.wanted if name != "nginx" for hosts in loaded_and_asked]
    used = {}

    def turn(variant, seconds):
        name, hosts, asked = variant
        if not bench.start(name, hosts=hosts, paths=10):
            return None
        measured = keep_alive_of(bench, asked, 10)
        measured(name, 1)
        result = measured(name, seconds)
        used[name] = measure.memory(bench.pid(name))
        bench.stop(name)
        return result

    results = interleaved(bench, variants, turn)
    print(f"\n| keep-alive, proxy | 10 routes, CPU µs/request | {many * 10} routes, the same host asked | ratio "
          f"| all {many} hosts asked | ratio | resident MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in bench.wanted:
        few, same, all_of_them = (results.get((name, *hosts)) for hosts in loaded_and_asked)
        if few and few[0]:
            print(f"| {name} | {micros(few):.1f} ({each(few)}) | {micros(same):.1f} ({each(same)}) "
                  f"| {micros(same) / micros(few):.2f}x | {micros(all_of_them):.1f} ({each(all_of_them)}) "
                  f"| {micros(all_of_them) / micros(few):.2f}x | {used[name]:.0f} |", flush=True)
