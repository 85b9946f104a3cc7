//! Many repositories, each used once.

use crate::{
    Options,
    client::Connection,
    polls::{self, BRANCH, poll_on},
    repository::{self, Repository},
    server::Server,
};
use anyhow::{Result, ensure};
use refdb_bench::place::make_once;
use std::{path::Path, process::Command, time::Instant};

/// Polls each of many repositories once, and prints how long that takes and what the server then holds.
pub(crate) fn measure(options: &Options, root: &Path) -> Result<()> {
    const REPOSITORIES: usize = 10_000;
    if !options.only.is_empty() && !options.only.iter().any(|word| "many".contains(&word[..])) {
        return Ok(());
    }
    let many = root.join("many");
    make_once(&many, |part| {
        let first = part.join("0.git");
        std::fs::create_dir_all(&first)?;
        repository::init(options, &first, "files")?;
        let commit = repository::commit(options, &first)?;
        repository::git(&options.git, &first, &["update-ref", "refs/heads/main", &commit], "")?;
        for at in 1..REPOSITORIES {
            let copied = Command::new("cp").arg("-r").arg(&first).arg(part.join(format!("{at}.git"))).status()?;
            ensure!(copied.success(), "cannot copy a repository");
        }
        Ok(())
    })?;
    let server = Server::start(options, &many)?;
    let commit = repository::git(&options.git, &many.join("0.git"), &["rev-parse", "refs/heads/main"], "")?;
    let began = Instant::now();
    let address = &server.target.address;
    let mut connection = Connection::open(address)?;
    for at in 0..REPOSITORIES {
        let repository = Repository { path: many.join(format!("{at}.git")), commit: commit.clone() };
        poll_on(&mut connection, &polls::requests(address, &repository, BRANCH), &repository)?;
    }
    let (now, _) = server.memory()?;
    println!(
        "\n{REPOSITORIES} repositories, each polled once in {:.1} s: {now} MiB, {} descriptors",
        began.elapsed().as_secs_f64(),
        server.descriptors()?
    );
    Ok(())
}
