//! Tokens of the hub's accounts in members: their expiry and renewal.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use limen_api::NAMESPACE;
use limen_core::credential::Validity;
use limen_core::federated::ObjectId;
use limen_core::membership::AccountName;
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use crate::connect::SecretData;

/// Requested lifetime of a token.
const TOKEN_SECONDS: i64 = 365 * 24 * 3600;

/// Validity of a Secret's token, if it belongs to an account that `limen join` makes.
pub(crate) fn validity(secret: &SecretData) -> Option<Validity> {
    let claims = claims(secret.get("token")?)?;
    account_in(&claims)?;
    Some(Validity { issued: claims["iat"].as_i64()?, expires: claims["exp"].as_i64()? })
}

/// The account that a token belongs to, if it is one that `limen join` makes.
pub(crate) fn account_of(token: &[u8]) -> Option<AccountName> {
    account_in(&claims(token)?)
}

fn account_in(claims: &Value) -> Option<AccountName> {
    AccountName::of_subject(claims["sub"].as_str()?, NAMESPACE)
}

fn claims(token: &[u8]) -> Option<Value> {
    let claims = std::str::from_utf8(token).ok()?.trim().split('.').nth(1)?;
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

/// A new token for the hub's account in a member.
pub(crate) async fn new_token(member: &Client, account: &AccountName) -> kube::Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(member.clone(), NAMESPACE);
    let request: TokenRequest = serde_json::from_value(json!({
        "metadata": {}, "spec": {"audiences": [], "expirationSeconds": TOKEN_SECONDS}}))
    .unwrap_or_default();
    let how = PostParams::default();
    let token = accounts.create_token_request(account.as_str(), &how, &request).await?;
    Ok(token.status.and_then(|status| status.token).unwrap_or_default())
}

/// Replaces the token of a Secret by a new one for the same account: an account may make tokens for
/// itself only.
pub(crate) async fn renew(hub: &ObjectApi, member: &Client, secret: &str) -> Result<(), String> {
    let id = ObjectId {
        kind: limen_api::kind(("v1", "Secret", "secrets", true)),
        namespace: Some(NAMESPACE.to_owned()),
        name: secret.to_owned(),
    };
    let stored = hub.get(&id).await;
    let stored = stored.map_err(|error| format!("cannot read the Secret {secret}: {error}"))?;
    let stored = stored.ok_or_else(|| format!("there is no Secret {secret}"))?;
    let old = stored["data"]["token"].as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
    let account = old.and_then(|token| account_of(&token)).ok_or_else(|| {
        format!("the Secret {secret} has no token of an account that limen join makes")
    })?;
    let token = new_token(member, &account).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 403 => {
            "the hub's account there may not make tokens for itself; run limen join again"
                .to_owned()
        }
        error => error.to_string(),
    })?;
    if token.is_empty() {
        return Err("the cluster gave no token".to_owned());
    }
    // A join that has stored another credential meanwhile wins.
    let patch = json!({"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
        "data": {"token": BASE64_STANDARD.encode(token)}});
    let stored = hub.merge(&id, "", &patch).await;
    stored.map(drop).map_err(|error| format!("cannot write the Secret {secret}: {error}"))
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
        let named = format!("{ours}-1b2c3d4e");
        let expected = Validity { issued: 10, expires: 20 };
        for ours in [ours, &named] {
            let found = validity(&secret(&json!({"sub": ours, "iat": 10, "exp": 20})));
            assert_eq!(found, Some(expected), "{ours}");
        }
        for other in [json!({"sub": "ann", "iat": 10, "exp": 20}), json!({"sub": ours})] {
            assert_eq!(validity(&secret(&other)), None, "{other}");
        }
        let opaque: SecretData = [("token".to_owned(), b"opaque".to_vec())].into();
        assert_eq!(validity(&opaque), None);
        assert_eq!(validity(&SecretData::new()), None);
    }
}
