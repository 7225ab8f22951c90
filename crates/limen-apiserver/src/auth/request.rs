//! From what a request shows to a user.
//!
//! A client certificate wins; else a bearer token must be good; only who shows neither may be
//! anonymous. A bad token is never treated as none.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::identity::Identity;
use super::service_account::{Reference, TokenIssuer, TokenRefusal, VerifiedToken};
use super::static_tokens::StaticTokens;
use crate::error::{ApiError, ApiResult};

const IGNORED_TOKEN: &str = "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// All ways to prove who one is.
#[derive(Debug)]
pub(crate) struct Authenticator {
    /// Tokens of a file.
    pub static_tokens: StaticTokens,
    /// Tokens of service accounts.
    pub issuer: Arc<TokenIssuer>,
    /// Whether a request may show nothing.
    pub anonymous: bool,
}

/// Who somebody claims to be: believed already, unless objects that the claim depends on are gone.
#[derive(Debug)]
pub(crate) struct Claimed {
    who: Who,
    /// What to warn the client of.
    pub warning: Option<&'static str>,
}

#[derive(Debug)]
enum Who {
    Known(Arc<Identity>),
    Account(VerifiedToken),
}

impl Authenticator {
    /// Who is asking. `certified` is whom a certificate names that the TLS handshake verified,
    /// `now` the time in Unix seconds.
    pub(crate) fn authenticate(
        &self,
        certified: Option<&Arc<Identity>>,
        headers: &HeaderMap,
        now: i64,
    ) -> ApiResult<Claimed> {
        if let Some(identity) = certified {
            return Ok(Claimed { who: Who::Known(Arc::clone(identity)), warning: None });
        }
        let bearer = bearer(headers);
        let warning = matches!(bearer, Bearer::Misplaced).then_some(IGNORED_TOKEN);
        let who = match bearer {
            Bearer::Token(token) => self
                .token(token, self.issuer.audiences(), now)
                .map_err(|_| ApiError::unauthorized())?,
            _ if self.anonymous => Who::Known(Arc::new(Identity::anonymous())),
            _ => return Err(ApiError::unauthorized()),
        };
        Ok(Claimed { who, warning })
    }

    /// Whom a token stands for, as a `TokenReview` asks it.
    pub(crate) fn review(
        &self,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Result<(Claimed, Vec<String>), TokenRefusal> {
        let wanted = if audiences.is_empty() { self.issuer.audiences() } else { audiences };
        // A token has no spaces: as a header, all that follows the first one would be ignored.
        let token = token.split(' ').next().unwrap_or_default();
        let who = self.token(token, wanted, now)?;
        let shared = match &who {
            Who::Account(verified) => verified.audiences().to_vec(),
            // A token of a file is for this server only.
            Who::Known(_) => {
                let ours = self.issuer.audiences().iter();
                let shared: Vec<String> =
                    ours.filter(|audience| wanted.contains(audience)).cloned().collect();
                if shared.is_empty() {
                    return Err(TokenRefusal::Unknown);
                }
                shared
            }
        };
        Ok((Claimed { who, warning: None }, shared))
    }

    fn token(&self, token: &str, audiences: &[String], now: i64) -> Result<Who, TokenRefusal> {
        if let Some(identity) = self.static_tokens.find(token) {
            return Ok(Who::Known(Arc::new(identity.clone())));
        }
        self.issuer.verify(token, audiences, now).map(Who::Account)
    }
}

impl Claimed {
    /// The objects that must still be there; look them up, then [`confirm`](Self::confirm).
    pub(crate) fn references(&self) -> &[Reference] {
        match &self.who {
            Who::Known(_) => &[],
            Who::Account(token) => token.references(),
        }
    }

