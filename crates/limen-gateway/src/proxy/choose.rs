//! Which address a request goes to, and what this worker remembers for that.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use limen_core::decide::{Ask, Memory, Readiness, RetryBudget, two_choices};

use crate::snapshot::{Backend, Snapshot};
use crate::upstream::{Address, random};

/// What one worker remembers of one backend.
struct Local {
    memory: Memory,
    budget: RetryBudget,
}

thread_local!(static LOCAL: RefCell<HashMap<u64, Local>> = RefCell::default());

/// Where a request goes.
pub(crate) struct Chosen {
    pub(crate) target: usize,
    pub(crate) readiness: Readiness,
    pub(crate) address: Arc<Address>,
}

fn with_local<T>(backend: &Backend, work: impl FnOnce(&mut Local) -> T) -> T {
    LOCAL.with_borrow_mut(|locals| {
        let local = locals.entry(backend.id).or_insert_with(|| Local {
            memory: Memory::new(&backend.plan),
            budget: RetryBudget::new(backend.rules.budget_percent),
        });
        work(local)
    })
}

/// An address for a request that has been at `tried` in vain.
pub(crate) fn choose(
    backend: &Backend,
    group: Option<u16>,
    tried: &[Arc<Address>],
    now: u64,
) -> Option<Chosen> {
    let rules = &backend.rules;
    let untried = |address: &Arc<Address>| !tried.iter().any(|other| Arc::ptr_eq(other, address));
    let load = |address: &Arc<Address>| {
        if untried(address) { address.load(now, rules.slow_start) } else { None }
    };
    let mut ask = Ask { group, ..Ask::default() };
    if !tried.is_empty() {
        for (index, target) in backend.targets.iter().enumerate().take(64) {
            if !target.addresses.iter().any(|address| load(address).is_some()) {
                ask.tried |= 1 << index;
            }
        }
    }
    with_local(backend, |local| {
        let readiness = |target: usize| backend.targets[target].readiness(now);
        let decided = backend.plan.decide(readiness, &mut local.memory, ask)?;
        let addresses = &backend.targets[decided.target].addresses;
        let index = two_choices(addresses.len(), random(), |index| load(&addresses[index]))
            // Nothing is known to be well here: any address is better than none.
            .or_else(|| {
                let busy = |index: usize| Some(addresses[index].outstanding());
                two_choices(addresses.len(), random(), busy)
            })?;
        Some(Chosen {
            target: decided.target,
            readiness: decided.readiness,
            address: addresses[index].clone(),
        })
    })
}

/// A request came for this backend.
pub(crate) fn pay_in(backend: &Backend) {
    with_local(backend, |local| local.budget.request());
}

/// Whether the budget allows one more retry.
pub(crate) fn may_retry(backend: &Backend) -> bool {
    with_local(backend, |local| local.budget.retry())
}

/// Forgets the backends that are not in a snapshot.
pub(crate) fn forget_all_but(snapshot: &Snapshot) {
    let backends = snapshot.ingresses.values().flat_map(|ingress| &ingress.backends);
    let ids: HashSet<u64> = backends.map(|backend| backend.id).collect();
    LOCAL.with_borrow_mut(|locals| locals.retain(|id, _| ids.contains(id)));
}
