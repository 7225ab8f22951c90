//! A member cluster: started, troubled, brought back, stopped.
//!
//! One task owns a member. What others hold is a handle that asks it for things and can see how it
//! is. A member that is killed loses everything but its store, as a cluster does whose machines
//! lose power: its API, its pods and its way in are gone until it is brought back.

mod body;
mod trouble;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kube::Client;
use limen_store::{RedbOptions, RedbStore, Store};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use self::body::Body;
pub use self::trouble::{Faults, Trouble};
use crate::controllers::{Pods, pod_state};
use crate::link::{Link, LinkBeginning, Weather};
use crate::pods::{Behaviour, PodState};
use crate::topology::Place;

/// How a member is run.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// What it is called and where it is.
    pub place: Place,
    /// Where its objects and certificates are; made if need be.
    pub folder: PathBuf,
    /// Which one it is; the second number of its loopback addresses comes from it.
    pub number: u8,
    /// Where its API is served, for people.
    pub api: SocketAddr,
    /// The port of its way in; 0 picks one.
    pub ingress_port: u16,
    /// How long a signal takes from clients to its way in.
    pub one_way: Duration,
}

/// Why a member could not be started.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// Its folder could not be made.
    #[error("cannot make the folder {} of cluster {name}: {error}", folder.display())]
    Folder {
        /// The member.
        name: String,
        /// The folder.
        folder: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Its store could not be opened.
    #[error("cannot open the store of cluster {name}: {error}")]
    Store {
        /// The member.
        name: String,
        /// Why not.
        error: Box<limen_store::Error>,
    },
    /// An address could not be taken.
    #[error("cannot listen on {address} for cluster {name}: {error}")]
    Listen {
        /// The member.
        name: String,
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// Its API did not start.
    #[error("the API of cluster {name} does not start: {error}")]
    Api {
        /// The member.
        name: String,
        /// Why not.
        error: limen_apiserver::StartError,
    },
    /// Its way in did not start.
    #[error("the ingress of cluster {name} does not start: {error}")]
    Ingress {
        /// The member.
        name: String,
        /// Why not.
        error: limen_gateway::StartError,
    },
    /// Its nodes could not be made.
    #[error("cannot set up cluster {name}: {error}")]
    Furnish {
        /// The member.
        name: String,
        /// Why not.
        error: kube::Error,
    },
    /// It has been stopped.
    #[error("cluster {0} has been stopped")]
    Stopped(String),
}

/// The loopback address of the way into the member with that number.
pub fn ingress_address(number: usize) -> Ipv4Addr {
    let number = u8::try_from(number).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, number.saturating_add(16), 0, 1)
}

/// The store of a member is small; these bounds are for all of its parts.
fn store_options() -> RedbOptions {
    RedbOptions { cache_bytes: 2 << 20, window_bytes: 1 << 20, delta_bytes: 256 << 10 }
}

enum Command {
    Make(Trouble, oneshot::Sender<Result<(), MemberError>>),
    Stop(oneshot::Sender<()>),
}

/// A running member. Dropping it ends it without ceremony.
pub struct Member {
    place: Place,
    kubeconfig: PathBuf,
    authority: PathBuf,
    client: Client,
    api_url: String,
    hub_address: SocketAddr,
    ingress_address: SocketAddr,
    commands: mpsc::Sender<Command>,
    faults: watch::Receiver<Faults>,
    pods: Pods,
    told: Arc<Notify>,
}

impl Member {
    /// Starts a member; its API answers and its nodes are there when this returns.
    pub async fn start(options: MemberOptions) -> Result<Self, MemberError> {
        let MemberOptions { place, folder, number, api, ingress_port, one_way } = options;
        let name = &place.name;
        std::fs::create_dir_all(&folder).map_err(|error| MemberError::Folder {
            name: name.clone(),
            folder: folder.clone(),
            error,
        })?;
        let store: Arc<dyn Store> = {
            let opened = RedbStore::open(folder.join("store.redb"), &store_options());
            Arc::new(opened.map_err(|error| MemberError::Store {
                name: name.clone(),
                error: Box::new(error),
            })?)
        };
        let ingress = ingress_address(number.into());
        let second = ingress.octets()[1];
        let begin = |address: SocketAddr| {
            LinkBeginning::at(address).map_err(|error| MemberError::Listen {
                name: name.clone(),
                address,
                error,
            })
        };
        let for_clients = begin((ingress, ingress_port).into())?;
        let for_hub = begin(([127, 0, 0, 1], 0).into())?;
        let ingress_address = for_clients.address();

        let (pods, told) = (Pods::default(), Arc::new(Notify::new()));
        let mut seed = body::Seed {
            place: place.clone(),
            folder,
            store,
            second,
            api,
            // Behind the link, where nobody but the link goes.
            ingress: ([127, 0, 0, 1], 0).into(),
            published: ingress_address,
            pods: pods.clone(),
            told: told.clone(),
        };
        let body = Body::start(&seed).await?;
        // When it is brought back it has to be where it was.
        (seed.api, seed.ingress) = (body.api_address(), body.ingress_address());
        let links = Links {
            clients: for_clients.lead(seed.ingress, Weather::Open(one_way)),
            hub: for_hub.lead(seed.api, Weather::Open(one_way)),
            one_way,
        };
        let hub_address = links.hub.address();
        let (commands, asked) = mpsc::channel(16);
        let (say, faults) = watch::channel(Faults::default());
        let (kubeconfig, authority) = (body.kubeconfig(), seed.folder.join("pki/ca.crt"));
        let (client, api_url) = (body.client(), format!("https://{}", body.api_address()));
        let keeper = Keeper { seed, body: Some(body), links, say };
        tokio::spawn(keeper.run(asked));
        Ok(Self {
            place,
            kubeconfig,
            authority,
            client,
            api_url,
            hub_address,
            ingress_address,
            commands,
            faults,
            pods,
            told,
        })
    }

