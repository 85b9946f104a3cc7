//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Measures refdb beside git and prints the tables.
#[derive(Debug, Parser)]
#[command(name = "refdb-bench")]
pub struct Options {
    /// About a tenth of the full size, in a minute or two; targets are not judged
    #[arg(long)]
    pub quick: bool,

    /// Only the jobs and races of this name, or of a name that begins with it and a hyphen; repeatable
    #[arg(long, value_name = "JOB")]
    pub only: Vec<String>,

    /// The refdb binary; without it git alone is measured
    #[arg(long, value_name = "FILE")]
    pub refdb: Option<PathBuf>,

    /// The git binary to compare with
    #[arg(long, value_name = "FILE")]
    pub git: PathBuf,

    /// Where repositories are kept between runs
    #[arg(long, value_name = "DIR")]
    pub cache: PathBuf,

    /// Count no instructions
    #[arg(long)]
    pub no_instructions: bool,

    /// Take wall time from one pair of runs only, when the counts are what matters
    #[arg(long)]
    pub one_pair: bool,

    /// Count no system calls
    #[arg(long)]
    pub no_syscalls: bool,

    /// Leave out the jobs that mount an ext4 file system (they need root)
    #[arg(long)]
    pub no_ext4: bool,

    /// Append the results to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Print the names of all jobs and races
    #[arg(long)]
    pub list: bool,
}

impl Options {
    /// Whether the job or race called `id` is wanted: `s1` stands for `s1` and for `s1-reflogs`.
    pub fn wants(&self, id: &str) -> bool {
        let means =
            |part: &String| id.strip_prefix(part.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        self.only.is_empty() || self.only.iter().any(means)
    }
}
