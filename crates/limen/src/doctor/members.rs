//! Looking at members, with the credential that the hub has for them.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use limen_api::{Cluster, FederatedType, Mode, NAMESPACE};
use limen_core::global::Verdict;
use limen_hub::{SecretData, member_client};

use super::facts::{Health, Member, Seen};
use super::look::{PATIENCE, reason, token_ends, version};

/// What the hub does with every federated kind: reading and writing.
const VERBS: [&str; 2] = ["watch", "patch"];

/// What is known of a member.
pub(super) async fn look(hub: &Client, cluster: Cluster, types: &[FederatedType]) -> Member {
    let status = cluster.status.clone().unwrap_or_default();
    let verdicts = status.verdicts.unwrap_or_default();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let unwritable = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Writable" && condition.status == "False");
    let seen = match cluster.spec.mode {
        Mode::Push => Some(see(hub, &cluster, types).await),
        // Reserved for an agent, for which the hub would have no credential.
        Mode::Pull => None,
    };
    Member {
        name: cluster.name_any(),
        api: health(verdicts.api.verdict),
        edge: health(verdicts.edge.verdict),
        endpoints: health(verdicts.endpoints.verdict),
        message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
        unwritable: unwritable.map(|condition| condition.message.clone()),
        drained: cluster.spec.drain,
        tombstones: status.tombstones.len(),
        missing_kinds: status.missing_kinds,
        seen,
    }
}

fn health(verdict: Verdict) -> Health {
    match verdict {
        Verdict::Unknown => Health::Unknown,
        Verdict::Healthy => Health::Healthy,
        Verdict::Unhealthy => Health::Unhealthy,
    }
}

async fn see(hub: &Client, cluster: &Cluster, types: &[FederatedType]) -> Result<Seen, String> {
    let data = credential(hub, cluster).await?;
    let client = member_client(cluster, data.as_ref()).await.map_err(|error| error.to_string())?;
    let (version, clock_ahead) = version(&client).await?;
    let token = data.as_ref().and_then(|data| data.get("token"));
    let token = token.and_then(|token| std::str::from_utf8(token).ok());
    let rights = tokio::time::timeout(4 * PATIENCE, lacking_rights(&client, types));
    let lacking_rights = rights.await.map_err(|_| "it does not say what the hub may".to_owned())?;
    Ok(Seen {
        version,
        clock_ahead,
        credential_ends: token.and_then(token_ends),
        lacking_rights: lacking_rights.map_err(|error| reason(&error))?,
    })
}

async fn credential(hub: &Client, cluster: &Cluster) -> Result<Option<SecretData>, String> {
    let Some(credentials) = &cluster.spec.credentials else { return Ok(None) };
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), NAMESPACE);
    let secret = secrets.get_opt(&credentials.name).await.map_err(|error| error.to_string())?;
    let data = secret.and_then(|secret| secret.data);
    Ok(data.map(|data| data.into_iter().map(|(key, value)| (key, value.0)).collect()))
}

async fn lacking_rights(client: &Client, types: &[FederatedType]) -> kube::Result<Vec<String>> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut lacking = Vec::new();
    for federated in types {
        let version = &federated.spec.api_version;
        let group = version.split_once('/').map_or("", |(group, _)| group);
        for verb in VERBS {
            let review = SelfSubjectAccessReview {
                spec: SelfSubjectAccessReviewSpec {
                    resource_attributes: Some(ResourceAttributes {
                        group: Some(group.to_owned()),
                        resource: Some(federated.spec.plural.clone()),
                        verb: Some(verb.to_owned()),
                        ..ResourceAttributes::default()
                    }),
                    ..SelfSubjectAccessReviewSpec::default()
                },
                ..SelfSubjectAccessReview::default()
            };
            let answer = reviews.create(&PostParams::default(), &review).await?;
            if !answer.status.is_some_and(|status| status.allowed) {
                let dot = if group.is_empty() { "" } else { "." };
                lacking.push(format!("{verb} {}{dot}{group}", federated.spec.plural));
            }
        }
    }
    Ok(lacking)
}
