//! The page that shows a federation: where traffic goes, and why.
//!
//! ```text
//!   browser ── log in with a token ──► Sessions ──► a client of the hub with that token
//!      ▲                                                     │ list and watch
//!      └────────── server-sent events ◄── View ◄─────────────┘
//! ```
//!
//! The dashboard has no rights of its own. Whatever it reads or does, it does with the token, or
//! the certificate, of the person who looks, so that the hub's own RBAC says what they see and may
//! do. What is shown is a [`View`], a pure function of the objects; the page draws it and keeps
//! nothing.

mod act;
mod answer;
mod assets;
mod clients;
mod crowd;
mod explain;
mod fronts;
mod leaves;
mod live;
mod patient;
mod requests;
mod serve;
mod sessions;
mod share;
mod timeline;
mod tls;
mod traffic;
mod view;

pub use serve::{Dashboard, DashboardOptions, Play};
pub use tls::{CertificateFiles, Recognise, Recognised, Tls};
pub use view::{Objects, View};
