//! Compares `refdb reflog show` with git's. What refdb does not delegate must be shown even without git.

use crate::{
    common::{refdb, refdb_with, same, same_with},
    reflog::{at, set_up},
};
use refdb_testkit::{RefFormat, Repo};
use std::{
    fs,
    io::{Read, Write},
    process::{Command, Stdio},
};

/// Command lines that refdb answers without git.
const OWN: &[&[&str]] = &[
    &[],
    &["show"],
    &["HEAD"],
    &["show", "main"],
    &["@"],
    &["refs/heads/c"],
    &["heads/c", "--"],
    &["-g"],
    &["-n", "2"],
    &["-n2"],
    &["-2"],
    &["-0"],
    &["--max-count=2", "--skip=1"],
    &["--max-count", "1", "--skip", "3"],
    &["--skip=9"],
    &["main@{1}"],
    &["HEAD@{2}", "-1"],
    &["HEAD@{0}", "--date=iso"],
    &["HEAD@{now}"],
    &["HEAD@{2023-11-14 22:40:00 +0000}"],
    &["HEAD@{2023-11-14 22:40:00 +0000}", "--date=unix"],
    &["c@{yesterday}", "-1"],
    &["--date=iso"],
    &["--date", "short"],
    &["--date=default"],
    &["--date=auto:iso"],
    &["--date=format:%d.%m.%Y %z"],
    &["--date=iso-local"],
    &["--relative-date"],
    &["--oneline"],
    &["--pretty=oneline"],
    &["--no-abbrev-commit"],
    &["--no-abbrev"],
    &["--no-abbrev", "--abbrev"],
    &["--abbrev=12"],
    &["--abbrev=2"],
    &["--abbrev=99"],
    &["--no-abbrev-commit", "--oneline"],
    &["--oneline", "--no-abbrev-commit"],
    &["--format=%h %H %gd %gD %gs %gn %ge", "refs/heads/c"],
    &["--format=%h %gd", "--abbrev=9", "--date=iso"],
    &["--format=%H%n%x41%%", "-1"],
    &["--format=%C(auto)%h%Creset %C(bold red)%gs", "-2"],
    &["--pretty=format:%gs"],
    &["--pretty=tformat:%gs", "-z"],
    &["--format=format:%gs", "-z"],
    &["-z", "-2"],
    &["--no-decorate", "--decorate=auto", "--no-color", "--color=never"],
];

/// Command lines that refdb delegates to git.
const LEFT: &[&[&str]] = &[
    &["--all"],
    &["main", "c"],
    &["-p", "-1"],
    &["--stat", "-1"],
    &["--grep=c1"],
    &["--since=2000-01-01"],
    &["--format=%s"],
    &["--format="],
    &["--format=medium", "-1"],
    &["--decorate"],
    &["--color=always", "-1"],
    &["HEAD~1"],
    &["main~1..main"],
    &["main@{9}"],
    &["main@{2001-01-01}"],
    &["main@{u}"],
    &["main@{1700000000}"],
    &["@{1}"],
    &["link"],
    &["file"],
    &["nowhere"],
    &["--", "file"],
    &["--date=bogus"],
    &["-n", "x"],
    &["--no-such-option"],
    &["--help-all"],
];

/// Returns a repository for each format and hash, with the reflogs of [`set_up`] and a file in the worktree.
fn repos() -> impl Iterator<Item = Repo> {
    Repo::KINDS.into_iter().map(|(format, hash)| {
        let repo = Repo::with_worktree(format, hash);
        set_up(&repo);
        fs::write(repo.dir().join("file"), "").unwrap();
        repo
    })
}

/// Requires that refdb succeeds where there is no git, so that it cannot have delegated the command.
fn shows_alone(repo: &Repo, words: &[&str]) {
    let alone = refdb_with(repo.dir(), ("REFDB_GIT", "/nonexistent/git"), words);
    assert!(alone.status.success(), "{words:?}: {}", String::from_utf8_lossy(&alone.stderr));
}

#[test]
fn what_is_asked_for_often_is_shown_without_git() {
    for repo in repos() {
        for words in OWN {
            let words = &[&["reflog"], *words].concat();
            same(repo.dir(), words, b"");
            shows_alone(&repo, words);
        }
    }
}

#[test]
fn all_else_is_left_to_git_before_anything_is_written() {
    for repo in repos() {
        for words in LEFT {
            let words = &[&["reflog", "show"], *words].concat();
            same(repo.dir(), words, b"");
            let alone = refdb_with(repo.dir(), ("REFDB_GIT", "/nonexistent/git"), words);
            assert_eq!(alone.status.code(), Some(128), "{words:?}");
            assert!(alone.stdout.is_empty(), "{words:?}");
        }
    }
}

