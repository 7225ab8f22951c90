//! The commands of the federated ingress user guide of Kubernetes 1.4, as they are written there,
//! and those that `limen up` prints, run by kubectl.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rig::{Up, ask, eventually};

struct Guide {
    kubectl: PathBuf,
    folder: PathBuf,
    kubeconfig: PathBuf,
}

impl Guide {
    /// Runs a command line of the guide; what it says.
    fn run(&self, line: &str) -> Result<String, String> {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("kubectl"), "{line}");
        let output = Command::new(&self.kubectl)
            .args(words)
            .args(["--cache-dir".as_ref(), self.folder.join("cache").as_os_str()])
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBERC", "off")
            .current_dir(&self.folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.success() {
            true => Ok(said),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Runs a command line until it says what it should.
    fn until(&self, line: &str, fits: impl Fn(&str) -> bool) {
        eventually(line, || {
            let said = self.run(line).unwrap_or_else(|error| error);
            (fits(&said), said)
        });
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const CLUSTERS: [&str; 3] = ["gce-us-central1a", "gce-europe-west1b", "gce-asia-east1a"];

const INGRESS: &str = "\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: myingress}
spec: {defaultBackend: {service: {name: nginx, port: {number: 80}}}}
";
const SERVICE: &str = "\
apiVersion: v1
kind: Service
metadata: {name: nginx, labels: {app: nginx}}
spec: {selector: {app: nginx}, ports: [{port: 80, targetPort: 8080}]}
";
// The guide's is nginx; the playground has an image of its own.
const REPLICA_SET: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: nginx}
spec:
  replicas: 3
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec: {containers: [{name: nginx, image: \"zone-printer:v1\", ports: [{containerPort: 8080}]}]}
";

#[tokio::test]
async fn the_guide_works_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(&folder.path().join("up"), &["--clusters", "3", "--no-sample"]);
    write(folder.path(), "myingress.yaml", INGRESS);
    write(folder.path(), "services/nginx.yaml", SERVICE);
    write(folder.path(), "myreplicaset.yaml", REPLICA_SET);
    let guide = Guide {
        kubectl: limen_testbed::kubectl_binary().await.unwrap(),
        folder: folder.path().to_owned(),
        kubeconfig: folder.path().join("up/kubeconfig"),
    };

    // What a cluster has already under that name is taken over.
    write(folder.path(), "older.yaml", &INGRESS.replace("nginx", "older"));
    guide.run("kubectl --context=gce-asia-east1a create -f older.yaml").unwrap();

    guide.run("kubectl --context=federation-cluster create -f myingress.yaml").unwrap();
    for (index, cluster) in CLUSTERS.iter().enumerate() {
        guide.until(&format!("kubectl --context={cluster} get ingress myingress"), |said| {
            said.contains(&format!("127.{}.0.1", 16 + index))
        });
    }
    guide.until("kubectl --context=gce-asia-east1a describe ingress myingress", |said| {
        said.contains("nginx:80") && !said.contains("older")
    });
    guide.until("kubectl --context=federation-cluster describe ingress myingress", |said| {
        said.contains("Name:             myingress")
            && said.contains("Namespace:        default")
            && said.contains("Address:          127.")
            && said.contains("Events:")
    });
    guide.run("kubectl --context=federation-cluster create -f services/nginx.yaml").unwrap();
    guide.run("kubectl --context=federation-cluster create -f myreplicaset.yaml").unwrap();
    for cluster in CLUSTERS {
        guide.until(&format!("kubectl --context={cluster} get services nginx"), |said| {
            said.contains("nginx") && said.contains("10.96.")
        });
    }
    eventually("clients are answered", || {
        let (status, answer) = up.ask_gateway();
        (status == 200 && answer["cluster"] == "gce-us-central1a", format!("{status} {answer}"))
    });
    // The gateway is in front of all clusters, so its address is the one to go to.
    guide.until("kubectl --context=federation-cluster describe ingress myingress", |said| {
        said.contains("Address:          127.0.0.1\n")
    });
    // From the section on what to do when something is wrong.
    guide.until("kubectl describe clusters", |said| {
        CLUSTERS.iter().all(|cluster| said.contains(cluster)) && said.contains("Healthy")
    });
    guide.run("kubectl --context=federation delete ingress myingress").unwrap();
    for cluster in CLUSTERS.iter().filter(|cluster| **cluster != "gce-asia-east1a") {
        guide.until(&format!("kubectl --context={cluster} get ingress myingress"), |said| {
            said.contains("not found")
        });
    }
    // The adopted object is released, and stays.
    guide.until("kubectl --context=gce-asia-east1a get ingress myingress -o yaml", |said| {
        said.contains("name: myingress") && !said.contains("limen.dev/hub")
    });
    up.terminate();
}

/// Everything that `limen up` prints to be tried, tried. What a person would see with curl is
/// asked for without it.
async fn try_what_is_printed(arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(&folder.path().join("up"), arguments);
    let kubectl = limen_testbed::kubectl_binary().await.unwrap();
    let path = std::env::join_paths(
        [kubectl.parent().unwrap().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let lines = up.welcome.lines().map(str::trim);
    let (mut tried, mut script) = (0, String::new());
    for line in lines {
        tried += 1;
        if line.starts_with("export KUBECONFIG=") {
            script = format!("{line}; ");
        } else if line.starts_with("kubectl ") || line.starts_with("dig ") {
            let output = Command::new("sh")
                .args(["-c", &format!("{script}{line}")])
                .env("PATH", &path)
                .env("HOME", folder.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let complained = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !said.trim().is_empty(), "{line}: {complained}");
        } else if let Some(url) = line.strip_prefix("curl ") {
            let (method, url) = match url.strip_prefix("-X POST ") {
                Some(url) => ("POST", url),
                None => ("GET", url),
            };
            let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
            eventually(line, || {
                let (status, answer) = ask(address, method, &format!("/{path}"));
                (status == 200, format!("{status} {answer}"))
            });
        } else {
            tried -= 1;
        }
    }
    assert!(tried >= 5, "little was printed: {}", up.welcome);
    up.terminate();
}

#[tokio::test]
async fn what_is_printed_can_be_tried() {
    try_what_is_printed(&["--clusters", "2"]).await;
    try_what_is_printed(&["--clusters", "2", "--no-sample"]).await;
}
