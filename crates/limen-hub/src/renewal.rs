//! Credentials that expire: when they do, and how a new one is had.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use limen_api::NAMESPACE;
use limen_core::credential::Validity;
use limen_core::federated::ObjectId;
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use crate::connect::SecretData;
use crate::join::{ACCOUNT, TOKEN_SECONDS};

/// From when to when the token of a Secret is good, if it is one that `limen join` made.
pub(crate) fn validity(secret: &SecretData) -> Option<Validity> {
    let token = std::str::from_utf8(secret.get("token")?).ok()?;
    let claims = token.trim().split('.').nth(1)?;
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    if claims["sub"] != format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}") {
        return None;
    }
    Some(Validity { issued: claims["iat"].as_i64()?, expires: claims["exp"].as_i64()? })
}

/// A new token for the hub's account in a member.
pub(crate) async fn new_token(member: &Client) -> kube::Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(member.clone(), NAMESPACE);
    let request: TokenRequest = serde_json::from_value(json!({
        "metadata": {}, "spec": {"audiences": [], "expirationSeconds": TOKEN_SECONDS}}))
    .unwrap_or_default();
    let token = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await?;
    Ok(token.status.and_then(|status| status.token).unwrap_or_default())
}

/// Puts a new token in the place of the old one, or says why that cannot be.
pub(crate) async fn renew(hub: &ObjectApi, member: &Client, secret: &str) -> Result<(), String> {
    let token = new_token(member).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 403 => {
            "the hub's account there may not make tokens for itself; run limen join again"
                .to_owned()
        }
        error => error.to_string(),
    })?;
    if token.is_empty() {
        return Err("the cluster gave no token".to_owned());
    }
    let id = ObjectId {
        kind: limen_api::kind(("v1", "Secret", "secrets", true)),
        namespace: Some(NAMESPACE.to_owned()),
        name: secret.to_owned(),
    };
    let patch = json!({"data": {"token": BASE64_STANDARD.encode(token)}});
    let stored = hub.merge(&id, "", &patch).await;
    stored.map(drop).map_err(|error| format!("the Secret {secret} cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(claims: &Value) -> SecretData {
        let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
        [("token".to_owned(), format!("e30.{claims}.sig\n").into_bytes())].into()
    }

    #[test]
    fn tokens_of_the_hubs_account_say_how_long_they_last() {
        let ours = "system:serviceaccount:limen-system:limen-hub";
        let expected = Validity { issued: 10, expires: 20 };
        let found = validity(&secret(&json!({"sub": ours, "iat": 10, "exp": 20})));
        assert_eq!(found, Some(expected));
        for other in [json!({"sub": "ann", "iat": 10, "exp": 20}), json!({"sub": ours})] {
            assert_eq!(validity(&secret(&other)), None, "{other}");
        }
        let opaque: SecretData = [("token".to_owned(), b"opaque".to_vec())].into();
        assert_eq!(validity(&opaque), None);
        assert_eq!(validity(&SecretData::new()), None);
    }
}
