//! Files below `refs/` that are no refs, refs without an object, and dangling links, of which git usually warns before
//! it goes on; and a broken packed-refs, which ends commands.

use super::common::{Twins, git, refdb, same};
use refdb_testkit::{RefFormat, Repo};
use std::{fs, os::unix::fs::symlink};

const ID: &str = "1234567812345678123456781234567812345678";
const BROKEN: &str = "refs/heads/x";

/// Creates two repositories with branches, in which `break_it` damages something: in most tests `refs/heads/x`, a name
/// that sorts before `zebra`.
fn twins(break_it: &dyn Fn(&Repo)) -> Twins {
    Twins::new(RefFormat::Files, &|repo| {
        let ids = repo.commits(2);
        repo.create_refs([("refs/heads/main", ids[1]), ("refs/heads/topic", ids[0]), ("refs/heads/zebra", ids[1])]);
        break_it(repo);
    })
}

fn write(name: &'static str, content: &'static str) -> impl Fn(&Repo) {
    move |repo| fs::write(repo.git_dir().join(name), content).unwrap()
}

fn link(target: String) -> impl Fn(&Repo) {
    move |repo| symlink(&target, repo.git_dir().join(BROKEN)).unwrap()
}

fn listings(twins: &Twins) {
    for words in [
        &["for-each-ref"][..],
        &["for-each-ref", "--format=%(refname)", "--merged=main"],
        &["for-each-ref", "--format=%(refname)", "--no-merged=topic"],
        &["for-each-ref", "--format=%(refname)", "--contains=main"],
        &["for-each-ref", "--format=%(refname)", "--no-contains=main"],
        &["for-each-ref", "--format=%(refname)", "--points-at=main"],
        &["for-each-ref", "--format=%(refname)", "--points-at=main", "--merged=main"],
        &["for-each-ref", "--format=%(refname) %(ahead-behind:main)", "--points-at=main"],
        &["branch", "--points-at=main"],
        &["branch", "--contains=main"],
        &["tag", "--points-at=main"],
        &["for-each-ref", "--format=%(refname) %(ahead-behind:main)"],
        &["for-each-ref", "--format=%(refname)", "--exclude=refs/heads/x*"],
        &["for-each-ref", "--format=%(refname)", "refs/h*/main"],
        &["for-each-ref", "--format=%(refname)", "--start-after=refs/heads/main"],
        &["for-each-ref", "--format=%(refname)", "--start-after=refs/heads/x"],
        &["for-each-ref", "--format=%(refname)", "--include-root-refs"],
        &["show-ref"],
        &["show-ref", "zebra"],
        &["show-ref", "--head", "-d"],
        &["show-ref", "--verify", BROKEN],
        &["show-ref", "--verify", "-q", BROKEN],
        &["show-ref", "--exists", BROKEN],
        &["symbolic-ref", BROKEN],
        &["symbolic-ref", "HEAD"],
    ] {
        same(twins.git.dir(), words, b"");
    }
    same(twins.git.dir(), &["show-ref", "--exclude-existing"], b"refs/heads/x\nrefs/heads/main\nrefs/heads/none\n");
}

fn changes(twins: &Twins) {
    twins.same(&["update-ref", "refs/heads/new", "main"], b"");
    twins.same(&["update-ref", "refs/heads/other", BROKEN], b"");
    twins.same(&["update-ref", "-d", BROKEN], b"");
    twins.same(&["update-ref", BROKEN, "topic", "main"], b"");
    twins.same(&["update-ref", "--stdin"], b"create refs/heads/x topic\n");
    twins.same(&["update-ref", "--stdin"], b"verify refs/heads/x main\n");
    twins.same(&["update-ref", "--stdin", "--batch-updates"], b"update refs/heads/x topic main\n");
    twins.same(&["symbolic-ref", "refs/heads/other", BROKEN], b"");
    twins.same(&["pack-refs", "--all"], b"");
    twins.same(&["update-ref", BROKEN, "topic"], b"");
}

#[test]
fn a_ref_without_an_object_is_passed_over_where_history_is_asked_for() {
    let missing = twins(&|repo| fs::write(repo.git_dir().join(BROKEN), format!("{ID}\n")).unwrap());
    listings(&missing);
    changes(&missing);
}

#[test]
fn an_empty_file_and_rubbish_are_warned_of_and_stop_nobody() {
    for content in ["", "rubbish that is longer than forty characters are\n", "abc\n"] {
        let broken = twins(&write(BROKEN, content));
        listings(&broken);
        changes(&broken);
    }
}

#[test]
fn a_link_to_itself_or_to_too_long_a_name_stops_nobody() {
    for target in ["x".to_owned(), "n".repeat(300)] {
        let broken = twins(&link(target));
        listings(&broken);
        changes(&broken);
    }
}

#[test]
fn the_null_id_is_no_value() {
    let null = twins(&|repo| fs::write(repo.git_dir().join(BROKEN), format!("{}\n", "0".repeat(40))).unwrap());
    listings(&null);
    changes(&null);
}

/// Previously, `show-ref --head` succeeded although HEAD led to the null id, if it listed other refs or left HEAD out.
#[test]
fn a_head_that_leads_to_the_null_id_is_named_as_bad() {
    let null = format!("{}\n", "0".repeat(40));
    for (file, content) in [("refs/heads/main", &*null), ("HEAD", &*null), ("refs/heads/main", "ref: refs/heads/x\n")] {
        let twins = twins(&|repo| {
            fs::write(repo.git_dir().join(BROKEN), &null).unwrap();
            fs::write(repo.git_dir().join(file), content).unwrap();
        });
        for words in [
            &["show-ref", "--head"][..],
            &["show-ref", "--head", "zebra"],
            &["show-ref", "--head", "--tags", "-q"],
            &["show-ref", "--verify", "HEAD"],
            &["show-ref", "--verify", "-q", "HEAD", "refs/heads/main"],
        ] {
            same(twins.git.dir(), words, b"");
        }
    }
}

