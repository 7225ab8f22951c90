"""What a script with the official Python client does: typed objects, errors, patches, a watch."""

import json
import os

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

namespace = os.environ["NS"]
config.load_kube_config()
core = client.CoreV1Api()
apps = client.AppsV1Api()
networking = client.NetworkingV1Api()


def attempt(what, call):
    """Prints what the call makes of it."""
    try:
        print(what, "ok", call())
    except ApiException as error:
        print(what, error.status, error.reason, json.dumps(json.loads(error.body), sort_keys=True))


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"from": "python"}), data=data)


print("version", client.VersionApi().get_code().major)
created = core.create_namespaced_config_map(namespace, config_map("one", a="1"))
print("created", created.metadata.name, created.data, created.metadata.labels)
attempt("again", lambda: core.create_namespaced_config_map(namespace, config_map("one")))
attempt("bad name", lambda: core.create_namespaced_config_map(namespace, config_map("Bad_Name")))
attempt("missing", lambda: core.read_namespaced_config_map("missing", namespace))

created.data["b"] = "2"
replaced = core.replace_namespaced_config_map("one", namespace, created)
print("replaced", replaced.data, replaced.metadata.resource_version != created.metadata.resource_version)
attempt("stale", lambda: core.replace_namespaced_config_map("one", namespace, created))
patched = core.patch_namespaced_config_map("one", namespace, {"data": {"a": None, "c": "3"}})
print("patched", patched.data)
patched = core.patch_namespaced_config_map("one", namespace, [{"op": "remove", "path": "/data/c"}])
print("patched", patched.data)

for name in ("two", "three"):
    core.create_namespaced_config_map(namespace, config_map(name))
page = core.list_namespaced_config_map(namespace, limit=2)
print("page", [item.metadata.name for item in page.items], page.metadata.remaining_item_count)
page = core.list_namespaced_config_map(namespace, limit=2, _continue=page.metadata._continue)
print("page", [item.metadata.name for item in page.items], page.metadata.remaining_item_count)

seen = core.list_namespaced_config_map(namespace)
core.delete_namespaced_config_map("two", namespace)
core.patch_namespaced_config_map("one", namespace, {"data": {"z": "26"}})
stream = watch.Watch().stream(
    core.list_namespaced_config_map, namespace, resource_version=seen.metadata.resource_version, timeout_seconds=3
)
for event in stream:
    print("event", event["type"], event["object"].metadata.name, event["object"].data)

deployment = client.V1Deployment(
    metadata=client.V1ObjectMeta(name="web"),
    spec=client.V1DeploymentSpec(
        replicas=1,
        selector=client.V1LabelSelector(match_labels={"app": "web"}),
        template=client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels={"app": "web"}),
            spec=client.V1PodSpec(containers=[client.V1Container(name="web", image="nginx:1")]),
        ),
    ),
)
print("deployment", apps.create_namespaced_deployment(namespace, deployment).spec)
scale = apps.read_namespaced_deployment_scale("web", namespace)
scale.spec.replicas = 3
print("scaled", apps.replace_namespaced_deployment_scale("web", namespace, scale).spec)

backend = client.V1IngressBackend(
    service=client.V1IngressServiceBackend(name="web", port=client.V1ServiceBackendPort(number=80))
)
ingress = client.V1Ingress(metadata=client.V1ObjectMeta(name="front"), spec=client.V1IngressSpec(default_backend=backend))
print("ingress", networking.create_namespaced_ingress(namespace, ingress).spec)
attempt("invalid", lambda: networking.create_namespaced_ingress(namespace, client.V1Ingress(metadata=client.V1ObjectMeta(name="bad"))))

attempt("delete", lambda: core.delete_namespaced_config_map("one", namespace).status)
attempt("delete all", lambda: core.delete_collection_namespaced_config_map(namespace).status)
print("left", [item.metadata.name for item in core.list_namespaced_config_map(namespace).items])
