//! Service account tokens: made by this server, for this server and whoever trusts its key.
//!
//! A token names the account it stands for and may be bound to another object; it is good as
//! long as its time has not passed and these objects, with the same UIDs, are still there. The
//! first is decided here, the second by whoever has the objects: [`VerifiedToken::references`]
//! says what to look for, [`VerifiedToken::confirm`] takes the answer.

use std::fmt;

use serde_json::{Map, Value, json};

use super::identity::{CREDENTIAL_ID, Identity, service_account_username};
use super::jwt::{Parsed, SigningKey, SigningKeyError};
use super::remembered::Remembered;

/// How far clocks may be apart.
const LEEWAY_SECONDS: i64 = 60;

/// Makes and checks tokens.
#[derive(Debug)]
pub(crate) struct TokenIssuer {
    key: SigningKey,
    issuer: String,
    audiences: Vec<String>,
    /// Tokens whose signature is good.
    signed: Remembered,
}

/// What a new token is to say.
#[derive(Clone, Debug)]
pub(crate) struct TokenGrant<'a> {
    /// The namespace of the account, and of what the token is bound to.
    pub namespace: &'a str,
    /// The name of the account.
    pub name: &'a str,
    /// The UID of the account.
    pub uid: &'a str,
    /// For whom the token is.
    pub audiences: &'a [String],
    /// The kind, name and UID of the object that the token lives and dies with.
    pub bound: Option<(&'a str, &'a str, &'a str)>,
    /// From when the token is good, in Unix seconds.
    pub now: i64,
    /// For how long it is.
    pub seconds: i64,
    /// A UUID that tells this token from all others.
    pub id: &'a str,
}

/// An object that must still be there for a token to be good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// `ServiceAccount`, `Pod`, `Secret` or `Node`.
    pub kind: &'static str,
    /// The namespace; empty for a node.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID that the token was made for.
    pub uid: String,
}

/// Why a token is not good. Never holds the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenRefusal {
    /// No authenticator knows it.
    #[error("invalid bearer token")]
    Unknown,
    /// It is one of ours, or says so, and something is wrong with it.
    #[error("[invalid bearer token, {0}]")]
    Refused(String),
}

/// A token with a good signature, at the right time, for the right audience.
pub(crate) struct VerifiedToken {
    identity: Identity,
    audiences: Vec<String>,
    references: Vec<Reference>,
}

impl TokenIssuer {
    /// An issuer with this URL, whose own tokens are for these audiences.
    pub(crate) fn new(key: SigningKey, issuer: &str, audiences: Vec<String>) -> Self {
        Self { key, issuer: issuer.to_owned(), audiences, signed: Remembered::default() }
    }

    /// The audiences of this server.
    pub(crate) fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The key set that others check tokens with.
    pub(crate) fn key_set(&self) -> Value {
        json!({"keys": [self.key.public_jwk()]})
    }

    /// The document that tells others where to find the key set, which is at `keys_url`.
    pub(crate) fn discovery(&self, keys_url: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": keys_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// Makes a token.
    pub(crate) fn issue(&self, grant: &TokenGrant<'_>) -> Result<String, SigningKeyError> {
        let mut kubernetes = json!({
            "namespace": grant.namespace,
            "serviceaccount": {"name": grant.name, "uid": grant.uid},
        });
        if let Some((kind, name, uid)) = grant.bound {
            kubernetes[kind.to_lowercase()] = json!({"name": name, "uid": uid});
        }
        self.key.sign(&json!({
            "aud": grant.audiences,
            "exp": grant.now.saturating_add(grant.seconds),
            "iat": grant.now,
            "iss": self.issuer,
            "jti": grant.id,
            "kubernetes.io": kubernetes,
            "nbf": grant.now,
            "sub": service_account_username(grant.namespace, grant.name),
        }))
    }

    /// Checks everything about a token that can be known without looking at other objects.
    /// `audiences` are those that it may be for; `now` is in Unix seconds.
    pub(crate) fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Result<VerifiedToken, TokenRefusal> {
        let parsed = Parsed::new(token).ok_or(TokenRefusal::Unknown)?;
        if parsed.claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(TokenRefusal::Unknown);
        }
        if parsed.is_of_another_key(&self.key) {
            return Err(refused("invalid signature, no keys found"));
        }
        if !self.signed.or_if(token, || self.key.signed(&parsed)) {
            return Err(refused("go-jose/go-jose: error in cryptographic primitive"));
        }
        let claims = Claims(&parsed.claims);
        let meant_for = claims.audiences().ok_or_else(malformed)?;
        let shared: Vec<String> =
            meant_for.iter().filter(|audience| audiences.contains(audience)).cloned().collect();
        if shared.is_empty() {
            return Err(refused(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(&meant_for),
                quoted(audiences)
            )));
        }
        claims.check_time(now)?;
        let (identity, references) = claims.account().ok_or_else(malformed)?;
        Ok(VerifiedToken { identity, audiences: shared, references })
    }
}

