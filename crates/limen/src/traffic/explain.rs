//! `limen explain traffic`

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use limen_api::{TrafficPolicy, read_networks};
use limen_core::compile::ExplainedRequest;
use limen_core::decide::Explanation;
use limen_hub::TrafficSnapshot;
use serde_json::{Value, json};

use crate::connection::{HubConnection, block_on};
use crate::output::{Format, Output, print_value};
use crate::roots::read_manifest;
use crate::table;

/// Why requests go to which cluster, and how many of them.
#[derive(Args)]
#[command(after_help = "\
With --dry-run -f FILE it shows what the TrafficPolicy there would change; one that would not be in
force for what is asked is refused.

-o json has gateway and now (globalIngress, rule, backend, cluster, steps with what each rule kept and
dropped, odds with the share of each cluster from 0 to 1); with --dry-run also then, the same under
the policy, or null when nobody would serve it any more.

Examples:
  limen explain traffic shop.example/cart --from europe-west1
  limen explain traffic shop.example --from 203.0.113.7 --networks networks.yaml --at edge-1
  # What a policy would change, before it is applied
  limen explain traffic shop.example --dry-run -f policy.yaml")]
pub(crate) struct Traffic {
    /// What is asked for
    #[arg(value_name = "HOST[/PATH]")]
    what: String,

    /// Where the client is: a region, or an address that --networks knows
    #[arg(long, value_name = "IP|REGION")]
    from: Option<String>,

    /// Which gateway the request comes to; otherwise one in the client's region, or any
    #[arg(long, value_name = "GATEWAY")]
    at: Option<String>,

    /// A table of networks: where clients are
    #[arg(long, value_name = "FILE", alias = "geography")]
    networks: Option<PathBuf>,

    /// Show what this TrafficPolicy would change
    #[arg(long, short, value_name = "FILE", requires = "dry_run")]
    file: Option<PathBuf>,

    /// Change nothing (it never does; this says that you know)
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    hub: HubConnection,
}

impl Traffic {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let (host, path) = match self.what.split_once('/') {
                Some((host, path)) => (host.to_owned(), format!("/{path}")),
                None => (self.what.clone(), "/".to_owned()),
            };
            let places = self.places()?;
            let places: Vec<&str> = places.iter().map(String::as_str).collect();
            let hub = self.hub.connect().await?;
            let client = hub.client;
            let picture = TrafficSnapshot::read(&client).await?;
            let (gateway, from) = picture.vantage(self.at.as_deref(), &places)?;
            let asked = picture.ask((&host, &path), &places, &from);
            let Some(asked) = asked else {
                bail!("nobody serves {host}{path}{}", why_not(&client, &picture, &host).await?);
            };
            let gateway = gateway.as_deref();
            let Some(file) = &self.file else { return self.print(gateway, &asked) };
            let policy = policy_in(read_manifest(file)?, &hub.namespace)
                .with_context(|| format!("{} is no TrafficPolicy", file.display()))?;
            if let Some(why) = limen_hub::hindrance(&client, &policy, &asked.global).await? {
                bail!(
                    "{} would change nothing for {}: {why}; see its metadata.namespace (or -n) and spec.targetRef",
                    file.display(),
                    asked.global
                );
            }
            let changed = picture.with_policy(&asked.global, &policy.spec.policy);
            let changed = changed.map_err(anyhow::Error::msg)?;
            let after = changed.ask((&host, &path), &places, &from);
            match self.output.format {
                Format::Json | Format::Yaml => {
                    let then = after.as_ref().map(value);
                    let whole = json!({"gateway": gateway, "now": value(&asked), "then": then});
                    return print_value(self.output.format, &whole);
                }
                Format::Name => return self.print(gateway, after.as_ref().unwrap_or(&asked)),
                Format::Table | Format::Wide => print(&asked, gateway),
            }
            println!("\nunder {}:", file.display());
            print_change(&asked, after.as_ref());
            Ok(())
        })
    }

    fn print(&self, gateway: Option<&str>, asked: &ExplainedRequest) -> Result<()> {
        match self.output.format {
            Format::Json | Format::Yaml => {
                let whole = json!({"gateway": gateway, "now": value(asked)});
                print_value(self.output.format, &whole)?;
            }
            Format::Name => {
                let mut shown = Vec::new();
                for odds in asked.explanation.odds.iter().filter(|odds| odds.share > 0.0) {
                    if !shown.contains(&&odds.cluster) {
                        println!("cluster/{}", odds.cluster);
                        shown.push(&odds.cluster);
                    }
                }
            }
            Format::Table | Format::Wide => print(asked, gateway),
        }
        Ok(())
    }

    /// Where the client is.
    fn places(&self) -> Result<Vec<String>> {
        let Some(from) = &self.from else { return Ok(Vec::new()) };
        let Ok(address) = from.parse::<IpAddr>() else { return Ok(vec![from.clone()]) };
        let Some(file) = &self.networks else {
            bail!("nobody knows where {address} is; give --networks FILE, or a region for --from");
        };
        Ok(read_networks(file)?.names(address).to_vec())
    }
}

