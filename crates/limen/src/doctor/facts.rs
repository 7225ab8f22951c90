//! What was found out about a federation. Collected by others, judged in `verdict`.

/// What is known of a federation at one moment. Times are in seconds since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) now: i64,
    pub(super) hub: Hub,
    pub(super) members: Vec<Member>,
    pub(super) edges: Vec<Edge>,
    pub(super) zones: Vec<Zone>,
    pub(super) roots: Vec<Root>,
    pub(super) policies: Vec<Policy>,
    /// What could not be read, and why.
    pub(super) unread: Vec<(&'static str, String)>,
}

impl Facts {
    /// Why something could not be read, if it could not.
    pub(super) fn unread(&self, what: &str) -> Option<&str> {
        let found = self.unread.iter().find(|(unread, _)| *unread == what);
        found.map(|(_, why)| why.as_str())
    }
}

/// The hub.
#[derive(Clone, Debug, Default)]
pub(super) struct Hub {
    pub(super) url: String,
    /// Why it does not answer; then nothing else is known.
    pub(super) silent: Option<String>,
    pub(super) version: String,
    /// How far its clock is ahead of ours.
    pub(super) clock_ahead: Option<i64>,
    /// When the certificate that it shows ends.
    pub(super) certificate_ends: Option<i64>,
    /// When our own credential ends.
    pub(super) credential_ends: Option<i64>,
    /// Definitions that it should have and has not.
    pub(super) missing_definitions: Vec<String>,
    /// Definitions that another version of Limen has made.
    pub(super) other_definitions: Vec<String>,
    /// Who leads, where hubs take turns.
    pub(super) leader: Option<Leader>,
}

/// Who leads.
#[derive(Clone, Debug, Default)]
pub(super) struct Leader {
    pub(super) name: String,
    pub(super) renewed: i64,
    pub(super) lasts: i64,
}

/// A verdict of the hub about a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Health {
    #[default]
    Unknown,
    Healthy,
    Unhealthy,
}

/// A member, as the hub sees it and as we do.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) api: Health,
    pub(super) edge: Health,
    pub(super) endpoints: Health,
    /// What the hub says about it.
    pub(super) message: String,
    /// Why the hub does not write to it, if so.
    pub(super) unwritable: Option<String>,
    pub(super) drained: bool,
    /// Deletions that wait for its return.
    pub(super) tombstones: usize,
    pub(super) missing_kinds: Vec<String>,
    /// What we have seen with the hub's credential, or why we could not look.
    pub(super) seen: Option<Result<Seen, String>>,
}

/// A member as we have seen it with the hub's credential.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) version: String,
    pub(super) clock_ahead: Option<i64>,
    pub(super) credential_ends: Option<i64>,
    /// What the hub's account may not do, such as `patch deployments.apps`.
    pub(super) lacking_rights: Vec<String>,
}

/// A gateway.
#[derive(Clone, Debug, Default)]
pub(super) struct Edge {
    pub(super) name: String,
    /// When the hub stored its last report, by the hub's clock.
    pub(super) reported: Option<i64>,
    /// Its addresses, and what happened when we connected to them.
    pub(super) addresses: Vec<(String, Result<(), String>)>,
}

/// A zone of the DNS servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Zone {
    pub(super) name: String,
    pub(super) servers: Vec<Server>,
    /// The servers that the world is told of, or why nobody could be asked.
    pub(super) delegated: Option<Result<Vec<String>, String>>,
}

/// A server of a zone.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) name: String,
    /// Its addresses, and how each answered for the zone.
    pub(super) addresses: Vec<(String, Result<Answer, String>)>,
}

/// How a DNS server answers for a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// With authority.
    Authoritative,
    /// As somebody who has heard of it.
    NotAuthoritative,
    /// It refuses, with this code.
    Refused(u8),
}

/// A root that is not as it should be.
#[derive(Clone, Debug, Default)]
pub(super) struct Root {
    /// As KIND/NAME.
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) message: String,
    /// Clusters by what is the matter there.
    pub(super) held: Vec<String>,
    pub(super) conflicts: Vec<String>,
    pub(super) failed: Vec<(String, String)>,
}

/// A policy that is not in force as it is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Policy {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) message: String,
}
