#!/usr/bin/env python3
"""Asks a real Kubernetes API server what it says of the cases in the JSON files beside this script,
and writes its answers into them. Asks it too for the names and columns of its kinds, for
`discovery.txt`.

    kubectl proxy --port=8001 &
    ./record.py http://localhost:8001

A case is an `object` to create and perhaps an `update`, a merge patch for what the server stored, or
a `status`, a merge patch for its status. The answer is `message` if the server refused, else the
`result` and its `cells` in the server's table; `stored` is what an update was made to. Cells of dates
and ages are those of an object from just now. Nothing is left behind: creates are dry runs, and what an update needs is deleted again.
"""
import json
import pathlib
import re
import sys
import urllib.error
import urllib.request

BASE = sys.argv[1]
NAMESPACE = "limen-recording"
DROPPED = ("managedFields", "uid", "creationTimestamp", "resourceVersion", "generation", "selfLink")


AWAY = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def ask(method, path, body=None, accept="application/json"):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": accept}
    request = urllib.request.Request(BASE + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response), response.headers.get_all("Warning") or []
    except urllib.error.HTTPError as error:
        return json.load(error), error.headers.get_all("Warning") or []


def resource(object):
    version = object["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for found in ask("GET", root)[0]["resources"]:
        if found["kind"] == object["kind"] and "/" not in found["name"]:
            scope = f"/namespaces/{NAMESPACE}" if found["namespaced"] else ""
            return f"{root}{scope}/{found['name']}"
    raise KeyError(object["kind"])


def merge(target, patch):
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merge(target.get(name), value)
    return target


def tidy(object):
    object["metadata"] = {k: v for k, v in object["metadata"].items() if k not in DROPPED}
    return json.loads(UID.sub("the-uid", json.dumps(object)))


def cells(table):
    if "rows" not in table:
        raise ValueError(table["message"])
    now = re.compile("^(0s|1s|2s|3s)$|^20[0-9-]+T[0-9:]+Z$")
    return [
        now.sub("now", UID.sub("the-uid", cell)) if isinstance(cell, str) else cell
        for cell in table["rows"][0]["cells"]
    ]


def write(case):
    path = resource(case["object"])
    if "update" not in case and "status" not in case:
        return "POST", path, case["object"]
    name = case["object"]["metadata"]["name"]
    ask("DELETE", f"{path}/{name}", AWAY)
    stored, _ = ask("POST", path, case["object"])
    if stored["kind"] == "Status":
        raise ValueError(f"{case['case']}: {stored['message']}")
    case["stored"] = tidy(dict(stored))
    path = f"{path}/{name}"
    if "update" in case:
        return "PUT", path, merge(stored, case["update"])
    return "PUT", path + "/status", merge(stored, {"status": case["status"]})


def send(method, path, body, accept="application/json"):
    """A dry run, to the newest version: controllers may have touched the object."""
    while True:
        if method == "PUT":
            newest, _ = ask("GET", path.removesuffix("/status"))
            body["metadata"]["resourceVersion"] = newest["metadata"]["resourceVersion"]
        answer, warnings = ask(method, path + "?dryRun=All", body, accept)
        if "the object has been modified" not in answer.get("message", ""):
            return answer, warnings


def record(case):
    for name in ("message", "result", "cells", "stored", "warnings"):
        case.pop(name, None)
    method, path, body = write(case)
    answer, warnings = send(method, path, body)
    if answer["kind"] == "Status":
        case["message"] = UID.sub("the-uid", answer["message"])
    else:
        case["result"] = tidy(answer)
        if "update" not in case:
            case["cells"] = cells(send(method, path, body, TABLE)[0])
    if method == "PUT":
        ask("DELETE", path.removesuffix("/status"), AWAY)
    if warnings:
        case["warnings"] = [w.split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"') for w in warnings]


def column(definition):
    kind = "" if definition["type"] == "string" else ":" + definition["type"]
    form = f"({definition['format']})" if definition["format"] else ""
    return definition["name"] + kind + form + ("+" if definition["priority"] else "")


def describe(version, kind):
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    resources = ask("GET", root)[0]["resources"]
    found = next(r for r in resources if r["kind"] == kind and "/" not in r["name"])
    parts = {r["name"] for r in resources}
    flags = ["namespaced" if found["namespaced"] else "cluster"]
    flags += [part for part in ("status", "scale") if f"{found['name']}/{part}" in parts]
    table, _ = ask("GET", f"{root}/{found['name']}?limit=1", accept=TABLE)
    columns = ", ".join(column(it) for it in table["columnDefinitions"])
    names = [",".join(found.get(it, [])) or "-" for it in ("shortNames", "categories")]
    words = [version, kind, found["name"], found["singularName"], *names, "/".join(flags)]
    return f"{' '.join(words)} | {columns}"


known = pathlib.Path(__file__).parent / "discovery.txt"
kinds = [line.split()[:2] for line in known.read_text().splitlines()]
known.write_text("".join(describe(*kind) + "\n" for kind in kinds))
ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
for file in sorted(pathlib.Path(__file__).parent.glob("*.json")):
    cases = json.loads(file.read_text())
    for case in cases:
        record(case)
    file.write_text(json.dumps(cases, indent=1) + "\n")
    print(f"{file.name}: {len(cases)}")
ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
