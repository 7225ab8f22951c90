//! What `limen up` tells the person who started it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Whole, dns, sample};

/// What there is, and what to try.
pub(crate) fn welcome(whole: &Whole, took: Duration, kept: Option<&Path>) -> String {
    let mut text = String::new();
    let nearest = whole.nearest();
    let _ = writeln!(
        text,
        "\nThe federation is ready ({:.1} s, {}).\n",
        took.as_secs_f64(),
        memory().map_or_else(|| "memory unknown".to_owned(), |it| format!("{it} MB of memory")),
    );
    for (what, place) in [
        ("hub", whole.hub_url().to_owned()),
        ("gateway", format!("http://{}  https://{}", whole.http(), whole.https())),
        ("DNS", format!("{} for {}, by UDP and TCP", whole.dns(), dns::ZONE)),
        ("admin", format!("http://{}", whole.admin())),
    ] {
        let _ = writeln!(text, "  {what:<9} {place}");
    }
    let _ = writeln!(text, "\nLook at it:\n\n  {}", whole.dashboard());
    let _ = writeln!(text, "\nIn another terminal:\n");
    let _ = writeln!(text, "  export KUBECONFIG={}", whole.kubeconfig().display());
    let _ = writeln!(text, "  kubectl config get-contexts    # federation is the hub");
    if whole.has_sample() {
        let _ = writeln!(text, "  curl http://{}/", whole.http());
        let _ = writeln!(
            text,
            "\nThe gateway is in {}, so {} answers. Things to try:\n",
            nearest.region, nearest.name
        );
        let _ = writeln!(text, "  1. Lose a region, and see the next nearest take over:");
        let _ = writeln!(
            text,
            "       curl -X POST http://{}/clusters/{}/kill",
            whole.admin(),
            nearest.name
        );
        let _ = writeln!(text, "       curl http://{}/", whole.http());
        let _ = writeln!(
            text,
            "       curl -X POST http://{}/clusters/{}/restore",
            whole.admin(),
            nearest.name
        );
        let _ = writeln!(text, "  2. Change the application everywhere at once:");
        let _ = writeln!(
            text,
            "       kubectl set image deployment/hello zone-printer=zone-printer:v2"
        );
        let _ = writeln!(text, "       kubectl --context={} get pods", nearest.name);
        if let Some(second) = whole.second() {
            let _ =
                writeln!(text, "  3. Ask DNS for the nearest, as a client in {}:", second.region);
            let (address, host, network) = (whole.dns(), sample::HOST, dns::client_network(1));
            let (ip, port) = (address.ip(), address.port());
            let _ = writeln!(text, "       dig @{ip} -p {port} +short {host} +subnet={network}");
        }
        let _ = writeln!(text, "  4. Watch a story: {} play failover", program());
    } else {
        let _ = writeln!(
            text,
            "  kubectl create deployment web --image=zone-printer:v1 --replicas={}",
            whole.members()
        );
        let _ = writeln!(text, "  kubectl expose deployment web --port=80 --target-port=8080");
        let _ = writeln!(text, "  kubectl create ingress web --rule=\"/*=web:80\"");
        let _ = writeln!(text, "  curl http://{}/", whole.http());
    }
    let end = match kept {
        Some(folder) => format!("everything is kept in {}", folder.display()),
        None => "nothing is kept".to_owned(),
    };
    let _ = writeln!(text, "\nPress Ctrl-C to end it; {end}.");
    text
}

/// How this program is called from a shell in the same folder.
fn program() -> String {
    let Ok(own) = std::env::current_exe() else { return "limen".to_owned() };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    called(&own, std::env::split_paths(&folders), &here)
}

/// By its name if a shell finds it by that, else by its path, the short one if there is one.
fn called(own: &Path, mut found_in: impl Iterator<Item = PathBuf>, here: &Path) -> String {
    let name = own.file_name().unwrap_or_default();
    let same = |folder: PathBuf| folder.join(name).canonicalize().is_ok_and(|path| path == own);
    match (found_in.any(same), own.strip_prefix(here)) {
        (true, _) => name.to_string_lossy().into_owned(),
        (false, Ok(short)) if short.components().count() > 1 => short.display().to_string(),
        (false, Ok(short)) => format!("./{}", short.display()),
        (false, Err(_)) => own.display().to_string(),
    }
}

/// Megabytes of memory that this process has.
pub(crate) fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_called_so_that_a_shell_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let own = folder.join("target/release/limen");
        std::fs::create_dir_all(own.parent().unwrap()).unwrap();
        std::fs::write(&own, "").unwrap();
        let nowhere = || std::iter::once(folder.join("bin"));
        let there = std::iter::once(folder.join("target/release"));
        assert_eq!(called(&own, there, &folder), "limen");
        assert_eq!(called(&own, nowhere(), &folder), "target/release/limen");
        assert_eq!(called(&own, nowhere(), own.parent().unwrap()), "./limen");
        assert_eq!(called(&own, nowhere(), Path::new("/elsewhere")), own.display().to_string());
    }
}
