//! Where an edge (a gateway or a DNS server) gets the objects from that it obeys.

mod absence;
mod config;
mod disk;
mod hub;
mod keeper;
mod listed;
mod meet;
mod objects;
mod within;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use limen_core::edge::{EdgeReport, Peer};
use limen_core::locality::Locality;
use tokio::sync::{mpsc, watch};

pub use absence::Absence;
pub use config::{ConfigError, ConfigFiles, read_objects};
pub use hub::Hub;
pub use listed::{Listed, events, is_answer, secret_data};
pub use objects::{Key, Objects, Origin, SecretData};
pub use within::Within;

/// What a source has to say.
pub enum News {
    /// Everything, as it is now.
    Objects(Objects),
    /// All edges that there are, by name; this one may be among them.
    Edges(BTreeMap<String, Peer>),
    /// Why there is nothing new although there should be; what was there stays in force.
    Trouble(String),
    /// The last objects could not be kept on disk, so that a restart needs the hub. Why, if that
    /// was not said just before.
    NotKept(Option<String>),
}

/// Where objects come from. It runs in the control thread for as long as the edge does.
pub trait Source: Send + 'static {
    /// Sends everything whenever something has changed. A source that other edges can be met
    /// through also tells them of this one.
    fn run(self: Box<Self>, publish: mpsc::Sender<News>, own: watch::Receiver<OwnEdge>) -> Running;
}

/// What an edge says of itself.
#[derive(Clone, Debug, Default)]
pub struct OwnEdge {
    /// What it is called.
    pub name: String,
    /// Names and addresses that clients reach it at.
    pub addresses: Vec<String>,
    /// TCP ports that it takes connections of clients at.
    pub ports: Vec<u16>,
    /// Where it is.
    pub locality: Locality,
    /// What it reports; nothing until it has something to report.
    pub report: Option<Arc<EdgeReport>>,
}

/// A source at work.
pub type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
