//! Who has logged in, and the client that acts with what they logged in with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::config::{AuthInfo, Kubeconfig};
use kube::{Client, Config};
use limen_api::unreadable_kubeconfig;
use tokio::sync::watch;

/// So many people can be logged in; the one who was here longest ago makes room.
const MOST: usize = 256;
/// Who has done nothing for so long must log in again.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);

/// Who is looking.
#[derive(Clone)]
pub(crate) struct Viewer {
    /// As the hub knows them.
    pub(crate) name: Arc<str>,
    /// Acts with their token or certificate.
    pub(crate) client: Client,
    /// When their certificate ends, in seconds since 1970. Tokens the hub looks at itself.
    pub(crate) until: Option<i64>,
}

impl Viewer {
    /// Whether the time of their certificate is over.
    pub(crate) fn ended(&self, now: i64) -> bool {
        self.until.is_some_and(|until| until < now)
    }
}

struct Session {
    viewer: Viewer,
    seen: Instant,
    /// Gone with the session, which is how its streams hear of its end.
    here: watch::Sender<()>,
}

/// Lasts for as long as somebody is logged in.
pub(crate) struct Stay(watch::Receiver<()>);

impl Stay {
    /// Returns when they have logged out, or been forgotten.
    pub(crate) async fn over(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
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
        sessions
            .insert(secret.clone(), Session { viewer, seen: now, here: watch::Sender::new(()) });
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

    /// How long whoever has this secret is logged in.
    pub(crate) fn stay(&self, secret: &str) -> Option<Stay> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(secret).map(|session| Stay(session.here.subscribe()))
    }

    /// Forgets somebody.
    pub(crate) fn leave(&self, secret: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(secret);
    }
}

/// What somebody logs in with.
#[derive(Debug)]
pub(crate) struct Credential(AuthInfo);

impl Credential {
    pub(crate) fn token(token: &str) -> Result<Self, String> {
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("this is no token; `kubectl create token NAME` makes one".to_owned());
        }
        Ok(Self(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() }))
    }

    /// The certificate and key, or the token, of the user of the current context. The text
    /// comes from a browser, so that no file is read and no command is run that it may name.
    pub(crate) fn kubeconfig(text: &str) -> Result<Self, String> {
        let read = Kubeconfig::from_yaml(text)
            .map_err(|error| format!("this is no kubeconfig: {}", unreadable_kubeconfig(&error)))?;
        let current = read.current_context.unwrap_or_default();
        let context = read.contexts.into_iter().find(|context| context.name == current);
        let user = context.and_then(|context| context.context?.user);
        let user = user.ok_or_else(|| format!("it has no user for the context {current:?}"))?;
        let found = read.auth_infos.into_iter().find(|info| info.name == user);
        let found = found.and_then(|info| info.auth_info).unwrap_or_default();
        let info = AuthInfo {
            token: found.token,
            client_certificate_data: found.client_certificate_data,
            client_key_data: found.client_key_data,
            ..AuthInfo::default()
        };
        let certificate = info.client_certificate_data.is_some() && info.client_key_data.is_some();
        if !certificate && info.token.is_none() {
            return Err(format!(
                "the user {user} has no certificate, key or token in it; kubectl config view --flatten --minify prints one that has"
            ));
        }
        Ok(Self(info))
    }
}

/// A client of the hub that has this credential and nothing else.
pub(crate) fn client_of(hub: &Config, credential: Credential) -> kube::Result<Client> {
    let mut config = Config::new(hub.cluster_url.clone());
    config.root_cert.clone_from(&hub.root_cert);
    config.accept_invalid_certs = hub.accept_invalid_certs;
    config.tls_server_name.clone_from(&hub.tls_server_name);
    config.auth_info = credential.0;
    Client::try_from(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let config = Config::new("https://127.0.0.1:1".parse().unwrap());
        client_of(&config, Credential::token("t").unwrap()).unwrap()
    }

    fn viewer(name: &str, client: &Client) -> Viewer {
        Viewer { name: name.into(), client: client.clone(), until: None }
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

    #[test]
    fn a_kubeconfig_says_who_somebody_is_only_by_itself() {
        let with = |user: &str| {
            format!(
                "{{apiVersion: v1, kind: Config, current-context: c, clusters: [], \
                 contexts: [{{name: c, context: {{cluster: k, user: u}}}}], \
                 users: [{{name: u, user: {user}}}]}}"
            )
        };
        let taken = Credential::kubeconfig(&with("{token: t, username: eve}")).unwrap().0;
        assert!(taken.token.is_some() && taken.username.is_none());
        let pair = "{client-certificate-data: QQ==, client-key-data: Qg==}";
        assert!(Credential::kubeconfig(&with(pair)).unwrap().0.client_key_data.is_some());
        for (text, reason) in [
            (
                with("{exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}}"),
                "--flatten",
            ),
            (with("{client-certificate: /etc/a, client-key: /etc/b}"), "--flatten"),
            (with("{tokenFile: /etc/passwd}"), "--flatten"),
            (with("{}").replace("current-context: c", "current-context: d"), "context \"d\""),
            ("[1, 2]".to_owned(), "this is no kubeconfig"),
        ] {
            let refused = Credential::kubeconfig(&text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        assert!(Credential::token(" ").is_err());
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
