//! Where objects come from.

mod config;
mod disk;
mod hub;
mod listed;
mod meet;
mod member;
mod within;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use limen_core::edge::Peer;
use tokio::sync::{mpsc, watch};

use crate::edges::OwnEdge;
use crate::objects::Objects;
pub use config::{ConfigError, ConfigFiles, read_objects};
pub use hub::Hub;
pub use member::Member;
pub use within::Within;

/// What a source has to say.
pub enum News {
    /// Everything, as it is now.
    Objects(Objects),
    /// All edges that there are, by name; this one may be among them.
    Edges(BTreeMap<String, Peer>),
    /// Why there is nothing new although there should be; what was there stays in force.
    Trouble(String),
}

/// Where objects come from. It runs in the control thread for as long as the gateway does.
pub trait Source: Send + 'static {
    /// Sends everything whenever something has changed. A source that other edges can be met
    /// through also tells them of this one.
    fn run(self: Box<Self>, publish: mpsc::Sender<News>, own: watch::Receiver<OwnEdge>) -> Running;
}

/// A source at work.
pub type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
