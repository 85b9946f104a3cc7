//! Refnames so long that an index block of a reftable has no room for two of them.

use crate::{common::refdb, log_size::claim_block_size};
use bstr::ByteSlice;
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::process::Output;

/// The length of the longest name that refdb accepts in tables with blocks of 4,096 bytes, by hash.
const KINDS: [(HashKind, usize); 2] = [(HashKind::Sha1, 2008), (HashKind::Sha256, 2006)];

fn name(len: usize, first: u64) -> String {
    let start = format!("refs/heads/{first}-");
    format!("{start}{}", "n".repeat(len - start.len()))
}

fn repository(format: RefFormat, hash: HashKind) -> Repo {
    let repo = Repo::with_worktree(format, hash);
    let commits = repo.commits(2);
    repo.create_refs([("refs/heads/main", commits[1]), ("refs/heads/other", commits[0])]);
    repo
}

fn is_too_large(output: &Output) -> bool {
    !output.status.success() && output.stderr.contains_str("entry too large")
}

/// Runs git with limits on time and file size, because its writer can fill the disk when names are too long.
fn limited_git(repo: &Repo, words: &[&str]) -> Output {
    let script = "ulimit -f 20000; exec timeout 60 \"$@\"";
    let git = refdb_testkit::Git::find().program().to_str().unwrap();
    repo.command("sh").args(["-c", script, "sh", git]).args(words).output().unwrap()
}

#[test]
fn a_name_that_git_could_not_index_is_refused_by_every_command_and_nothing_is_written() {
    for (hash, max) in KINDS {
        let repo = repository(RefFormat::Reftable, hash);
        let (long, fits) = (name(max + 1, 0), name(max, 1));
        let id = repo.rev_parse("main").to_string();
        let before = repo.refs();
        let create = format!("create {long} {id}\n");
        for (words, input) in [
            (&["update-ref", &long, "main"][..], ""),
            (&["-c", "core.logAllRefUpdates=false", "update-ref", &long, "main"], ""),
            (&["update-ref", "--stdin"], &create[..]),
            (&["symbolic-ref", &long, "refs/heads/main"], ""),
            (&["refs", "create", &long, &id], ""),
            (&["refs", "rename", "refs/heads/other", &long], ""),
            (&["reflog", "write", &long, &id, &id, "why"], ""),
        ] {
            let refused = refdb(repo.dir(), words, input.as_bytes());
            assert!(is_too_large(&refused), "{hash:?} {}: {refused:?}", words[0]);
            assert!(repo.refs() == before, "{words:?}");
        }
        let batch = format!("create {long} {id}\ncreate {fits} {id}\n");
        let said = refdb(repo.dir(), &["update-ref", "--stdin", "--batch-updates"], batch.as_bytes());
        assert!(said.stdout.contains_str("entry too large"), "{said:?}");
        assert_eq!(repo.rev_parse(&fits), repo.rev_parse("main"));
    }
}

#[test]
fn branch_and_tag_which_are_left_to_git_create_no_name_that_git_could_not_index() {
    let repo = repository(RefFormat::Reftable, HashKind::Sha1);
    let (branch, tag) = ("n".repeat(2009 - "refs/heads/".len()), "n".repeat(2009 - "refs/tags/".len()));
    let (branch, tag) = (&branch[..], &tag[..]);
    let before = repo.refs();
    for words in [
        &["branch", branch][..],
        &["branch", branch, "main"],
        &["branch", "-f", "--no-track", branch, "main"],
        &["branch", "--creat", "-qf", "--", branch],
        &["branch", "-m", branch],
        &["branch", "-M", "other", branch],
        &["branch", "--move", "other", branch],
        &["branch", "-c", "other", branch],
        &["branch", "-C", branch],
        &["tag", tag],
        &["tag", "-m", "message", tag, "main"],
        &["tag", "-am", "message", tag],
        &["tag", "--mess=message", "-f", tag],
        &["tag", tag, "-F", "file"],
    ] {
        let refused = refdb(repo.dir(), words, b"");
        let name = if words[0] == "tag" { format!("refs/tags/{tag}") } else { format!("refs/heads/{branch}") };
        let said =
            format!("fatal: update_ref failed for ref '{name}': reftable: transaction failure: entry too large\n");
        assert!(refused.stderr == said.as_bytes() && refused.status.code() == Some(128), "{words:?} {refused:?}");
        assert!(repo.refs() == before, "{words:?}");
    }
}