#[test]
fn a_ref_of_the_null_id_makes_the_names_of_others_ambiguous() {
    let null =
        twins(&|repo| fs::write(repo.git_dir().join("refs/tags/main"), format!("{}\n", "0".repeat(40))).unwrap());
    null.same(&["symbolic-ref", "refs/heads/link", "refs/heads/main"], b"");
    null.same(&["for-each-ref", "--format=%(refname:short) %(symref:short)", "refs/heads/"], b"");
    null.same(&["branch"], b"");
}

#[test]
fn rubbish_behind_heads_id_stops_no_change_of_other_refs() {
    let broken = twins(&|repo| {
        let id = repo.git(["rev-parse", "main"]);
        fs::write(repo.git_dir().join("HEAD"), format!("{id}rubbish\n")).unwrap();
    });
    listings(&broken);
    changes(&broken);
    broken.same(&["update-ref", "HEAD", "topic"], b"");
    broken.same(&["symbolic-ref", "HEAD", "refs/heads/topic"], b"");
}

#[test]
fn files_with_odd_names_and_broken_symbolic_refs_are_as_in_git() {
    for (name, content) in [
        ("refs/heads/x.bak", "rubbish\n"),
        ("refs/README", "Do not touch.\n"),
        ("refs/heads/a..b", "rubbish\n"),
        ("ORIG_HEAD", "rubbish\n"),
        ("refs/heads/x", "ref: refs/heads/none\n"),
        ("refs/heads/x", "ref: refs/heads/a..b\n"),
        ("refs/heads/x", "ref: refs/heads/x\n"),
    ] {
        listings(&twins(&write(name, content)));
    }
}

#[test]
fn a_pipe_below_refs_holds_nobody_up() {
    let pipe = |repo: &Repo| {
        let made = std::process::Command::new("mkfifo").arg(repo.git_dir().join(BROKEN)).status().unwrap();
        assert!(made.success());
    };
    let twins = twins(&pipe);
    for words in [
        &["for-each-ref"][..],
        &["for-each-ref", "refs/heads/"],
        &["for-each-ref", "refs/heads/x*"],
        &["show-ref"],
        &["show-ref", "zebra"],
    ] {
        same(twins.git.dir(), words, b"");
    }
    twins.same(&["update-ref", "refs/heads/new", "main"], b"");
    twins.same(&["update-ref", "-d", "refs/heads/zebra"], b"");
    twins.same(&["pack-refs", "--all"], b"");
    // Checked without git, which waits for ever when a command names the pipe itself.
    for words in [&["show-ref", "--verify", BROKEN][..], &["update-ref", BROKEN, "main"], &["update-ref", "-d", BROKEN]]
    {
        let said = refdb(twins.refdb.dir(), words, b"");
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && text.contains(BROKEN), "{words:?}: {text}");
    }
}

#[test]
fn a_zero_byte_ends_a_ref() {
    for content in
        ["ID\0", "ID\0rubbish\n", "ID\n\0\0", "ID \0\n", "ref: refs/heads/topic\0x\n", "ref: \0refs/heads/topic\n"]
    {
        let broken = twins(&|repo| {
            let content = content.replace("ID", repo.git(["rev-parse", "topic"]).trim_end());
            fs::write(repo.git_dir().join(BROKEN), content).unwrap();
        });
        same(broken.git.dir(), &["refs", "verify"], b"");
        listings(&broken);
        if content.starts_with("ID") {
            changes(&broken);
        }
    }
    for content in ["\0", "\0\0\0\0\0\n", "1234\0\n"] {
        let broken = twins(&write(BROKEN, content));
        same(broken.git.dir(), &["refs", "verify"], b"");
        listings(&broken);
    }
}

#[test]
fn a_packed_refs_that_cannot_be_read_ends_a_command_as_in_git() {
    let broken = twins(&|repo| {
        repo.git(["pack-refs", "--all"]);
        let path = repo.git_dir().join("packed-refs");
        let text = fs::read_to_string(&path).unwrap();
        let (header, _) = text.split_once('\n').unwrap();
        fs::write(path, format!("{header}\nrubbish\n")).unwrap();
    });
    for words in [
        &["show-ref", "--exists", "refs/heads/topic"][..],
        &["show-ref", "--exists", "refs/heads/none"],
        &["refs", "exists", "refs/heads/topic"],
        &["show-ref", "--verify", "refs/heads/topic"],
        &["refs", "list"],
        &["symbolic-ref", "refs/heads/other", "refs/heads/topic"],
        &["update-ref", "-d", "refs/heads/topic"],
        &["update-ref", "-d", "refs/heads/none"],
        &["refs", "migrate", "--ref-format=reftable"],
        &["refs", "migrate", "--ref-format=reftable", "--dry-run"],
    ] {
        let [of_git, of_refdb] =
            [git(broken.git.dir(), words, b""), refdb(broken.refdb.dir(), words, b"")].map(|output| {
                assert!(String::from_utf8_lossy(&output.stderr).starts_with("fatal: "), "{words:?} {output:?}");
                (output.status.code(), output.stdout)
            });
        assert_eq!(of_git, of_refdb, "{words:?}");
    }
}
