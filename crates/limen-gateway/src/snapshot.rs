//! What workers obey: immutable, replaced as a whole.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use limen_core::decide::{OwnKnowledge, Plan, Readiness};
use limen_core::global::{Affinity, ClientLimit, Global, HeaderMatch, Mirror, Outliers, Target};
use limen_core::route::{Routes, Shelves};

use crate::flow::Flow;
use crate::metrics::{Count, TargetMetrics};
use crate::tls::Certificates;
use crate::upstream::Address;
use limen_api::source::SecretData;

/// Everything that is in force at one moment.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) routes: Routes<Arc<Route>>,
    /// By label.
    pub(crate) ingresses: Shelves<Arc<Ingress>>,
    pub(crate) certificates: Certificates,
    /// What is wrong with the objects, for people.
    pub(crate) problems: Vec<String>,
    /// When it was made.
    pub(crate) made: Option<Instant>,
}

/// One compiled root.
pub(crate) struct Ingress {
    /// `namespace/name`.
    pub(crate) label: String,
    pub(crate) global: Arc<Global>,
    /// The Secrets that it was made with, by name, to see whether it has to be made again.
    pub(crate) secrets: Vec<String>,
    pub(crate) backends: Vec<Arc<Backend>>,
    /// With the names that they are for, in lower case.
    pub(crate) certificates: Vec<(Vec<Arc<str>>, Arc<rustls::sign::CertifiedKey>)>,
    /// The authority that clients must have certificates from.
    pub(crate) client_ca: Option<Arc<SecretData>>,
    pub(crate) hsts: Option<HeaderValue>,
    /// How much one client may ask for, and what this root is called in the table of clients.
    pub(crate) limit: Option<(u64, ClientLimit)>,
    pub(crate) problems: Vec<String>,
}

/// Where a rule leads.
pub(crate) struct Route {
    pub(crate) ingress: Arc<Ingress>,
    /// Nothing if the rule names a backend that does not exist.
    pub(crate) backend: Option<Arc<Backend>>,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) redirect_to_https: bool,
    pub(crate) tls: bool,
}

/// What rules lead to.
pub(crate) struct Backend {
    /// What workers know it by.
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) ingress: String,
    pub(crate) plan: Plan,
    pub(crate) targets: Vec<TargetState>,
    pub(crate) rules: Rules,
    /// Whether any of its targets can take only so much.
    pub(crate) limited: bool,
    /// Whether all of its targets speak HTTP/1 without TLS.
    pub(crate) plain: bool,
    /// Requests that clients have sent for it.
    pub(crate) asked: Arc<Count>,
}

/// One cluster's way in.
pub(crate) struct TargetState {
    pub(crate) target: Target,
    pub(crate) addresses: Vec<Arc<Address>>,
    pub(crate) metrics: Arc<TargetMetrics>,
    pub(crate) flow: Arc<Flow>,
    /// Requests in a second that it can take from all edges together.
    pub(crate) capacity: Option<f64>,
    /// By what is known of its addresses: nothing, that one answers, that none does.
    pub(crate) readiness: [Readiness; 3],
}

/// The traffic rules of a backend, with all defaults filled in.
pub(crate) struct Rules {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
    pub(crate) idle: Duration,
    pub(crate) request: Option<Duration>,
    pub(crate) attempts: u32,
    pub(crate) budget_percent: u8,
    pub(crate) statuses: Vec<u16>,
    pub(crate) outliers: Outliers,
    pub(crate) max_connections: u32,
    pub(crate) slow_start: u64,
    pub(crate) matches: Vec<HeaderMatch>,
    pub(crate) affinity: Option<Affinity>,
    /// The cookie that keeps a client with its version group.
    pub(crate) sticky: Option<String>,
    pub(crate) mirror: Option<Mirror>,
}

impl Rules {
    /// Whether headers decide anything, or have to be looked at for another reason.
    pub(crate) fn look_at_headers(&self) -> bool {
        let affinity = self.affinity.as_ref();
        !self.matches.is_empty()
            || self.sticky.is_some()
            || self.mirror.is_some()
            || affinity.is_some_and(|rule| rule.cookie.is_some() || rule.header.is_some())
    }
}

impl TargetState {
    /// How good a candidate it is now.
    pub(crate) fn readiness(&self, now: u64) -> Readiness {
        let mut own = OwnKnowledge::Silent;
        for address in &self.addresses {
            match address.knowledge(now) {
                OwnKnowledge::Silent => {}
                knowledge => {
                    own = knowledge;
                    break;
                }
            }
        }
        self.readiness[own as usize]
    }
}

impl Ingress {
    /// The names that it has certificates for, each with the number of its certificate.
    pub(crate) fn names(&self) -> impl Iterator<Item = (usize, &Arc<str>)> {
        let numbered = self.certificates.iter().enumerate();
        numbered.flat_map(|(number, (names, _))| names.iter().map(move |name| (number, name)))
    }

    pub(crate) fn backend(&self, name: &str) -> Option<Arc<Backend>> {
        self.backends.iter().find(|backend| backend.name == name).cloned()
    }
}

impl Backend {
    /// How many of its addresses are ejected, and how many it has.
    pub(crate) fn ejected(&self, now: u64) -> (usize, usize) {
        let addresses = self.targets.iter().flat_map(|target| &target.addresses);
        addresses.fold((0, 0), |(ejected, all), address| {
            (ejected + usize::from(address.is_ejected(now)), all + 1)
        })
    }
}
