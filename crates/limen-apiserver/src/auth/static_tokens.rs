//! Tokens from a file, for the first steps of a server and for machines that cannot do better.
//!
//! The file is that of kube-apiserver's `--token-auth-file`: lines of CSV with a token, a user
//! name, a UID and, quoted, the groups.

use std::fmt;

use ring::digest::{SHA256, digest};

use super::identity::Identity;

/// The tokens of a file. Only their hashes are kept.
#[derive(Default)]
pub(crate) struct StaticTokens {
    entries: Vec<([u8; 32], Identity)>,
}

impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticTokens({})", self.entries.len())
    }
}

/// The text is not what it should be. The line is named; what is on it is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StaticTokensError {
    /// A line has too few columns.
    #[error(
        "line {line} has {columns} columns; each line needs at least 3: token, user name, user uid"
    )]
    Columns {
        /// The line, counted from 1.
        line: usize,
        /// How many columns it has.
        columns: usize,
    },
    /// A quote is not closed, or is inside of a value.
    #[error("line {line} has a quote that does not enclose a whole column")]
    Quote {
        /// The line, counted from 1.
        line: usize,
    },
}

impl StaticTokens {
    /// Reads the text of a token file.
    pub(crate) fn parse(text: &str) -> Result<Self, StaticTokensError> {
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            if line.trim().is_empty() {
                continue;
            }
            let columns = columns(line).ok_or(StaticTokensError::Quote { line: line_number })?;
            let [token, name, uid, rest @ ..] = &columns[..] else {
                return Err(StaticTokensError::Columns {
                    line: line_number,
                    columns: columns.len(),
                });
            };
            if token.is_empty() {
                continue;
            }
            let groups = rest
                .first()
                .map_or_else(Vec::new, |groups| groups.split(',').map(str::to_owned).collect());
            let identity = Identity {
                name: name.clone(),
                uid: uid.clone(),
                groups,
                extra: Default::default(),
            };
            entries.push((hash(token), identity.authenticated()));
        }
        // Of two lines with the same token, the last one holds.
        entries.reverse();
        Ok(Self { entries })
    }

    /// The user with that token. Takes as long for every token: all hashes are compared, and
    /// hashes say nothing of how close a guess was.
    pub(crate) fn find(&self, token: &str) -> Option<&Identity> {
        let wanted = hash(token);
        let mut found = None;
        for (known, identity) in &self.entries {
            if *known == wanted && found.is_none() {
                found = Some(identity);
            }
        }
        found
    }
}

fn hash(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// The columns of a line of CSV; `None` if quotes are where they do not belong.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut rest = line;
    loop {
        let (column, after) = if let Some(quoted) = rest.strip_prefix('"') {
            let (column, after) = unquoted(quoted)?;
            (column, after.strip_prefix(',').map_or((after, false), |after| (after, true)))
        } else {
            let (column, after) = match rest.split_once(',') {
                Some((column, after)) => (column, (after, true)),
                None => (rest, ("", false)),
            };
            if column.contains('"') {
                return None;
            }
            (column.to_owned(), after)
        };
        columns.push(column);
        match after {
            (after, true) => rest = after,
            ("", false) => return Some(columns),
            (_, false) => return None,
        }
    }
}

/// A quoted column up to its closing quote, and what follows; two quotes stand for one.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut column = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('"')?;
        column.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                column.push('"');
                rest = after;
            }
            None => return Some((column, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_finds_its_user() {
        let text = "t1,ann,u1,\"dev,ops\"\n\nt2,bob,u2\n,nobody,u3\nt3,carl,u4,dev\nt3,carla,u5\n";
        let tokens = StaticTokens::parse(text).unwrap();
        type Found = Option<(&'static str, &'static [&'static str])>;
        let cases: [(&str, Found); 6] = [
            ("t1", Some(("ann", &["dev", "ops", "system:authenticated"]))),
            ("t2", Some(("bob", &["system:authenticated"]))),
            ("t3", Some(("carla", &["system:authenticated"]))),
            ("t", None),
            ("t11", None),
            ("", None),
        ];
        for (token, expected) in cases {
            let found = tokens.find(token);
            assert_eq!(found.map(|user| user.name.as_str()), expected.map(|(name, _)| name));
            if let (Some(found), Some((_, groups))) = (found, expected) {
                assert_eq!(found.groups, groups);
            }
        }
        assert_eq!(format!("{tokens:?}"), "StaticTokens(4)");
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named_but_not_shown() {
        let cases = [
            ("a,b,c\nsecret,b", StaticTokensError::Columns { line: 2, columns: 2 }),
            ("a,b,c,\"d", StaticTokensError::Quote { line: 1 }),
            ("a,b\"x,c", StaticTokensError::Quote { line: 1 }),
            ("a,b,\"c\"d", StaticTokensError::Quote { line: 1 }),
        ];
        for (text, expected) in cases {
            let error = StaticTokens::parse(text).unwrap_err();
            assert!(!error.to_string().contains("secret"));
            assert_eq!(error, expected, "{text}");
        }
        assert_eq!(columns("\"a\"\"b\",,c").unwrap(), ["a\"b", "", "c"]);
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_read_line_by_line_or_a_line_is_named(text in "[a,\"\\n\\PC]{0,80}") {
            let filled = |line: &&str| !line.trim().is_empty();
            match StaticTokens::parse(&text) {
                Ok(read) => prop_assert!(read.entries.len() <= text.lines().filter(filled).count()),
                Err(
                    StaticTokensError::Columns { line, .. } | StaticTokensError::Quote { line },
                ) => prop_assert!(text.lines().nth(line - 1).as_ref().is_some_and(filled)),
            }
        }
    }
}
