//! Transactions: the expectations are etcd's comparisons, and where they fail, etcd reads the keys
//! in question at once, so that a conflict can be told with what is there instead.

use prost::Message;

use super::Etcd;
use super::endpoints::Repeat;
use super::failure::{Failure, Outcome};
use super::keyspace::{number, revision};
use super::wire::{
    Compare, DeleteRangeRequest, Operation, PutRequest, RangeRequest, RequestOp, TxnRequest,
    TxnResponse,
};
use crate::{Error, Expect, MAX_TXN_BYTES, Result, Revision, Txn, Write, WriteOp};

impl Etcd {
    pub(super) async fn commit(&self, txn: &Txn) -> Result<Revision> {
        let request = self.request(txn).await?;
        if request.compare.is_empty() && request.success.is_empty() {
            // etcd would answer this without asking the other members.
            return self.revision().await;
        }
        let size = request.encoded_len();
        let answer = match self.endpoints.call(request, Repeat::Undone).await {
            // A lease can end before its time, say when etcd was restored from a backup.
            Err(failure) if failure.outcome() == Outcome::NoLease => {
                self.leases.forget();
                self.endpoints.call(self.request(txn).await?, Repeat::Undone).await
            }
            answer => answer,
        }
        .map_err(|failure| error(&failure, size))?;

        if answer.succeeded {
            let header = answer.header.unwrap_or_default();
            return Ok(revision(header.revision));
        }
        Err(self.conflict(txn, answer))
    }

    async fn request(&self, txn: &Txn) -> Result<TxnRequest> {
        let mut request = TxnRequest::default();
        for write in &txn.writes {
            let key = self.keys.place(&write.key);
            let mod_revision = expected_revision(write.expect);
            if mod_revision.is_some() {
                let target = Compare::MOD;
                request.compare.push(Compare { target, key: key.clone(), mod_revision });
                let read = RangeRequest { key: key.clone(), ..RangeRequest::default() };
                request.failure.push(op(Operation::Range(read)));
            }
            match &write.op {
                WriteOp::Put { value, ttl } => {
                    let lease = match ttl {
                        Some(ttl) => self.lease(*ttl).await?,
                        None => 0,
                    };
                    let value = value.clone();
                    request.success.push(op(Operation::Put(PutRequest { key, value, lease })));
                }
                WriteOp::Delete => {
                    request.success.push(op(Operation::DeleteRange(DeleteRangeRequest { key })));
                }
                WriteOp::Check => {}
            }
        }
        Ok(request)
    }

    fn conflict(&self, txn: &Txn, answer: TxnResponse) -> Error {
        let expecting = txn.writes.iter().filter(|write| write.expect != Expect::Any);
        for (Write { key, expect, .. }, read) in expecting.zip(answer.responses) {
            let found = read.response_range.unwrap_or_default().kvs.into_iter().next();
            let current = found.map(|kv| self.keys.entry(kv));
            let met = match expect {
                Expect::Any => true,
                Expect::Absent => current.is_none(),
                Expect::Modified(at) => current.as_ref().is_some_and(|now| now.modified == *at),
            };
            if !met {
                return Error::Conflict { key: key.clone(), current };
            }
        }
        Error::Unavailable("etcd refused a transaction whose expectations are met".to_owned())
    }
}

fn op(operation: Operation) -> RequestOp {
    RequestOp { request: Some(operation) }
}

/// What etcd is to compare a key's `mod_revision` with. It is 0 for a key that is not there, so an
/// expected revision of 0, which no key has, must not be sent as such.
fn expected_revision(expect: Expect) -> Option<i64> {
    match expect {
        Expect::Any => None,
        Expect::Absent => Some(0),
        Expect::Modified(Revision(0)) => Some(i64::MAX),
        Expect::Modified(at) => Some(number(at)),
    }
}

fn error(failure: &Failure, size: usize) -> Error {
    match failure.outcome() {
        Outcome::Unknown => Error::Unknown(failure.to_string()),
        // etcd counts more than keys and values, and does not say how much it takes if it was told
        // to take less than usual.
        Outcome::TooLarge => Error::TooLarge { size, limit: MAX_TXN_BYTES.min(size - 1) },
        Outcome::Invalid => Error::InvalidTxn(failure.to_string()),
        _ => Error::Unavailable(failure.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    #[test]
    fn no_expectation_but_absence_is_met_by_an_absent_key() {
        assert_eq!(expected_revision(Expect::Any), None);
        assert_eq!(expected_revision(Expect::Absent), Some(0));
        assert_eq!(expected_revision(Expect::Modified(Revision(7))), Some(7));
        for never in [0, u64::MAX] {
            assert_eq!(expected_revision(Expect::Modified(Revision(never))), Some(i64::MAX));
        }
    }

    #[test]
    fn a_commit_says_whether_it_may_have_taken_place() {
        let told = |status| error(&Failure::new("http://a", status), 2_000_000);
        assert!(matches!(told(Status::deadline_exceeded("")), Error::Unknown(_)));
        assert!(matches!(
            told(Status::unavailable("etcdserver: leader changed")),
            Error::Unknown(_)
        ));
        assert!(matches!(
            told(Status::unavailable("etcdserver: no leader")),
            Error::Unavailable(_)
        ));
        assert!(matches!(told(Status::permission_denied("")), Error::Unavailable(_)));
        let too_many = Status::invalid_argument("etcdserver: too many operations in txn request");
        assert!(matches!(told(too_many), Error::InvalidTxn(_)));
        let too_large = Status::invalid_argument("etcdserver: request is too large");
        assert!(matches!(
            told(too_large),
            Error::TooLarge { size: 2_000_000, limit: MAX_TXN_BYTES }
        ));
    }
}
