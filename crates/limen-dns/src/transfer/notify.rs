//! Telling secondaries that a zone has changed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limen_dns_wire::tsig::{self, Before};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{Secondary, content};
use crate::wire::{IN, kind, name};
use crate::zone::Zones;

/// How long each try waits for an answer.
const TRIES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];
/// Changes come in bursts; this is how long one is waited for.
const BURST: Duration = Duration::from_millis(200);

/// Tells secondaries, each of them until it has heard it or something newer is to be told.
#[derive(Default)]
pub(crate) struct Notifier {
    told: HashMap<Arc<[u8]>, Box<[u8]>>,
    telling: HashMap<(Arc<[u8]>, SocketAddr), AbortHandle>,
}

impl Notifier {
    /// Tells of all zones that have another SOA record than when it was last called.
    pub(crate) fn tell(&mut self, zones: &Zones, secondaries: &[Secondary]) {
        if secondaries.is_empty() {
            return;
        }
        for apex in &zones.apexes {
            let (zone, soa, ttl) = (&apex.name, &apex.soa, apex.negative_ttl);
            if self.told.insert(zone.clone(), soa.clone()).as_ref() == Some(soa) {
                continue;
            }
            for secondary in secondaries {
                let task = tokio::spawn(tell(zone.clone(), soa.clone(), ttl, secondary.clone()));
                let key = (zone.clone(), secondary.address);
                if let Some(before) = self.telling.insert(key, task.abort_handle()) {
                    before.abort();
                }
            }
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.telling.values().for_each(AbortHandle::abort);
    }
}

async fn tell(zone: Arc<[u8]>, soa: Box<[u8]>, ttl: u32, secondary: Secondary) {
    tokio::time::sleep(BURST).await;
    let mut last = String::new();
    for patience in TRIES {
        match timeout(patience, ask(&zone, &soa, ttl, &secondary)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                last = error;
                tokio::time::sleep(patience).await;
            }
            Err(_) => last = "no answer".to_owned(),
        }
    }
    let (zone, address) = (name::to_text(&zone), secondary.address);
    tracing::warn!(
        "the secondary {address} could not be told of the new {zone}: {last}; it asks by itself sooner or later"
    );
}

async fn ask(zone: &[u8], soa: &[u8], ttl: u32, secondary: &Secondary) -> Result<(), String> {
    let any: SocketAddr =
        if secondary.address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let failed = |error: std::io::Error| error.to_string();
    let socket = UdpSocket::bind(any).await.map_err(failed)?;
    socket.connect(secondary.address).await.map_err(failed)?;
    let [high, low]: [u8; 2] = rand::random();
    // Opcode NOTIFY, authoritative, one question and one answer.
    let mut message = vec![high, low, 0x24, 0, 0, 1, 0, 1, 0, 0, 0, 0];
    message.extend_from_slice(zone);
    message.extend_from_slice(&kind::SOA.to_be_bytes());
    message.extend_from_slice(&IN.to_be_bytes());
    content::write(&mut message, zone, kind::SOA, ttl, soa);
    let mac = tsig::sign(&mut message, &secondary.key, Before::Nothing, now());
    socket.send(&message).await.map_err(failed)?;
    let mut buffer = vec![0; 2048];
    loop {
        let length = socket.recv(&mut buffer).await.map_err(failed)?;
        let answer = &buffer[..length];
        if length < 12 || answer[..2] != [high, low] || answer[2] & 0x80 == 0 {
            continue;
        }
        tsig::verify(answer, [&secondary.key], Before::Request(&mac), now())
            .map_err(|error| error.to_string())?;
        return match answer[3] & 0x0F {
            0 => Ok(()),
            code => Err(format!("it answered with code {code}")),
        };
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
