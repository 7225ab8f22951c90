//! The commands of the federated ingress user guide of Kubernetes 1.4, as they are written there,
//! run by kubectl.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rig::{Up, eventually};

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

    guide.run("kubectl --context=federation-cluster create -f myingress.yaml").unwrap();
    guide.until("kubectl --context=gce-asia-east1a get ingress myingress", |said| {
        said.contains("127.18.0.1")
    });
    guide.until("kubectl --context=federation-cluster describe ingress myingress", |said| {
        said.contains("Address:          127.")
    });
    guide.run("kubectl --context=federation-cluster create -f services/nginx.yaml").unwrap();
    guide.run("kubectl --context=federation-cluster create -f myreplicaset.yaml").unwrap();
    guide.until("kubectl --context=gce-asia-east1a get services nginx", |said| {
        said.contains("nginx") && said.contains("10.96.")
    });
    eventually("clients are answered", || {
        let (status, answer) = up.ask_gateway();
        (status == 200 && answer["cluster"] == "gce-us-central1a", format!("{status} {answer}"))
    });
    // The gateway is in front of all clusters, so its address is the one to go to.
    guide.until("kubectl --context=federation-cluster describe ingress myingress", |said| {
        said.contains("Address:          127.0.0.1\n")
    });
    guide.run("kubectl --context=federation describe clusters").unwrap();
    guide.run("kubectl --context=federation delete ingress myingress").unwrap();
    guide.until("kubectl --context=gce-asia-east1a get ingress myingress", |said| {
        said.contains("not found")
    });
    up.terminate();
}
