//! Real counterparts for tests: etcd and a Kubernetes control plane, started as
//! child processes on free loopback ports and gone when the test is.
//!
//! ```text
//!  ControlPlane ─┬─ kube-controller-manager   (on request)
//!                ├─ kube-apiserver ──TLS──┐
//!                └─ Etcd ◄────────────────┘   (also on its own)
//!
//!  each of them is:   Server    what to run, when it is ready, its log
//!                       └ Guarded   the process and the watchdog beside it
//! ```
//!
//! Every start makes its own certificates, folder and ports, so tests run side
//! by side and never meet. Nothing is mocked, shared or kept: what a test sees
//! is what it would see in a cluster without nodes.
//!
//! [`ApiServer`] is Limen's own, in the process of the test (feature `limen`).
//!
//! A [`Network`] gives a test addresses of its own, for what plays the pods of a cluster.
//!
//! A [`Detour`] is a way to a server on which answers can be made late.
//!
//! A test that asks for a control plane must get one. When the binaries are not
//! there, starting fails with the way to get them; it never skips.
//!
//! ```no_run
//! # async fn example() -> Result<(), limen_testbed::Error> {
//! let cluster = limen_testbed::ControlPlane::builder().with_controller_manager().start().await?;
//! let listed = cluster.kubectl().args(["get", "namespaces"]).output().await;
//! # Ok(()) }
//! ```

mod apiserver;
mod assets;
mod certificates;
mod control_plane;
mod controller_manager;
mod detour;
mod error;
mod etcd;
mod folder;
mod kubeconfig;
mod kubectl;
#[cfg(feature = "limen")]
mod limen;
mod network;
mod ports;
mod probe;
mod server;
mod watchdog;

pub use assets::kubectl_binary;
pub use certificates::ClientTls;
pub use control_plane::{ControlPlane, ControlPlaneBuilder};
pub use detour::{Detour, Lag};
pub use error::Error;
pub use etcd::{Etcd, EtcdBuilder};
#[cfg(feature = "limen")]
pub use limen::{ApiServer, config_of};
pub use network::Network;
