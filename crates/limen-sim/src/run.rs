//! One history: a scenario carried out from its start to rest.

use std::cell::Cell;
use std::sync::Once;
use std::time::Duration;

use tokio::time::Instant;

use crate::act::Stage;
use crate::actor::Actor;
use crate::api::{Key, Kinds, Server};
use crate::deeds::join;
use crate::laws::{Laws, Violation};
use crate::members;
use crate::network::Weather;
use crate::people;
use crate::scenario::Scenario;
use crate::watchdog::{PATIENCE, Watchdog};
use crate::world::{BEGINNING, HUB, Shared};

/// The pause between two steps of a cluster's own controllers.
const TICK: Duration = Duration::from_secs(1);

/// Outcome of a history.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Broken laws, in order.
    pub violations: Vec<Violation>,
    /// The history, in sentences.
    pub trace: Vec<String>,
    /// A hash of every change of every API.
    pub digest: u64,
    /// Requests that APIs executed.
    pub requests: u64,
    /// Simulated milliseconds.
    pub millis: u64,
}

thread_local! {
    /// Panics on this thread: those of tasks would otherwise go unnoticed.
    static PANICS: Cell<u64> = const { Cell::new(0) };
}
static COUNT_PANICS: Once = Once::new();

/// Carries out a scenario, and judges it by these laws. Must not be called from within a runtime. Ends
/// the program if that takes longer than [`PATIENCE`].
pub fn run(scenario: &Scenario, laws: Laws) -> Outcome {
    run_within(PATIENCE, scenario, laws)
}

/// Carries out a scenario as [`run`] does, within so much real time.
///
/// # Panics
///
/// If no runtime can be made.
pub fn run_within(patience: Duration, scenario: &Scenario, laws: Laws) -> Outcome {
    PANICS.set(0);
    COUNT_PANICS.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |information| {
            PANICS.set(PANICS.get() + 1);
            before(information);
        }));
    });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime on this thread needs nothing that could fail");
    runtime.block_on(history(patience, scenario, laws))
}

async fn history(patience: Duration, scenario: &Scenario, laws: Laws) -> Outcome {
    limen_sync::clock::simulate(jiff::Timestamp::from_second(BEGINNING).unwrap_or_default());
    let members = scenario.members.iter().map(|name| Server::new(name, Kinds::member()));
    let servers = std::iter::once(Server::new(HUB, Kinds::hub())).chain(members).collect();
    let shared = Shared::new(scenario.seed, servers, laws);
    let _watchdog = Watchdog::start(scenario.seed, shared.clone(), patience);
    for name in &scenario.members {
        join(&mut shared.lock(), name, name);
    }
    shared.lock().change(HUB, |api, _| {
        let key = Key::new("federatedtypes.limen.dev", "", people::TWIN_RESOURCE);
        api.put(&Actor::Person, &key, people::federated_type());
    });
    let mut stage = Stage::new(shared.clone(), scenario.elects);
    stage.start_hub(HUB);
    let ticking = tokio::spawn(tick(shared.clone()));
    let start = Instant::now();
    for (at, action) in &scenario.actions {
        tokio::time::sleep_until(start + Duration::from_millis(*at)).await;
        stage.perform(action);
    }
    tokio::time::sleep(Duration::from_secs(scenario.rest)).await;
    ticking.abort();
    let mut world = shared.lock();
    let now = world.now();
    {
        let world = &mut *world;
        world.laws.panicked(now, PANICS.get(), &mut world.trace);
    }
    if world.network.weather == Weather::default() && world.network.requests_cut.is_empty() {
        let world = &mut *world;
        world.laws.at_rest(now, &world.servers, &mut world.trace);
    }
    Outcome {
        violations: world.laws.violations().to_vec(),
        trace: world.trace.lines().collect(),
        digest: world.trace.digest(),
        requests: world.requests,
        millis: now,
    }
}

async fn tick(shared: Shared) {
    loop {
        tokio::time::sleep(TICK).await;
        let names: Vec<String> = shared.lock().servers.keys().cloned().collect();
        for name in names {
            let mut world = shared.lock();
            let now = world.seconds();
            world.change(&name, |api, random| {
                if !name.starts_with(HUB) {
                    members::tick(api, now);
                }
                api.tick(random);
            });
        }
    }
}
