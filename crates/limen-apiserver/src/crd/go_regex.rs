//! Regular expressions as Go reads them, for patterns in schemas.
//!
//! Go and Rust agree on most of the syntax. Where they do not (`\d` is ASCII, `[` inside a class is
//! a letter, there is no `(?x)`), the pattern is rewritten; what Go refuses is refused with Go's
//! words.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

/// How many patterns a thread remembers before it forgets them all.
const REMEMBERED: usize = 512;
/// How large a compiled pattern may be; Go's own limit is on repetitions.
const SIZE_LIMIT: usize = 4 << 20;
const DIGITS: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = r"\t\n\f\r ";

thread_local! {
    static COMPILED: RefCell<HashMap<String, Result<Regex, String>>> = RefCell::default();
}

/// The compiled pattern, or what Go says is wrong with it.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    COMPILED.with_borrow_mut(|compiled| {
        if let Some(known) = compiled.get(pattern) {
            return known.clone();
        }
        if compiled.len() >= REMEMBERED {
            compiled.clear();
        }
        let made = translate(pattern).and_then(|rust| {
            RegexBuilder::new(&rust)
                .size_limit(SIZE_LIMIT)
                .build()
                .map_err(|_| format!("expression is not supported: `{pattern}`"))
        });
        let made = made.map_err(|why| format!("error parsing regexp: {why}"));
        compiled.insert(pattern.to_owned(), made.clone());
        made
    })
}

fn translate(pattern: &str) -> Result<String, String> {
    let mut scan = Scan { pattern, rest: pattern, out: String::with_capacity(pattern.len()) };
    scan.run()?;
    Ok(scan.out)
}

struct Scan<'a> {
    pattern: &'a str,
    rest: &'a str,
    out: String,
}

/// What stands before the scanner, for repetition operators.
#[derive(Clone, Copy)]
enum Before<'a> {
    Nothing,
    Something,
    /// A repetition operator, from its first character on.
    Repetition(&'a str),
}

impl<'a> Scan<'a> {
    fn run(&mut self) -> Result<(), String> {
        let mut open = 0usize;
        let mut before = Before::Nothing;
        while let Some(c) = self.rest.chars().next() {
            let here = self.rest;
            match c {
                '\\' => {
                    self.escape(false)?;
                    before = Before::Something;
                }
                '[' => {
                    self.class()?;
                    before = Before::Something;
                }
                '(' => {
                    self.group()?;
                    open += 1;
                    before = Before::Nothing;
                }
                ')' if open == 0 => {
                    return Err(format!("unexpected ): `{}`", self.pattern));
                }
                ')' => {
                    self.keep(1);
                    open -= 1;
                    before = Before::Something;
                }
                '|' => {
                    self.keep(1);
                    before = Before::Nothing;
                }
                '*' | '+' | '?' => before = self.repetition(1, before, here)?,
                '{' => match counted(here) {
                    Some(length) => {
                        if counts_too_far(&here[1..length - 1]) {
                            return Err(format!("invalid repeat count: `{}`", &here[..length]));
                        }
                        before = self.repetition(length, before, here)?;
                    }
                    None => {
                        self.out.push_str(r"\{");
                        self.rest = &here[1..];
                        before = Before::Something;
                    }
                },
                '}' => {
                    self.out.push_str(r"\}");
                    self.rest = &here[1..];
                    before = Before::Something;
                }
                c => {
                    self.keep(c.len_utf8());
                    before = Before::Something;
                }
            }
        }
        if open > 0 {
            return Err(format!("missing closing ): `{}`", self.pattern));
        }
        Ok(())
    }

    fn keep(&mut self, length: usize) {
        self.out.push_str(&self.rest[..length]);
        self.rest = &self.rest[length..];
    }

