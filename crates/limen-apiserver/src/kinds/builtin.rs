//! The table of built-in kinds.

use serde_json::Value;

use super::{
    autoscaler, config_map, cron_job, daemon_set, deployment, disruption_budget, endpoints, event,
    ingress, ingress_class, job, lease, namespace, network_policy, node, pod, rbac, secret,
    service, service_account, stateful_set,
};
use crate::crd;
use crate::resource::{Column, Columns, LazySchema, ResourceType, Rules, ScalePaths};

/// One line of the table.
struct Entry {
    /// The API group and version, as in an object's `apiVersion`.
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    has_status: bool,
    has_scale: bool,
    /// The definition in Kubernetes' OpenAPI documents.
    definition: &'static str,
    columns: &'static [Column],
    cells: fn(&Value, i64) -> Vec<Value>,
    rules: Rules,
}

/// The kinds that the server knows without being told.
pub(crate) fn builtin_types() -> Vec<ResourceType> {
    TABLE.iter().map(resource_type).collect()
}

fn resource_type(entry: &Entry) -> ResourceType {
    let (group, version) = entry.api_version.split_once('/').unwrap_or(("", entry.api_version));
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ResourceType {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: entry.kind.to_owned(),
        list_kind: format!("{}List", entry.kind),
        plural: entry.plural.to_owned(),
        singular: entry.kind.to_lowercase(),
        short_names: owned(entry.short_names),
        categories: owned(entry.categories),
        namespaced: entry.namespaced,
        has_status: entry.has_status,
        scale: entry.has_scale.then(|| ScalePaths {
            spec: ".spec.replicas".to_owned(),
            status: ".status.replicas".to_owned(),
            selector: Some(".spec.selector".to_owned()),
        }),
        columns: Columns::BuiltIn { definitions: entry.columns, cells: entry.cells },
        rules: entry.rules,
        schema: schema(entry.definition),
        custom: false,
        selectable_paths: Vec::new(),
        published: None,
        among: None,
    }
}

fn schema(definition: &'static str) -> LazySchema {
    LazySchema::new(|| crate::schema::builtin(definition))
}

