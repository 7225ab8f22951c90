//! `DnsZone`: a zone that Limen's DNS servers answer for, beside the hosts of GlobalIngress objects.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A zone: who serves it, and records that no root makes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "DnsZone",
    plural = "dnszones",
    namespaced
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsZoneSpec {
    /// The name of the zone, such as `example.com`.
    pub zone: String,
    /// Who serves it; the first is the primary in the SOA record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<Nameserver>,
    /// The mailbox of whoever is responsible, such as `hostmaster@example.com`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<String>,
    /// How long names that do not exist are remembered, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_ttl_seconds: Option<u32>,
    /// How long answers are remembered while all is well, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    /// How long while something is unhealthy or draining, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble_ttl_seconds: Option<u32>,
    /// The federation whose Services have names in this zone, as in
    /// `<service>.<namespace>.<federation>.svc.<zone>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub federation: Option<String>,
    /// Records that no root makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<DnsRecord>,
}

/// A server of a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Nameserver {
    /// Its name, whole.
    pub name: String,
    /// Its addresses, needed where the name is within the zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// Records of one name and type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsRecord {
    /// The name within the zone, `@` for the zone itself.
    pub name: String,
    /// A, AAAA, CAA, CNAME, DS, MX, NS or TXT.
    #[serde(rename = "type")]
    pub kind: String,
    /// How long it is remembered, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    /// The values, as in a zone file; a TXT value is one text without quotes.
    pub data: Vec<String>,
}
