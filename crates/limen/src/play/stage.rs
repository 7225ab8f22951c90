//! The federation that a story is played on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::Method;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use limen_playground::{Place, Topology};
use serde_json::{Value, json};

use super::before::Before;
use super::crowd::Crowd;
use super::live::Screen;
use crate::connection::config;
use crate::up::http_client::ask;
use crate::up::{Folder, PORT_BASE, Ports, Whole, WholeOptions};

/// Clusters of a federation that is started for the story.
const CLUSTERS: usize = 3;
/// Where the admin port is from the base.
const ADMIN: u16 = 5;
/// How long anything may take until it is as it should be.
const PATIENCE: Duration = Duration::from_secs(60);
/// What stories call what they make.
pub(crate) const MADE: &str = "limen-play";

/// The federation that a story is played on.
pub(crate) struct Stage {
    admin: SocketAddr,
    gateway: SocketAddr,
    pub(super) hub: Client,
    kubeconfig: PathBuf,
    /// Clusters, the nearest to the gateway first.
    clusters: Vec<String>,
    pub(super) before: Before,
    start: Instant,
    screen: Arc<Mutex<Screen>>,
    /// How long one looks at something.
    moment: Duration,
    own: Option<(Whole, Folder)>,
}

impl Stage {
    /// The federation that was named, or that runs here, or a new one.
    pub(crate) async fn find(folder: Option<&Path>, admin: Option<SocketAddr>) -> Result<Self> {
        if let Some(folder) = folder {
            let admin = written(folder)?;
            return Self::on(admin, None).await.with_context(|| {
                format!(
                    "no limen up answers for {}; its up.json is of an old run",
                    folder.display()
                )
            });
        }
        if let Some(admin) = admin {
            let context = || format!("no limen up answers at {admin}");
            return Self::on(admin, None).await.with_context(context);
        }
        let usual = SocketAddr::from(([127, 0, 0, 1], PORT_BASE + ADMIN));
        if tokio::net::TcpStream::connect(usual).await.is_ok() {
            return Self::on(usual, None).await;
        }
        println!("No limen up runs here; starting a federation of {CLUSTERS} clusters ...");
        let folder = Folder::open(None)?;
        let whole = Whole::start(WholeOptions {
            topology: Topology::of(CLUSTERS)?,
            ports: Ports::plan(0, CLUSTERS)?,
            folder: folder.path().to_owned(),
            sample: true,
            say: |_: &str| {},
        })
        .await?;
        whole.write_files()?;
        Self::on(whole.admin(), Some((whole, folder))).await
    }

