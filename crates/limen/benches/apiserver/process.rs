//! What the kernel says of a process.

use anyhow::{Context, Result};

/// CPU time that a process has used so far, in all its threads.
pub(crate) fn cpu_seconds(process: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The fields after the command's name, which may have spaces in it, in parentheses.
    let (_, fields) = stat.rsplit_once(')').context("a command has a name")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / 100.0)
}

/// Resident memory of a process.
pub(crate) fn resident_megabytes(process: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("it has memory")?;
    let kilobytes = line.split_whitespace().nth(1).context("a line has a number")?;
    Ok(kilobytes.parse::<f64>()? / 1024.0)
}