impl VerifiedToken {
    /// What must still be there.
    pub(crate) fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The audiences that the token and the question have in common.
    pub(crate) fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The user, if everything is still there. `uid_of` gives the UID of the object of that
    /// kind, namespace and name, and `None` if there is none or it is being deleted for over a
    /// minute.
    pub(crate) fn confirm(
        self,
        uid_of: impl Fn(&Reference) -> Option<String>,
    ) -> Result<Identity, TokenRefusal> {
        for reference in &self.references {
            let Reference { kind, name, uid, .. } = reference;
            let found = uid_of(reference);
            match (found, *kind) {
                (Some(found), _) if found == *uid => {}
                (Some(found), "ServiceAccount") => {
                    return Err(refused(format!(
                        "service account UID ({found}) does not match claim ({uid})"
                    )));
                }
                (Some(found), kind) => {
                    let lower = kind.to_lowercase();
                    return Err(refused(format!(
                        "{lower} UID ({found}) does not match service account {lower} ref claim ({uid})"
                    )));
                }
                (None, "ServiceAccount") => {
                    return Err(refused(format!("serviceaccounts {name:?} not found")));
                }
                (None, _) => return Err(refused("service account token has been invalidated")),
            }
        }
        Ok(self.identity)
    }
}

impl fmt::Debug for VerifiedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedToken").field("identity", &self.identity).finish_non_exhaustive()
    }
}

fn refused(why: impl Into<String>) -> TokenRefusal {
    TokenRefusal::Refused(why.into())
}

fn malformed() -> TokenRefusal {
    refused("service account token claims could not be validated")
}

fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

/// Claims with a good signature. They were made here, but maybe by another version.
struct Claims<'a>(&'a Map<String, Value>);

