//! A Kubernetes control plane without nodes: etcd, kube-apiserver, and on
//! request kube-controller-manager.
//!
//! They start one after the other, each when the one before is ready, and end in
//! the opposite order.

use std::path::Path;

use tokio::process::Command;

use crate::{
    Error, Etcd,
    apiserver::{self, Certificates},
    assets::Assets,
    controller_manager,
    folder::Folder,
    kubeconfig::kubeconfig,
    kubectl::Kubectl,
    ports::start_on_free_ports,
    probe::Probe,
    server::{Program, Server},
};

/// A running control plane; dropping it ends its processes.
pub struct ControlPlane {
    // Fields are dropped in this order: nothing loses what it depends on while
    // it runs, and the folder goes last.
    controller_manager: Option<Server>,
    apiserver: Server,
    etcd: Etcd,
    url: String,
    kubeconfig: String,
    kubectl: Kubectl,
    folder: Folder,
}

/// How a control plane is to be started.
#[derive(Clone, Debug, Default)]
pub struct ControlPlaneBuilder {
    /// What kube-controller-manager is to run; without it, there is none.
    controllers: Option<String>,
    without_http2: bool,
}

impl ControlPlaneBuilder {
    /// Also runs the controllers: service accounts, garbage collection,
    /// Deployments, the end of namespaces and the others.
    #[must_use]
    pub fn with_controller_manager(self) -> Self {
        self.with_controllers(&["*"])
    }

    /// Runs only these controllers, by their names in kube-controller-manager's
    /// `--controllers`, for a test that the others would disturb.
    #[must_use]
    pub fn with_controllers(mut self, names: &[&str]) -> Self {
        self.controllers = Some(names.join(","));
        self
    }

    /// Serves HTTP/1.1 only: each request and each watch has a connection to itself, so that a
    /// [`Detour`](crate::Detour) can tell them apart.
    #[must_use]
    pub fn without_http2(mut self) -> Self {
        self.without_http2 = true;
        self
    }

    /// Starts the control plane and waits until its API is ready.
    pub async fn start(self) -> Result<ControlPlane, Error> {
        // Looked up before anything runs: a missing binary is told at once.
        let assets = Assets::locate().await?;
        let kubectl_binary = assets.binary("kubectl")?;
        let apiserver_binary = assets.binary(apiserver::NAME)?;
        let controller_manager = match self.controllers {
            Some(controllers) => Some((assets.binary(controller_manager::NAME)?, controllers)),
            None => None,
        };

        let folder = Folder::new()?;
        let certificates = Certificates::new()?;
        let etcd = Etcd::builder().tls().start().await?;
        let kubectl = Kubectl {
            binary: kubectl_binary,
            kubeconfig: folder.file("kubeconfig"),
            cache: folder.file("kubectl-cache"),
        };
        let kubeconfig_for = |url: &str| kubeconfig(url, &certificates.admin);
        let program = |name, path: &Path, args: &[String], port, ready| Program {
            name,
            path: path.to_owned(),
            args: args.iter().cloned().chain([format!("--secure-port={port}")]).collect(),
            log: folder.file(&format!("{name}.log")),
            ready: Probe::Kubectl { kubectl: kubectl.clone(), server: url_on(port), path: ready },
        };

        let mut args = apiserver::args(&folder, &certificates, &etcd)?;
        args.push(format!("--disable-http2-serving={}", self.without_http2));
        let (apiserver, [port]) = start_on_free_ports(|[port]| {
            folder.write("kubeconfig", &kubeconfig_for(&url_on(port)))?;
            Ok(program(apiserver::NAME, &apiserver_binary, &args, port, "/readyz"))
        })
        .await?;
        let url = url_on(port);

        let controller_manager = match controller_manager {
            Some((binary, controllers)) => {
                let args = controller_manager::args(&folder, &kubectl.kubeconfig, &controllers);
                let (server, _) = start_on_free_ports(|[port]| {
                    Ok(program(controller_manager::NAME, &binary, &args, port, "/healthz"))
                })
                .await?;
                Some(server)
            }
            None => None,
        };

        Ok(ControlPlane {
            controller_manager,
            apiserver,
            etcd,
            kubeconfig: kubeconfig_for(&url),
            url,
            kubectl,
            folder,
        })
    }
}

fn url_on(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts a control plane with options.
    pub fn builder() -> ControlPlaneBuilder {
        ControlPlaneBuilder::default()
    }

    /// The address of the API: `https://127.0.0.1:port`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The text of a kubeconfig for a user who may do everything.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// The file with the text of [`kubeconfig`](Self::kubeconfig).
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubectl.kubeconfig
    }

    /// kubectl, set up for this control plane; add what it should do.
    pub fn kubectl(&self) -> Command {
        self.kubectl.command()
    }

    /// The folder of the control plane's files: certificates, kubeconfig, logs.
    /// etcd's are in a folder of their own, see [`Etcd::data_dir`].
    pub fn data_dir(&self) -> &Path {
        self.folder.path()
    }

    /// The etcd behind the API.
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// The etcd behind the API, to be stopped and started under it.
    pub fn etcd_mut(&mut self) -> &mut Etcd {
        &mut self.etcd
    }

    /// Ends all its processes and waits until they are gone; etcd closes its data first.
    pub async fn stop(&mut self) -> Result<(), Error> {
        if let Some(controller_manager) = &mut self.controller_manager {
            controller_manager.kill().await?;
        }
        // It keeps nothing, and would wait for its clients.
        self.apiserver.kill().await?;
        self.etcd.stop().await
    }

    /// Starts it again with its ports, certificates and data, after it was stopped.
    pub async fn start_again(&mut self) -> Result<(), Error> {
        self.etcd.restart().await?;
        self.apiserver.restart().await?;
        match &mut self.controller_manager {
            Some(controller_manager) => controller_manager.restart().await,
            None => Ok(()),
        }
    }

    /// The process id of kube-apiserver.
    pub fn apiserver_pid(&self) -> u32 {
        self.apiserver.pid().expect("the API server runs")
    }

    /// The process id of kube-controller-manager, if it was asked for.
    pub fn controller_manager_pid(&self) -> Option<u32> {
        self.controller_manager.as_ref().and_then(Server::pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_plane_can_be_started_in_a_task_of_its_own() {
        fn can_be_spawned(_: impl Future<Output = Result<ControlPlane, Error>> + Send + 'static) {}

        can_be_spawned(ControlPlane::start());
        can_be_spawned(ControlPlane::builder().with_controller_manager().start());
    }
}
