//! Which members are meant by contexts of a kubeconfig.

use kube::config::Kubeconfig;

/// A context of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) server: String,
}

/// A cluster that has joined.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) endpoint: Option<String>,
}

/// A member, and a context that reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) cluster: String,
    pub(super) context: Option<String>,
}

/// The contexts of a kubeconfig with the servers that they lead to.
pub(super) fn contexts(kubeconfig: &Kubeconfig) -> Vec<Known> {
    let known = |named: &kube::config::NamedContext| {
        let cluster = &named.context.as_ref()?.cluster;
        let cluster = kubeconfig.clusters.iter().find(|other| other.name == *cluster)?;
        let server = cluster.cluster.as_ref()?.server.clone()?;
        Some(Known { name: named.name.clone(), server })
    };
    kubeconfig.contexts.iter().filter_map(known).collect()
}

/// The members that some contexts mean. A member has the context of its name, or one that leads to
/// its address.
pub(super) fn choose(
    asked: &[String],
    contexts: &[Known],
    members: &[Member],
) -> Result<Vec<Chosen>, String> {
    if members.is_empty() {
        return Err("no cluster has joined the hub; limen join --help says how".to_owned());
    }
    let found = match asked {
        [] => {
            let with_context = contexts.iter().filter_map(|context| {
                let member = member_of(context, members)?;
                Some(Chosen { cluster: member.name.clone(), context: Some(context.name.clone()) })
            });
            let found: Vec<Chosen> = with_context.collect();
            match found.is_empty() {
                false => found,
                true => members
                    .iter()
                    .map(|member| Chosen { cluster: member.name.clone(), context: None })
                    .collect(),
            }
        }
        asked => asked
            .iter()
            .map(|name| one(name, contexts, members))
            .collect::<Result<Vec<Chosen>, String>>()?,
    };
    let mut chosen: Vec<Chosen> = Vec::new();
    for one in found {
        if !chosen.iter().any(|other| other.cluster == one.cluster) {
            chosen.push(one);
        }
    }
    Ok(chosen)
}

fn one(name: &str, contexts: &[Known], members: &[Member]) -> Result<Chosen, String> {
    let context = contexts.iter().find(|context| context.name == name);
    let member = match context {
        Some(context) => member_of(context, members),
        None => members.iter().find(|member| member.name == name),
    };
    let Some(member) = member else {
        return Err(match context {
            Some(_) => format!(
                "the context {name} leads to no cluster that has joined; let it in with limen join {name} --context {name} --kubeconfig FILE"
            ),
            None => format!("there is neither a context nor a cluster {name}"),
        });
    };
    Ok(Chosen {
        cluster: member.name.clone(),
        context: context.map(|context| context.name.clone()),
    })
}

fn member_of<'a>(context: &Known, members: &'a [Member]) -> Option<&'a Member> {
    let same =
        |endpoint: &String| endpoint.trim_end_matches('/') == context.server.trim_end_matches('/');
    let by_name = members.iter().find(|member| member.name == context.name);
    by_name.or_else(|| members.iter().find(|member| member.endpoint.as_ref().is_some_and(same)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(name: &str, server: &str) -> Known {
        Known { name: name.to_owned(), server: server.to_owned() }
    }

    fn members() -> Vec<Member> {
        let member = |name: &str, endpoint: &str| Member {
            name: name.to_owned(),
            endpoint: Some(endpoint.to_owned()),
        };
        vec![member("a", "https://10.0.0.1"), member("b", "https://10.0.0.2")]
    }

    fn chosen(asked: &[&str], contexts: &[Known]) -> Result<Vec<String>, String> {
        let asked: Vec<String> = asked.iter().map(|&name| name.to_owned()).collect();
        let chosen = choose(&asked, contexts, &members())?;
        let text = |one: Chosen| format!("{}/{}", one.cluster, one.context.unwrap_or_default());
        Ok(chosen.into_iter().map(text).collect())
    }

    #[test]
    fn contexts_mean_members_of_their_name_or_address() {
        let hub = context("federation", "https://10.9.9.9");
        let gke = context("gke_b", "https://10.0.0.2/");
        let all = [hub.clone(), context("a", "https://elsewhere"), gke.clone()];
        assert_eq!(chosen(&[], &all).unwrap(), ["a/a", "b/gke_b"]);
        assert_eq!(chosen(&["gke_b"], &all).unwrap(), ["b/gke_b"]);
        assert_eq!(chosen(&["gke_b", "b"], &all).unwrap(), ["b/gke_b"], "each once");
        assert_eq!(
            chosen(&["b"], std::slice::from_ref(&hub)).unwrap(),
            ["b/"],
            "a member by its own name"
        );
        assert_eq!(chosen(&[], &[hub]).unwrap(), ["a/", "b/"], "no contexts of members: all");
    }

    #[test]
    fn a_context_that_has_not_joined_says_how_to_join() {
        let stranger = [context("onprem", "https://10.0.0.3")];
        let error = chosen(&["onprem"], &stranger).unwrap_err();
        assert!(error.contains("limen join onprem --context onprem"), "{error}");
        let error = chosen(&["nobody"], &stranger).unwrap_err();
        assert!(error.contains("neither a context nor a cluster nobody"), "{error}");
        assert!(choose(&[], &stranger, &[]).unwrap_err().contains("limen join"));
    }
}
