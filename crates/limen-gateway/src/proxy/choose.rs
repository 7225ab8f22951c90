//! Which address a request goes to, and what this worker remembers for that.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use limen_core::decide::{
    Ask, Decision, Memory, Readiness, RetryBudget, Room, Sight, rendezvous, two_choices,
};

use crate::snapshot::{Backend, Snapshot};
use crate::upstream::{Address, random};

/// What one worker remembers of one backend.
struct Local {
    memory: Memory,
    budget: RetryBudget,
    /// How far it is from mirroring another request, in percent.
    mirrored: u16,
}

thread_local!(static LOCAL: RefCell<HashMap<u64, Local>> = RefCell::default());

/// Where a request goes.
pub(crate) struct Chosen {
    pub(crate) target: usize,
    pub(crate) readiness: Readiness,
    pub(crate) room: Room,
    pub(crate) address: Arc<Address>,
}

/// What this gateway sees of a backend's targets at one moment.
pub(crate) struct Seen<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) now: u64,
}

impl Sight for Seen<'_> {
    fn readiness(&self, target: usize) -> Readiness {
        self.backend.targets[target].readiness(self.now)
    }

    fn take(&self, target: usize) -> bool {
        self.backend.targets[target].flow.take(self.now)
    }

    fn open(&self, target: usize) -> f64 {
        self.backend.targets[target].flow.open()
    }
}

fn with_local<T>(backend: &Backend, work: impl FnOnce(&mut Local) -> T) -> T {
    LOCAL.with_borrow_mut(|locals| {
        let local = locals.entry(backend.id).or_insert_with(|| Local {
            memory: Memory::new(&backend.plan),
            budget: RetryBudget::new(backend.rules.budget_percent),
            mirrored: 0,
        });
        work(local)
    })
}

/// Works with what decisions remember.
pub(super) fn with_memory<T>(backend: &Backend, work: impl FnOnce(&mut Memory) -> T) -> T {
    with_local(backend, |local| work(&mut local.memory))
}

/// An address for a request that has been at `tried` in vain.
pub(crate) fn choose(
    backend: &Backend,
    mut ask: Ask,
    tried: &[Arc<Address>],
    now: u64,
) -> Option<Chosen> {
    if !tried.is_empty() {
        for (index, target) in backend.targets.iter().enumerate().take(64) {
            let open = |address: &Arc<Address>| load(backend, address, tried, now).is_some();
            if !target.addresses.iter().any(open) {
                ask.tried |= 1 << index;
            }
        }
    }
    let decided =
        with_memory(backend, |memory| backend.plan.decide(Seen { backend, now }, memory, ask))?;
    let Decision { target, readiness, room } = decided;
    let address = address(backend, target, ask.key, tried, now)?;
    Some(Chosen { target, readiness, room, address })
}

fn load(
    backend: &Backend,
    address: &Arc<Address>,
    tried: &[Arc<Address>],
    now: u64,
) -> Option<u32> {
    let untried = !tried.iter().any(|other| Arc::ptr_eq(other, address));
    if untried { address.load(now, backend.rules.slow_start) } else { None }
}

/// An address of a target: always the same for a client that is to stay, as far as it is well.
pub(super) fn address(
    backend: &Backend,
    target: usize,
    key: Option<u64>,
    tried: &[Arc<Address>],
    now: u64,
) -> Option<Arc<Address>> {
    let addresses = &backend.targets[target].addresses;
    let load = |index: usize| load(backend, &addresses[index], tried, now);
    let chosen = match key {
        None => two_choices(addresses.len(), random(), load),
        Some(key) => {
            let well = |(_, address): &(usize, &Arc<Address>)| {
                address.may_be_used(now) && !tried.iter().any(|other| Arc::ptr_eq(other, address))
            };
            let all = addresses.iter().enumerate().filter(well);
            rendezvous(key, all.map(|(index, address)| (index, address.name, 1.0)))
        }
    };
    // Nothing is known to be well here: any address is better than none.
    let chosen = chosen.or_else(|| {
        let busy = |index: usize| Some(addresses[index].outstanding());
        two_choices(addresses.len(), random(), busy)
    })?;
    Some(addresses[chosen].clone())
}

/// A request came for this backend.
pub(crate) fn pay_in(backend: &Backend) {
    backend.asked.add(1);
    with_local(backend, |local| local.budget.request());
}

/// Whether the budget allows one more retry.
pub(crate) fn may_retry(backend: &Backend) -> bool {
    with_local(backend, |local| local.budget.retry())
}

/// Whether this request is one of those that go to a second place as well.
pub(super) fn is_mirrored(backend: &Backend, percent: u8) -> bool {
    with_local(backend, |local| {
        local.mirrored += u16::from(percent.min(100));
        let due = local.mirrored >= 100;
        local.mirrored -= if due { 100 } else { 0 };
        due
    })
}

/// Counts what a choice says about the state of things.
pub(crate) fn count(backend: &Backend, chosen: &Chosen) {
    let metrics = &backend.targets[chosen.target].metrics;
    if chosen.readiness != Readiness::Ready {
        metrics.fallbacks[chosen.readiness as usize].add(1);
    }
    match chosen.room {
        Room::Enough => {}
        Room::Overflow => metrics.overflows.add(1),
        Room::None => metrics.crowded.add(1),
    }
}

/// Forgets the backends that are not in a snapshot.
pub(crate) fn forget_all_but(snapshot: &Snapshot) {
    let backends = snapshot.ingresses.values().flat_map(|ingress| &ingress.backends);
    let ids: HashSet<u64> = backends.map(|backend| backend.id).collect();
    LOCAL.with_borrow_mut(|locals| locals.retain(|id, _| ids.contains(id)));
}
