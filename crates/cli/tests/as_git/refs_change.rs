//! `refdb refs create`, `delete` and `update`, which git has from version 2.56 on, beside `git update-ref`.

use crate::common::{Twins, refdb};
use refdb_testkit::{RefFormat, Repo};

fn set_up(repo: &Repo) {
    let commits = repo.commits(2);
    repo.create_refs([("refs/heads/main", commits[1]), ("refs/heads/other", commits[0])]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/other"]);
    repo.git(["symbolic-ref", "refs/heads/dangling", "refs/heads/new"]);
}

/// The words of a `refs` command, and those of an `update-ref` command that has the same effect or fails as well.
type Row<'a> = (&'a [&'a str], &'a [&'a str]);

#[test]
fn each_change_is_that_of_update_ref() {
    let null = "0".repeat(40);
    let null = null.as_str();
    let rows: &[Row<'_>] = &[
        (&["create", "refs/heads/new", "main"], &["refs/heads/new", "main", null]),
        (&["create", "refs/heads/main", "other"], &["refs/heads/main", "other", null]),
        (&["create", "refs/heads/dangling", "main"], &["refs/heads/dangling", "main", null]),
        (
            &["create", "--no-deref", "refs/heads/dangling", "main"],
            &["--no-deref", "refs/heads/dangling", "main", null],
        ),
        (&["create", "--create-reflog", "refs/notes/x", "main"], &["--create-reflog", "refs/notes/x", "main", null]),
        (&["create", "--message=why", "refs/heads/new", "main"], &["-m", "why", "refs/heads/new", "main", null]),
        (&["create", "refs/heads/main/below", "main"], &["refs/heads/main/below", "main", null]),
        (&["create", "refs/heads/a..b", "main"], &["refs/heads/a..b", "main", null]),
        (&["update", "refs/heads/other", "main"], &["refs/heads/other", "main"]),
        (&["update", "refs/heads/other", "main", "other"], &["refs/heads/other", "main", "other"]),
        (&["update", "refs/heads/other", "main", "main"], &["refs/heads/other", "main", "main"]),
        (&["update", "refs/heads/other", "main", null], &["refs/heads/other", "main", null]),
        (&["update", "refs/heads/new", "main", null], &["refs/heads/new", "main", null]),
        (&["update", "refs/heads/other", null], &["-d", "refs/heads/other"]),
        (&["update", "refs/heads/link", "main"], &["refs/heads/link", "main"]),
        (&["update", "--no-deref", "refs/heads/link", "main"], &["--no-deref", "refs/heads/link", "main"]),
        (&["update", "--message=why", "HEAD", "other"], &["-m", "why", "HEAD", "other"]),
        (&["delete", "refs/heads/other"], &["-d", "refs/heads/other"]),
        (&["delete", "refs/heads/other", "other"], &["-d", "refs/heads/other", "other"]),
        (&["delete", "refs/heads/other", "main"], &["-d", "refs/heads/other", "main"]),
        (&["delete", "refs/heads/none"], &["-d", "refs/heads/none"]),
        (&["delete", "--no-deref", "refs/heads/link"], &["--no-deref", "-d", "refs/heads/link"]),
        (&["delete", "--message=why", "HEAD"], &["-m", "why", "-d", "HEAD"]),
    ];
    for format in RefFormat::ALL {
        for (words, of_git) in rows {
            let twins = Twins::new(format, &set_up);
            twins.do_the_same(&[&["update-ref"], *of_git].concat(), &[&["refs"], *words].concat());
        }
    }
}

#[test]
fn wrong_use_changes_nothing_and_says_why() {
    let null = "0".repeat(40);
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, refdb_types::HashKind::Sha1);
        set_up(&repo);
        let before = repo.git(["for-each-ref"]);
        for (words, why) in [
            (&["create", "refs/heads/new"][..], "usage: create requires reference name and an object ID"),
            (&["create", "--message="], "usage: create requires reference name and an object ID"),
            (&["delete", "--message="], "usage: delete requires reference name and an optional old object ID"),
            (
                &["update", "--message=", "x"],
                "usage: update requires reference name, new value and an optional old value",
            ),
            (&["create", "refs/heads/new", "main", "main"], "usage: create requires reference name and an object ID"),
            (&["create", "refs/heads/new", &null], "cannot create reference with null new object ID"),
            (&["create", "refs/heads/new", "nothing"], "invalid object ID: 'nothing'"),
            (&["create", "--message=", "refs/heads/new", "main"], "refusing to perform update with empty message"),
            (
                &["update", "refs/heads/main"],
                "usage: update requires reference name, new value and an optional old value",
            ),
            (&["update", "refs/heads/main", "nothing"], "invalid new object ID: 'nothing'"),
            (&["update", "refs/heads/main", "other", "nothing"], "invalid old object ID: 'nothing'"),
            (&["delete"], "usage: delete requires reference name and an optional old object ID"),
            (&["delete", "refs/heads/main", &null], "cannot delete reference with null old object ID"),
        ] {
            let output = refdb(repo.dir(), &[&["refs"], words].concat(), b"");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let (text, code) =
                if why.starts_with("usage: ") { (why.to_owned(), 129) } else { (format!("fatal: {why}"), 128) };
            assert_eq!((said.trim_end(), output.status.code()), (text.as_str(), Some(code)), "{words:?}");
        }
        assert_eq!(repo.git(["for-each-ref"]), before);
    }
}

#[test]
fn a_change_that_cannot_be_names_the_ref_before_the_reason() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, refdb_types::HashKind::Sha1);
        set_up(&repo);
        for (words, said) in [
            (
                &["create", "refs/heads/main", "main"][..],
                "error: update_ref failed for ref 'refs/heads/main': cannot lock ref 'refs/heads/main': reference already exists",
            ),
            (
                &["update", "bad..name", "main"],
                "error: update_ref failed for ref 'bad..name': refusing to update ref with bad name 'bad..name'",
            ),
            (&["delete", "bad..name"], "error: refusing to update ref with bad name 'bad..name'"),
        ] {
            let output = refdb(repo.dir(), &[&["refs"], words].concat(), b"");
            assert_eq!(String::from_utf8_lossy(&output.stderr).trim_end(), said);
            assert_eq!(output.status.code(), Some(1));
        }
    }
}
