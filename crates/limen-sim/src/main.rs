//! `simulate-federation`: searches histories of a federation for broken laws.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use limen_sim::directed::DIRECTED;
use limen_sim::generate::generate;
use limen_sim::laws::{LAWS, Laws};
use limen_sim::run::{Outcome, run_within};
use limen_sim::scenario::Scenario;
use limen_sim::shrink::shrink;
use limen_sim::trace::condensed;
use limen_sim::watchdog::PATIENCE;

/// Search histories of a federation for broken laws
#[derive(Parser)]
#[command(name = "simulate-federation")]
struct Arguments {
    /// Seconds of real time to search for
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// First seed; the following ones come after it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run one seed only, and print its whole trace
    #[arg(long)]
    once: bool,
    /// Directed scenario to run in place of random ones; `all` runs every one
    #[arg(long)]
    scenario: Option<String>,
    /// Laws to check, separated by commas; all by default
    #[arg(long, value_delimiter = ',')]
    laws: Vec<u8>,
    /// Run directed scenarios, then random ones, and stop at the first violation without shrinking it
    #[arg(long)]
    first: bool,
    /// Seconds of real time to shrink each violation for
    #[arg(long, default_value_t = 20)]
    shrink: u64,
    /// Seconds of real time that one history may take; a longer one ends the program
    #[arg(long, default_value_t = PATIENCE.as_secs())]
    patience: u64,
}

impl Arguments {
    fn laws(&self) -> Laws {
        match self.laws.is_empty() {
            true => Laws::all(),
            false => Laws::new(self.laws.iter().copied()),
        }
    }

    fn run(&self, scenario: &Scenario, laws: Laws) -> Outcome {
        run_within(Duration::from_secs(self.patience), scenario, laws)
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.scenario {
        Some(name) => directed(&arguments, name),
        None if arguments.first => first(&arguments),
        None if arguments.once => {
            let scenario = generate(arguments.seed);
            let outcome = arguments.run(&scenario, arguments.laws());
            outcome.trace.iter().for_each(|line| println!("{line}"));
            summary(1, &outcome);
            Ok(())
        }
        None => search(&arguments),
    }
}

/// Runs directed scenarios, and prints what each breaks.
fn directed(arguments: &Arguments, name: &str) -> Result<()> {
    let chosen: Vec<_> = DIRECTED.iter().filter(|known| name == "all" || known.0 == name).collect();
    if chosen.is_empty() {
        let known: Vec<_> = DIRECTED.iter().map(|known| known.0).collect();
        bail!("unknown scenario {name}; known are all, {}", known.join(", "));
    }
    let mut broken = 0;
    for (name, laws, scenario) in chosen {
        let laws = match arguments.laws.is_empty() {
            true => Laws::new(laws.iter().copied()),
            false => arguments.laws(),
        };
        let outcome = arguments.run(&scenario(), laws);
        println!("{name}: {} violations", outcome.violations.len());
        if arguments.scenario.as_deref() != Some("all") {
            condensed(&outcome.trace).iter().for_each(|line| println!("  {line}"));
        }
        for violation in outcome.violations.iter().take(3) {
            println!("  law {}: {}", violation.law, violation.text);
        }
        broken += usize::from(!outcome.violations.is_empty());
    }
    if broken > 0 {
        bail!("{broken} scenarios break a law");
    }
    Ok(())
}

/// Looks for one violation, in directed scenarios and then in random ones.
fn first(arguments: &Arguments) -> Result<()> {
    let began = Instant::now();
    let limit = Duration::from_secs(arguments.seconds);
    let directed = DIRECTED.iter().map(|(name, laws, scenario)| {
        (format!("scenario {name}"), scenario(), Laws::new(laws.iter().copied()))
    });
    let random = (arguments.seed..)
        .map(|seed| (format!("seed {seed}"), generate(seed), arguments.laws()))
        .take_while(|_| began.elapsed() < limit);
    let mut histories = 0;
    for (name, scenario, laws) in directed.chain(random) {
        let outcome = arguments.run(&scenario, laws);
        histories += 1;
        if let Some(found) = outcome.violations.first() {
            let seconds = began.elapsed().as_secs_f64();
            println!("{name}: law {} after {seconds:.1} s, {histories} histories", found.law);
            bail!("{}", found.text);
        }
    }
    println!("no violation in {histories} histories");
    Ok(())
}

/// Searches random histories; the first violation of each law is shrunk and printed.
fn search(arguments: &Arguments) -> Result<()> {
    let began = Instant::now();
    let limit = Duration::from_secs(arguments.seconds);
    let (mut histories, mut requests, mut millis) = (0_u64, 0, 0);
    let mut by_law: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
    let mut shrinking = Duration::ZERO;
    while began.elapsed().saturating_sub(shrinking) < limit {
        let seed = arguments.seed + histories;
        let scenario = generate(seed);
        let outcome = arguments.run(&scenario, arguments.laws());
        histories += 1;
        requests += outcome.requests;
        millis += outcome.millis;
        let mut laws: Vec<u8> = outcome.violations.iter().map(|found| found.law).collect();
        laws.sort_unstable();
        laws.dedup();
        for law in laws {
            let seeds = by_law.entry(law).or_default();
            seeds.push(seed);
            if seeds.len() == 1 {
                let elapsed = began.elapsed().saturating_sub(shrinking);
                println!(
                    "law {law} broken after {:.1} s, {histories} histories",
                    elapsed.as_secs_f64()
                );
                let from = Instant::now();
                report(&scenario, law, Duration::from_secs(arguments.shrink));
                shrinking += from.elapsed();
            }
        }
    }
    let hours = millis / 3_600_000;
    println!("{histories} histories, {requests} requests, {hours} simulated hours");
    for (law, text) in LAWS {
        let count = by_law.get(&law).map_or(0, Vec::len);
        println!("law {law:2}: {count} histories broken ({text})");
    }
    for (law, seeds) in &by_law {
        let seeds: Vec<_> = seeds.iter().map(u64::to_string).collect();
        println!("law {law:2}: seeds {}", seeds.join(", "));
    }
    if !by_law.is_empty() {
        bail!("laws were broken");
    }
    Ok(())
}

fn report(scenario: &Scenario, law: u8, limit: Duration) {
    let (shortest, outcome) = shrink(scenario, law, limit);
    let sentence = LAWS.iter().find(|(number, _)| *number == law).map_or("", |(_, text)| text);
    println!("seed {}: law {law}, {sentence}", scenario.seed);
    println!("  {} of {} actions remain:", shortest.actions.len(), scenario.actions.len());
    let at = outcome.violations.first().map_or(u64::MAX, |found| found.at);
    let until = format!("{} LAW", limen_sim::trace::clock(at));
    let end = outcome.trace.iter().position(|line| line.starts_with(&until));
    let lines = &outcome.trace[..end.map_or(outcome.trace.len(), |end| end + 1)];
    condensed(lines).iter().for_each(|line| println!("  {line}"));
}

fn summary(histories: u64, outcome: &Outcome) {
    println!(
        "{histories} history, {} requests, {} simulated seconds, {} violations, digest {:016x}",
        outcome.requests,
        outcome.millis / 1000,
        outcome.violations.len(),
        outcome.digest
    );
}
