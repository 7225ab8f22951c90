//! `limen play`: stories about a federation, told while they happen, each ending in a verdict.

mod before;
mod crowd;
mod live;
mod stage;
mod stories;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use self::stage::Stage;
use tokio::signal::unix::{SignalKind, signal};

/// Play a story on a federation of `limen up`, and see whether it ends well.
#[derive(Args)]
#[command(after_help = "\
Plays on the limen up that runs on this machine, or on one of its own if there is none. It leaves
the federation as it found it. The exit code says whether the story ended well.

Examples:
  limen play failover
  limen play drain --data-dir ./demo")]
pub(crate) struct Play {
    /// Which story
    story: Story,

    /// The folder of the limen up to play on
    #[arg(long, value_name = "DIR", conflicts_with = "admin")]
    data_dir: Option<PathBuf>,

    /// The admin address of the limen up to play on
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,

    /// Look at each thing for a shorter time
    #[arg(long)]
    quick: bool,
}

/// What can be played.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Story {
    /// The region that is nearest dies under load
    Failover,
    /// A cluster is emptied of traffic on purpose
    Drain,
    /// A cluster dies, misses a change, and comes back
    Rejoin,
    /// The hub loses every cluster, and traffic goes on
    SplitBrain,
    /// A region gets more than it can take
    Overflow,
    /// A new version is broken, and is rolled back
    Canary,
}

impl Story {
    async fn tell(self, stage: &Stage) -> Result<()> {
        match self {
            Self::Failover => stories::failover(stage).await,
            Self::Drain => stories::drain(stage).await,
            Self::Rejoin => stories::rejoin(stage).await,
            Self::SplitBrain => stories::split_brain(stage).await,
            Self::Overflow => stories::overflow(stage).await,
            Self::Canary => stories::canary(stage).await,
        }
    }
}

impl Play {
    pub(crate) fn run(self) -> Result<()> {
        crate::connection::block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let stopped = async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            tokio::pin!(stopped);
            let stage = tokio::select! {
                stage = Stage::find(self.data_dir.as_deref(), self.admin) => stage?,
                () = &mut stopped => bail!("the story was not played"),
            };
            let stage = stage.quick(self.quick);
            // Whoever stops a story does not want to live with what it has broken.
            let played = tokio::select! {
                played = self.story.tell(&stage) => played,
                () = &mut stopped => Err(anyhow::anyhow!("the story was not played to its end")),
            };
            let tidied = stage.tidy().await;
            stage.close().await;
            if let (Err(_), Err(left)) = (&played, &tidied) {
                eprintln!("limen: {left:#}");
            }
            played.and(tidied)?;
            println!("The story ended well.");
            Ok(())
        })
    }
}