#[test]
fn settings_count_as_in_git() {
    for repo in repos() {
        for setting in [
            "core.abbrev=9",
            "core.abbrev=no",
            "log.date=iso",
            "color.ui=auto",
            "color.diff=never",
            "format.pretty=fuller",
            "core.warnAmbiguousRefs=false",
        ] {
            for words in [&["reflog"][..], &["reflog", "HEAD@{now}"], &["reflog", "--format=%gd", "refs/heads/main"]] {
                let words = &[&["-c", setting], words].concat();
                same(repo.dir(), words, b"");
                shows_alone(&repo, words);
            }
        }
        for setting in [
            "core.abbrev=bogus",
            "log.date=bogus",
            "log.date",
            "log.decorate=full",
            "log.abbrevCommit=false",
            "log.showSignature=bogus",
            "color.ui=always",
            "color.diff=always",
            "color.diff=bogus",
            "i18n.logOutputEncoding=latin1",
        ] {
            same(repo.dir(), &["-c", setting, "reflog"], b"");
        }
        // Git reads `log.date` before it knows that the command line asks for another form.
        same(repo.dir(), &["-c", "log.date=bogus", "reflog", "--date=unix"], b"");
    }
}

/// Git loads notes before it shows an entry unless the command line gives a form, and so reports faults in them.
#[test]
fn what_is_wrong_with_notes_is_said_as_in_git() {
    let usual = [&["reflog"][..], &["reflog", "HEAD@{1}", "--no-abbrev-commit"], &["reflog", "HEAD@{99}"]];
    let formed = [&["reflog", "--oneline"][..], &["reflog", "--pretty=oneline"], &["reflog", "--format=%h %gs"]];
    for repo in repos() {
        for (variable, value) in [("GIT_NOTES_REF", "refs/notes/none"), ("GIT_NOTES_DISPLAY_REF", "refs/notes/none")] {
            usual.iter().chain(&formed).for_each(|words| same_with(repo.dir(), (variable, value), words));
        }
        for setting in ["core.notesRef=refs/notes/none", "notes.displayRef=refs/notes/none", "notes.displayRef="] {
            usual.iter().chain(&formed).for_each(|words| same(repo.dir(), &[&["-c", setting], *words].concat(), b""));
        }
        let (blob, main) = (repo.blob("no notes").to_string(), repo.rev_parse("main").to_string());
        for notes in [
            &["symbolic-ref", "refs/notes/commits", "refs/notes/none"][..],
            &["update-ref", "refs/notes/commits", &blob],
            &["update-ref", "refs/notes/commits", &main],
        ] {
            repo.git(notes);
            usual.iter().chain(&formed).for_each(|words| same(repo.dir(), words, b""));
            formed.iter().for_each(|words| shows_alone(&repo, words));
            repo.git(["update-ref", "--no-deref", "-d", "refs/notes/commits"]);
        }
    }
}

/// Ambiguous names, and refs other than branches, select the same reflog as with git.
#[test]
fn names_mean_what_they_mean_to_git() {
    for repo in repos() {
        let main = repo.rev_parse("main").to_string();
        for name in ["refs/tags/main", "refs/heads/refs/heads/c", "refs/remotes/c/HEAD"] {
            repo.git(["update-ref", name, &main]);
        }
        let tag = repo.tag_object(repo.rev_parse("main"), "t").to_string();
        repo.git(["update-ref", "--create-reflog", "-m", "tagged", "refs/tags/t", &tag]);
        repo.git(["update-ref", "--create-reflog", "-m", "wild", "refs/wild/x", &main]);
        repo.git(["symbolic-ref", "-m", "lost", "refs/heads/lost", "refs/heads/nowhere"]);
        fs::write(repo.dir().join("b"), "").unwrap();
        for words in [
            &["main"][..],
            &["refs/heads/main", "--format=%gd %gD"],
            &["tags/main"],
            &["t"],
            &["refs/wild/x"],
            &["wild/x"],
            &["wild/x", "--format=%gd %gD"],
            &["refs/wild/x", "--format=%gd %gD"],
            &["c"],
            &["b"],
            &["b", "--"],
            &["lost"],
            &["refs/heads/lost"],
            &[&main],
            &["main-worktree/HEAD"],
            &["refs/heads/.."],
            &[""],
        ] {
            same(repo.dir(), &[&["reflog", "show"], words].concat(), b"");
        }
        repo.git(["update-ref", "-d", "refs/heads/main"]);
        same(repo.dir(), &["reflog"], b"");
        repo.git(["checkout", "-q", "--detach", "c"]);
        for words in [&["reflog"][..], &["reflog", "@{0}"], &["reflog", "HEAD@{1}"]] {
            same(repo.dir(), words, b"");
        }
    }
}