    /// The user. `uid_of` is as in [`VerifiedToken::confirm`].
    pub(crate) fn confirm(
        self,
        uid_of: impl Fn(&Reference) -> Option<String>,
    ) -> Result<Arc<Identity>, TokenRefusal> {
        match self.who {
            Who::Known(identity) => Ok(identity),
            Who::Account(token) => token.confirm(uid_of).map(Arc::new),
        }
    }
}

enum Bearer<'a> {
    None,
    /// There is a second space before the token.
    Misplaced,
    Token(&'a str),
}

fn bearer(headers: &HeaderMap) -> Bearer<'_> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Bearer::None };
    let Ok(text) = value.to_str() else {
        // A scheme that is not bearer is nobody's business; a bearer token of odd bytes is a bad
        // token.
        let scheme = value.as_bytes().trim_ascii().split(|&byte| byte == b' ').next();
        let is_bearer = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"));
        return if is_bearer { Bearer::Token("") } else { Bearer::None };
    };
    let mut parts = text.trim().splitn(3, ' ');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(scheme), Some(token), more) if scheme.eq_ignore_ascii_case("bearer") => {
            match (token, more) {
                ("", Some(_)) => Bearer::Misplaced,
                ("", None) => Bearer::None,
                (token, _) => Bearer::Token(token),
            }
        }
        _ => Bearer::None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::auth::jwt::test_key;
    use crate::auth::service_account::TokenGrant;

    pub(crate) const NOW: i64 = 1_800_000_000;

    pub(crate) fn authenticator(anonymous: bool) -> Authenticator {
        let issuer = TokenIssuer::new(test_key(), "https://here", vec!["https://here".to_owned()]);
        Authenticator {
            static_tokens: StaticTokens::parse("abc,ann,u1,\"dev\"").unwrap(),
            issuer: Arc::new(issuer),
            anonymous,
        }
    }

    pub(crate) fn account_token(authenticator: &Authenticator) -> String {
        let issuer = &authenticator.issuer;
        issuer
            .issue(&TokenGrant {
                namespace: "ns",
                name: "bot",
                uid: "u-1",
                audiences: issuer.audiences(),
                bound: None,
                now: NOW,
                seconds: 600,
                id: "j-1",
            })
            .unwrap()
    }

    type Outcome = Result<&'static str, u16>;

    fn who(authenticator: &Authenticator, header: Option<&[u8]>) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, HeaderValue::from_bytes(header).unwrap());
        }
        let claimed =
            authenticator.authenticate(None, &headers, NOW).map_err(|error| error.code.as_u16())?;
        let identity = claimed.confirm(|found| Some(found.uid.clone()));
        identity.map(|identity| identity.name.clone()).map_err(|_| 401)
    }

    #[test]
    fn a_bad_token_is_refused_even_where_anonymous_users_are_not() {
        let open = authenticator(true);
        let closed = authenticator(false);
        let account = format!("Bearer {}", account_token(&open));
        let anonymous: Outcome = Ok("system:anonymous");
        let cases: [(Option<&[u8]>, Outcome); 12] = [
            (None, anonymous),
            (Some(b"Bearer abc"), Ok("ann")),
            (Some(b"bearer abc extra"), Ok("ann")),
            (Some(b"  Bearer abc  "), Ok("ann")),
            (Some(b"Bearer abcd"), Err(401)),
            (Some(b"Bearer \xff"), Err(401)),
            (Some(b"Basic abc"), anonymous),
            (Some(b"Bearer"), anonymous),
            (Some(b"Bearer  abc"), anonymous),
            (Some(b"Bearerabc"), anonymous),
            (Some(b""), anonymous),
            (Some(account.as_bytes()), Ok("system:serviceaccount:ns:bot")),
        ];
        for (header, expected) in cases {
            let shown = header.map(String::from_utf8_lossy);
            assert_eq!(who(&open, header), expected.map(str::to_owned), "{shown:?}");
            let expected = if expected == anonymous { Err(401) } else { expected };
            if header != Some(account.as_bytes()) {
                assert_eq!(who(&closed, header), expected.map(str::to_owned), "{shown:?}");
            }
        }
    }

    #[test]
    fn a_misplaced_token_is_warned_of() {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer  abc"));
        let claimed = authenticator(true).authenticate(None, &headers, NOW).unwrap();
        assert_eq!(claimed.warning, Some(IGNORED_TOKEN));
    }

    proptest! {
        #[test]
        fn arbitrary_headers_name_at_most_anonymous(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if HeaderValue::from_bytes(&bytes).is_ok() {
                let outcome = who(&authenticator(true), Some(&bytes));
                prop_assert!(outcome == Ok("system:anonymous".to_owned()) || outcome == Err(401));
            }
        }
    }
}