#[test]
fn long_words_that_are_no_names_of_new_refs_stay_with_git() {
    let repo = repository(RefFormat::Reftable, HashKind::Sha1);
    let long = "n".repeat(2009 - "refs/heads/".len());
    let fits = &long[1..];
    let id = repo.rev_parse("main").to_string();
    let create = |name: &str| repo.git([&LARGE[..], &["update-ref", name, &id]].concat());
    create(&format!("refs/heads/{long}"));
    create(&format!("refs/tags/n{long}"));
    for words in [
        &["branch", "copied", &long][..],
        &["branch", "-d", "copied"],
        &["branch", "-m", &long, "short"],
        &["branch", fits, "main"],
        &["branch", "-D", fits],
        &["tag", "-m", &long, "annotated"],
        &["tag", "-d", &format!("n{long}")],
        &["tag", "-l", "--create-reflog", &long],
    ] {
        let output = refdb(repo.dir(), words, b"");
        assert!(output.status.success(), "{words:?} {output:?}");
    }
    assert!(!repo.refs().iter().any(|listed| listed.name.contains_str("nnnn")));
    let files = repository(RefFormat::Files, HashKind::Sha1);
    let nested = vec!["n".repeat(200); 11].join("/");
    assert!(refdb(files.dir(), &["branch", &nested], b"").status.success());
}

#[test]
fn a_block_size_that_is_set_for_one_command_lets_no_longer_name_through() {
    let repo = repository(RefFormat::Reftable, HashKind::Sha1);
    let words = |size: &str, name: &str| {
        let setting = format!("reftable.blockSize={size}");
        refdb(repo.dir(), &["-c", &setting, "update-ref", name, "main"], b"")
    };
    assert!(is_too_large(&words("65536", &name(2009, 0))), "git would rewrite the table with blocks of 4,096 bytes");
    assert!(words("65536", &name(2008, 0)).status.success());
    assert!(is_too_large(&words("1024", &name(473, 1))), "refdb could not rewrite its own table");
    repo.git(["config", "reftable.blockSize", "8192"]);
    assert!(words("65536", &name(2009, 2)).status.success());
    let migrated = repository(RefFormat::Files, HashKind::Sha1);
    let long = format!("refs/heads/{}", vec!["n".repeat(200); 10].join("/"));
    migrated.git(["update-ref", &long, "main"]);
    let words = [&LARGE[..], &["refs", "migrate", "--ref-format=reftable"]].concat();
    let refused = refdb(migrated.dir(), &words, b"");
    assert!(!refused.status.success() && refused.stderr.contains_str(&long), "{refused:?}");
}

#[test]
fn a_branch_that_is_written_through_a_symbolic_ref_may_not_have_a_name_too_long_for_an_index() {
    let repo = repository(RefFormat::Reftable, HashKind::Sha1);
    let long = name(2009, 0);
    repo.git(["symbolic-ref", "refs/heads/link", &long]);
    assert!(is_too_large(&refdb(repo.dir(), &["update-ref", "refs/heads/link", "main"], b"")));
    assert!(!repo.try_git(["rev-parse", "--verify", "-q", &long], "").status.success());
}

#[test]
fn git_lists_and_rewrites_any_number_of_the_longest_names() {
    for (hash, max) in KINDS {
        for (count, logs) in [(8, true), (60, true), (60, false)] {
            let repo = repository(RefFormat::Reftable, hash);
            repo.git(["config", "core.logAllRefUpdates", if logs { "always" } else { "false" }]);
            let id = repo.rev_parse("main").to_string();
            let names: Vec<_> = (0..count).map(|at| name(max - at % 3, (at * 7919 % count) as u64 + 10)).collect();
            let input: String = names.iter().map(|name| format!("create {name} {id}\n")).collect();
            let written = refdb(repo.dir(), &["update-ref", "--stdin"], input.as_bytes());
            assert!(written.status.success(), "{written:?}");
            let all = repo.refs().len();
            assert!(all >= count + 2, "git lists {all} refs");
            for words in [
                &["refs", "verify"][..],
                &["update-ref", "refs/heads/gits", "main"],
                &["pack-refs", "--all"],
                &["gc", "--quiet"],
            ] {
                let output = limited_git(&repo, words);
                assert!(output.status.success(), "{hash:?} {count} {logs}: {words:?} {output:?}");
            }
            assert_eq!(repo.refs().len(), all + 1);
            assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
            assert_eq!(repo.refs().len(), all + 1);
            repo.verify();
        }
    }
}

const LARGE: [&str; 2] = ["-c", "reftable.blockSize=65536"];

