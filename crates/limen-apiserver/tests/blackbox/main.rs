//! Holds Limen to the real kube-apiserver, speaking only HTTP and kubectl.
//!
//! ```text
//!   cases/*.txt ──► real  ──► answers ─┐
//!              └──► limen ──► answers ─┴─► compare ──► differences ── divergences.txt
//! ```
//!
//! Every case runs against both subjects in the same way, in a namespace of its own, several
//! cases at a time. What both answer is compared step by step, values that differ from run to
//! run by their kind and identity only. A difference that `divergences.txt` does not list fails
//! the suite, and so does a line there that no difference needs.
//!
//! | variable | |
//! | --- | --- |
//! | `LIMEN_BLACKBOX_SUBJECTS` | `real,limen` unless told otherwise; `real,real` tests the cases themselves |
//! | `LIMEN_BLACKBOX_CASES` | only the cases whose names contain one of these, separated by commas |
//! | `LIMEN_BLACKBOX_JOBS` | how many cases run at a time |
//! | `LIMEN_BLACKBOX_TRANSCRIPTS` | a folder to write what each subject answered into |
//! | `LIMEN_BIN` | the `limen` binary, if it is not beside this test |

use std::{
    collections::BTreeSet,
    env, fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    compare::{Comparison, Difference},
    divergences::Divergence,
    run::Answer,
    script::{Case, Step},
    subject::Subject,
};

mod compare;
mod divergences;
mod http;
mod kube_client;
mod opaque;
mod run;
mod script;
mod subject;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/blackbox");

/// What all cases share.
struct Suite {
    subjects: [Subject; 2],
    tools: String,
    home: tempfile::TempDir,
    transcripts: Option<PathBuf>,
}

/// A case that was run: each step with what differed in it.
struct Outcome {
    case: String,
    steps: Vec<(String, Vec<Difference>)>,
    seconds: f32,
}

#[tokio::test(flavor = "multi_thread")]
async fn limen_answers_as_kubernetes_does() -> Result<()> {
    let start = Instant::now();
    let setting = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let kinds = setting("LIMEN_BLACKBOX_SUBJECTS").unwrap_or_else(|| "real,limen".to_owned());
    let filter = setting("LIMEN_BLACKBOX_CASES");
    let jobs = setting("LIMEN_BLACKBOX_JOBS").map_or(Ok(4), |jobs| jobs.parse())?;
    let mut cases = read_cases()?;
    cases.retain(|case| {
        filter.as_ref().is_none_or(|names| names.split(',').any(|name| case.name.contains(name)))
    });
    ensure!(!cases.is_empty(), "no case has such a name: {filter:?}");
    let listed = divergences::parse(&fs::read_to_string(format!("{FOLDER}/divergences.txt"))?)?;

    let (left, right) = kinds.split_once(',').context("LIMEN_BLACKBOX_SUBJECTS names two")?;
    let tools = subject::tools().await?;
    let (left, right) = tokio::try_join!(Subject::start(left), Subject::start(right))?;
    let suite = Arc::new(Suite {
        subjects: [left, right],
        tools,
        home: tempfile::Builder::new().prefix("limen-blackbox-").tempdir()?,
        transcripts: setting("LIMEN_BLACKBOX_TRANSCRIPTS").map(PathBuf::from),
    });
    println!("{kinds} are ready after {:.1?}", start.elapsed());

    let outcomes = run_all(&suite, cases, jobs).await?;

    // Two real servers have nothing to diverge in.
    let listed = if kinds == "real,limen" { listed } else { vec![] };
    let whole = filter.is_none();
    let report = Report { outcomes: &outcomes, listed: &listed, whole };
    println!("{report}\n{kinds}: {} cases in {:.1?}", outcomes.len(), start.elapsed());
    ensure!(report.passes(), "the subjects differ, see above");
    Ok(())
}

fn read_cases() -> Result<Vec<Case>> {
    let mut files: Vec<_> = fs::read_dir(format!("{FOLDER}/cases"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let name = || file.display().to_string();
        cases.extend(script::parse(&fs::read_to_string(&file)?).with_context(name)?);
    }
    let mut names = BTreeSet::new();
    for case in &cases {
        ensure!(names.insert(&case.name), "two cases are called {}", case.name);
    }
    Ok(cases)
}

/// First the cases that must be alone, then the others side by side.
async fn run_all(suite: &Arc<Suite>, cases: Vec<Case>, jobs: usize) -> Result<Vec<Outcome>> {
    let (alone, others): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| case.alone);
    let mut outcomes = Vec::new();
    for case in alone {
        outcomes.push(run_case(suite, &case).await);
    }
    let turns = Arc::new(Semaphore::new(jobs));
    let mut running = JoinSet::new();
    for case in others {
        let (suite, turns) = (suite.clone(), turns.clone());
        running.spawn(async move {
            let _turn = turns.acquire().await.expect("the semaphore stays open");
            run_case(&suite, &case).await
        });
    }
    while let Some(outcome) = running.join_next().await {
        outcomes.push(outcome?);
    }
    outcomes.sort_by(|one, other| one.case.cmp(&other.case));
    Ok(outcomes)
}

