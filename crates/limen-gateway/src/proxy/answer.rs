//! The answer that a client gets to see.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::header::{CONNECTION, STRICT_TRANSPORT_SECURITY, UPGRADE, VIA};
use http::{HeaderValue, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use super::body::{ProxyBody, UpstreamBody};
use super::client::Client;
use super::exchange::Exchange;
use super::headers::remove_hop_by_hop_of_answer;
use super::tunnel;
use crate::snapshot::Route;
use crate::upstream::Lease;
use crate::worker::Shared;

/// What an answer depends on, besides what the target said.
pub(super) struct Answer<'a> {
    pub(super) route: &'a Arc<Route>,
    pub(super) client: &'a Client,
    pub(super) version: Version,
    pub(super) shared: &'a Arc<Shared>,
}

impl Answer<'_> {
    pub(super) fn make(
        &self,
        mut response: Response<Incoming>,
        lease: Lease,
        client_side: Option<OnUpgrade>,
        mut exchange: Exchange,
    ) -> Response<ProxyBody> {
        exchange.status(response.status().as_u16());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch(response, client_side, exchange);
        }
        let patience = self.route.backend.as_ref().map(|backend| backend.rules.idle);
        let patience = patience.unwrap_or_default();
        remove_hop_by_hop_of_answer(response.headers_mut());
        self.add_headers(&mut response);
        let (head, incoming) = response.into_parts();
        let body = UpstreamBody::new(incoming, exchange, lease, patience);
        let mut response = Response::from_parts(head, ProxyBody::Upstream(Box::new(body)));
        *response.version_mut() =
            if self.version == Version::HTTP_2 { Version::HTTP_2 } else { Version::HTTP_11 };
        response
    }

    fn add_headers(&self, response: &mut Response<Incoming>) {
        let via = if response.version() == Version::HTTP_2 {
            &self.shared.via_h2
        } else {
            &self.shared.via
        };
        response.headers_mut().append(VIA, via.clone());
        if self.client.tls.is_some()
            && self.route.tls
            && let Some(hsts) = &self.route.ingress.hsts
        {
            response.headers_mut().entry(STRICT_TRANSPORT_SECURITY).or_insert(hsts.clone());
        }
    }

    fn switch(
        &self,
        mut response: Response<Incoming>,
        client_side: Option<OnUpgrade>,
        exchange: Exchange,
    ) -> Response<ProxyBody> {
        let Some(client_side) = client_side else {
            return exchange.refused(&super::Refusal::upstream(StatusCode::BAD_GATEWAY));
        };
        let target_side = hyper::upgrade::on(&mut response);
        let protocol = response.headers().get(UPGRADE).cloned();
        remove_hop_by_hop_of_answer(response.headers_mut());
        let (mut head, _) = response.into_parts();
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(protocol) = protocol {
            head.headers.insert(UPGRADE, protocol);
        }
        self.client.tunnel.store(true, Ordering::Relaxed);
        tokio::spawn(tunnel::carry(client_side, target_side, exchange, self.shared.clone()));
        Response::from_parts(head, ProxyBody::Empty)
    }
}
