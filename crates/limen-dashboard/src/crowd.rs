//! How many connections come from where, so that nobody takes all places for themselves.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections that are open, by where they come from.
#[derive(Clone, Default)]
pub(crate) struct Crowd(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection among the others, until it is dropped.
pub(crate) struct Place {
    crowd: Crowd,
    from: IpAddr,
}

impl Crowd {
    /// A place for one more, unless so many have come from there already.
    pub(crate) fn enter(&self, address: IpAddr, most: usize) -> Option<Place> {
        let from = whose(address);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(from).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { crowd: self.clone(), from })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.crowd.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.from);
            }
        }
    }
}

/// Whoever has an address of IPv6 has the other ones of its network too.
fn whose(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_come_from_one_address_or_network() {
        let crowd = Crowd::default();
        let enter = |address: &str| crowd.enter(address.parse().unwrap(), 2);
        let (first, second) = (enter("2001:db8::1"), enter("2001:db8::2"));
        assert!(first.is_some() && second.is_some());
        assert!(enter("2001:db8::3").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());
        let old = [enter("192.0.2.1"), enter("::ffff:192.0.2.1")];
        assert!(old.iter().all(Option::is_some));
        assert!(enter("192.0.2.1").is_none());
        assert!(enter("::ffff:192.0.2.2").is_some());
        drop(first);
        assert!(enter("2001:db8::3").is_some());
        drop((second, old));
        assert!(crowd.0.lock().unwrap().is_empty(), "nobody who has gone is remembered");
    }
}
