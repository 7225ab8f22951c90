//! Colours: for people at a terminal, and for nobody else.

use std::ffi::OsStr;
use std::io::IsTerminal;

/// Whether standard output gets colours.
pub(crate) fn on_stdout() -> bool {
    wanted(std::io::stdout().is_terminal(), std::env::var_os("NO_COLOR").as_deref())
}

/// Whether standard error gets colours.
pub(crate) fn on_stderr() -> bool {
    wanted(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref())
}

/// <https://no-color.org>: any text in `NO_COLOR` means none.
fn wanted(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Words that say how something is, in the colour of what they say.
pub(crate) fn paint(word: &str) -> String {
    let code = match word {
        "Healthy" | "Synced" | "ok" => 32,
        "Pending" | "Waiting" | "Held" | "Deleting" | "warning" => 33,
        "Unhealthy" | "Failed" | "Conflict" | "fault" => 31,
        _ => return word.to_owned(),
    };
    format!("\x1b[{code}m{word}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_of_people_who_want_them() {
        let some = |text: &'static str| Some(OsStr::new(text));
        for (terminal, no_color, expected) in [
            (true, None, true),
            (true, some(""), true),
            (true, some("1"), false),
            (false, None, false),
            (false, some(""), false),
        ] {
            assert_eq!(wanted(terminal, no_color), expected, "{terminal} {no_color:?}");
        }
    }

    #[test]
    fn only_words_that_judge_have_a_colour() {
        assert_eq!(paint("Healthy"), "\x1b[32mHealthy\x1b[0m");
        assert_eq!(paint("europe-west1"), "europe-west1");
    }
}
