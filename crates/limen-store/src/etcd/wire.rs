//! The part of etcd's v3 gRPC API that the store speaks, written out by hand.
//!
//! etcd publishes its API as `rpc.proto` and `kv.proto`. Compiling those needs protoc, and Limen
//! builds without it. Message, field and method names and the field numbers are those of the two
//! files; fields that the store neither sets nor reads are left out, as protobuf allows.

use bytes::Bytes;
use prost::{Message, Oneof};

/// A request, together with the method that takes it and what comes back.
pub(super) trait Call: Message + Clone + 'static {
    const METHOD: &'static str;
    type Answer: Message + Default + 'static;
}

impl Call for RangeRequest {
    const METHOD: &'static str = "/etcdserverpb.KV/Range";
    type Answer = RangeResponse;
}

impl Call for TxnRequest {
    const METHOD: &'static str = "/etcdserverpb.KV/Txn";
    type Answer = TxnResponse;
}

impl Call for CompactionRequest {
    const METHOD: &'static str = "/etcdserverpb.KV/Compact";
    type Answer = CompactionResponse;
}

impl Call for LeaseGrantRequest {
    const METHOD: &'static str = "/etcdserverpb.Lease/LeaseGrant";
    type Answer = LeaseGrantResponse;
}

impl Call for WatchRequest {
    const METHOD: &'static str = "/etcdserverpb.Watch/Watch";
    type Answer = WatchResponse;
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseHeader {
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

/// What etcd keeps under a key.
///
/// Keys and values are vectors here and not `Bytes`, which would be slices of the whole answer:
/// one entry that is kept would keep all the others of its page in memory.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

/// A linearizable read: `serializable` is left at `false`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    /// The first key beyond the range; empty for the one key only.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    /// 0 is no limit.
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    /// 0 is the newest.
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
    /// 0 is none.
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Operation", tags = "1, 2, 3")]
    pub(super) request: Option<Operation>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Operation {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    /// One of several kinds of answer, and the only one that is looked into.
    #[prost(message, optional, tag = "1")]
    pub(super) response_range: Option<RangeResponse>,
}

/// A condition: what `target` names is equal to the value of the union, of which only
/// `mod_revision` is used. It is `optional` because etcd must be sent a 0 as well.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) key: Bytes,
    #[prost(int64, optional, tag = "6")]
    pub(super) mod_revision: Option<i64>,
}

impl Compare {
    /// `MOD` of `CompareTarget`.
    pub(super) const MOD: i32 = 2;
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CompactionResponse {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrantRequest {
    /// Seconds; `TTL` in the file.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrantResponse {
    /// `ID` in the file.
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(oneof = "WatchUnion", tags = "1, 3")]
    pub(super) request_union: Option<WatchUnion>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum WatchUnion {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreateRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    /// The first revision to tell of.
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
    #[prost(bool, tag = "6")]
    pub(super) prev_kv: bool,
    /// Whether etcd may split a large answer, even within a revision.
    #[prost(bool, tag = "8")]
    pub(super) fragment: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchProgressRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub(super) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    /// Whether the rest of this answer is in the next one.
    #[prost(bool, tag = "7")]
    pub(super) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

impl WatchResponse {
    /// The `watch_id` of an answer to a `WatchProgressRequest`.
    pub(super) const ALL_WATCHES: i64 = -1;
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// `type` in the file.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
    #[prost(message, optional, tag = "3")]
    pub(super) prev_kv: Option<KeyValue>,
}

impl Event {
    /// `DELETE` of `EventType`; the other one is `PUT`.
    pub(super) const DELETE: i32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_key_is_compared_with_an_explicit_zero() {
        let compare =
            Compare { target: Compare::MOD, key: Bytes::from("k"), mod_revision: Some(0) };
        assert_eq!(compare.encode_to_vec(), [0x10, 2, 0x1a, 1, b'k', 0x30, 0]);
    }

    #[test]
    fn a_transaction_has_the_bytes_that_etcd_expects() {
        let op = |operation| RequestOp { request: Some(operation) };
        let key = Bytes::from("k");
        let txn = TxnRequest {
            compare: Vec::new(),
            success: vec![
                op(Operation::Put(PutRequest { key: key.clone(), value: "v".into(), lease: 300 })),
                op(Operation::DeleteRange(DeleteRangeRequest { key: key.clone() })),
            ],
            failure: vec![op(Operation::Range(RangeRequest { key, ..Default::default() }))],
        };
        #[rustfmt::skip]
        assert_eq!(txn.encode_to_vec(), [
            0x12, 11, 0x12, 9, 0x0a, 1, b'k', 0x12, 1, b'v', 0x18, 0xac, 0x02,
            0x12, 5, 0x1a, 3, 0x0a, 1, b'k',
            0x1a, 5, 0x0a, 3, 0x0a, 1, b'k',
        ]);
    }

    #[test]
    fn watch_requests_have_the_bytes_that_etcd_expects() {
        let create = WatchCreateRequest {
            key: "a".into(),
            range_end: "b".into(),
            start_revision: 7,
            prev_kv: true,
            fragment: true,
        };
        let request = |union| WatchRequest { request_union: Some(union) }.encode_to_vec();
        assert_eq!(
            request(WatchUnion::Create(create)),
            [0x0a, 12, 0x0a, 1, b'a', 0x12, 1, b'b', 0x18, 7, 0x30, 1, 0x40, 1]
        );
        assert_eq!(request(WatchUnion::Progress(WatchProgressRequest {})), [0x1a, 0]);
    }

    #[test]
    fn unknown_fields_of_an_answer_are_skipped() {
        // header {cluster_id, member_id, revision 5, raft_term}, watch_id -1, one deletion.
        let bytes: &[u8] = &[
            0x0a, 8, 0x08, 1, 0x10, 2, 0x18, 5, 0x20, 9, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0x01, 0x5a, 9, 0x08, 1, 0x12, 5, 0x0a, 1, b'k', 0x18, 5,
        ];
        let answer = WatchResponse::decode(bytes).unwrap();
        assert_eq!(answer.header.unwrap().revision, 5);
        assert_eq!(answer.watch_id, WatchResponse::ALL_WATCHES);
        assert_eq!(answer.events[0].kind, Event::DELETE);
        assert_eq!(answer.events[0].kv.as_ref().unwrap().mod_revision, 5);
    }
}
