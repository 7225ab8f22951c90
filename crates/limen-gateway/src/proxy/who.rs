//! What a request and its client bring to a decision: where the client is, what it asks for, and
//! where it has been before.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use limen_core::decide::{Ask, hash};
use limen_core::global::HeaderMatch;

use super::choose::with_memory;
use super::client::Client;
use super::forward::hexadecimal;
use crate::options::Options;
use crate::snapshot::Backend;
use crate::upstream::random;

/// What is known of whoever asks.
pub(crate) struct Who {
    pub(crate) ask: Ask,
    /// The affinity cookie that it has shown: its key, and the target it was with.
    shown: Option<(u64, u64)>,
}

/// What can be told from the client's address alone.
pub(crate) fn ask_of(backend: &Backend, options: &Options, client: IpAddr) -> Ask {
    let mut ask = Ask::default();
    if backend.plan.has_residency() {
        ask.residency = residency(backend, options, Some(client));
    }
    if backend.rules.affinity.as_ref().is_some_and(|affinity| affinity.source_address) {
        ask.key = Some(match client {
            IpAddr::V4(address) => hash(&address.octets()),
            IpAddr::V6(address) => hash(&address.octets()),
        });
    }
    ask
}

/// The residency rules that hold for a client. Whom no table places is where the gateway is.
pub(crate) fn residency(backend: &Backend, options: &Options, client: Option<IpAddr>) -> u64 {
    let found = client.map(|client| options.geography.names(client)).unwrap_or_default();
    let places = found.iter().chain(options.locality.region.iter().filter(|_| found.is_empty()));
    // Hardly anybody is in more places than these.
    let mut names = [""; 8];
    let mut count = 0;
    for (name, place) in names.iter_mut().zip(places) {
        *name = place;
        count += 1;
    }
    backend.plan.residency(&names[..count])
}

impl Who {
    pub(super) fn new(
        backend: &Backend,
        options: &Options,
        client: &Client,
        headers: &HeaderMap,
    ) -> Self {
        let mut ask = ask_of(backend, options, client.original_of(headers));
        let mut shown = None;
        if let Some(affinity) = &backend.rules.affinity {
            if let Some(name) = &affinity.cookie {
                shown = cookie(headers, name).and_then(read_affinity);
                ask.key = Some(shown.map_or_else(random, |(key, _)| key));
                let before = shown.and_then(|(_, target)| backend.plan.named(target));
                ask.stay = before.and_then(|target| u16::try_from(target).ok());
            } else if let Some(name) = &affinity.header {
                ask.key = headers.get(name).map(|value| hash(value.as_bytes()));
            }
        }
        ask.group = asked_group(backend, headers);
        if let (None, Some(name)) = (ask.group, &backend.rules.sticky) {
            let group = cookie(headers, name).and_then(|group| backend.plan.group(group));
            ask.group = group.filter(|group| backend.plan.gets_anything(*group));
        }
        Self { ask, shown }
    }

    /// What the client is to remember of the target that has answered.
    pub(super) fn cookies(
        &self,
        backend: &Arc<Backend>,
        target: usize,
        tls: bool,
    ) -> Vec<HeaderValue> {
        let mut cookies = Vec::new();
        let mut set = |name: &str, value: &str| {
            let secure = if tls { "; Secure" } else { "" };
            let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}");
            cookies.extend(HeaderValue::try_from(text).ok());
        };
        let affinity =
            backend.rules.affinity.as_ref().and_then(|affinity| affinity.cookie.as_ref());
        if let (Some(name), Some(key)) = (affinity, self.ask.key) {
            let now = backend.plan.name(target);
            if self.shown != Some((key, now)) {
                let value = hexadecimal::<32>([key, now]);
                set(name, std::str::from_utf8(&value).unwrap_or_default());
            }
        }
        let group = backend.targets[target].target.group.as_ref();
        if let (Some(name), Some(group)) = (&backend.rules.sticky, group)
            && self.ask.group.is_none_or(|asked| backend.plan.group(group) != Some(asked))
        {
            set(name, group);
        }
        cookies
    }
}

fn read_affinity(value: &str) -> Option<(u64, u64)> {
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let whole = value.len() == 32 && value.is_ascii();
    whole.then(|| Some((number(&value[..16])?, number(&value[16..])?))).flatten()
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// The version group that a request asks for with a header or a cookie.
fn asked_group(backend: &Backend, headers: &HeaderMap) -> Option<u16> {
    let wanted =
        |rule: &HeaderMatch, found: &str| rule.value.as_deref().is_none_or(|value| value == found);
    let asks = |rule: &HeaderMatch| {
        let header = rule.header.as_ref().and_then(|name| headers.get(name)?.to_str().ok());
        let cookie = || rule.cookie.as_ref().and_then(|name| cookie(headers, name));
        // A rule without a name is for every request.
        (rule.header.is_none() && rule.cookie.is_none())
            || header.is_some_and(|found| wanted(rule, found))
            || cookie().is_some_and(|found| wanted(rule, found))
    };
    let rules = backend.rules.matches.iter().enumerate();
    rules
        .filter(|(_, rule)| asks(rule))
        .find_map(|(index, _)| with_memory(backend, |memory| backend.plan.matched(index, memory)))
}