    /// What it is called and where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The kubeconfig of its administrator.
    pub fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// The file with the authority of its API's certificate.
    pub fn authority(&self) -> &PathBuf {
        &self.authority
    }

    /// Where people reach its API.
    pub fn api_url(&self) -> &str {
        &self.api_url
    }

    /// A client for its API from within the process, good until it is killed.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where the hub reaches its API.
    pub fn hub_address(&self) -> SocketAddr {
        self.hub_address
    }

    /// Where clients reach its way in.
    pub fn ingress_address(&self) -> SocketAddr {
        self.ingress_address
    }

    /// What is wrong with it.
    pub fn faults(&self) -> Faults {
        *self.faults.borrow()
    }

    /// Makes trouble for it, or ends all trouble; that has happened when this returns.
    pub async fn trouble(&self, trouble: Trouble) -> Result<(), MemberError> {
        let (done, outcome) = oneshot::channel();
        let stopped = || MemberError::Stopped(self.place.name.clone());
        self.commands.send(Command::Make(trouble, done)).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }

    /// The pods that run, by namespace and name.
    pub fn pods(&self) -> Vec<((String, String), Arc<PodState>)> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.iter().map(|(key, state)| (key.clone(), state.clone())).collect()
    }

    /// Tells a pod to be different; whether there is such a pod.
    pub fn behave(&self, pod: &(String, String), behaviour: Behaviour) -> bool {
        let Some(state) = pod_state(&self.pods, pod) else { return false };
        state.behave(behaviour);
        self.told.notify_one();
        true
    }

    /// Ends it, and returns when nothing is going on any more.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        // If nobody takes it, it has ended already.
        if self.commands.send(Command::Stop(done)).await.is_ok() {
            let _ = stopped.await;
        }
    }
}

struct Links {
    clients: Link,
    hub: Link,
    one_way: Duration,
}

impl Links {
    fn set(&self, faults: &Faults) {
        let extra = Duration::from_millis(faults.slow_milliseconds.into());
        let weather = |cut: bool| match (faults.killed, faults.paused || cut) {
            (true, _) => Weather::Shut,
            (false, true) => Weather::Silent,
            (false, false) => Weather::Open(self.one_way + extra),
        };
        self.clients.set(weather(faults.cut_off_from_clients));
        self.hub.set(weather(faults.cut_off_from_hub));
    }
}

/// The task that owns a member.
struct Keeper {
    seed: body::Seed,
    body: Option<Body>,
    links: Links,
    say: watch::Sender<Faults>,
}

impl Keeper {
    async fn run(mut self, mut asked: mpsc::Receiver<Command>) {
        let mut stopped = None;
        while let Some(command) = asked.recv().await {
            match command {
                Command::Make(trouble, done) => {
                    let outcome = self.make(trouble).await;
                    // Whoever asked may have gone.
                    let _ = done.send(outcome);
                }
                Command::Stop(done) => {
                    stopped = Some(done);
                    break;
                }
            }
        }
        self.links.set(&Faults { killed: true, ..Faults::default() });
        if let Some(body) = self.body.take() {
            body.stop().await;
        }
        drop(self);
        if let Some(stopped) = stopped {
            let _ = stopped.send(());
        }
    }

    async fn make(&mut self, trouble: Trouble) -> Result<(), MemberError> {
        let faults = self.say.borrow().after(trouble);
        if faults.killed {
            self.links.set(&faults);
            if let Some(body) = self.body.take() {
                body.stop().await;
            }
        } else if self.body.is_none() {
            self.body = Some(Body::start(&self.seed).await?);
        }
        self.links.set(&faults);
        self.say.send_replace(faults);
        Ok(())
    }
}
