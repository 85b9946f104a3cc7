//! `refdb dump` and `refdb stat`, which git does not have.

use crate::common::refdb;
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

fn repo(format: RefFormat) -> Repo {
    let repo = Repo::bare(format, HashKind::Sha1);
    let commits = repo.commits(2);
    let tag = repo.tag_object(commits[0], "v1");
    repo.create_refs([("refs/heads/main", commits[1]), ("refs/tags/v1", tag), ("refs/heads/gone", commits[0])]);
    repo.git(["pack-refs", "--all"]);
    repo.git(["update-ref", "-d", "refs/heads/gone"]);
    repo.git(["update-ref", "refs/heads/new", "refs/heads/main"]);
    repo
}

fn run(repo: &Repo, words: &[&str]) -> String {
    let output = repo.try_run(env!("CARGO_BIN_EXE_refdb"), words, b"");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_dump_shows_every_ref_where_it_lies() {
    for format in RefFormat::ALL {
        let repo = repo(format);
        let main = repo.rev_parse("refs/heads/main").to_string();
        let dump = run(&repo, &["dump"]);
        for name in ["refs/heads/main", "refs/heads/new", "refs/tags/v1"] {
            assert!(dump.contains(name), "{name}: {dump}");
        }
        assert!(dump.contains(&main), "{dump}");
        let marks: &[&str] = match format {
            RefFormat::Files => &["packed ", "fully-peeled", "loose HEAD -> refs/heads/main", "loose refs/heads/new "],
            RefFormat::Reftable => &["table ", "header: version 1, sha1", "ref block"],
        };
        for mark in marks {
            assert!(dump.contains(mark), "{mark}: {dump}");
        }
    }
}

#[test]
fn a_damaged_table_is_shown_up_to_the_damage() {
    let repo = repo(RefFormat::Reftable);
    let list = std::fs::read_to_string(repo.git_dir().join("reftable/tables.list")).unwrap();
    let path = repo.git_dir().join("reftable").join(list.lines().next().unwrap());
    let bytes = std::fs::read(&path).unwrap();
    let damaged = repo.dir().join("damaged.ref");
    std::fs::write(&damaged, &bytes[..bytes.len() - 9]).unwrap();
    let output = repo.try_run(env!("CARGO_BIN_EXE_refdb"), ["dump", "damaged.ref"], b"");
    assert_eq!(output.status.code(), Some(128));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.starts_with("fatal: ") && message.contains("damaged.ref"), "{message}");
}

/// Previously, one unreadable file ended `dump`, and one unreadable folder ended `stat` and `refs verify` as well.
#[test]
fn what_cannot_be_read_hides_nothing_else() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let repo = repo(RefFormat::Files);
    let refs = repo.git_dir().join("refs");
    symlink("loop", refs.join("heads/loop")).unwrap();
    fs::create_dir(refs.join("locked")).unwrap();
    fs::set_permissions(refs.join("locked"), PermissionsExt::from_mode(0o000)).unwrap();
    fs::write(refs.join("heads/shut"), "").unwrap();
    fs::set_permissions(refs.join("heads/shut"), PermissionsExt::from_mode(0o000)).unwrap();
    let program = repo.scratch().join("refdb");
    fs::copy(env!("CARGO_BIN_EXE_refdb"), &program).unwrap();
    for open in [repo.scratch(), &program] {
        fs::set_permissions(open, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let as_another = |words: &[&str]| {
        let mut command = repo.command("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        let output = command.args(["-c", "safe.directory=*"]).args(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = as_another(&["dump"]);
    assert_eq!(code, Some(1), "{err}");
    for name in ["loose refs/heads/new ", "ref refs/tags/v1 "] {
        assert!(out.contains(name), "{name}: {out}");
    }
    for place in ["refs/heads/loop'", "refs/heads/shut'", "refs/locked'"] {
        assert!(err.contains(place), "{place}: {err}");
    }
    let (code, out, err) = as_another(&["stat"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("refs: 3\n") && out.contains("refs/locked"), "{out}");
    let (code, _, err) = as_another(&["refs", "verify"]);
    assert_eq!(code, Some(255), "{err}");
    for place in ["refs/heads/shut: badRefContent: ", "refs/locked: badRefContent: cannot read the folder "] {
        assert!(err.contains(place), "{place}: {err}");
    }
}

#[test]
fn statistics_count_what_git_lists() {
    for format in RefFormat::ALL {
        let repo = repo(format);
        let text = run(&repo, &["stat"]);
        assert!(text.contains(&format!("format: {}, sha1\nrefs: 3\n", format.name())), "{text}");
        assert!(text.contains("  refs/heads/: 2\n  refs/tags/: 1\n"), "{text}");
        let json = run(&repo, &["stat", "--json"]);
        let mark = match format {
            RefFormat::Files => "\"packed\": 2",
            RefFormat::Reftable => "\"compacted_refs\": 4",
        };
        assert!(json.contains("\"total\": 3") && json.contains(mark), "{json}");
    }
}

/// Regression: `reftable.geometricFactor` was ignored.
#[test]
fn compaction_is_due_as_the_configured_factor_says() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.commit();
    let name = |at: usize| (format!("refs/heads/{at:040}"), id);
    repo.create_refs((0..300).map(name));
    repo.git(["pack-refs", "--all"]);
    repo.git(["-c", "reftable.geometricFactor=2", "update-ref", "refs/heads/new", &id.to_string()]);
    let stat = |factor: &str| {
        let output = refdb(repo.dir(), &["-c", &format!("reftable.geometricFactor={factor}"), "stat"], b"");
        String::from_utf8(output.stdout).unwrap()
    };
    let is_due = |text: String| text.contains("automatic compaction is due");
    assert!(!is_due(stat("2")), "{}", stat("2"));
    assert!(is_due(stat("200")), "{}", stat("200"));
}
