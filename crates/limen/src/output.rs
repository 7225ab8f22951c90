//! The forms in which commands tell what they know: `-o table|wide|json|yaml|name`.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::table::{self, Table};

/// What to print.
#[derive(Args, Clone, Copy)]
pub(crate) struct Output {
    /// The form of what is printed
    #[arg(long = "output", short = 'o', value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// A form of what is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For people who want to know more
    Wide,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
    /// Only what things are called, a line each
    Name,
}

/// A column, and whether only `-o wide` shows it.
pub(crate) type Column = (&'static str, bool);

/// Rows and what they are about.
pub(crate) struct Listing<'a, T> {
    pub(crate) columns: &'a [Column],
    /// Each with a cell for each column.
    pub(crate) rows: Vec<Vec<String>>,
    /// What `-o name` prints.
    pub(crate) names: Vec<String>,
    /// What `-o json` and `-o yaml` print.
    pub(crate) value: &'a T,
}

impl<T: Serialize> Listing<'_, T> {
    /// Prints it. A table that was printed can be gone on with.
    pub(crate) fn print(&self, format: Format) -> Result<Option<Table>> {
        match format {
            Format::Table | Format::Wide => {
                let wide = format == Format::Wide;
                let head: Vec<&str> = shown(self.columns, wide).map(|(name, _)| *name).collect();
                let rows: Vec<_> =
                    self.rows.iter().map(|row| cut(self.columns, row, wide)).collect();
                return Ok(Some(table::print(&head, &rows)));
            }
            Format::Json | Format::Yaml => print_value(format, self.value)?,
            Format::Name => self.names.iter().for_each(|name| println!("{name}")),
        }
        Ok(None)
    }
}

fn shown(columns: &[Column], wide: bool) -> impl Iterator<Item = &Column> {
    columns.iter().filter(move |(_, only_wide)| wide || !only_wide)
}

/// The cells of a row that a form shows.
pub(crate) fn cut(columns: &[Column], row: &[String], wide: bool) -> Vec<String> {
    let cells = columns.iter().zip(row).filter(|((_, only_wide), _)| wide || !only_wide);
    cells.map(|(_, cell)| cell.clone()).collect()
}

/// Prints a value as JSON, or as YAML.
pub(crate) fn print_value(format: Format, value: &impl Serialize) -> Result<()> {
    match format {
        Format::Yaml => {
            let text = serde_saphyr::to_string(value).context("cannot write this as YAML")?;
            println!("{}", text.trim_end());
        }
        _ => println!("{}", serde_json::to_string_pretty(value)?),
    }
    Ok(())
}