    fn repetition(
        &mut self,
        length: usize,
        before: Before<'a>,
        here: &'a str,
    ) -> Result<Before<'a>, String> {
        let lazy = here[length..].starts_with('?');
        let whole = length + usize::from(lazy);
        match before {
            Before::Nothing => {
                let operator = &here[..whole];
                return Err(format!("missing argument to repetition operator: `{operator}`"));
            }
            Before::Repetition(first) => {
                let both = &first[..first.len() - here.len() + whole];
                return Err(format!("invalid nested repetition operator: `{both}`"));
            }
            Before::Something => self.keep(whole),
        }
        Ok(Before::Repetition(here))
    }

    fn group(&mut self) -> Result<(), String> {
        let Some(rest) = self.rest.strip_prefix("(?") else {
            self.keep(1);
            return Ok(());
        };
        for named in ["P<", "<"] {
            let Some(name) = rest.strip_prefix(named) else { continue };
            if name.starts_with(['=', '!']) {
                break;
            }
            let end = name.find('>').filter(|end| *end > 0);
            let Some(end) = end else {
                return Err(format!("invalid named capture: `{}`", self.rest));
            };
            self.keep(2 + named.len() + end + 1);
            return Ok(());
        }
        let end = rest.find(|c| !matches!(c, 'i' | 'm' | 's' | 'U' | '-')).unwrap_or(rest.len());
        match rest[end..].chars().next() {
            Some(':' | ')') => {
                self.keep(2 + end);
                if self.rest.starts_with(':') {
                    self.keep(1);
                }
                Ok(())
            }
            Some(c) => {
                let shown = &self.rest[..2 + end + c.len_utf8()];
                Err(format!("invalid or unsupported Perl syntax: `{shown}`"))
            }
            None => Err(format!("missing closing ): `{}`", self.pattern)),
        }
    }

    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(c) = self.rest[1..].chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let length = 1 + c.len_utf8();
        let class = |set: &str, negated: bool| match (in_class, negated) {
            (true, false) => set.to_owned(),
            (_, negated) => format!("[{}{set}]", if negated { "^" } else { "" }),
        };
        let written = match c {
            'd' | 'D' => class(DIGITS, c == 'D'),
            'w' | 'W' => class(WORD, c == 'W'),
            's' | 'S' => class(SPACE, c == 'S'),
            'b' if !in_class => r"(?-u:\b)".to_owned(),
            'Q' if !in_class => {
                let quoted = &self.rest[length..];
                let end = quoted.find(r"\E").unwrap_or(quoted.len());
                self.out.push_str(&regex::escape(&quoted[..end]));
                self.rest = quoted[end..].strip_prefix(r"\E").unwrap_or_default();
                return Ok(());
            }
            'A' | 'B' | 'z' if !in_class => format!(r"\{c}"),
            'a' | 'f' | 'n' | 'r' | 't' | 'v' => format!(r"\{c}"),
            'x' | 'p' | 'P' => {
                self.keep(length);
                return Ok(());
            }
            '0'..='7' => {
                let octal = &self.rest[1..];
                let end = octal.bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
                if c != '0' && end == 1 {
                    return Err(format!("invalid escape sequence: `{}`", &self.rest[..length]));
                }
                let code = u32::from_str_radix(&octal[..end], 8).unwrap_or_default();
                self.rest = &octal[end..];
                self.out.push_str(&format!(r"\x{{{code:x}}}"));
                return Ok(());
            }
            c if c.is_ascii_punctuation() => regex::escape(&c.to_string()),
            _ => return Err(format!("invalid escape sequence: `{}`", &self.rest[..length])),
        };
        self.out.push_str(&written);
        self.rest = &self.rest[length..];
        Ok(())
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest;
        self.keep(1);
        if self.rest.starts_with('^') {
            self.keep(1);
        }
        let mut first = true;
        loop {
            let Some(c) = self.rest.chars().next() else {
                return Err(format!("missing closing ]: `{whole}`"));
            };
            match c {
                ']' if !first => {
                    self.keep(1);
                    return Ok(());
                }
                '\\' => self.escape(true)?,
                '[' if self.rest.starts_with("[:") && self.rest.contains(":]") => {
                    let end = self.rest.find(":]").unwrap_or_default() + 2;
                    self.keep(end);
                }
                '-' if first || self.rest[1..].starts_with(']') => {
                    self.out.push_str(r"\-");
                    self.rest = &self.rest[1..];
                }
                '[' | ']' | '&' | '~' => {
                    self.out.push('\\');
                    self.keep(1);
                }
                c => self.keep(c.len_utf8()),
            }
            first = false;
        }
    }
}

/// The length of `{n}`, `{n,}` or `{n,m}` at the start of the text.
fn counted(text: &str) -> Option<usize> {
    let end = text.find('}')?;
    let (least, most) = text[1..end].split_once(',').unwrap_or((&text[1..end], ""));
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (!least.is_empty() && number(least) && number(most)).then_some(end + 1)
}

fn counts_too_far(counts: &str) -> bool {
    counts
        .split(',')
        .any(|n| !n.is_empty() && n.parse::<u32>().is_ok_and(|n| n > 1000) || n.len() > 9)
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            (r"^\d+$", "٣", false),
            (r"^\d+$", "3", true),
            (r"^[a-z[]+$", "a[", true),
            (r"^[\d.]+$", "1.5", true),
            (r"^[^\s]+$", "ab", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^a{,2}$", "a{,2}", true),
            (r"^(?i)abc$", "ABC", true),
            (r"^[a&&b]+$", "&a", true),
            (r"^\/x\-y$", "/x-y", true),
            (r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)$", "a-b", true),
        ];
        for (pattern, text, matches) in cases {
            let regex = compile(pattern).unwrap();
            assert_eq!(regex.is_match(text), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        let cases = [
            ("a(", "error parsing regexp: missing closing ): `a(`"),
            ("a)", "error parsing regexp: unexpected ): `a)`"),
            ("(?!a)b", "error parsing regexp: invalid or unsupported Perl syntax: `(?!`"),
            ("[a", "error parsing regexp: missing closing ]: `[a`"),
            ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
            ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
            (r"\8", r"error parsing regexp: invalid escape sequence: `\8`"),
            ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
            (r"a\", "error parsing regexp: trailing backslash at end of expression: ``"),
        ];
        for (pattern, message) in cases {
            assert_eq!(compile(pattern).unwrap_err(), message, "{pattern}");
        }
    }
}
