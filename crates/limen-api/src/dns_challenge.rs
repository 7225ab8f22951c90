//! `DnsChallenge`: what a certificate authority wants to find in DNS before it believes that a name
//! is ours. ACME clients write it through any DNS server, and all of them answer with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::NAMESPACE;

/// Texts that one name has at most; the oldest go.
const MOST_TEXTS: usize = 16;
/// How often a write is tried when others write the same object.
const TRIES: usize = 5;

/// The answers to challenges for one name.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "DnsChallenge",
    plural = "dnschallenges",
    namespaced
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsChallengeSpec {
    /// The name that is asked for, such as `_acme-challenge.shop.example.com`.
    pub name: String,
    /// The texts that are answered, oldest first.
    #[serde(default)]
    pub texts: Vec<String>,
}

/// A part of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChallengeChange {
    /// A text comes.
    Add(String),
    /// A text goes.
    Remove(String),
    /// All texts go.
    Clear,
}

/// Changes to be written, each with the name it is for, and who waits for that.
pub struct ChallengeWrite {
    /// What is to be changed.
    pub changes: Vec<(String, ChallengeChange)>,
    /// Is told when it is written, or why it is not.
    pub done: oneshot::Sender<Result<(), String>>,
}

impl DnsChallengeSpec {
    /// Takes in a change.
    pub fn change(&mut self, change: &ChallengeChange) {
        match change {
            ChallengeChange::Clear => self.texts.clear(),
            ChallengeChange::Remove(text) => self.texts.retain(|known| known != text),
            ChallengeChange::Add(text) => {
                self.texts.retain(|known| known != text);
                self.texts.push(text.clone());
                let too_many = self.texts.len().saturating_sub(MOST_TEXTS);
                self.texts.drain(..too_many);
            }
        }
    }
}

/// Writes changes to the hub, one after the other, for as long as there may be more.
pub async fn write_challenges(client: Client, mut writes: mpsc::Receiver<ChallengeWrite>) {
    let api: Api<DnsChallenge> = Api::namespaced(client, NAMESPACE);
    while let Some(ChallengeWrite { changes, done }) = writes.recv().await {
        let mut outcome = Ok(());
        for (name, change) in &changes {
            outcome = write(&api, name, change).await.map_err(|error| error.to_string());
            if outcome.is_err() {
                break;
            }
        }
        // Who asked may have gone.
        let _ = done.send(outcome);
    }
}

async fn write(
    api: &Api<DnsChallenge>,
    name: &str,
    change: &ChallengeChange,
) -> Result<(), kube::Error> {
    let object = name.trim_start_matches('_');
    let mut tries = 0;
    loop {
        tries += 1;
        match attempt(api, object, name, change).await {
            Err(kube::Error::Api(status)) if status.code == 409 && tries < TRIES => {}
            outcome => return outcome,
        }
    }
}

/// One attempt; a conflict says that somebody else has written meanwhile.
async fn attempt(
    api: &Api<DnsChallenge>,
    object: &str,
    name: &str,
    change: &ChallengeChange,
) -> Result<(), kube::Error> {
    let found = api.get_opt(object).await?;
    let is_new = found.is_none();
    let mut challenge = found.unwrap_or_else(|| {
        let spec = DnsChallengeSpec { name: name.to_owned(), texts: Vec::new() };
        let metadata = ObjectMeta { name: Some(object.to_owned()), ..ObjectMeta::default() };
        DnsChallenge { metadata, spec }
    });
    let before = challenge.spec.clone();
    challenge.spec.change(change);
    match (challenge.spec.texts.is_empty(), is_new) {
        (true, true) => Ok(()),
        (true, false) => {
            let preconditions = Preconditions {
                resource_version: challenge.metadata.resource_version.clone(),
                uid: challenge.metadata.uid.clone(),
            };
            let how = DeleteParams::default().preconditions(preconditions);
            match api.delete(object, &how).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                outcome => outcome.map(drop),
            }
        }
        (false, true) => api.create(&PostParams::default(), &challenge).await.map(drop),
        (false, false) if challenge.spec == before => Ok(()),
        (false, false) => api.replace(object, &PostParams::default(), &challenge).await.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_and_go_and_never_pile_up() {
        let mut spec = DnsChallengeSpec::default();
        let add = |text: &str| ChallengeChange::Add(text.to_owned());
        spec.change(&add("one"));
        spec.change(&add("two"));
        spec.change(&add("one"));
        assert_eq!(spec.texts, ["two", "one"], "a wildcard and its host have one each");
        spec.change(&ChallengeChange::Remove("two".to_owned()));
        assert_eq!(spec.texts, ["one"]);
        for number in 0..100 {
            spec.change(&add(&number.to_string()));
        }
        assert_eq!(spec.texts.len(), MOST_TEXTS);
        assert_eq!(spec.texts.last().map(String::as_str), Some("99"));
        spec.change(&ChallengeChange::Clear);
        assert!(spec.texts.is_empty());
    }
}