    async fn on(admin: SocketAddr, own: Option<(Whole, Folder)>) -> Result<Self> {
        let (_, state) = ask(admin, Method::GET, "/", None).await?;
        let addresses = &state["addresses"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let gateway = text(&addresses["gateway"]["http"]).and_then(|it| it.parse().ok());
        let gateway = gateway.with_context(|| format!("{admin} is not the admin of a limen up"))?;
        let kubeconfig: PathBuf = text(&addresses["kubeconfig"]).unwrap_or_default().into();
        let hub = Client::try_from(config(Some(&kubeconfig), Some("federation")).await?)?;
        let clusters = nearest_first(addresses);
        if clusters.len() < 2 {
            bail!("a story needs two clusters or more");
        }
        let (_, answer) = ask(gateway, Method::GET, "/", None).await?;
        if answer["cluster"].as_str().is_none() {
            bail!("the sample application does not answer; start limen up without --no-sample");
        }
        let screen = Arc::new(Mutex::new(Screen::standard()));
        let (start, moment) = (Instant::now(), Duration::from_secs(2));
        let before = Before::default();
        let mut stage =
            Self { admin, gateway, hub, kubeconfig, clusters, before, start, screen, moment, own };
        stage.before = stage.look(&state["clusters"]).await?;
        Ok(stage)
    }

    /// With shorter looks.
    pub(crate) fn quick(self, quick: bool) -> Self {
        Self { moment: if quick { self.moment / 4 } else { self.moment }, ..self }
    }

    /// How long one looks at something.
    pub(crate) fn moment(&self) -> Duration {
        self.moment
    }

    /// The cluster that is nearest to the gateway.
    pub(crate) fn nearest(&self) -> &str {
        &self.clusters[0]
    }

    pub(crate) fn clusters(&self) -> &[String] {
        &self.clusters
    }

    /// Clients that ask all the time.
    pub(crate) fn crowd(&self, clients: usize, rate: f64) -> Crowd {
        let mut crowd = Crowd::new(self.gateway, self.clusters.clone(), self.screen.clone());
        crowd.gather(clients, rate);
        crowd
    }

    pub(super) fn screen(&self) -> std::sync::MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what happens.
    pub(crate) fn say(&self, line: &str) {
        let line = format!("{:6.1} s  {line}", self.start.elapsed().as_secs_f64());
        self.screen().say(&line);
    }

    /// Sees whether something is as it must be.
    pub(crate) fn check(&self, holds: bool, what: &str, found: &str) -> Result<()> {
        if !holds {
            bail!("it did not end well: {what}; there were {found}");
        }
        self.say(&format!("good: {what}"));
        Ok(())
    }

    /// Waits until something holds; how long that took.
    pub(crate) async fn until(
        &self,
        what: &str,
        mut holds: impl AsyncFnMut() -> Result<(bool, String)>,
    ) -> Result<Duration> {
        let start = Instant::now();
        loop {
            let (there, found) = holds().await?;
            if there {
                let took = start.elapsed();
                self.say(&format!("good: {what}, after {:.1} s", took.as_secs_f64()));
                return Ok(took);
            }
            if start.elapsed() > PATIENCE {
                bail!("it did not end well: not within {} s: {what}; {found}", PATIENCE.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until all answers come as they should.
    pub(crate) async fn settled(
        &self,
        crowd: &Crowd,
        what: &str,
        fits: impl Fn(&super::crowd::Told) -> bool,
    ) -> Result<Duration> {
        self.until(what, async || {
            let told = crowd.listen(Duration::from_millis(500)).await;
            Ok((told.answered() > 0 && fits(&told), told.summary()))
        })
        .await
    }

    /// Makes trouble for a cluster.
    pub(crate) async fn trouble(&self, cluster: &str, what: &str) -> Result<()> {
        self.trouble_with(cluster, what, None).await
    }

    pub(super) async fn trouble_with(
        &self,
        cluster: &str,
        what: &str,
        body: Option<&Value>,
    ) -> Result<()> {
        let path = format!("/clusters/{cluster}/{what}");
        let (status, answer) = ask(self.admin, Method::POST, &path, body).await?;
        if !status.is_success() {
            bail!("{cluster} cannot be told to {what}: {}", answer["error"]);
        }
        Ok(())
    }

    /// Changes an object on the hub.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Result<()> {
        let api = objects(self.hub.clone(), kind);
        let params = PatchParams::default();
        let context = || format!("cannot change {kind} {name} on the hub");
        api.patch(name, &params, &Patch::Merge(patch)).await.with_context(context)?;
        Ok(())
    }

    /// Submits an object to the hub.
    pub(crate) async fn apply(&self, kind: &str, object: Value) -> Result<()> {
        let api = objects(self.hub.clone(), kind);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let params = PatchParams::apply(MADE).force();
        let context = || format!("cannot submit {kind} {name} to the hub");
        api.patch(&name, &params, &Patch::Apply(object)).await.with_context(context)?;
        Ok(())
    }

    /// An object of a cluster, or of the hub.
    pub(crate) async fn get(&self, context: &str, kind: &str, name: &str) -> Result<Value> {
        let client = match context {
            "federation" => self.hub.clone(),
            cluster => Client::try_from(config(Some(&self.kubeconfig), Some(cluster)).await?)?,
        };
        let found = objects(client, kind).get_opt(name).await;
        let found = found.with_context(|| format!("cannot read {kind} {name} of {context}"))?;
        Ok(found.map(serde_json::to_value).transpose()?.unwrap_or_default())
    }

    /// Whether all pods of the sample in a cluster are of an image and ready.
    pub(crate) async fn runs(&self, cluster: &str, image: &str) -> Result<(bool, String)> {
        // A cluster that has just been brought back may not answer yet.
        let leaf = match self.get(cluster, "Deployment", crate::up::SAMPLE).await {
            Ok(leaf) => leaf,
            Err(error) => return Ok((false, format!("{error:#}"))),
        };
        let (spec, status) = (&leaf["spec"], &leaf["status"]);
        let found = &spec["template"]["spec"]["containers"][0]["image"];
        let counts = ["replicas", "updatedReplicas", "readyReplicas"];
        let done = found == image
            && status["observedGeneration"] == leaf["metadata"]["generation"]
            && counts.iter().all(|count| status[count] == spec["replicas"]);
        Ok((done, format!("{cluster} has {found}, {status}")))
    }

    /// Changes the image of the sample.
    pub(crate) async fn image(&self, image: &str) -> Result<()> {
        let containers = json!([{"name": "zone-printer", "image": image,
            "ports": [{"name": "http", "containerPort": 8080}]}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        self.patch("Deployment", crate::up::SAMPLE, patch).await
    }

    /// Ends the federation if it was started for the story.
    pub(crate) async fn close(self) {
        if let Some((whole, folder)) = self.own {
            whole.stop().await;
            drop(folder);
        }
    }
}

/// The names of the clusters, the nearest to the gateway first: it is where the first one is.
fn nearest_first(addresses: &Value) -> Vec<String> {
    let clusters = addresses["clusters"].as_array().into_iter().flatten();
    let place = |cluster: &Value| {
        let text = |field: &str| cluster[field].as_str().map(str::to_owned);
        Some(Place {
            name: text("name")?,
            region: text("region")?,
            zone: text("zone")?,
            latitude: cluster["latitude"].as_f64()?,
            longitude: cluster["longitude"].as_f64()?,
        })
    };
    let mut places: Vec<Place> = clusters.filter_map(place).collect();
    if let Some(edge) = places.first().cloned() {
        places.sort_by_key(|place| edge.one_way_to(place));
    }
    places.into_iter().map(|place| place.name).collect()
}

/// The admin address that a folder has written down.
fn written(folder: &Path) -> Result<SocketAddr> {
    let path = folder.join("up.json");
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!("no limen up runs on {}: cannot read {}", folder.display(), path.display())
    })?;
    let read: Value = serde_json::from_str(&text)
        .with_context(|| format!("{} is not what limen up writes", path.display()))?;
    let admin = read["admin"].as_str().and_then(|admin| admin.parse().ok());
    admin.with_context(|| format!("{} names no admin address", path.display()))
}

pub(super) fn objects(client: Client, kind: &str) -> Api<DynamicObject> {
    let (group, version, plural) = match kind {
        "Deployment" => ("apps", "v1", "deployments"),
        "TrafficPolicy" => ("limen.dev", "v1alpha1", "trafficpolicies"),
        "PlacementPolicy" => ("limen.dev", "v1alpha1", "placementpolicies"),
        _ => ("limen.dev", "v1alpha1", "clusters"),
    };
    let kind_version = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&kind_version, plural);
    match kind {
        "Cluster" => Api::all_with(client, &resource),
        _ => Api::namespaced_with(client, "default", &resource),
    }
}
