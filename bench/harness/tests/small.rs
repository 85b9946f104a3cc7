//! Every workload at a tiny size, so that none rots: both programs must do every job and leave the same.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use std::{path::Path, process::Command};

use refdb_bench::{
    bench::Bench,
    catalogue,
    instructions::Measure,
    job::Job,
    place::Disk,
    process::Program,
    record::{Setting, append},
    report,
    seed::Seeds,
    size::Size,
    writers,
};
use refdb_testkit::Git;

const SIZE: Size = Size::SMALL;

fn git() -> Program {
    Program { name: "git", path: Git::find().program().to_owned(), real_git: None }
}

/// The binary of the workspace under test, which cargo does not build for another package's tests.
fn refdb() -> Program {
    // As the workspace's tests are built, or its dependencies would be compiled again with fewer features.
    let build = ["build", "--quiet", "--workspace", "--bin", "refdb", "--bin", "refdb-serve", "--test", "abort"];
    let built = Command::new(env!("CARGO")).args(build).status().unwrap();
    assert!(built.success(), "refdb does not compile");
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("refdb");
    assert!(path.is_file(), "cargo built no '{}'", path.display());
    Program { name: "refdb", path, real_git: Some(Git::find().program().to_owned()) }
}

/// The catalogue, but in memory only, because only root may mount an ext4 file system.
fn jobs(commits: &Vec<String>) -> Vec<Job> {
    let mut jobs = catalogue::jobs(SIZE, commits).unwrap();
    jobs.iter_mut().for_each(|job| job.disk = Disk::Tmpfs);
    jobs
}

fn with_bench<T>(own: &Program, cache: &Path, test: impl FnOnce(&Bench<'_>) -> T) -> T {
    let git = git();
    let seeds = Seeds::new(cache, git.clone(), SIZE);
    let commits = seeds.commits().unwrap();
    let bench = Bench {
        own: Some(own),
        git: &git,
        size: SIZE,
        seeds: &seeds,
        commits: &commits,
        jobs: &jobs(&commits),
        cache: cache.to_owned(),
        syscalls: false,
    };
    test(&bench)
}

#[test]
fn refdb_does_every_job_and_leaves_what_git_leaves() {
    let cache = tempfile::tempdir().unwrap();
    with_bench(&refdb(), cache.path(), |bench| {
        let rows = bench.run(Measure::Nothing).unwrap();
        for row in &rows {
            assert!(row.own.is_ok(), "{}, {}: {:?}", row.job, row.title, row.own);
            assert!(row.wall.is_some_and(|wall| wall.median > 0.0), "{} was not timed", row.job);
        }
        let steps: usize = bench.jobs.iter().map(|job| job.steps.len()).sum();
        assert_eq!(rows.len(), steps);
    });
}

#[test]
fn of_many_writers_of_both_programs_no_refdb_fails_and_nothing_is_lost() {
    let cache = tempfile::tempdir().unwrap();
    with_bench(&refdb(), cache.path(), |bench| {
        for race in writers::races() {
            let outcome = writers::run(bench, race).unwrap();
            assert_eq!((outcome.lost, outcome.own.failed), (0, 0), "{}: {outcome:?}", race.id);
            assert_eq!(outcome.asked, (race.own + race.git) * SIZE.updates);
        }
    });
}

#[test]
fn the_server_is_fresh_beside_writers_and_takes_every_push() {
    let folder = tempfile::tempdir().unwrap();
    let server = refdb().path.with_file_name("refdb-serve");
    let mut program = Command::new(env!("CARGO_BIN_EXE_refdb-bench-serve"));
    program.arg("--serve").arg(server).arg("--git").arg(git().path).arg("--folder").arg(folder.path());
    program.args("--format reftable --refs 100 --seconds 1 --only updates --only push".split(' '));
    let output = program.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // The first number in the parentheses of a line counts what went wrong.
    for (what, none) in [("updates a second", " (0 of "), ("push one ref", " (0, "), ("push a new commit", " (0, ")] {
        let line = text.lines().find(|line| line.contains(what)).unwrap();
        assert!(line.split(" | ").nth(1).is_some_and(|own| own.contains(none)), "{line}");
    }
}

#[test]
fn a_program_that_leaves_something_else_is_found_out() {
    let cache = tempfile::tempdir().unwrap();
    let idle = Program { name: "true", path: "/bin/true".into(), real_git: None };
    with_bench(&idle, cache.path(), |bench| {
        let rows = bench.run(Measure::Nothing).unwrap();
        let judged = rows.iter().filter(|row| bench.job(row.job).unwrap().judged > 0);
        for row in judged {
            assert!(row.own.is_err(), "{}, {}: doing nothing went unnoticed", row.job, row.title);
        }
    });
}

#[test]
fn the_report_names_every_row_and_the_record_has_a_line_for_each() {
    let cache = tempfile::tempdir().unwrap();
    with_bench(&git(), cache.path(), |bench| {
        let rows = bench.run(Measure::Nothing).unwrap();
        let race = writers::races().into_iter().find(|race| race.id == "s6").unwrap();
        let races = [writers::run(bench, race).unwrap()];
        let setting = Setting::find(&bench.git.path, Measure::Nothing, SIZE);

        let text = report::text(&setting, &rows, &races);
        for row in &rows {
            assert!(text.contains(&format!("| `{}` {} |", row.job, row.title)), "{} is missing in:\n{text}", row.job);
        }
        let file = cache.path().join("results.jsonl");
        append(&file, &setting, &rows, &races).unwrap();
        let lines = std::fs::read_to_string(file).unwrap();
        assert_eq!(lines.lines().count(), rows.len() + 1);
    });
}
