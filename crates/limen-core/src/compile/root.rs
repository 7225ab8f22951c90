//! What a person submitted, in the words of edges: rules that lead to named backends.

use std::collections::BTreeMap;

use serde_json::Value;

use super::observed::Key;
use crate::global::{ClientRules, PathRule, PathType, RootReference, Rule, Split, TlsHosts};
use crate::route::{Place, RuleError};

/// Asks for redirects from HTTP to HTTPS; the specification of Ingress has no field for it.
const REDIRECT: &str = "limen.dev/redirect-to-https";
/// The host that was generated for a root, written down before it is used.
pub const HOST_ANNOTATION: &str = "limen.dev/host";

/// What a person submitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Root {
    /// What it is.
    pub reference: RootReference,
    /// Its namespace.
    pub namespace: String,
    /// Its uid, by which its leaves are known.
    pub uid: String,
    /// When it was created, as the API writes it: text that sorts by time.
    pub created: String,
    /// Which host and path leads to which backend.
    pub rules: Vec<Rule>,
    /// The backend of what no rule matches.
    pub default_backend: Option<String>,
    /// Hosts with certificates.
    pub tls: Vec<TlsHosts>,
    /// What backends are.
    pub backends: BTreeMap<String, BackendSource>,
    /// How clients are met.
    pub client: ClientRules,
}

/// Where the targets of a backend come from.
#[derive(Clone, Debug, PartialEq)]
pub enum BackendSource {
    /// A Service, in every member that holds a leaf of the root.
    Service {
        /// Its name, in the namespace of the root.
        name: String,
        /// Its port.
        port: PortName,
    },
    /// The load balancers of the root itself, a Service, in every member.
    Balancers,
    /// Named objects of named members.
    Listed(Vec<Listed>),
}

/// A port by its name or its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortName {
    /// By name.
    Name(String),
    /// By number.
    Number(u16),
}

/// A named object of a named member.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The member.
    pub cluster: String,
    /// The object.
    pub object: ListedObject,
    /// Its share among those of the same backend; without shares the nearest is taken.
    pub weight: Option<u32>,
    /// The version group; without one it has a name of its own for its weight.
    pub group: Option<String>,
}

/// What is listed.
#[derive(Clone, Debug, PartialEq)]
pub enum ListedObject {
    /// An Ingress.
    Ingress(Key),
    /// A port of a Service.
    Service(Key, PortName),
}

impl Listed {
    /// The name that its weight goes by.
    pub(super) fn group_name(&self) -> Option<String> {
        let (ListedObject::Ingress(key) | ListedObject::Service(key, _)) = &self.object;
        self.group.clone().or_else(|| self.weight.map(|_| format!("{}.{}", self.cluster, key.1)))
    }
}

