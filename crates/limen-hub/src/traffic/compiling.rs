//! From a dirty root to what it compiles to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limen_core::compile::{
    Claim, Compiled, Findings, HOST_ANNOTATION, Key, Policy, Root, Standing, Unproven, compile,
    generated_host,
};
use limen_core::federated::ObjectId;
use limen_core::global::Global;
use serde_json::Value;

use super::serving::{Answered, Facts, answer};
use super::{BATCH, RootKind, Traffic, global_key, now, root_kind};
use crate::outbox::Record;
use crate::roots::Draft;

/// A root that the hub knows.
pub(super) struct RootEntry {
    pub(super) object: Arc<Value>,
    /// What it asks for, or why that is not understood: then what is in force stays.
    pub(super) root: Result<Root, String>,
    /// What is in force of it while it is not understood.
    in_force: Option<Root>,
    /// The host that it is to get, until that is written down.
    pub(super) wants_host: Option<String>,
    /// What it compiles to.
    pub(super) compiled: Option<Arc<Global>>,
    /// Whether clients can use it.
    pub(super) serving: Option<Answered>,
    /// Findings of compiles, with their times.
    odd: Findings,
    /// What a person should know.
    pub(super) findings: Vec<String>,
    /// Events to be written.
    pub(super) events: Vec<Draft>,
}

impl RootEntry {
    pub(super) fn new(
        object: Arc<Value>,
        root: Result<Root, String>,
        domain: Option<&str>,
    ) -> Self {
        let mut known = Self {
            object,
            root,
            in_force: None,
            wants_host: None,
            compiled: None,
            serving: None,
            odd: Findings::default(),
            findings: Vec::new(),
            events: Vec::new(),
        };
        if let (Ok(root), Some(domain)) = (&mut known.root, domain)
            && root.lacks_host()
        {
            // A host is written down before it is used, so that it never changes.
            match known.object["metadata"]["annotations"][HOST_ANNOTATION].as_str() {
                Some(host) => {
                    if let Err(error) = root.under(host) {
                        known.root = Err(format!("the annotation {HOST_ANNOTATION}: {error}"));
                    }
                }
                None => {
                    let (namespace, name) = (&root.namespace, &root.reference.name);
                    known.wants_host = Some(generated_host(namespace, name, &root.uid, domain));
                }
            }
        }
        known
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        self.root == other.root
            && self.wants_host == other.wants_host
            && self.being_deleted() == other.being_deleted()
    }

    /// What it has a claim to: what it asks for, or what it keeps while that is not understood.
    pub(super) fn claimed(&self) -> Option<&Root> {
        self.root.as_ref().ok().or(self.in_force.as_ref())
    }

    /// The host that was made for it.
    pub(super) fn made_host(&self) -> Option<&str> {
        self.object["metadata"]["annotations"][HOST_ANNOTATION].as_str()
    }

    pub(super) fn being_deleted(&self) -> bool {
        self.object["metadata"]["deletionTimestamp"].is_string()
    }

    pub(super) fn draft(&mut self, reason: &'static str, message: String) {
        let clusters = BTreeSet::new();
        self.events.push(Draft { warning: true, reason, message, clusters });
    }
}

impl Traffic {
    /// A root is new or changed.
    pub(super) fn remember(&mut self, id: Arc<ObjectId>, known: RootEntry) {
        self.prove = true;
        if let Ok(root) = &known.root {
            let rivals = self.claims.add(root);
            self.claimants_dirty(&rivals);
        }
        if known.wants_host.is_some() {
            self.records.push(Record::Route(id.clone()));
        }
        self.roots.insert(id.clone(), known);
        self.keep_in_force(&id);
        self.index(&id);
        self.dirty.insert(id);
    }

    /// What is not understood keeps its claim to what is written of it, or else somebody else would
    /// get what it still serves.
    pub(super) fn keep_in_force(&mut self, id: &Arc<ObjectId>) {
        let Some(known) = self.roots.get_mut(id).filter(|known| known.root.is_err()) else {
            return;
        };
        let written = self.globals.get(&global_key(id));
        let written =
            written.filter(|written| known.object["metadata"]["uid"] == *written.root_uid);
        let now = written.map(|written| in_force(id, &known.object, &written.global));
        if known.in_force == now {
            return;
        }
        let mut rivals = BTreeSet::new();
        if let Some(before) = std::mem::replace(&mut known.in_force, now) {
            rivals.extend(self.claims.remove(&before));
        }
        if let Some(now) = &known.in_force {
            rivals.extend(self.claims.add(now));
        }
        self.prove = true;
        self.claimants_dirty(&rivals);
    }

    /// A root is gone, or about to be known anew.
    pub(super) fn forget(&mut self, id: &ObjectId) {
        self.unindex(id);
        let Some(known) = self.roots.remove(id) else { return };
        self.prove = true;
        self.compiled_to(id, known.compiled.as_ref(), None);
        if root_kind(id) == RootKind::Ingress && !known.findings.is_empty() {
            Arc::make_mut(&mut self.troubled).remove(&id_key(id));
            self.publish = true;
        }
        if let Some(root) = known.claimed() {
            let rivals = self.claims.remove(root);
            self.claimants_dirty(&rivals);
        }
    }

