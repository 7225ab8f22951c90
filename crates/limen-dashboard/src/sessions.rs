//! Who has logged in, and the client that acts with their token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::{Client, Config};

/// So many people can be logged in; the one who was here longest ago makes room.
const MOST: usize = 256;
/// Who has done nothing for so long must log in again.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);

/// Who is looking.
#[derive(Clone)]
pub(crate) struct Viewer {
    /// As the hub knows them.
    pub(crate) name: Arc<str>,
    /// Acts with their token.
    pub(crate) client: Client,
}

struct Session {
    viewer: Viewer,
    seen: Instant,
}

/// Those who have logged in, by a secret that only their browser knows.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    /// Lets somebody in. The answer is the secret.
    pub(crate) fn enter(&self, viewer: Viewer, now: Instant) -> String {
        let secret = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MOST
            && let Some(oldest) =
                sessions.iter().min_by_key(|(_, session)| session.seen).map(|(id, _)| id.clone())
        {
            sessions.remove(&oldest);
        }
        sessions.insert(secret.clone(), Session { viewer, seen: now });
        secret
    }

    /// Who has this secret.
    pub(crate) fn find(&self, secret: &str, now: Instant) -> Option<Viewer> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get_mut(secret)?;
        if now.duration_since(session.seen) > IDLE {
            sessions.remove(secret);
            return None;
        }
        session.seen = now;
        Some(session.viewer.clone())
    }

    /// Forgets somebody.
    pub(crate) fn leave(&self, secret: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(secret);
    }
}

/// A client of the hub that has this token and nothing else.
pub(crate) fn client_of(hub: &Config, token: &str) -> kube::Result<Client> {
    let mut config = Config::new(hub.cluster_url.clone());
    config.root_cert.clone_from(&hub.root_cert);
    config.accept_invalid_certs = hub.accept_invalid_certs;
    config.tls_server_name.clone_from(&hub.tls_server_name);
    config.auth_info.token = Some(token.to_owned().into());
    Client::try_from(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let config = Config::new("https://127.0.0.1:1".parse().unwrap());
        client_of(&config, "t").unwrap()
    }

    fn viewer(name: &str, client: &Client) -> Viewer {
        Viewer { name: name.into(), client: client.clone() }
    }

    #[tokio::test]
    async fn a_secret_is_good_until_it_is_idle_or_left() {
        let (sessions, start, client) = (Sessions::default(), Instant::now(), client());
        let secret = sessions.enter(viewer("ann", &client), start);
        assert_eq!(secret.len(), 64);
        assert_eq!(&*sessions.find(&secret, start + IDLE).unwrap().name, "ann");
        assert!(sessions.find(&secret, start + IDLE * 2).is_some());
        assert!(sessions.find(&secret, start + IDLE * 4).is_none());
        let secret = sessions.enter(viewer("ann", &client), start);
        sessions.leave(&secret);
        assert!(sessions.find(&secret, start).is_none());
        assert!(sessions.find("", start).is_none());
    }

    #[tokio::test]
    async fn there_is_room_for_so_many() {
        let (sessions, start, client) = (Sessions::default(), Instant::now(), client());
        let first = sessions.enter(viewer("first", &client), start);
        for number in 0..MOST {
            sessions
                .enter(viewer("other", &client), start + Duration::from_secs(number as u64 + 1));
        }
        assert!(sessions.find(&first, start).is_none());
        assert_eq!(sessions.0.lock().unwrap().len(), MOST);
    }
}
