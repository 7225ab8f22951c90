//! What clients are told, as a picture that is drawn again and again in the same place.
//!
//! Where there is no terminal there is no picture: then lines follow each other as they are said.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::crowd::Told;

/// How often the picture is drawn, and how many drawings one looks back on.
const EVERY: Duration = Duration::from_millis(250);
const LOOKS_BACK: usize = 4;
/// How long the longest bar is.
const BAR: usize = 32;

/// Where a story is told.
pub(crate) struct Screen {
    to: Box<dyn Write + Send>,
    /// Whether lines can be drawn over.
    terminal: bool,
    /// Lines of the picture that is there now.
    drawn: usize,
    picture: String,
}

impl Screen {
    /// Standard output.
    pub(crate) fn standard() -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self::new(Box::new(std::io::stdout()), terminal)
    }

    fn new(to: Box<dyn Write + Send>, terminal: bool) -> Self {
        Self { to, terminal, drawn: 0, picture: String::new() }
    }

    /// Tells one more line, above the picture.
    pub(crate) fn say(&mut self, line: &str) {
        let text = format!("{}{line}\n{}", self.back(), self.picture);
        self.drawn = self.picture.lines().count();
        self.put(&text);
    }

    /// Draws another picture instead of the one that is there.
    fn draw(&mut self, picture: String) {
        if !self.terminal {
            return;
        }
        let text = format!("{}{picture}", self.back());
        self.drawn = picture.lines().count();
        self.picture = picture;
        self.put(&text);
    }

    /// Takes the picture away.
    pub(crate) fn clear(&mut self) {
        self.draw(String::new());
    }

    /// To the first line of the picture, with everything below it gone.
    fn back(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }

    fn put(&mut self, text: &str) {
        // Whoever has closed the terminal does not want to see it.
        let _ = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush());
    }
}

/// Draws what clients are told, for as long as it is polled.
pub(super) async fn keep_drawing(
    screen: Arc<Mutex<Screen>>,
    told: Arc<Mutex<Told>>,
    clusters: Vec<String>,
) {
    let lock = |screen: &Arc<Mutex<Screen>>, picture| {
        screen.lock().unwrap_or_else(PoisonError::into_inner).draw(picture);
    };
    let mut lately: VecDeque<Told> = VecDeque::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let latest = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
        lately.push_back(latest);
        if lately.len() > LOOKS_BACK {
            lately.pop_front();
        }
        let time = EVERY.mul_f64(lately.len() as f64);
        lock(&screen, picture(&clusters, lately.iter(), time));
    }
}

/// A line for each cluster, and one for all.
fn picture<'a>(
    clusters: &[String],
    lately: impl Iterator<Item = &'a Told>,
    time: Duration,
) -> String {
    let mut all = Told::default();
    lately.for_each(|told| all.add(told));
    let per_second = |count: u64| count as f64 / time.as_secs_f64();
    let widest = clusters.iter().map(String::len).max().unwrap_or_default();
    let mut text = "\n".to_owned();
    for cluster in clusters {
        let count = all.clusters.get(cluster).copied().unwrap_or(0);
        let share = all.share(cluster);
        let filled = usize::try_from(share).unwrap_or_default() * BAR / 100;
        let bar = format!("{}{}", "█".repeat(filled), "·".repeat(BAR - filled));
        let rate = per_second(count);
        let _ = writeln!(text, "  {cluster:<widest$}  {bar} {share:>3} %  {rate:>6.1}/s");
    }
    let (rate, slowest) = (per_second(all.answered()), all.slowest.as_millis());
    let failed = match all.failed {
        0 => "none failed".to_owned(),
        failed => format!("{failed} FAILED"),
    };
    let _ = writeln!(text, "  {rate:.1} answers/s, the slowest in {slowest} ms, {failed}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn shares_and_failures_are_of_the_time_that_is_looked_back_on() {
        let told = |near: u64, failed: u64| Told {
            clusters: [("near".to_owned(), near), ("far-away".to_owned(), 10)].into(),
            failed,
            slowest: Duration::from_millis(42),
            ..Told::default()
        };
        let clusters = ["near".to_owned(), "far-away".to_owned(), "idle".to_owned()];
        let lately = [told(10, 0), told(50, 3)];
        let text = picture(&clusters, lately.iter(), Duration::from_millis(500));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("  near      ████████████████████████········  75 %"),
            "{text}"
        );
        assert!(lines[1].ends_with("120.0/s") && lines[2].ends_with(" 25 %    40.0/s"), "{text}");
        assert!(lines[3].ends_with("  0 %     0.0/s"), "{text}");
        assert_eq!(lines[4], "  160.0 answers/s, the slowest in 42 ms, 3 FAILED");
    }

    #[test]
    fn on_a_terminal_the_picture_stays_below_what_is_said() {
        let paper = Paper::default();
        let mut screen = Screen::new(Box::new(paper.clone()), true);
        screen.draw("one\ntwo\n".to_owned());
        screen.say("a region dies");
        screen.clear();
        screen.say("good");
        let back = "\x1b[2A\x1b[J";
        let expected = format!("one\ntwo\n{back}a region dies\none\ntwo\n{back}good\n");
        assert_eq!(paper.text(), expected);
    }

    #[test]
    fn without_a_terminal_there_are_only_lines() {
        let paper = Paper::default();
        let mut screen = Screen::new(Box::new(paper.clone()), false);
        screen.draw("one\ntwo\n".to_owned());
        screen.say("a region dies");
        screen.clear();
        assert_eq!(paper.text(), "a region dies\n");
    }
}