    fn claimants_dirty(&mut self, claims: &BTreeSet<Claim>) {
        self.dirty.extend(claims.iter().map(claimant).map(Arc::new));
    }

    /// How good a claim to a host is.
    pub(super) fn standing(&self, claim: &Claim, host: &str) -> Standing {
        let Some(verification) = &self.verification else { return Standing::Proven };
        let id = claimant(claim);
        match verification.proofs.proof(claim.root().1, host) {
            Some(proof) if !verification.is_found(&proof) => match self.serves(&id, host) {
                // It may well have been proven before this hub began to ask.
                true if !verification.is_answered(&proof) => Standing::Proven,
                true => Standing::Served,
                false => Standing::Unproven,
            },
            _ => Standing::Proven,
        }
    }

    /// Whether a host is written into what a root has compiled to.
    fn serves(&self, id: &ObjectId, host: &str) -> bool {
        let root = self.roots.get(id).and_then(RootEntry::claimed);
        let (Some(root), Some(written)) = (root, self.globals.get(&global_key(id))) else {
            return false;
        };
        written.root_uid == root.uid && written.global.rules.iter().any(|rule| rule.host == host)
    }

    /// Notes what a root leads to, so that news of that find it.
    pub(super) fn index(&mut self, id: &Arc<ObjectId>) {
        let Some(RootEntry { root: Ok(root), .. }) = self.roots.get(id) else { return };
        let mut services: BTreeSet<Key> = root.services().collect();
        let ingresses: BTreeSet<Key> = root.ingresses().collect();
        if let (Some((_, policy)), Some(namespace)) = (self.policy_of(id), &id.namespace) {
            let others = policy.groups.iter().filter_map(|group| group.service.clone());
            services.extend(others.map(|name| (namespace.clone(), name)));
        }
        for key in services {
            self.by_service.entry(key).or_default().insert(id.clone());
        }
        for key in ingresses {
            self.by_ingress.entry(key).or_default().insert(id.clone());
        }
    }

    fn unindex(&mut self, id: &ObjectId) {
        let Some(RootEntry { root: Ok(root), .. }) = self.roots.get(id) else { return };
        for key in root.services() {
            remove(&mut self.by_service, &key, id);
        }
        for key in root.ingresses() {
            remove(&mut self.by_ingress, &key, id);
        }
    }

    /// Compiles some of what is dirty.
    pub(super) fn compile_dirty(&mut self) {
        for _ in 0..BATCH {
            let Some(id) = self.dirty.pop_first() else { return };
            self.compile_root(&id);
        }
    }

    fn compile_root(&mut self, id: &Arc<ObjectId>) {
        let Some(known) = self.roots.get(id) else { return };
        // What is being deleted serves until it is gone.
        if known.being_deleted() || known.wants_host.is_some() {
            return;
        }
        let root = match &known.root {
            Ok(root) => root,
            Err(error) => {
                let error = error.clone();
                return self.finding(id, vec![error]);
            }
        };
        let (key, time) = (global_key(id), now());
        if self.foreign.contains(&key) {
            let text = format!("a GlobalIngress {} of somebody else is in the way", key.1);
            return self.finding(id, vec![text]);
        }
        let written = self.globals.get(&key).filter(|written| written.root_uid == root.uid);
        let written = written.map(|written| &written.global);
        let before = written.map(Arc::as_ref);
        let standing = |claim: &Claim, host: &str| self.standing(claim, host);
        let (granted, denied) = self.claims.granted(root, standing);
        let (granted, unproven) = match &self.verification {
            None => (granted, Vec::new()),
            Some(verification) => {
                let is_found = |proof: &_| verification.is_found(proof);
                verification.proofs.granted(&root.namespace, granted, before, is_found)
            }
        };
        let (tls, unserved) = self.claims.certificates(root, &granted, before, standing);
        let policy = self.policy_of(id);
        let canary = policy.as_ref().and_then(|(policy, _)| self.canary_percent(policy));
        let default = Policy::default();
        let policy = policy.as_ref().map_or(&default, |(_, policy)| policy);
        let compiled = match denied.is_empty() && unproven.is_empty() && tls == root.tls {
            true => compile(root, policy, canary, &self.members, before, time),
            false => {
                let root = Root { rules: granted, tls, ..root.clone() };
                let nothing_left = root.rules.is_empty() && root.default_backend.is_none();
                match nothing_left && before.is_none() {
                    true => Compiled::default(),
                    false => compile(&root, policy, canary, &self.members, before, time),
                }
            }
        };
        let mut findings: Vec<String> = denied.iter().map(ToString::to_string).collect();
        findings.extend(unproven.iter().map(ToString::to_string));
        let refused_hosts = findings.clone();
        let mut missing_certificates: Vec<String> =
            unserved.into_iter().map(|host| self.not_shown(root, host)).collect();
        findings.extend(missing_certificates.iter().cloned());
        missing_certificates.extend(self.missing_secrets(&key.0, compiled.global.as_ref()));
        let facts = Facts { refused_hosts, missing_certificates, gateways: self.gateways };
        let changed = compiled.global.as_ref() != before;
        let compiled_before = known.compiled.clone();
        let copies = [compiled_before.as_ref(), written];
        let global = compiled.global.map(|global| {
            let same = copies.into_iter().flatten().find(|copy| ***copy == global).cloned();
            same.unwrap_or_else(|| Arc::new(global))
        });
        self.compiled_to(id, compiled_before.as_ref(), global.as_ref());
        let mut changed = changed;
        if let Some(known) = self.roots.get_mut(id) {
            changed |= answer(&mut known.serving, global.as_ref(), facts);
            known.compiled = global;
            known.odd.found(compiled.findings, time);
            findings.extend(known.odd.lasting(time).map(str::to_owned));
            self.odd_until.extend(known.odd.due(time).map(|due| (due, id.clone())));
        }
        if changed {
            self.records.push(Record::Global(key));
        }
        self.finding(id, findings);
    }

