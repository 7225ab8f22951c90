//! Tables as kubectl prints them: columns of text, three spaces apart.

use crate::colour;

/// A table whose columns are as wide as its first rows need.
pub(crate) struct Table {
    widths: Vec<usize>,
    colours: bool,
}

impl Table {
    /// A table for rows such as these.
    pub(crate) fn new(head: &[&str], rows: &[Vec<String>]) -> Self {
        let width = |column: usize| {
            let cells =
                rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([head[column].len()]).max().unwrap_or(0)
        };
        Self { widths: (0..head.len()).map(width).collect(), colours: colour::on_stdout() }
    }

    /// One line of it.
    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>) -> String {
        let mut text = String::new();
        let mut gap = 0;
        for (column, (cell, width)) in cells.zip(&self.widths).enumerate() {
            text.extend(std::iter::repeat_n(' ', gap));
            // Names are in the first column, and may be any word.
            match self.colours && column > 0 {
                true => text.push_str(&colour::paint(cell)),
                false => text.push_str(cell),
            }
            gap = width.saturating_sub(cell.chars().count()) + 3;
        }
        text.trim_end().to_owned()
    }

    /// Prints a line of it.
    pub(crate) fn print_row(&self, row: &[String]) {
        println!("{}", self.line(row.iter().map(String::as_str)));
    }
}

/// Prints a table with a head, to which rows may be added.
pub(crate) fn print(head: &[&str], rows: &[Vec<String>]) -> Table {
    let table = Table::new(head, rows);
    println!("{}", table.line(head.iter().copied()));
    for row in rows {
        table.print_row(row);
    }
    table
}

/// How long ago something was, in the words of kubectl.
pub(crate) fn age(since: Option<jiff::Timestamp>) -> String {
    let Some(since) = since else { return "<unknown>".to_owned() };
    duration(jiff::Timestamp::now().as_second() - since.as_second())
}

/// A time in seconds, in the words of kubectl.
pub(crate) fn duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_with_and_without_colours() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "Healthy", "x"]), row(["Healthy", "Ünwell", ""])];
        let mut table = Table::new(&["NAME", "API", "MORE"], &rows);
        table.colours = false;
        let line = |table: &Table, row: &[String]| table.line(row.iter().map(String::as_str));
        assert_eq!(line(&table, &rows[0]), "a         Healthy   x");
        assert_eq!(line(&table, &rows[1]), "Healthy   Ünwell");
        table.colours = true;
        assert_eq!(line(&table, &rows[0]), "a         \x1b[32mHealthy\x1b[0m   x");
        assert_eq!(line(&table, &rows[1]), "Healthy   Ünwell", "a name has no colour");
    }
}
