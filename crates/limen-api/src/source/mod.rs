//! Where an edge (a gateway or a DNS server) gets the objects from that it obeys.

mod config;
mod disk;
mod hub;
mod listed;
mod objects;
mod within;

use std::future::Future;
use std::pin::Pin;

use tokio::sync::mpsc;

pub use config::{ConfigError, ConfigFiles, read_objects};
pub use hub::Hub;
pub use listed::{Listed, events, secret_data};
pub use objects::{Key, Objects, SecretData};
pub use within::Within;

/// What a source has to say.
pub enum News {
    /// Everything, as it is now.
    Objects(Objects),
    /// Why there is nothing new although there should be; what was there stays in force.
    Trouble(String),
}

/// Where objects come from. It runs in the control thread for as long as the edge does.
pub trait Source: Send + 'static {
    /// Sends everything whenever something has changed.
    fn run(self: Box<Self>, publish: mpsc::Sender<News>) -> Running;
}

/// A source at work.
pub type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
