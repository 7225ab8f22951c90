//! Runs the pods of a member, and says how they are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::fields::{condition, is_leaving, list, news, number, text, time, uid};
use super::replicas::{is_active, ports};
use super::world::{Change, Key, World};
use crate::pods::{Addresses, Identity, PodState, RunningPod, Version};
use crate::topology::Place;

/// How long a pod runs that need not go on.
const RUN: Duration = Duration::from_secs(2);
/// Where a pod listens that does not say.
const PORT: u16 = 8080;

/// The pods that run, for those who want to see them or tell them what to be like.
pub(crate) type Pods = Arc<Mutex<BTreeMap<Key, Arc<PodState>>>>;

/// The state of a pod that runs.
pub(crate) fn pod_state(pods: &Pods, key: &Key) -> Option<Arc<PodState>> {
    pods.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

struct Running {
    pod: RunningPod,
    key: Key,
    image: String,
    since: Instant,
    started: String,
    restarts: i64,
}

/// Runs pods.
pub(super) struct Kubelet {
    place: Place,
    nodes: Vec<String>,
    next_node: usize,
    addresses: Addresses,
    running: HashMap<String, Running>,
    pods: Pods,
    /// Ends every pod at once.
    killed: CancellationToken,
}

impl Kubelet {
    pub(super) fn new(
        place: Place,
        nodes: Vec<String>,
        addresses: Addresses,
        pods: Pods,
        killed: CancellationToken,
    ) -> Self {
        Self { place, nodes, next_node: 0, addresses, running: HashMap::new(), pods, killed }
    }

    /// How busy a pod is, in percent.
    pub(super) fn load(&self, pod: &Value) -> Option<f64> {
        self.running.get(uid(pod)).map(|running| running.pod.state.load())
    }

    /// When a pod will be done.
    pub(super) fn due(&self, world: &World) -> Option<Instant> {
        let ends = |(_, pod): (&Key, &Value)| {
            let running = self.running.get(uid(pod)).filter(|_| comes_to_an_end(pod))?;
            Some(running.since + RUN)
        };
        world.all("Pod").filter_map(ends).min()
    }

    /// Gives a node to pods that are being made.
    pub(super) fn assign(&mut self, changes: &mut [Change]) {
        for change in changes {
            if let Change::Create("Pod", pod) = change
                && text(pod, "/spec/nodeName").is_empty()
            {
                pod["spec"]["nodeName"] = json!(self.node());
            }
        }
    }

    fn node(&mut self) -> String {
        self.next_node += 1;
        self.nodes[self.next_node % self.nodes.len()].clone()
    }

    /// Starts, ends and reports.
    pub(super) fn reconcile(&mut self, world: &World, now: Timestamp, changes: &mut Vec<Change>) {
        let there: HashSet<&str> =
            world.all("Pod").filter(|(_, it)| !is_leaving(it)).map(|(_, it)| uid(it)).collect();
        let gone: Vec<String> =
            self.running.keys().filter(|uid| !there.contains(uid.as_str())).cloned().collect();
        for uid in gone {
            self.end(&uid);
        }
        for (key, pod) in world.all("Pod") {
            if !is_active(pod) {
                continue;
            }
            if text(pod, "/spec/nodeName").is_empty() {
                let patch = json!({"spec": {"nodeName": self.node()}});
                changes.push(Change::Patch("Pod", key.clone(), patch));
            }
            let status = self.look_after(key, pod, now);
            let status = news(pod, status, now);
            changes.extend(status.map(|it| Change::Status("Pod", key.clone(), it)));
        }
    }

    fn end(&mut self, uid: &str) {
        if let Some(running) = self.running.remove(uid) {
            self.pods.lock().unwrap_or_else(PoisonError::into_inner).remove(&running.key);
            running.pod.leave();
        }
    }

    /// Makes a pod run if it can; its status.
    fn look_after(&mut self, key: &Key, pod: &Value, now: Timestamp) -> Value {
        let image = text(pod, "/spec/containers/0/image").to_owned();
        if self.running.get(uid(pod)).is_some_and(|running| running.image != image) {
            self.end(uid(pod));
        }
        if !self.running.contains_key(uid(pod))
            && let Err(waiting) = self.start(key, pod, image, now)
        {
            return waiting;
        }
        let running = &self.running[uid(pod)];
        if comes_to_an_end(pod) && running.since.elapsed() >= RUN {
            let status = done(pod, running, now);
            self.end(uid(pod));
            return status;
        }
        at_work(pod, running)
    }

    /// Starts a pod, or says what it waits for.
    fn start(
        &mut self,
        key: &Key,
        pod: &Value,
        image: String,
        now: Timestamp,
    ) -> Result<(), Value> {
        for container in list(pod, "/spec/containers") {
            let image = text(container, "/image");
            if Version::of(image).is_none() {
                let message = format!(
                    "Back-off pulling image \"{image}\": this playground has zone-printer:v1, zone-printer:v2 and zone-printer:v2-broken"
                );
                return Err(waiting(pod, "ImagePullBackOff", &message));
            }
        }
        let Some(version) = Version::of(&image) else {
            return Err(waiting(pod, "ImagePullBackOff", "there is no container"));
        };
        let declared = ports(pod).filter_map(|port| port["containerPort"].as_u64());
        let mut ports: Vec<u16> = declared.filter_map(|port| u16::try_from(port).ok()).collect();
        ports.sort_unstable();
        ports.dedup();
        if ports.is_empty() {
            ports.push(PORT);
        }
        let before: Option<Ipv4Addr> = text(pod, "/status/podIP").parse().ok();
        let identity = Identity {
            cluster: self.place.name.clone(),
            region: self.place.region.clone(),
            zone: self.place.zone.clone(),
            namespace: key.0.clone(),
            pod: key.1.clone(),
            version,
        };
        let killed = self.killed.clone();
        let started = RunningPod::start(&mut self.addresses, before, &ports, identity, killed);
        let pod_at_work = started.map_err(|error| {
            let message = format!("cannot listen on port {}: {error}", ports[0]);
            waiting(pod, "CrashLoopBackOff", &message)
        })?;
        let restarts = number(pod, "/status/containerStatuses/0/restartCount").unwrap_or(0);
        let restarts = restarts + i64::from(before.is_some());
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.insert(key.clone(), pod_at_work.state.clone());
        let running = Running {
            pod: pod_at_work,
            key: key.clone(),
            image,
            since: Instant::now(),
            started: time(now),
            restarts,
        };
        self.running.insert(uid(pod).to_owned(), running);
        Ok(())
    }
}

/// Whether a pod need not go on.
fn comes_to_an_end(pod: &Value) -> bool {
    !["", "Always"].contains(&text(pod, "/spec/restartPolicy"))
}

fn conditions(ready: bool, reason: &str) -> Value {
    let reason = if ready { "" } else { reason };
    json!([
        condition("PodReadyToStartContainers", true, "", ""),
        condition("Initialized", true, "", ""),
        condition("Ready", ready, reason, ""),
        condition("ContainersReady", ready, reason, ""),
        condition("PodScheduled", true, "", ""),
    ])
}

/// The statuses of all containers, in one state.
fn containers(pod: &Value, ready: bool, restarts: i64, state: &Value) -> Vec<Value> {
    let of = |container: &Value| {
        let image = text(container, "/image");
        json!({
            "name": container["name"], "image": image, "ready": ready, "started": ready,
            "imageID": format!("playground://{image}"), "restartCount": restarts, "state": state,
        })
    };
    list(pod, "/spec/containers").iter().map(of).collect()
}

fn waiting(pod: &Value, reason: &str, message: &str) -> Value {
    let state = json!({"waiting": {"reason": reason, "message": message}});
    json!({
        "phase": "Pending",
        "conditions": conditions(false, "ContainersNotReady"),
        "containerStatuses": containers(pod, false, 0, &state),
    })
}

fn at_work(pod: &Value, running: &Running) -> Value {
    let ready = !running.pod.state.behaviour().unready;
    let address = running.pod.address.to_string();
    let state = json!({"running": {"startedAt": running.started}});
    json!({
        "phase": "Running", "hostIP": "127.0.0.1", "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": address, "podIPs": [{"ip": address}], "startTime": running.started,
        "conditions": conditions(ready, "ContainersNotReady"),
        "containerStatuses": containers(pod, ready, running.restarts, &state),
    })
}

fn done(pod: &Value, running: &Running, now: Timestamp) -> Value {
    let state = json!({"terminated": {"exitCode": 0, "reason": "Completed",
        "startedAt": running.started, "finishedAt": time(now)}});
    json!({
        "phase": "Succeeded",
        "conditions": conditions(false, "PodCompleted"),
        "containerStatuses": containers(pod, false, running.restarts, &state),
    })
}