/// Returns a repository in which git has created refs whose names are too long for an index with blocks of 4,096 bytes,
/// and those names.
fn with_names_too_long() -> (Repo, Vec<String>) {
    let repo = repository(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.rev_parse("main").to_string();
    let names: Vec<_> = (0..40).map(|at| name(2900, at + 10)).collect();
    let input: String = names.iter().map(|name| format!("create {name} {id}\n")).collect();
    repo.git_with_input([&LARGE[..], &["update-ref", "--stdin"]].concat(), &input);
    (repo, names)
}

#[test]
fn names_too_long_for_an_index_that_are_there_are_read_renamed_and_deleted() {
    let (repo, names) = with_names_too_long();
    repo.git([&LARGE[..], &["pack-refs", "--all"]].concat());
    let shown = refdb(repo.dir(), &["for-each-ref", "--format=%(refname)"], b"");
    assert_eq!(shown.stdout.lines().count(), 42);
    let renamed = refdb(repo.dir(), &["refs", "rename", &names[0], "refs/heads/short"], b"");
    assert!(renamed.status.success(), "{renamed:?}");
    let input: String = names[1..].iter().map(|name| format!("delete {name}\n")).collect();
    let deleted = refdb(repo.dir(), &["update-ref", "--stdin"], input.as_bytes());
    assert!(deleted.status.success(), "{deleted:?}");
    assert_eq!(repo.refs().iter().filter(|listed| listed.name.starts_with(b"refs/")).count(), 3);
    let packed = refdb(repo.dir(), &["pack-refs"], b"");
    assert!(packed.status.success(), "{packed:?}");
    repo.git(["update-ref", "refs/heads/gits", "main"]);
    assert!(limited_git(&repo, &["pack-refs", "--all"]).status.success());
    repo.verify();
}

#[test]
fn a_migration_names_the_refs_and_reflogs_whose_names_are_too_long_and_changes_nothing() {
    let repo = repository(RefFormat::Files, HashKind::Sha1);
    let long = format!("refs/heads/{}", vec!["n".repeat(200); 10].join("/"));
    assert!(long.len() > 2008);
    repo.git(["update-ref", "--create-reflog", &long, "main"]);
    let before = repo.refs();
    let refused = refdb(repo.dir(), &["refs", "migrate", "--ref-format=reftable"], b"");
    assert!(!refused.status.success(), "{refused:?}");
    assert!(refused.stderr.contains_str(&long) && refused.stderr.contains_str("reftable.blockSize"), "{refused:?}");
    assert!(refused.stderr.contains_str(format!("the reflog of {long}")), "{refused:?}");
    assert!(repo.refs() == before && !repo.git_dir().join("reftable").join("tables.list").exists());
}

#[test]
fn a_table_whose_blocks_are_larger_than_its_header_says_is_told_of_and_pack_refs_repairs_it() {
    let repo = repository(RefFormat::Reftable, HashKind::Sha1);
    let commits = [repo.rev_parse("main")];
    repo.fill(400, &commits);
    repo.git(["pack-refs", "--all"]);
    let before = repo.refs();
    for words in [&["refs", "verify"][..], &["refs", "verify", "--deep"]] {
        let sound = refdb(repo.dir(), words, b"");
        assert!(sound.status.success(), "{sound:?}");
    }
    claim_block_size(&repo, 2048);
    let listed = repo.try_git(["for-each-ref"], "");
    assert!(!listed.status.success() || listed.stdout.lines().count() < 400, "there is nothing to repair");
    for words in [&["refs", "verify"][..], &["refs", "verify", "--deep"]] {
        let verified = refdb(repo.dir(), words, b"");
        assert!(!verified.status.success() && verified.stderr.contains_str("larger than the header"), "{verified:?}");
    }
    assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
    assert!(repo.refs() == before);
    repo.verify();
}

#[test]
fn pack_refs_that_cannot_keep_to_the_block_size_names_the_refs_and_leaves_the_tables_alone() {
    let repo = repository(RefFormat::Reftable, HashKind::Sha1);
    let names = [name(5000, 1), name(5000, 2)];
    let input: String = names.iter().map(|name| format!("create {name} refs/heads/main\n")).collect();
    repo.git_with_input([&LARGE[..], &["update-ref", "--stdin"]].concat(), &input);
    assert!(refdb(repo.dir(), &["update-ref", "refs/heads/small", "main"], b"").status.success());
    let list = || std::fs::read(repo.git_dir().join("reftable/tables.list")).unwrap();
    let before = (list(), repo.refs());
    let refused = refdb(repo.dir(), &["pack-refs"], b"");
    assert!(!refused.status.success());
    assert!(refused.stderr.ends_with(b"error: unable to compact stack: entry too large\n"), "git's words: {refused:?}");
    assert!(names.iter().all(|name| refused.stderr.contains_str(name)), "{refused:?}");
    assert!(!refused.stderr.contains_str("refs/heads/main") && refused.stderr.contains_str("reftable.blockSize"));
    assert!((list(), repo.refs()) == before);
    repo.git(["config", "reftable.blockSize", "16384"]);
    assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
    assert_eq!(list().lines().count(), 1);
    assert!(repo.refs() == before.1);
}

#[test]
fn a_larger_block_size_repairs_a_repository_with_names_too_long_for_an_index_for_git_too() {
    let (repo, _) = with_names_too_long();
    let before = repo.refs();
    assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
    assert!(repo.refs() == before, "git reads refs without an index");
    repo.git(["config", "reftable.blockSize", "16384"]);
    let added = refdb(repo.dir(), &["update-ref", "refs/heads/new", "main"], b"");
    assert!(added.status.success(), "{added:?}");
    assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
    for words in [&["update-ref", "refs/heads/gits", "main"][..], &["pack-refs", "--all"], &["gc", "--quiet"]] {
        let output = limited_git(&repo, words);
        assert!(output.status.success(), "{words:?} {output:?}");
    }
    assert_eq!(repo.refs().len(), before.len() + 2);
    repo.verify();
}