/// A policy as it would be on the hub.
fn policy_in(object: Value, namespace: &str) -> Result<TrafficPolicy> {
    let (version, kind) = (&object["apiVersion"], &object["kind"]);
    let own = version.as_str().is_some_and(|version| version.starts_with("limen.dev/"));
    if !own || kind != "TrafficPolicy" {
        bail!("its apiVersion is {version} and its kind {kind}");
    }
    let mut policy: TrafficPolicy = serde_json::from_value(object)?;
    policy.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
    Ok(policy)
}

/// What to say to somebody who asks for what nobody serves.
async fn why_not(client: &Client, picture: &TrafficSnapshot, host: &str) -> Result<String> {
    let paths = picture.paths_of(host);
    if !paths.is_empty() {
        return Ok(format!("; of {host} these paths are served: {}", paths.join(", ")));
    }
    let roots: Api<Ingress> = Api::all(client.clone());
    let roots = roots.list(&ListParams::default()).await.context("cannot read Ingresses")?;
    let wants = |root: &&Ingress| {
        let rules = root.spec.iter().flat_map(|spec| spec.rules.iter().flatten());
        rules.filter_map(|rule| rule.host.as_deref()).any(|own| own.eq_ignore_ascii_case(host))
    };
    let Some(root) = roots.iter().find(wants) else {
        return Ok(
            ": no Ingress has such a host; kubectl get globalingresses -A shows what is served"
                .to_owned(),
        );
    };
    let (name, namespace) = (root.name_any(), root.namespace().unwrap_or_default());
    Ok(format!(
        ": the Ingress {namespace}/{name} asks for it, and no cluster is ready for it yet; limen status ingress/{name} -n {namespace} says why"
    ))
}

fn value(asked: &ExplainedRequest) -> Value {
    let Explanation { steps, odds, cluster } = &asked.explanation;
    json!({
        "globalIngress": asked.global, "rule": asked.rule, "backend": asked.backend,
        "cluster": cluster, "steps": steps, "odds": odds})
}

fn print(asked: &ExplainedRequest, gateway: Option<&str>) {
    let rule = match asked.rule.as_str() {
        "" => "the default".to_owned(),
        path if path.starts_with('/') => format!("{path} of any host"),
        rule => rule.to_owned(),
    };
    let seen = match gateway {
        Some(gateway) => format!("as seen by {gateway}"),
        None => "as a gateway where the client is would see it (there is none yet)".to_owned(),
    };
    println!("{rule}, a rule of {}, backend {}, {seen}", asked.global, asked.backend);
    for step in &asked.explanation.steps {
        println!("  {}: {}", step.rule, step.detail);
        println!("    keeps {}", listed(&step.kept));
        for dropped in &step.dropped {
            println!("    drops {}: {}", dropped.cluster, dropped.reason);
        }
    }
    let Some(cluster) = &asked.explanation.cluster else {
        return println!("no cluster may serve it: clients get 503");
    };
    match asked.explanation.odds.as_slice() {
        [_] => println!("goes to {cluster}"),
        _ => println!("goes to these, most to {cluster}"),
    }
    let row = |odds: &limen_core::decide::Odds| {
        let group = odds.group.clone().unwrap_or_else(|| "-".to_owned());
        vec![odds.cluster.clone(), group, percent(odds.share)]
    };
    let rows: Vec<_> = asked.explanation.odds.iter().map(row).collect();
    table::print(&["CLUSTER", "GROUP", "SHARE"], &rows);
}

fn print_change(before: &ExplainedRequest, after: Option<&ExplainedRequest>) {
    let share = |asked: Option<&ExplainedRequest>, name: &str| -> f64 {
        let odds = asked.into_iter().flat_map(|asked| &asked.explanation.odds);
        odds.filter(|odds| odds.cluster == name).map(|odds| odds.share).sum()
    };
    let both = [Some(before), after].into_iter().flatten();
    let mut names: Vec<&str> =
        both.flat_map(|asked| &asked.explanation.odds).map(|odds| odds.cluster.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let row = |name: &&str| {
        let (old, new) = (share(Some(before), name), share(after, name));
        vec![(*name).to_owned(), percent(old), percent(new), format!("{:+.1}", (new - old) * 100.0)]
    };
    let rows: Vec<_> = names.iter().map(row).collect();
    table::print(&["CLUSTER", "NOW", "THEN", "CHANGE"], &rows);
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn percent(share: f64) -> String {
    // A sum of nothing is a negative zero.
    format!("{:.1}%", share * 100.0 + 0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::policy_in;

    #[test]
    fn only_a_policy_is_taken_for_one() {
        let policy = |version: &str, kind: &str| {
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "p"},
                "spec": {"weights": {"clusters": {"a": 1}}}})
        };
        let taken = policy_in(policy("limen.dev/v1alpha1", "TrafficPolicy"), "shop").unwrap();
        assert_eq!(taken.metadata.namespace.as_deref(), Some("shop"));
        for (version, kind) in [
            ("limen.dev/v1alpha1", "PlacementPolicy"),
            ("v1", "ConfigMap"),
            ("other.example/v1", "TrafficPolicy"),
        ] {
            let refused = policy_in(policy(version, kind), "shop").unwrap_err().to_string();
            assert!(refused.contains(kind), "{refused}");
        }
    }
}
