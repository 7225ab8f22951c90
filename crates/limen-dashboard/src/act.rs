//! What a person does on the page. Each thing can be previewed, which changes nothing.

use http::StatusCode;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use limen_hub::{AskError, Drain};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Refusal, status_of};
use crate::serve::Play;

/// Take traffic away from a cluster.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DrainWish {
    cluster: String,
    #[serde(default)]
    over_seconds: u32,
    #[serde(default = "one")]
    keep: usize,
    #[serde(default)]
    preview: bool,
}

/// Give traffic back to a cluster.
#[derive(Deserialize)]
pub(crate) struct UndrainWish {
    cluster: String,
}

/// Make trouble for a member of a playground, or end it.
#[derive(Deserialize)]
pub(crate) struct PlayWish {
    cluster: String,
    what: String,
}

fn one() -> usize {
    1
}

pub(crate) async fn drain(client: &Client, wish: DrainWish) -> Result<Value, Refusal> {
    let options = Drain {
        cluster: wish.cluster,
        over_seconds: wish.over_seconds,
        keep: wish.keep,
        force: false,
        dry_run: wish.preview,
    };
    let drained = limen_hub::drain(client, &options).await?;
    Ok(json!({"backends": drained.backends}))
}

pub(crate) async fn undrain(client: &Client, wish: UndrainWish) -> Result<Value, Refusal> {
    limen_hub::undrain(client, &wish.cluster).await?;
    Ok(json!({}))
}

/// Who may change clusters may also play with them.
pub(crate) async fn play(
    client: &Client,
    play: Option<&Play>,
    wish: PlayWish,
) -> Result<Value, Refusal> {
    let Some(play) = play else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "these clusters are real; nothing is played",
        ));
    };
    if !may_change(client, "clusters").await? {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "you may not change clusters"));
    }
    match play(wish.cluster, wish.what).await {
        Ok(()) => Ok(json!({})),
        Err(message) => Err(Refusal::new(StatusCode::BAD_REQUEST, message)),
    }
}

/// Whether buttons that change such objects should be shown at all.
pub(crate) async fn may_change(client: &Client, resource: &str) -> Result<bool, Refusal> {
    let attributes = ResourceAttributes {
        group: Some("limen.dev".to_owned()),
        resource: Some(resource.to_owned()),
        verb: Some("patch".to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

impl From<AskError> for Refusal {
    fn from(error: AskError) -> Self {
        let status = match &error {
            AskError::Read { error, .. } | AskError::Write { error, .. } => status_of(error),
            AskError::NoCluster(..) | AskError::NoGateway(..) => StatusCode::NOT_FOUND,
            AskError::Refused(..) => StatusCode::CONFLICT,
        };
        match status {
            StatusCode::UNAUTHORIZED => Self::unknown(),
            StatusCode::BAD_GATEWAY => Self::new(status, format!("{error}; is the hub running?")),
            status => Self::new(status, error.to_string()),
        }
    }
}
