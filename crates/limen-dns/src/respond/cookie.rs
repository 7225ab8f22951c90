//! DNS cookies (RFC 7873, RFC 9018): who sends one back has proven to be where it says it is.

use std::net::IpAddr;

/// The secret that cookies are made with. Servers behind one address must have the same.
pub(crate) struct CookieKey([u8; 16]);

/// How long a cookie is good for, in seconds, and how far a clock may be ahead.
const GOOD_FOR: u32 = 3600;
const AHEAD: u32 = 300;

impl CookieKey {
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// The server's part for a client's part. `now` is in milliseconds since 1970.
    pub(crate) fn make(&self, client: &[u8; 8], address: IpAddr, now: u64) -> [u8; 16] {
        self.at((now / 1000) as u32, client, address)
    }

    fn at(&self, time: u32, client: &[u8; 8], address: IpAddr) -> [u8; 16] {
        let mut cookie = [0; 16];
        cookie[0] = 1;
        cookie[4..8].copy_from_slice(&time.to_be_bytes());
        let mut message = [0; 32];
        message[..8].copy_from_slice(client);
        message[8..16].copy_from_slice(&cookie[..8]);
        let length = match address {
            IpAddr::V4(address) => {
                message[16..20].copy_from_slice(&address.octets());
                20
            }
            IpAddr::V6(address) => {
                message[16..32].copy_from_slice(&address.octets());
                32
            }
        };
        cookie[8..].copy_from_slice(&siphash(&self.0, &message[..length]).to_le_bytes());
        cookie
    }

    /// Whether a whole cookie is one of ours, for this client, and not too old.
    pub(crate) fn is_valid(&self, cookie: &[u8], address: IpAddr, now: u64) -> bool {
        let (Some(client), 24) = (cookie.first_chunk::<8>(), cookie.len()) else { return false };
        let server = &cookie[8..];
        let time = u32::from_be_bytes([server[4], server[5], server[6], server[7]]);
        let age = ((now / 1000) as u32).wrapping_sub(time);
        let timely = age <= GOOD_FOR || age >= u32::MAX - AHEAD;
        timely && equal_in_constant_time(&self.at(time, client, address), server)
    }
}

/// Compares without telling by its duration where two texts differ.
fn equal_in_constant_time(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// SipHash-2-4.
fn siphash(key: &[u8; 16], message: &[u8]) -> u64 {
    let number = |bytes: &[u8]| {
        bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let (k0, k1) = (number(&key[..8]), number(&key[8..]));
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let chunks = message.chunks_exact(8);
    let last = number(chunks.remainder()) | (message.len() as u64) << 56;
    for word in chunks.map(number).chain([last]) {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9018, appendix A.
    #[test]
    fn cookies_are_those_of_the_standard() {
        let bytes = |text: &str| -> Vec<u8> {
            (0..text.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
                .collect()
        };
        let key = CookieKey(bytes("e5e973e5a6b2a43f48e7dc849e37bfcf").try_into().unwrap());
        let whole = bytes("2464c4abcf10c957010000005cf79f111f8130c3eee29480");
        let client: &[u8; 8] = whole.first_chunk().unwrap();
        let address = "198.51.100.100".parse().unwrap();
        let now = 0x5cf7_9f11 * 1000;
        assert_eq!(key.make(client, address, now)[..], whole[8..]);
        assert!(key.is_valid(&whole, address, now + 3_600_000));
        assert!(key.is_valid(&whole, address, now - 300_000));
        assert!(!key.is_valid(&whole, address, now + 3_601_000), "too old");
        assert!(!key.is_valid(&whole, address, now - 302_000), "from the future");
        assert!(!key.is_valid(&whole, "198.51.100.101".parse().unwrap(), now), "somebody else's");
        assert!(!key.is_valid(&whole[..8], address, now));
    }
}
