//! Questions signed with a shared secret: who asks is known, and can be sure who answered.

use std::net::IpAddr;

use limen_dns_wire::tsig::{self, Before, TsigError};

use super::reply::Reply;
use super::{Responder, Transport};
use crate::wire::Rcode;
use crate::wire::query::Query;

impl Responder {
    /// Answers a signed question, with a signature if its own is right.
    pub(super) fn respond_signed(
        &mut self,
        packet: &[u8],
        query: &Query<'_>,
        client: IpAddr,
        transport: Transport,
        now: u64,
        out: &mut Vec<u8>,
    ) -> bool {
        let common = self.common.clone();
        let keys = &common.tsig_keys;
        let seconds = now / 1000;
        match tsig::verify(packet, keys, Before::Nothing, seconds) {
            Ok(signed) => {
                let reserved = tsig::length(signed.key);
                let message = &signed.message;
                self.memory.is_secondary = common.secondaries.iter().any(|secondary| {
                    secondary.address.ip() == client && secondary.key.name() == signed.key.name()
                });
                let answered = self.respond_within(message, client, transport, now, out, reserved);
                self.memory.is_secondary = false;
                if !answered {
                    return false;
                }
                tsig::sign(out, signed.key, Before::Request(&signed.mac), seconds);
                true
            }
            Err(why) => {
                let rcode =
                    if why == TsigError::Malformed { Rcode::FormErr } else { Rcode::NotAuth };
                self.counters.of(rcode).add();
                Reply::new(out, packet, query.question).finish_bare(rcode);
                tsig::append_refusal(out, packet, keys, why);
                // Whoever cannot sign is nobody in particular.
                transport != Transport::Udp || self.may_refuse(client, now)
            }
        }
    }
}
