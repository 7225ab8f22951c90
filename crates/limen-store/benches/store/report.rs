//! How results are printed: Markdown, as it goes into docs/benchmarks.md.

pub(crate) fn machine() {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("?");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    println!("{model}, {cores} cores, Linux {}", kernel.trim());
}

pub(crate) fn table(title: &str, columns: &[&str]) {
    println!("\n### {title}\n");
    row(&columns.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    row(&columns.iter().map(|_| "---".to_owned()).collect::<Vec<_>>());
}

pub(crate) fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn ratio(value: f64) -> String {
    format!("{value:.2}x")
}
