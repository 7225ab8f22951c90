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

    const NAMES: [(u16, &str); 21] = [
        (A, "A"),
        (NS, "NS"),
        (CNAME, "CNAME"),
        (SOA, "SOA"),
        (HINFO, "HINFO"),
        (12, "PTR"),
        (MX, "MX"),
        (TXT, "TXT"),
        (AAAA, "AAAA"),
        (33, "SRV"),
        (DS, "DS"),
        (RRSIG, "RRSIG"),
        (NSEC, "NSEC"),
        (DNSKEY, "DNSKEY"),
        (CDS, "CDS"),
        (CDNSKEY, "CDNSKEY"),
        (65, "HTTPS"),
        (IXFR, "IXFR"),
        (AXFR, "AXFR"),
        (ANY, "ANY"),
        (CAA, "CAA"),
    ];

    /// What people call it.
    pub(crate) fn text(kind: u16) -> String {
        let known = NAMES.iter().find(|(known, _)| *known == kind);
        known.map_or_else(|| format!("TYPE{kind}"), |(_, name)| (*name).to_owned())
    }
}

/// The only class that is served.
pub(crate) const IN: u16 = 1;

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rcode {
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
    NotAuth = 9,
    BadVers = 16,
}

impl Rcode {
    /// All of them.
    pub(crate) const ALL: [Self; 8] = [
        Self::NoError,
        Self::FormErr,
        Self::ServFail,
        Self::NxDomain,
        Self::NotImp,
        Self::Refused,
        Self::NotAuth,
        Self::BadVers,
    ];

    /// What people call it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::NoError => "NOERROR",
            Self::FormErr => "FORMERR",
            Self::ServFail => "SERVFAIL",
            Self::NxDomain => "NXDOMAIN",
            Self::NotImp => "NOTIMP",
            Self::Refused => "REFUSED",
            Self::NotAuth => "NOTAUTH",
            Self::BadVers => "BADVERS",
        }
    }
}
