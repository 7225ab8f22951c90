//! A dashboard before a real hub API, as browsers use it.

mod answer;
mod bed;
mod crowd;
mod rights;
mod sharing;
mod tls;
