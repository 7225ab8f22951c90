//! A history to be simulated: actions of people, faults of networks and machines, each with its time.

use std::fmt;

use crate::network::Weather;

/// A placement, as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All clusters.
    Everywhere,
    /// Clusters by name.
    Only(Vec<String>),
    /// Clusters by their label `region`.
    Region(String),
    /// A selector that cannot be understood.
    Broken,
    /// Not a placement at all.
    Malformed,
}

/// How a foreign object looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guise {
    /// Nothing special.
    Plain,
    /// Installed by Helm.
    Helm,
    /// Owned by a controller.
    Controlled,
    /// With the labels of a leaf of this hub.
    Forged,
}

/// Interference with a leaf in a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meddling {
    /// It is deleted.
    Delete,
    /// Its content is changed.
    Edit,
    /// Its labels are taken off.
    Strip,
    /// It is deleted, and created by someone else.
    Replace,
    /// It gets the label of another root.
    Relabel,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names and sentences of variants say it all")]
pub enum Action {
    CreateNamespace {
        name: String,
    },
    DeleteNamespace {
        name: String,
    },
    Apply {
        kind: String,
        namespace: String,
        name: String,
        revision: u32,
    },
    ApplyMany {
        namespace: String,
        count: u32,
    },
    Delete {
        kind: String,
        namespace: String,
        name: String,
        orphan: bool,
    },
    DeleteMany {
        namespace: String,
        count: u32,
    },
    Withdraw {
        kind: String,
        namespace: String,
        name: String,
    },
    Select {
        kind: String,
        namespace: String,
        name: String,
        selector: Option<String>,
    },
    Policy {
        namespace: String,
        name: String,
        placement: Placement,
        orphan: bool,
        conflict: Option<String>,
        waves: Vec<Vec<String>>,
    },
    DeletePolicy {
        namespace: String,
        name: String,
    },
    Label {
        cluster: String,
        region: String,
    },
    Join {
        cluster: String,
        server: String,
    },
    Unjoin {
        cluster: String,
        delete: bool,
    },
    DeleteCluster {
        cluster: String,
    },
    Release,
    Foreign {
        server: String,
        kind: String,
        namespace: String,
        name: String,
        guise: Guise,
    },
    Meddle {
        server: String,
        kind: String,
        namespace: String,
        name: String,
        how: Meddling,
    },
    Rival {
        server: String,
        kind: String,
        namespace: String,
        name: String,
        seconds: u64,
    },
    SlowFinalizer {
        server: String,
        kind: String,
        namespace: String,
        name: String,
        seconds: u64,
    },
    BackUp {
        server: String,
    },
    Restore {
        server: String,
    },
    Reset {
        server: String,
    },
    Compact {
        server: String,
    },
    Unserve {
        server: String,
        resource: String,
        seconds: u64,
    },
    OtherVersion {
        server: String,
        resource: String,
        version: String,
        seconds: u64,
    },
    RemoveDefinition {
        server: String,
        resource: String,
        seconds: u64,
    },
    Cut {
        server: String,
        requests: bool,
        answers: bool,
        seconds: u64,
    },
    Lag {
        server: String,
        resource: String,
        millis: u64,
        seconds: u64,
    },
    Outage {
        server: String,
        method: Option<String>,
        plural: Option<String>,
        code: u16,
        seconds: u64,
    },
    Storm {
        weather: Weather,
        seconds: u64,
    },
    Kill {
        seconds: u64,
    },
    Suspend {
        seconds: u64,
    },
    ClockJump {
        seconds: i64,
    },
    SecondHub,
    CloneHub,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateNamespace { name } => {
                write!(f, "a person creates Namespace {name} on the hub")
            }
            Self::DeleteNamespace { name } => {
                write!(f, "a person deletes Namespace {name} on the hub")
            }
            Self::Apply { kind, namespace, name, revision } => {
                write!(
                    f,
                    "a person applies {kind} {namespace}/{name}, revision {revision}, on the hub"
                )
            }
            Self::ApplyMany { namespace, count } => {
                write!(f, "a person applies {count} ConfigMaps in {namespace} on the hub")
            }
            Self::Delete { kind, namespace, name, orphan } => {
                let how = if *orphan { " with --cascade=orphan" } else { "" };
                write!(f, "a person deletes {kind} {namespace}/{name} on the hub{how}")
            }
            Self::DeleteMany { namespace, count } => {
                write!(f, "a person deletes {count} ConfigMaps in {namespace} on the hub by name")
            }
            Self::Withdraw { kind, namespace, name } => {
                write!(f, "a person takes {kind} {namespace}/{name} out of the federation")
            }
            Self::Select { kind, namespace, name, selector } => match selector {
                Some(text) => write!(
                    f,
                    "a person gives {kind} {namespace}/{name} the cluster selector {text:?}"
                ),
                None => {
                    write!(f, "a person takes the cluster selector off {kind} {namespace}/{name}")
                }
            },
            Self::Policy { namespace, name, placement, orphan, conflict, waves } => {
                write!(f, "a person applies PlacementPolicy {namespace}/{name}: {placement:?}")?;
                if *orphan {
                    f.write_str(", onDelete Orphan")?;
                }
                if let Some(conflict) = conflict {
                    write!(f, ", onConflict {conflict}")?;
                }
                if waves.is_empty() { Ok(()) } else { write!(f, ", waves {waves:?}") }
            }
            Self::DeletePolicy { namespace, name } => {
                write!(f, "a person deletes PlacementPolicy {namespace}/{name}")
            }
            Self::Label { cluster, region } => {
                write!(f, "a person labels Cluster {cluster} with region {region}")
            }
            Self::Join { cluster, server } => {
                write!(f, "a person joins {server} as Cluster {cluster}")
            }
            Self::Unjoin { cluster, delete } => {
                let fate = if *delete { "deleting" } else { "keeping" };
                write!(f, "a person unjoins Cluster {cluster}, {fate} its leaves")
            }
            Self::DeleteCluster { cluster } => write!(f, "a person deletes Cluster {cluster}"),
            Self::Release => f.write_str("a person releases everything that is held"),
            Self::Foreign { server, kind, namespace, name, guise } => {
                write!(f, "someone creates {kind} {namespace}/{name} ({guise:?}) in {server}")
            }
            Self::Meddle { server, kind, namespace, name, how } => {
                write!(f, "someone meddles with {kind} {namespace}/{name} in {server}: {how:?}")
            }
            Self::Rival { server, kind, namespace, name, seconds } => {
                write!(
                    f,
                    "a rival manager writes to {kind} {namespace}/{name} in {server} for {seconds} s"
                )
            }
            Self::SlowFinalizer { server, kind, namespace, name, seconds } => {
                write!(
                    f,
                    "a controller of {server} keeps {kind} {namespace}/{name} from going for {seconds} s"
                )
            }
            Self::BackUp { server } => write!(f, "{server} is backed up"),
            Self::Restore { server } => write!(f, "{server} is restored from its backup"),
            Self::Reset { server } => {
                write!(f, "{server} is replaced by a new cluster behind the same endpoint")
            }
            Self::Unserve { server, resource, seconds } => {
                write!(f, "{server} does not serve {resource} for {seconds} s")
            }
            Self::OtherVersion { server, resource, version, seconds } => {
                write!(f, "{server} serves {resource} in version {version} only for {seconds} s")
            }
            Self::RemoveDefinition { server, resource, seconds } => {
                write!(
                    f,
                    "the definition of {resource} is removed from {server} with all its objects, and installed again {seconds} s later"
                )
            }
            Self::Compact { server } => write!(f, "{server} compacts its log"),
            Self::Cut { server, requests, answers, seconds } => {
                let what = match (requests, answers) {
                    (true, true) => "requests and answers",
                    (true, false) => "requests",
                    _ => "answers",
                };
                write!(f, "the network loses {what} of {server} for {seconds} s")
            }
            Self::Lag { server, resource, millis, seconds } => {
                let resource = if resource.is_empty() { "everything" } else { resource };
                write!(f, "watches of {resource} in {server} lag by {millis} ms for {seconds} s")
            }
            Self::Outage { server, method, plural, code, seconds } => {
                let method = method.as_deref().unwrap_or("every request");
                let plural = plural.as_deref().unwrap_or("every kind");
                write!(f, "{server} answers {method} for {plural} with {code} for {seconds} s")
            }
            Self::Storm { weather, seconds } => {
                write!(f, "the network is unreliable for {seconds} s: {weather:?}")
            }
            Self::Kill { seconds } => {
                write!(f, "the hub is killed, and started again {seconds} s later")
            }
            Self::Suspend { seconds } => write!(f, "the leading hub is suspended for {seconds} s"),
            Self::ClockJump { seconds } => {
                write!(f, "the wall clock of the hub jumps by {seconds} s")
            }
            Self::SecondHub => f.write_str("a second hub process starts on the same store"),
            Self::CloneHub => f.write_str("a hub starts on a copy of the store"),
        }
    }
}

/// A history to be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The seed of network and machines.
    pub seed: u64,
    /// Members, by name.
    pub members: Vec<String>,
    /// Whether hubs stand for election.
    pub elects: bool,
    /// Actions, each at a time in milliseconds since the start.
    pub actions: Vec<(u64, Action)>,
    /// How long to wait after the last action before judging the state at rest, in seconds.
    pub rest: u64,
}

impl Scenario {
    /// A history with these members, in which nothing happens yet.
    pub fn new(seed: u64, members: &[&str]) -> Self {
        let members = members.iter().map(|&name| name.to_owned()).collect();
        Self { seed, members, elects: false, actions: Vec::new(), rest: 600 }
    }

    /// Adds an action so many seconds after the start.
    #[must_use]
    pub fn at(mut self, seconds: f64, action: Action) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "times of a scenario are small"
        )]
        self.actions.push(((seconds * 1000.0) as u64, action));
        self
    }
}
