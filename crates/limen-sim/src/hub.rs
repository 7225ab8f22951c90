//! Hub processes: the real federation, on simulated APIs.

use std::sync::Arc;
use std::time::Duration;

use limen_api::dialect::Home;
use limen_hub::{Election, Hub as RealHub, HubOptions};
use limen_sync::ObjectApi;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::network::Process;
use crate::wire::Wire;
use crate::world::{Shared, once_network};

/// The pause before another try to start.
const PAUSE: Duration = Duration::from_secs(1);

/// The name under which a process stands for election.
pub fn identity(process: u32) -> String {
    format!("hub-{process}")
}

/// The API behind the endpoint of a Cluster.
pub fn server_of(cluster: &Value) -> String {
    let endpoint = cluster["spec"]["endpoint"].as_str().unwrap_or_default();
    endpoint.trim_start_matches("https://").trim_end_matches(".example").to_owned()
}

/// The endpoint of an API.
pub fn endpoint(server: &str) -> String {
    format!("https://{server}.example")
}

/// A hub process.
pub struct Hub {
    /// Number of the process.
    pub id: u32,
    /// The store that it uses.
    pub store: String,
    task: JoinHandle<()>,
}

impl Hub {
    /// Starts a process on a store; one that `elects` federates only while it leads.
    pub fn start(shared: &Shared, id: u32, store: &str, elects: bool) -> Self {
        {
            let mut world = shared.lock();
            world.change_network(|network| {
                network.processes.insert(id, Process::Running);
            });
            world.laws.processes.insert(id, (store.to_owned(), elects));
        }
        let task = tokio::spawn(run(shared.clone(), id, store.to_owned(), elects));
        Self { id, store: store.to_owned(), task }
    }

    /// Ends the process at whatever it is doing; what it has sent is on its way.
    pub fn kill(self, shared: &Shared) {
        shared.lock().change_network(|network| {
            network.processes.insert(self.id, Process::Dead);
        });
        self.task.abort();
    }
}

async fn run(shared: Shared, id: u32, store: String, elects: bool) {
    let client = Wire::client(&shared, id, &store, "");
    let mut election = Election::new(client.clone(), identity(id));
    loop {
        match elects {
            true => election.win().await,
            false => election.seize().await,
        }
        let federation = start(&shared, id, ObjectApi::new(client.clone()), &election).await;
        if !elects {
            match election.keep_seized().await {}
        }
        while_running(&shared, id, election.keep()).await;
        federation.stop().await;
    }
}

/// Waits for the end of a term as a process does that may be suspended: meanwhile it does not look at
/// the clock, and when it runs again that takes a moment.
async fn while_running<T>(shared: &Shared, id: u32, term: impl Future<Output = T>) -> T {
    let mut term = std::pin::pin!(term);
    loop {
        let suspended = once_network(shared, |world| {
            (world.network.process(id) == Process::Suspended).then_some(())
        });
        tokio::select! {
            biased;
            () = suspended => {}
            ended = &mut term => return ended,
        }
        once_network(shared, |world| {
            (world.network.process(id) != Process::Suspended).then_some(())
        })
        .await;
        let pause = shared.lock().random.between(1, 3000);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

async fn start(shared: &Shared, id: u32, api: ObjectApi, election: &Election) -> RealHub {
    loop {
        let mut options = HubOptions::new(api.clone(), Home::Embedded);
        options.fence = election.fence();
        options.epoch = election.epoch();
        election.identity().clone_into(&mut options.instance);
        let wires = shared.clone();
        options.connector = Some(Arc::new(move |cluster, _| {
            let name = cluster.metadata.name.clone().unwrap_or_default();
            let spec = serde_json::to_value(&cluster.spec).unwrap_or_default();
            let server = server_of(&serde_json::json!({"spec": spec}));
            Ok(Wire::client(&wires, id, &server, &name))
        }));
        match RealHub::start(options).await {
            Ok(hub) => return hub,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