const TABLE: &[Entry] = &[
    Entry {
        api_version: "v1",
        kind: "ConfigMap",
        plural: "configmaps",
        short_names: &["cm"],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.core.v1.ConfigMap",
        columns: config_map::COLUMNS,
        cells: config_map::cells,
        rules: config_map::RULES,
    },
    Entry {
        api_version: "v1",
        kind: "Endpoints",
        plural: "endpoints",
        short_names: &["ep"],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.core.v1.Endpoints",
        columns: endpoints::COLUMNS,
        cells: endpoints::cells,
        rules: endpoints::RULES,
    },
    Entry {
        api_version: "v1",
        kind: "Event",
        plural: "events",
        short_names: &["ev"],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.core.v1.Event",
        columns: event::COLUMNS,
        cells: event::cells,
        rules: event::RULES,
    },
    Entry {
        api_version: "v1",
        kind: "Namespace",
        plural: "namespaces",
        short_names: &["ns"],
        categories: &[],
        namespaced: false,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.core.v1.Namespace",
        columns: namespace::COLUMNS,
        cells: namespace::cells,
        rules: namespace::RULES,
    },
    Entry {
        api_version: "v1",
        kind: "Node",
        plural: "nodes",
        short_names: &["no"],
        categories: &[],
        namespaced: false,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.core.v1.Node",
        columns: node::COLUMNS,
        cells: node::cells,
        rules: node::RULES,
    },
    Entry {
        api_version: "v1",
        kind: "Pod",
        plural: "pods",
        short_names: &["po"],
        categories: &["all"],
        namespaced: true,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.core.v1.Pod",
        columns: pod::COLUMNS,
        cells: pod::cells,
        rules: pod::RULES,
    },
    Entry {
        api_version: "v1",
        kind: "Secret",
        plural: "secrets",
        short_names: &[],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.core.v1.Secret",
        columns: secret::COLUMNS,
        cells: secret::cells,
        rules: secret::RULES,
    },
    Entry {
        api_version: "v1",
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        short_names: &["sa"],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.core.v1.ServiceAccount",
        columns: service_account::COLUMNS,
        cells: service_account::cells,
        rules: Rules::NONE,
    },
    Entry {
        api_version: "v1",
        kind: "Service",
        plural: "services",
        short_names: &["svc"],
        categories: &["all"],
        namespaced: true,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.core.v1.Service",
        columns: service::COLUMNS,
        cells: service::cells,
        rules: service::RULES,
    },
    Entry {
        api_version: "apps/v1",
        kind: "DaemonSet",
        plural: "daemonsets",
        short_names: &["ds"],
        categories: &["all"],
        namespaced: true,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.apps.v1.DaemonSet",
        columns: daemon_set::COLUMNS,
        cells: daemon_set::cells,
        rules: daemon_set::RULES,
    },
    Entry {
        api_version: "apps/v1",
        kind: "Deployment",
        plural: "deployments",
        short_names: &["deploy"],
        categories: &["all"],
        namespaced: true,
        has_status: true,
        has_scale: true,
        definition: "io.k8s.api.apps.v1.Deployment",
        columns: deployment::COLUMNS,
        cells: deployment::cells,
        rules: deployment::RULES,
    },
    Entry {
        api_version: "apps/v1",
        kind: "ReplicaSet",
        plural: "replicasets",
        short_names: &["rs"],
        categories: &["all"],
        namespaced: true,
        has_status: true,
        has_scale: true,
        definition: "io.k8s.api.apps.v1.ReplicaSet",
        columns: deployment::REPLICA_SET_COLUMNS,
        cells: deployment::replica_set_cells,
        rules: deployment::REPLICA_SET_RULES,
    },
    Entry {
        api_version: "apps/v1",
        kind: "StatefulSet",
        plural: "statefulsets",
        short_names: &["sts"],
        categories: &["all"],
        namespaced: true,
        has_status: true,
        has_scale: true,
        definition: "io.k8s.api.apps.v1.StatefulSet",
        columns: stateful_set::COLUMNS,
        cells: stateful_set::cells,
        rules: stateful_set::RULES,
    },
    Entry {
        api_version: "batch/v1",
        kind: "CronJob",
        plural: "cronjobs",
        short_names: &["cj"],
        categories: &["all"],
        namespaced: true,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.batch.v1.CronJob",
        columns: cron_job::COLUMNS,
        cells: cron_job::cells,
        rules: cron_job::RULES,
    },
    Entry {
        api_version: "batch/v1",
        kind: "Job",
        plural: "jobs",
        short_names: &[],
        categories: &["all"],
        namespaced: true,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.batch.v1.Job",
        columns: job::COLUMNS,
        cells: job::cells,
        rules: job::RULES,
    },
    Entry {
        api_version: "autoscaling/v2",
        kind: "HorizontalPodAutoscaler",
        plural: "horizontalpodautoscalers",
        short_names: &["hpa"],
        categories: &["all"],
        namespaced: true,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
        columns: autoscaler::COLUMNS,
        cells: autoscaler::cells,
        rules: autoscaler::RULES,
    },
    Entry {
        api_version: "networking.k8s.io/v1",
        kind: "IngressClass",
        plural: "ingressclasses",
        short_names: &[],
        categories: &[],
        namespaced: false,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.networking.v1.IngressClass",
        columns: ingress_class::COLUMNS,
        cells: ingress_class::cells,
        rules: ingress_class::RULES,
    },
    Entry {
        api_version: "networking.k8s.io/v1",
        kind: "Ingress",
        plural: "ingresses",
        short_names: &["ing"],
        categories: &[],
        namespaced: true,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.networking.v1.Ingress",
        columns: ingress::COLUMNS,
        cells: ingress::cells,
        rules: ingress::RULES,
    },
    Entry {
        api_version: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        plural: "networkpolicies",
        short_names: &["netpol"],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.networking.v1.NetworkPolicy",
        columns: network_policy::COLUMNS,
        cells: network_policy::cells,
        rules: network_policy::RULES,
    },
    Entry {
        api_version: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        plural: "endpointslices",
        short_names: &[],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.discovery.v1.EndpointSlice",
        columns: endpoints::SLICE_COLUMNS,
        cells: endpoints::slice_cells,
        rules: endpoints::SLICE_RULES,
    },
    Entry {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        plural: "leases",
        short_names: &[],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.coordination.v1.Lease",
        columns: lease::COLUMNS,
        cells: lease::cells,
        rules: lease::RULES,
    },
    Entry {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        plural: "events",
        short_names: &["ev"],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.events.v1.Event",
        columns: event::COLUMNS,
        cells: event::events_cells,
        rules: event::EVENTS_RULES,
    },
    Entry {
        api_version: "policy/v1",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        short_names: &["pdb"],
        categories: &[],
        namespaced: true,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.api.policy.v1.PodDisruptionBudget",
        columns: disruption_budget::COLUMNS,
        cells: disruption_budget::cells,
        rules: disruption_budget::RULES,
    },
    Entry {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        short_names: &[],
        categories: &[],
        namespaced: false,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.rbac.v1.ClusterRoleBinding",
        columns: rbac::BINDING_COLUMNS,
        cells: rbac::binding_cells,
        rules: rbac::CLUSTER_ROLE_BINDING_RULES,
    },
    Entry {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        plural: "clusterroles",
        short_names: &[],
        categories: &[],
        namespaced: false,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.rbac.v1.ClusterRole",
        columns: rbac::ROLE_COLUMNS,
        cells: rbac::role_cells,
        rules: rbac::CLUSTER_ROLE_RULES,
    },
    Entry {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "RoleBinding",
        plural: "rolebindings",
        short_names: &[],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.rbac.v1.RoleBinding",
        columns: rbac::BINDING_COLUMNS,
        cells: rbac::binding_cells,
        rules: rbac::ROLE_BINDING_RULES,
    },
    Entry {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "Role",
        plural: "roles",
        short_names: &[],
        categories: &[],
        namespaced: true,
        has_status: false,
        has_scale: false,
        definition: "io.k8s.api.rbac.v1.Role",
        columns: rbac::ROLE_COLUMNS,
        cells: rbac::role_cells,
        rules: rbac::ROLE_RULES,
    },
    Entry {
        api_version: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        has_status: true,
        has_scale: false,
        definition: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        columns: rbac::ROLE_COLUMNS,
        cells: rbac::role_cells,
        rules: Rules {
            default: crd::default_definition,
            prepare_update: crd::prepare_update,
            validate: crd::validate_definition,
            validate_update: crd::validate_definition_update,
            warnings: crd::warnings,
            ..Rules::NONE
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of `testdata/discovery.txt`, which has the real server's names and columns.
    fn described(kind: &ResourceType) -> String {
        let api_version = match kind.group.as_str() {
            "" => kind.version.clone(),
            group => format!("{group}/{}", kind.version),
        };
        let names = |names: &[String]| match names {
            [] => "-".to_owned(),
            names => names.join(","),
        };
        let mut flags = vec![if kind.namespaced { "namespaced" } else { "cluster" }];
        flags.extend(kind.has_status.then_some("status"));
        flags.extend(kind.scale.as_ref().map(|_| "scale"));
        let Columns::BuiltIn { definitions, .. } = &kind.columns else { panic!("no columns") };
        let columns: Vec<String> = definitions.iter().map(described_column).collect();
        format!(
            "{api_version} {} {} {} {} {} {} | {}",
            kind.kind,
            kind.plural,
            kind.singular,
            names(&kind.short_names),
            names(&kind.categories),
            flags.join("/"),
            columns.join(", ")
        )
    }

    fn described_column(column: &Column) -> String {
        let kind =
            if column.kind == "string" { String::new() } else { format!(":{}", column.kind) };
        let format =
            if column.format.is_empty() { String::new() } else { format!("({})", column.format) };
        let wide = if column.priority > 0 { "+" } else { "" };
        format!("{}{kind}{format}{wide}", column.name)
    }

    #[test]
    fn kinds_are_named_and_tabled_as_by_the_real_server() {
        let mut ours: Vec<String> = builtin_types().iter().map(described).collect();
        let mut real: Vec<&str> = include_str!("testdata/discovery.txt").lines().collect();
        ours.sort_unstable();
        real.sort_unstable();
        assert_eq!(ours, real);
    }
}
