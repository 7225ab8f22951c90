//! The wire format, as far as an authoritative server needs it: reading questions and writing
//! answers, over bytes, without allocating.

pub(crate) mod edns;
pub(crate) mod query;

pub(crate) use limen_dns_wire::{name, u16_at};

/// The length of a header.
pub(crate) const HEADER: usize = 12;

/// Record types.
pub(crate) mod kind {
    pub(crate) const A: u16 = 1;
    pub(crate) const NS: u16 = 2;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const HINFO: u16 = 13;
    pub(crate) const MX: u16 = 15;
    pub(crate) const TXT: u16 = 16;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const DS: u16 = 43;
    pub(crate) const RRSIG: u16 = 46;
    pub(crate) const NSEC: u16 = 47;
    pub(crate) const DNSKEY: u16 = 48;
    pub(crate) const CDS: u16 = 59;
    pub(crate) const CDNSKEY: u16 = 60;
    /// In an NSEC record: the name does not exist. Nobody may ask for it.
    pub(crate) const NXNAME: u16 = 128;
    pub(crate) const TKEY: u16 = 249;
    pub(crate) const TSIG: u16 = 250;
    pub(crate) const IXFR: u16 = 251;
    pub(crate) const AXFR: u16 = 252;
    pub(crate) const MAILB: u16 = 253;
    pub(crate) const MAILA: u16 = 254;
    pub(crate) const ANY: u16 = 255;
    pub(crate) const CAA: u16 = 257;
}

/// The only class that is served.
pub(crate) const IN: u16 = 1;

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rcode {
    NoError = 0,
    FormErr = 1,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
    NotAuth = 9,
    BadVers = 16,
}