/// The entries name objects that are missing or no commits, do not fit together, or are broken lines.
#[test]
fn odd_entries_are_shown_as_git_does() {
    for repo in repos() {
        let [one, two] = repo.commits(2)[..] else { unreachable!("there are two") };
        let (tag, blob) = (repo.tag_object(one, "t"), repo.blob("x"));
        let missing = repo.blob("missing").to_string();
        let null = "0".repeat(repo.hash().len_hex());
        let (one, two, tag, blob) = (one.to_string(), two.to_string(), tag.to_string(), blob.to_string());
        at(&repo, 10, &["update-ref", "refs/heads/odd", &one]);
        let ids = [&one, &tag, &blob, &missing, &two, &one];
        match repo.format() {
            RefFormat::Files => {
                let mut text = String::new();
                let messages = ["\tone", "", "\t", " nosep", "\ttwo\\nlines", "\t  lead\ttab  ", "\twith\r"];
                for (turn, id) in ids.iter().chain([&&two, &&one]).enumerate() {
                    let message = messages[turn % messages.len()];
                    text += &format!("{null} {id} A  U <a@b> {} +0130{message}\n", 1_700_000_000 + turn * 1000);
                    text += ["", "no line\n", "\n"][turn % 3];
                }
                text +=
                    &format!("{two} {one} <> 1700009000 +9999\tno name\n{two} {one} A U <a@b> 1700009000 +0000\tcut");
                fs::write(repo.git_dir().join("logs/refs/heads/odd"), text).unwrap();
            }
            RefFormat::Reftable => {
                for (turn, id) in ids.iter().enumerate() {
                    at(&repo, 11 + turn, &["reflog", "write", "refs/heads/odd", &null, id, &format!("turn {turn}")]);
                }
            }
        }
        fs::remove_file(repo.git_dir().join("objects").join(&missing[..2]).join(&missing[2..])).unwrap();
        let mut lines: Vec<Vec<String>> = [
            &["reflog", "odd"][..],
            &["reflog", "odd", "--date=iso"],
            &["reflog", "odd", "--format=%gd|%gs|%gn|%ge|%H"],
            &["reflog", "odd", "--format=format:%gs"],
            &["reflog", "odd", "-3", "--skip=1"],
            &["reflog", "odd@{2023-11-14 22:40:00 +0000}"],
        ]
        .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
        .into();
        lines.extend((0..14).map(|number| vec!["reflog".into(), format!("odd@{{{number}}}"), "-2".into()]));
        for words in lines {
            same(repo.dir(), &words, b"");
        }
    }
}

/// A log of 100,000 entries is shown as by git, and without git; the command ends quietly when its reader goes away.
#[test]
fn a_long_log_is_shown_from_its_newest_line_on() {
    let repo = Repo::with_worktree(RefFormat::Files, refdb_testkit::Repo::KINDS[0].1);
    let commits = repo.commits(3);
    repo.git(["update-ref", "refs/heads/long", &commits[0].to_string()]);
    let mut file = fs::File::create(repo.git_dir().join("logs/refs/heads/long")).unwrap();
    let mut text = Vec::new();
    for turn in 0..100_000 {
        let (old, new) = (commits[turn % 3], commits[(turn + 1) % 3]);
        writeln!(text, "{old} {new} A <a@b> {} +0000\tturn {turn}", 1_700_000_000 + turn).unwrap();
        if turn == 50_000 {
            text.extend_from_slice(&[b'x'; 1 << 20]);
            text.push(b'\n');
        }
    }
    file.write_all(&text).unwrap();
    for words in [&["reflog", "long"][..], &["reflog", "long@{99999}"], &["reflog", "long", "--skip=99990"]] {
        same(repo.dir(), words, b"");
    }
    let mut refdb = Command::new(env!("CARGO_BIN_EXE_refdb"));
    let refdb = refdb.current_dir(repo.dir()).args(["reflog", "long"]).env("REFDB_GIT", "/nonexistent/git");
    let mut child = refdb.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Previously, nothing was shown. Git shows nothing either, and ends as if the log were empty.
#[test]
fn the_entries_before_a_damaged_block_are_shown() {
    let repo = Repo::bare(RefFormat::Reftable, Repo::KINDS[0].1);
    let update = |id| format!("start\nupdate refs/heads/main {id}\ncommit\n");
    let input = repo.commits(2).into_iter().map(update).collect::<String>().repeat(100);
    let message: String = (0..1500u64).map(|at| char::from(b'a' + (at * at % 26) as u8)).collect();
    repo.git_with_input(["update-ref", "--create-reflog", "-m", &message, "--stdin"], input);
    repo.git(["pack-refs"]);
    let folder = repo.git_dir().join("reftable");
    let list = fs::read_to_string(folder.join("tables.list")).unwrap();
    let table = folder.join(list.trim_end());
    let mut bytes = fs::read(&table).unwrap();
    let middle = bytes.len() * 6 / 10;
    bytes[middle..middle + 8].copy_from_slice(b"XXXXXXXX");
    fs::write(&table, bytes).unwrap();
    let output = refdb(repo.dir(), &["reflog", "show", "main"], b"");
    assert_eq!(output.status.code(), Some(128), "{output:?}");
    let shown = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    assert!((10..190).contains(&shown), "{shown} entries");
}