    /// Why a certificate of a root is not shown for a host.
    fn not_shown(&self, root: &Root, host: String) -> String {
        let verification = self.verification.as_ref().filter(|_| root.serves_every_host());
        let proof = verification.and_then(|verification| {
            let proof = verification.proofs.proof(&root.namespace, &host)?;
            (!verification.is_found(&proof)).then_some(proof)
        });
        match proof {
            Some(proof) => Unproven { host, proof }.to_string(),
            None => format!(
                "tls names {host}, which no rule here serves: its certificate is not shown for it"
            ),
        }
    }

    /// A root compiles to something else: others are told of it only where it matters to them.
    fn compiled_to(
        &mut self,
        id: &ObjectId,
        before: Option<&Arc<Global>>,
        now: Option<&Arc<Global>>,
    ) {
        let same = match (before, now) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if same {
            return;
        }
        // A member without a load balancer is not unwell for want of it.
        if root_kind(id) != RootKind::Service {
            let (before, now) = (before.map(Arc::as_ref), now.map(Arc::as_ref));
            self.publish |= self.endpoints.replace(before, now);
        }
        if before.is_some() != now.is_some() {
            match root_kind(id) {
                RootKind::Ingress => self.serve(id, now.is_some()),
                RootKind::FederatedIngress => {
                    self.records.push(Record::Route(Arc::new(id.clone())));
                }
                RootKind::Service => {}
            }
        }
    }

    /// An Ingress has begun or ceased to be served, or got another host.
    pub(super) fn serve(&mut self, id: &ObjectId, served: bool) {
        let key = id_key(id);
        let all = Arc::make_mut(&mut self.served);
        if served {
            let host = self.roots.get(id).and_then(RootEntry::made_host);
            all.insert(key, host.map(str::to_owned));
        } else {
            all.remove(&key);
        }
        self.publish = true;
    }

    /// Says what a person should know, once.
    fn finding(&mut self, id: &Arc<ObjectId>, findings: Vec<String>) {
        let Some(known) = self.roots.get_mut(id) else { return };
        if known.findings == findings {
            return;
        }
        for finding in &findings {
            if !known.findings.contains(finding) {
                known.draft("Traffic", finding.clone());
            }
        }
        known.findings = findings;
        if root_kind(id) == RootKind::Ingress {
            let key = id_key(id);
            let troubled = Arc::make_mut(&mut self.troubled);
            match known.findings.is_empty() {
                true => drop(troubled.remove(&key)),
                false => drop(troubled.insert(key, known.findings.join("; "))),
            }
            self.publish = true;
        }
        self.records.push(Record::Route(id.clone()));
        self.records.push(Record::Global(global_key(id)));
    }
}

/// What a root asked for that compiled to this, as far as others are concerned.
fn in_force(id: &ObjectId, object: &Value, global: &Global) -> Root {
    let kind = &id.kind;
    Root {
        rules: global.rules.clone(),
        default_backend: global.default_backend.clone(),
        tls: global.tls.clone(),
        ..Root::named(object, &kind.api_version, &kind.kind)
    }
}

/// The root that claims something.
fn claimant(claim: &Claim) -> ObjectId {
    let (kind, namespace, name) = claim.root();
    let kind = match kind {
        "Ingress" => RootKind::Ingress,
        _ => RootKind::FederatedIngress,
    };
    kind.object(namespace, name)
}

/// Namespace and name of a root.
fn id_key(id: &ObjectId) -> Key {
    (id.namespace.clone().unwrap_or_default(), id.name.clone())
}

fn remove(index: &mut BTreeMap<Key, BTreeSet<Arc<ObjectId>>>, key: &Key, id: &ObjectId) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}
