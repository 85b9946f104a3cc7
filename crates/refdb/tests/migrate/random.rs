//! Random repositories that are migrated there and back are equal to what they were.

use crate::common::{assert_clean, migrate, other, state, testkit_format};
use refdb::RefFormat;
use refdb_testkit::{Repo, Rng};
use refdb_vfs::Fs;

const NAMES: [&str; 14] = [
    "refs/heads/a",
    "refs/heads/a-b",
    "refs/heads/b/c",
    "refs/heads/b/d",
    "refs/heads/zz",
    "refs/tags/v1",
    "refs/tags/v2",
    "refs/notes/commits",
    "refs/stash",
    "refs/changes/01/1/1",
    "refs/changes/01/1/meta",
    "refs/bisect/good",
    "refs/worktree/x",
    "refs/rewritten/y",
];

fn random(seed: u64) -> Repo {
    let mut rng = Rng::new(seed);
    let (format, hash) = *rng.pick(&Repo::KINDS);
    let repo = if rng.one_in(2) { Repo::bare(format, hash) } else { Repo::with_worktree(format, hash) };
    repo.config("core.logAllRefUpdates", if rng.one_in(3) { "always" } else { "true" });
    let ids = repo.commits(4);
    let tag = repo.tag_object(ids[1], "v");
    let folder = repo.scratch().to_owned();
    let trees: Vec<_> = (0..rng.below(3)).map(|at| folder.join(format!("tree{at}"))).collect();
    repo.git(["update-ref", "refs/heads/main", &ids[0].to_string()]);
    for tree in &trees {
        repo.git(["worktree", "add", "--quiet", "--no-checkout", "--detach", tree.to_str().unwrap(), "main"]);
    }
    for _ in 0..rng.below(40) {
        let name = *rng.pick(&NAMES);
        let at = trees.iter().chain([&repo.dir().to_owned()]).nth(rng.below(trees.len() + 1)).unwrap().clone();
        let at = at.to_str().unwrap();
        let id = if name.starts_with("refs/tags/") && rng.one_in(2) { tag } else { *rng.pick(&ids) };
        let words: Vec<String> = match rng.below(9) {
            0 => vec!["update-ref".into(), "-d".into(), name.into()],
            1 => vec!["symbolic-ref".into(), format!("{name}-link"), name.into()],
            2 => vec!["symbolic-ref".into(), "HEAD".into(), (*rng.pick(&["refs/heads/a", "refs/heads/none"])).into()],
            3 => vec!["update-ref".into(), "ORIG_HEAD".into(), id.to_string()],
            4 => vec!["pack-refs".into(), "--all".into()],
            5 => vec!["reflog".into(), "expire".into(), "--expire=all".into(), name.into()],
            _ => vec![
                "update-ref".into(),
                "--create-reflog".into(),
                "-m".into(),
                format!("why {name}"),
                name.into(),
                id.to_string(),
            ],
        };
        // Some commands fail, for instance to create a child of a ref.
        repo.try_git(["-C", at].into_iter().chain(words.iter().map(String::as_str)), "");
    }
    // The object does not exist, so git calls this a broken ref.
    if rng.one_in(2) {
        let missing = "1".repeat(hash.len_hex());
        let mut command = repo.command(refdb_testkit::Git::find().test_tool());
        let null = "0".repeat(hash.len_hex());
        let flags = "REF_SKIP_CREATE_REFLOG,REF_SKIP_OID_VERIFICATION";
        command.args(["ref-store", "main", "update-ref", "", "refs/heads/broken", &missing, &null, flags]);
        command.output().unwrap();
    }
    if rng.one_in(2) {
        let mut command = repo.command(refdb_testkit::Git::find().test_tool());
        command.args(["ref-store", "main", "create-reflog", "refs/heads/empty"]);
        command.output().unwrap();
    }
    repo
}

/// Returns the sorted lines of the configuration, because a section that was removed and added again stands at the end.
fn config(repo: &Repo) -> Vec<String> {
    let text = std::fs::read_to_string(repo.git_dir().join("config")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn random_repositories_there_and_back_are_equal() {
    let rounds = std::env::var("REFDB_MIGRATE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    for seed in 0..rounds {
        let repo = random(seed);
        let from = match repo.format() {
            refdb_testkit::RefFormat::Files => RefFormat::Files,
            refdb_testkit::RefFormat::Reftable => RefFormat::Reftable,
        };
        eprintln!("seed {seed}: {from:?} {:?}", repo.hash());
        let (before, listed) = (state(repo.git_dir()), repo.refs_or_broken());
        let said = config(&repo);
        for to in [other(from), from] {
            migrate(&Fs::real(), repo.git_dir(), to).unwrap();
            assert_eq!(state(repo.git_dir()), before, "seed {seed}");
            assert_eq!(repo.refs_or_broken(), listed, "seed {seed}");
            assert_clean(repo.git_dir());
            let output = repo.try_git(["refs", "verify", "--strict"], "");
            assert!(output.status.success() && output.stderr.is_empty(), "seed {seed}: {output:?}");
            assert_eq!(repo.git(["rev-parse", "--show-ref-format"]), testkit_format(to).name());
        }
        assert_eq!(config(&repo), said, "seed {seed}");
    }
}