/// Why an object is no root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// A backend is no Service.
    #[error("backend {0} is not a Service; only Services can be sent traffic")]
    Backend(String),
    /// A host is none.
    #[error(transparent)]
    Host(#[from] RuleError),
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Root {
    /// Metadata and nothing else.
    pub fn named(object: &Value, api_version: &str, kind: &str) -> Self {
        let metadata = &object["metadata"];
        Self {
            reference: RootReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: text(&metadata["name"]),
            },
            namespace: text(&metadata["namespace"]),
            uid: text(&metadata["uid"]),
            created: text(&metadata["creationTimestamp"]),
            ..Self::default()
        }
    }

    /// What an Ingress asks for.
    pub fn of_ingress(ingress: &Value) -> Result<Self, RootError> {
        let mut root = Self::named(ingress, "networking.k8s.io/v1", "Ingress");
        let spec = &ingress["spec"];
        for rule in items(&spec["rules"]) {
            let mut paths = Vec::new();
            for path in items(&rule["http"]["paths"]) {
                let backend = root.add_backend(&path["backend"])?;
                paths.push(PathRule {
                    path: path["path"].as_str().unwrap_or("/").to_owned(),
                    path_type: match path["pathType"].as_str() {
                        Some("Exact") => PathType::Exact,
                        Some("Prefix") => PathType::Prefix,
                        _ => PathType::ImplementationSpecific,
                    },
                    backend,
                });
            }
            root.rules.push(Rule { host: text(&rule["host"]), paths });
        }
        if spec["defaultBackend"].is_object() {
            root.default_backend = Some(root.add_backend(&spec["defaultBackend"])?);
        }
        root.tls = items(&spec["tls"])
            .map(|tls| TlsHosts {
                hosts: items(&tls["hosts"]).map(text).collect(),
                secret_name: Some(text(&tls["secretName"])).filter(|name| !name.is_empty()),
            })
            .collect();
        let redirect = ingress["metadata"]["annotations"][REDIRECT] == "true";
        root.client.redirect_to_https = Some(redirect);
        root.with_normal_hosts()
    }

    /// Writes its hosts in the one way that edges know them by, so that nobody gets a host of
    /// somebody else's by writing it differently.
    pub fn with_normal_hosts(mut self) -> Result<Self, RootError> {
        let hosts = self.rules.iter_mut().map(|rule| &mut rule.host);
        for host in hosts.chain(self.tls.iter_mut().flat_map(|tls| &mut tls.hosts)) {
            *host = Place::of(host)?.host();
        }
        Ok(self)
    }

    /// What a Service asks for: names for its load balancers. Others have none.
    pub fn of_service(service: &Value) -> Option<Self> {
        (service["spec"]["type"] == "LoadBalancer").then(|| {
            let mut root = Self::named(service, "v1", "Service");
            root.backends.insert(root.reference.name.clone(), BackendSource::Balancers);
            root
        })
    }

    fn add_backend(&mut self, backend: &Value) -> Result<String, RootError> {
        let service = &backend["service"];
        let Some(name) = service["name"].as_str() else {
            let resource = &backend["resource"];
            return Err(RootError::Backend(format!(
                "{}/{}",
                text(&resource["kind"]),
                text(&resource["name"])
            )));
        };
        let port = match service["port"]["name"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => PortName::Name(name.to_owned()),
            None => {
                let number = service["port"]["number"].as_u64().unwrap_or_default();
                PortName::Number(u16::try_from(number).unwrap_or_default())
            }
        };
        let known_as = match &port {
            PortName::Name(port) => format!("{name}:{port}"),
            PortName::Number(port) => format!("{name}:{port}"),
        };
        let source = BackendSource::Service { name: name.to_owned(), port };
        self.backends.insert(known_as.clone(), source);
        Ok(known_as)
    }

    /// Serves rules without a host, and a default without rules, under a host of their own.
    pub fn under(&mut self, host: &str) -> Result<(), RootError> {
        let host = Place::of(host)?.host();
        if self.rules.is_empty()
            && let Some(backend) = self.default_backend.clone()
        {
            let path = PathRule { path: "/".to_owned(), path_type: PathType::Prefix, backend };
            self.rules.push(Rule { host: String::new(), paths: vec![path] });
        }
        for rule in self.rules.iter_mut().filter(|rule| rule.host.is_empty()) {
            host.clone_into(&mut rule.host);
        }
        Ok(())
    }

    /// Whether it serves hosts that it does not name.
    pub fn serves_every_host(&self) -> bool {
        self.default_backend.is_some() || self.rules.iter().any(|rule| rule.host.is_empty())
    }

    /// Whether it has something to serve and no host to serve it under.
    pub fn lacks_host(&self) -> bool {
        match self.rules.is_empty() {
            true => self.default_backend.is_some(),
            false => self.rules.iter().any(|rule| rule.host.is_empty()),
        }
    }

    /// The Services, in the root's namespace or where it says, whose changes concern it.
    pub fn services(&self) -> impl Iterator<Item = Key> {
        self.backends.values().flat_map(|source| match source {
            BackendSource::Service { name, .. } => vec![(self.namespace.clone(), name.clone())],
            BackendSource::Balancers => {
                vec![(self.namespace.clone(), self.reference.name.clone())]
            }
            BackendSource::Listed(listed) => listed
                .iter()
                .filter_map(|listed| match &listed.object {
                    ListedObject::Service(key, _) => Some(key.clone()),
                    ListedObject::Ingress(_) => None,
                })
                .collect(),
        })
    }

    /// The Ingresses of members whose changes concern it: its leaves, or those that it names.
    pub fn ingresses(&self) -> impl Iterator<Item = Key> {
        // Only an Ingress names Services of its own namespace, and has leaves of its name.
        let mut leaf = Some((self.namespace.clone(), self.reference.name.clone()));
        self.backends.values().flat_map(move |source| match source {
            BackendSource::Service { .. } => leaf.take().into_iter().collect(),
            BackendSource::Balancers => Vec::new(),
            BackendSource::Listed(listed) => listed
                .iter()
                .filter_map(|listed| match &listed.object {
                    ListedObject::Ingress(key) => Some(key.clone()),
                    ListedObject::Service(..) => None,
                })
                .collect::<Vec<_>>(),
        })
    }

    /// The shares that it asks for by itself, for want of a policy that says otherwise.
    pub(super) fn own_split(&self) -> Option<Split> {
        let mut groups = BTreeMap::new();
        for source in self.backends.values() {
            let BackendSource::Listed(listed) = source else { continue };
            for one in listed {
                if let (Some(group), Some(weight)) = (one.group_name(), one.weight) {
                    groups.insert(group, weight);
                }
            }
        }
        (!groups.is_empty()).then(|| Split { groups, ..Split::default() })
    }
}
