//! Shared secrets in files, as the tools of BIND and Knot write them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use limen_dns_wire::tsig::TsigKey;

/// The key in a file of `tsig-keygen` (BIND) or `keymgr -t` (Knot), or in the short form of
/// nsupdate and kdig: `hmac-sha256:name:secret`. Nobody else may be able to read the file.
pub(crate) fn read(path: &Path) -> Result<TsigKey> {
    let context = || format!("the key in {} cannot be used", path.display());
    let mode = std::fs::metadata(path).with_context(context)?.permissions().mode() & 0o777;
    // The group may read it: that is how a mounted Secret reaches a process that is not root.
    if mode & 0o027 != 0 {
        bail!("others can read the key in {} (mode {mode:o}): chmod 600 it", path.display());
    }
    let text = std::fs::read_to_string(path).with_context(context)?;
    parse(&text).with_context(context)
}

fn parse(text: &str) -> Result<TsigKey> {
    let (name, algorithm, secret) = short(text).or_else(|| long(text)).context(
        "write it as `tsig-keygen NAME` or `keymgr -t NAME` do, or as hmac-sha256:NAME:SECRET",
    )?;
    Ok(TsigKey::new(&name, &algorithm, &secret)?)
}

/// `algorithm:name:secret`, perhaps as a comment.
fn short(text: &str) -> Option<(String, String, String)> {
    text.lines().find_map(|line| {
        let mut parts = line.trim_start_matches('#').trim().split(':').map(str::trim);
        let (algorithm, name, secret) = (parts.next()?, parts.next()?, parts.next()?);
        let whole = parts.next().is_none() && algorithm.starts_with("hmac-") && !name.is_empty();
        whole.then(|| (name.to_owned(), algorithm.to_owned(), secret.to_owned()))
    })
}

/// `key "name" { algorithm hmac-sha256; secret "..."; };`
fn long(text: &str) -> Option<(String, String, String)> {
    let text = text.replace(['{', '}', ';', '"'], " ");
    let mut words = text.split_whitespace();
    let mut after = |word: &str| {
        words.find(|found| *found == word)?;
        words.next().map(str::to_owned)
    };
    Some((after("key")?, after("algorithm")?, after("secret")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

    #[test]
    fn every_tool_s_form_is_read() {
        for text in [
            format!("key \"my.key\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{SECRET}\";\n}};\n"),
            format!("# hmac-sha256:my.key:{SECRET}\nkey:\n  - id: my.key\n"),
            format!("hmac-sha256:my.key:{SECRET}\n"),
        ] {
            assert_eq!(parse(&text).unwrap().name(), "my.key", "{text}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, format!("hmac-sha256:peer:{SECRET}\n")).unwrap();
        let set = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            read(&file)
        };
        assert_eq!(set(0o640).unwrap().name(), "peer");
        let error = set(0o644).unwrap_err().to_string();
        assert!(error.contains("(mode 644): chmod 600 it"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        let error = parse(&format!("hmac-md5:k:{SECRET}")).unwrap_err();
        assert!(error.to_string().contains("hmac-sha256"), "{error}");
        assert!(parse("nonsense").unwrap_err().to_string().contains("tsig-keygen"));
    }
}