async fn run_case(suite: &Suite, case: &Case) -> Outcome {
    let start = Instant::now();
    let steps = compare_case(suite, case).await.unwrap_or_else(|error| {
        let (left, right) = (format!("{error:#}"), String::new());
        let difference = Difference { place: "case".to_owned(), left, right };
        vec![("it could not be run".to_owned(), vec![difference])]
    });
    Outcome { case: case.name.clone(), steps, seconds: start.elapsed().as_secs_f32() }
}

/// The titles of the steps, with what differs in each.
async fn compare_case(suite: &Suite, case: &Case) -> Result<Vec<(String, Vec<Difference>)>> {
    let run = |side: usize| {
        let home = suite.home.path().join(side.to_string()).join(&case.name);
        run::run(case, &suite.subjects[side], &suite.tools, home)
    };
    let (left, right) = tokio::try_join!(run(0), run(1))?;
    if let Some(folder) = &suite.transcripts {
        for (side, answers) in [&left, &right].into_iter().enumerate() {
            let file = format!("{}.{side}-{}.txt", case.name, suite.subjects[side].name);
            write_transcript(&folder.join(file), case, answers)?;
        }
    }
    let mut comparison = Comparison::new(&case.masks);
    let compared = case.steps.iter().zip(left.iter().zip(&right));
    let compare =
        |(step, (left, right)): (&Step, _)| (step.title.clone(), comparison.step(left, right));
    Ok(compared.map(compare).collect())
}

fn write_transcript(file: &Path, case: &Case, answers: &[Answer]) -> Result<()> {
    let mut text = String::new();
    for (number, (step, answer)) in case.steps.iter().zip(answers).enumerate() {
        text.push_str(&format!("{}/{} {}\n{answer}", case.name, number + 1, step.title));
    }
    fs::create_dir_all(file.parent().context("a folder")?)?;
    Ok(fs::write(file, text)?)
}

/// What there is to say about the outcomes.
struct Report<'a> {
    outcomes: &'a [Outcome],
    listed: &'a [Divergence],
    /// Whether all cases were run.
    whole: bool,
}

impl Report<'_> {
    fn differences(&self) -> impl Iterator<Item = (String, &str, &Difference)> {
        self.outcomes.iter().flat_map(|outcome| {
            let steps = outcome.steps.iter().enumerate();
            steps.flat_map(|(number, (title, differences))| {
                let step = format!("{}/{}", outcome.case, number + 1);
                differences.iter().map(move |found| (step.clone(), title.as_str(), found))
            })
        })
    }

    fn unlisted(&self) -> Vec<(String, &str, &Difference)> {
        let is_listed = |step: &str, found: &Difference| {
            let what = found.to_string();
            self.listed.iter().any(|divergence| divergence.covers(step, &what))
        };
        self.differences().filter(|(step, _, found)| !is_listed(step, found)).collect()
    }

    /// The lines of the list that no difference needs.
    fn out_of_date(&self) -> Vec<&Divergence> {
        let occurs = |divergence: &&Divergence| {
            self.differences().any(|(step, _, found)| divergence.covers(&step, &found.to_string()))
        };
        let was_run = |divergence: &&Divergence| {
            self.whole || self.outcomes.iter().any(|outcome| divergence.concerns(&outcome.case))
        };
        self.listed.iter().filter(was_run).filter(|divergence| !occurs(divergence)).collect()
    }

    fn passes(&self) -> bool {
        self.unlisted().is_empty() && self.out_of_date().is_empty()
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = String::new();
        for (step, title, Difference { place, left, right }) in self.unlisted() {
            if step != last {
                writeln!(f, "\n{step}  {title}")?;
            }
            writeln!(f, "  {place}\n    - {left}\n    + {right}")?;
            last = step;
        }
        for divergence in self.out_of_date() {
            writeln!(f, "\nno longer a difference, take it off the list:\n  {divergence}")?;
        }
        let mut slowest: Vec<_> = self.outcomes.iter().collect();
        slowest.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        let slowest = slowest.iter().take(5).map(|o| format!("{} {:.1} s", o.case, o.seconds));
        write!(f, "\nslowest: {}", slowest.collect::<Vec<_>>().join(", "))
    }
}
