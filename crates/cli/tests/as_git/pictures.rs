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

/// Regression: `tables.list` among the tables was dumped as a list again, until the stack overflowed.
#[test]
fn a_list_of_tables_that_names_itself_is_no_endless_dump() {
    let repo = repo(RefFormat::Reftable);
    let list = repo.git_dir().join("reftable/tables.list");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{text}tables.list\n../reftable/tables.list\n")).unwrap();
    let output = repo.try_run(env!("CARGO_BIN_EXE_refdb"), ["dump", "."], b"");
    assert!(output.status.code().is_some(), "{output:?}");
    let dump = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(dump.matches("table ").count(), text.lines().count(), "{dump}");
}

/// Regression: such folders were dumped as if they had no refs.
#[test]
fn a_linked_worktree_is_dumped_and_a_folder_without_refs_is_refused() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        repo.create_refs([("refs/heads/main", repo.commit())]);
        repo.git(["worktree", "add", "-q", "linked"]);
        let linked = repo.dir().join("linked");
        // The paths of tables are written differently.
        let lines = |words: &[&str]| {
            let dump = run(&repo, words);
            dump.lines().filter(|line| !line.starts_with("table ")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(lines(&["dump", "linked"]), lines(&["-C", "linked", "dump"]));
        fs::create_dir(repo.dir().join("other")).unwrap();
        for (folder, target) in [("other", ""), ("linked", "/nonexistent"), ("linked", ".")] {
            fs::write(linked.join(".git"), format!("gitdir: {target}\n")).unwrap();
            let output = repo.try_run(env!("CARGO_BIN_EXE_refdb"), ["dump", folder], b"");
            assert_eq!(output.status.code(), Some(128), "{output:?}");
        }
    }
}

/// Regression: a symbolic link whose target does not exist was left out.
#[test]
fn a_symbolic_link_is_dumped_as_the_ref_it_means() {
    let repo = repo(RefFormat::Files);
    symlink("refs/heads/none", repo.git_dir().join("refs/heads/link")).unwrap();
    symlink("refs/heads/new", repo.git_dir().join("refs/heads/other")).unwrap();
    symlink("nowhere", repo.git_dir().join("refs/heads/broken")).unwrap();
    fs::remove_file(repo.git_dir().join("HEAD")).unwrap();
    symlink("refs/heads/none", repo.git_dir().join("HEAD")).unwrap();
    let dump = run(&repo, &["dump"]);
    for line in [
        "loose HEAD -> refs/heads/none\n",
        "loose refs/heads/link -> refs/heads/none\n",
        "loose refs/heads/other -> refs/heads/new\n",
        "loose refs/heads/broken -> nowhere\n",
    ] {
        assert!(dump.contains(line), "{line}{dump}");
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
