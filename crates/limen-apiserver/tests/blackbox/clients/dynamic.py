"""The dynamic client finds types through discovery; server-side apply and custom resources."""

import json
import os
import time

from kubernetes import config, dynamic
from kubernetes.client import api_client
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError

namespace = os.environ["NS"]
config.load_kube_config()
client = dynamic.DynamicClient(api_client.ApiClient())

maps = client.resources.get(api_version="v1", kind="ConfigMap")
print(maps.name, maps.namespaced, sorted(maps.verbs))
body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"a": "1"}}
print(maps.server_side_apply(body=body, namespace=namespace, field_manager="one").data.to_dict())
body["data"] = {"a": "2"}
try:
    maps.server_side_apply(body=body, namespace=namespace, field_manager="two")
except ConflictError as error:
    print("conflict", json.dumps(json.loads(error.body), sort_keys=True))
print(maps.server_side_apply(body=body, namespace=namespace, field_manager="two", force_conflicts=True).data.to_dict())

try:
    client.resources.get(api_version="python.example.com/v1", kind="Toy")
except ResourceNotFoundError as error:
    print("not there:", error)
definitions = client.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
definitions.create(
    body={
        "metadata": {"name": "toys.python.example.com"},
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "python.example.com",
            "scope": "Namespaced",
            "names": {"plural": "toys", "kind": "Toy"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
)
for _ in range(100):
    try:
        toys = client.resources.get(api_version="python.example.com/v1", kind="Toy")
        toys.get(namespace=namespace)
        break
    except (ResourceNotFoundError, NotFoundError):
        time.sleep(0.2)
toy = {"apiVersion": "python.example.com/v1", "kind": "Toy", "metadata": {"name": "ball"}, "spec": {"size": 3}}
print(toys.create(body=toy, namespace=namespace).spec.to_dict())
print([item.metadata.name for item in toys.get(namespace=namespace).items])
print(toys.delete(name="ball", namespace=namespace).status)
definitions.delete(name="toys.python.example.com")