impl Claims<'_> {
    fn audiences(&self) -> Option<Vec<String>> {
        match self.0.get("aud")? {
            Value::String(one) => Some(vec![one.clone()]),
            Value::Array(many) => many.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
            _ => None,
        }
    }

    fn check_time(&self, now: i64) -> Result<(), TokenRefusal> {
        let seconds = |claim| self.0.get(claim).and_then(Value::as_i64).ok_or_else(malformed);
        let (exp, nbf, iat) = (seconds("exp")?, seconds("nbf")?, seconds("iat")?);
        if now.saturating_add(LEEWAY_SECONDS) < nbf {
            return Err(refused("service account token is not valid yet"));
        }
        if now.saturating_sub(LEEWAY_SECONDS) > exp {
            return Err(refused("service account token has expired"));
        }
        if now.saturating_add(LEEWAY_SECONDS) < iat {
            return Err(refused("service account token is issued in the future"));
        }
        Ok(())
    }

    fn account(&self) -> Option<(Identity, Vec<Reference>)> {
        let kubernetes = self.0.get("kubernetes.io")?;
        let namespace = kubernetes.get("namespace")?.as_str()?;
        let reference = |kind: &'static str, namespace: &str| {
            let claim = kubernetes.get(kind.to_lowercase())?;
            Some(Reference {
                kind,
                namespace: namespace.to_owned(),
                name: claim.get("name")?.as_str()?.to_owned(),
                uid: claim.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned(),
            })
        };
        let account = reference("ServiceAccount", namespace)?;
        let mut identity = Identity::service_account(namespace, &account.name).authenticated();
        if self.0.get("sub")?.as_str()? != identity.name {
            return None;
        }
        identity.uid.clone_from(&account.uid);
        let mut extra = |key: &str, value: &str| {
            if !value.is_empty() {
                identity.extra.insert(key.to_owned(), vec![value.to_owned()]);
            }
        };
        let (secret, pod, node) =
            (reference("Secret", namespace), reference("Pod", namespace), reference("Node", ""));
        if let Some(pod) = &pod {
            extra("authentication.kubernetes.io/pod-name", &pod.name);
            extra("authentication.kubernetes.io/pod-uid", &pod.uid);
        }
        if let Some(node) = &node {
            extra("authentication.kubernetes.io/node-name", &node.name);
            extra("authentication.kubernetes.io/node-uid", &node.uid);
        }
        if let Some(id) = self.0.get("jti").and_then(Value::as_str) {
            extra(CREDENTIAL_ID, &format!("JTI={id}"));
        }
        // The node of a pod-bound token is only told, not depended on: the pod is.
        let node = if pod.is_some() { None } else { node };
        let references = [Some(account), secret, pod, node].into_iter().flatten().collect();
        Some((identity, references))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::auth::jwt::test_key;

    const ISSUER: &str = "https://kubernetes.default.svc";
    const NOW: i64 = 1_800_000_000;

    fn issuer() -> TokenIssuer {
        TokenIssuer::new(test_key(), ISSUER, vec![ISSUER.to_owned()])
    }

    fn grant(audiences: &[String]) -> TokenGrant<'_> {
        TokenGrant {
            namespace: "ns",
            name: "bot",
            uid: "u-1",
            audiences,
            bound: None,
            now: NOW,
            seconds: 600,
            id: "j-1",
        }
    }

    fn verify(issuer: &TokenIssuer, token: &str, now: i64) -> Result<VerifiedToken, TokenRefusal> {
        issuer.verify(token, issuer.audiences(), now)
    }

    #[test]
    fn a_token_stands_for_its_account() {
        let issuer = issuer();
        let token = issuer.issue(&grant(issuer.audiences())).unwrap();
        let verified = verify(&issuer, &token, NOW).unwrap();
        assert_eq!(verified.audiences(), issuer.audiences());
        assert!(!format!("{verified:?}").contains(&token));
        let identity = verified.confirm(|account| Some(account.uid.clone())).unwrap();
        assert_eq!(
            identity.user_info(),
            json!({
                "username": "system:serviceaccount:ns:bot",
                "uid": "u-1",
                "groups": [
                    "system:serviceaccounts",
                    "system:serviceaccounts:ns",
                    "system:authenticated",
                ],
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=j-1"]},
            })
        );
    }

    #[test]
    fn a_token_is_good_at_its_time_only() {
        let issuer = issuer();
        let token = issuer.issue(&grant(issuer.audiences())).unwrap();
        let refusal = |now| verify(&issuer, &token, now).err().map(|refusal| refusal.to_string());
        assert_eq!(refusal(NOW - 60), None);
        assert_eq!(refusal(NOW + 660), None);
        assert_eq!(
            refusal(NOW - 61).unwrap(),
            "[invalid bearer token, service account token is not valid yet]"
        );
        assert_eq!(
            refusal(NOW + 661).unwrap(),
            "[invalid bearer token, service account token has expired]"
        );
    }

    #[test]
    fn a_token_for_others_is_refused() {
        let issuer = issuer();
        let token = issuer.issue(&grant(issuer.audiences())).unwrap();
        let refusal = issuer.verify(&token, &["x".to_owned()], NOW).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "[invalid bearer token, token audiences [\"https://kubernetes.default.svc\"] is invalid for the target audiences [\"x\"]]"
        );
    }

    #[test]
    fn a_token_dies_with_what_it_depends_on() {
        let issuer = issuer();
        let mut bound = grant(issuer.audiences());
        bound.bound = Some(("Secret", "s", "u-2"));
        let token = issuer.issue(&bound).unwrap();
        type There = &'static [(&'static str, &'static str)];
        let cases: [(There, Option<&str>); 5] = [
            (&[("ServiceAccount", "u-1"), ("Secret", "u-2")], None),
            (&[("Secret", "u-2")], Some("serviceaccounts \"bot\" not found")),
            (
                &[("ServiceAccount", "u-9"), ("Secret", "u-2")],
                Some("service account UID (u-9) does not match claim (u-1)"),
            ),
            (&[("ServiceAccount", "u-1")], Some("service account token has been invalidated")),
            (
                &[("ServiceAccount", "u-1"), ("Secret", "u-9")],
                Some("secret UID (u-9) does not match service account secret ref claim (u-2)"),
            ),
        ];
        for (there, expected) in cases {
            let outcome = verify(&issuer, &token, NOW).unwrap().confirm(|reference| {
                let found = there.iter().find(|(kind, _)| *kind == reference.kind)?;
                Some(found.1.to_owned())
            });
            let expected = expected.map(|why| TokenRefusal::Refused(why.to_owned()));
            assert_eq!(outcome.err(), expected, "{there:?}");
        }
    }

    #[test]
    fn another_key_or_issuer_is_refused() {
        let ours = issuer();
        let theirs = issuer();
        let token = theirs.issue(&grant(theirs.audiences())).unwrap();
        assert!(matches!(verify(&ours, &token, NOW), Err(TokenRefusal::Refused(_))));
        let elsewhere = TokenIssuer::new(test_key(), "https://x", vec![ISSUER.to_owned()]);
        let token = elsewhere.issue(&grant(elsewhere.audiences())).unwrap();
        assert_eq!(verify(&ours, &token, NOW).unwrap_err(), TokenRefusal::Unknown);
    }

    #[test]
    fn an_oversized_token_is_not_looked_at() {
        let issuer = issuer();
        let long = vec!["x".repeat(20_000)];
        let token = issuer.issue(&grant(&long)).unwrap();
        assert_eq!(issuer.verify(&token, &long, NOW).unwrap_err(), TokenRefusal::Unknown);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_change_of_a_token_is_refused(at in any::<prop::sample::Index>(), to in "[ -~]") {
            let issuer = issuer();
            let token = issuer.issue(&grant(issuer.audiences())).unwrap();
            let at = at.index(token.len());
            prop_assume!(token[at..=at] != to);
            let mut changed = token.clone();
            changed.replace_range(at..=at, &to);
            prop_assert!(verify(&issuer, &changed, NOW).is_err());
            prop_assert!(verify(&issuer, &token[..at], NOW).is_err());
        }

        #[test]
        fn other_claims_under_an_old_signature_are_refused(name in "[a-z]{1,8}") {
            let issuer = issuer();
            let token = issuer.issue(&grant(issuer.audiences())).unwrap();
            let mut forged = grant(issuer.audiences());
            forged.name = &name;
            prop_assume!(name != "bot");
            let forged = issuer.issue(&forged).unwrap();
            let (claims, _) = forged.rsplit_once('.').unwrap();
            let (_, signature) = token.rsplit_once('.').unwrap();
            let spliced = format!("{claims}.{signature}");
            prop_assert!(verify(&issuer, &spliced, NOW).is_err());
        }

        #[test]
        fn arbitrary_text_is_no_token(text in "\\PC{0,200}") {
            prop_assert!(verify(&issuer(), &text, NOW).is_err());
        }
    }
}
