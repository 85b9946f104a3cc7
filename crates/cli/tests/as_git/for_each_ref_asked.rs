//! Compares `refdb for-each-ref` with git's: trailers, mail maps, packs, names, signatures, human-readable dates.

use crate::common::{refdb, same, same_with};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::time::{SystemTime, UNIX_EPOCH};

/// Creates a repository with one commit and one tag for each message.
fn repo_with_messages(format: RefFormat, messages: &[&str]) -> Repo {
    let repo = Repo::with_worktree(format, HashKind::Sha1);
    let tree = repo.git_with_input(["mktree"], "");
    for (at, message) in messages.iter().enumerate() {
        let commit = repo.git_with_input(["commit-tree", "-F", "-", &tree], message);
        repo.git(["update-ref", &format!("refs/heads/m{at}"), &commit]);
        let tag = format!("object {commit}\ntype commit\ntag t\ntagger T <t@x> 1 +0000\n\n{message}");
        let tag = repo.git_with_input(["hash-object", "-w", "-t", "tag", "--stdin"], tag);
        repo.git(["update-ref", &format!("refs/tags/m{at}"), &tag]);
    }
    repo
}

const MESSAGES: &[&str] = &[
    "s\n\nbody\n\nA-b: one\nnot a trailer\nSigned-off-by: x <y>\n  folded\nA-b : two\nEmpty:\n",
    "s\n\na: b\nc: d\n",
    "s\n\na: b\nc\n",
    "a: b\n",
    "s\n\na: b\n# comment\n\n\n",
    "s\n\nack: me\nx\nx\nx\n",
    "s\n\nack: me\n-: y\n\n---\nAcked-by= q\n",
    "s\n\nConflicts:\n\tfile\nkey: v\n\nConflicts:\n\tfile\n",
    "s\n\nkey: v\n-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----\n",
    "s\n\nkey: v\n# ------------------------ >8 ------------------------\nother: w\n",
    "s\n\n(cherry picked from commit 1234)\ntext\n  folded\n \n",
    "",
];

#[test]
fn trailers_are_found_and_shown_as_git_does() {
    let repo = repo_with_messages(RefFormat::Files, MESSAGES);
    let good = [
        "",
        ":",
        ":only",
        ":only=x,unfold",
        ":only=no,unfold=2",
        ":unfold",
        ":keyonly",
        ":keyonly,valueonly",
        ":key=",
        ":key=a-b:",
        ":key=a-b,only=no",
        ":key=Acked-by",
        ":separator=%x2c ,only",
        ":separator=%zz%x2%%",
        ":separator=%x00",
        ":separator",
        ":key_value_separator=:,separator=|",
        ":valueonly,separator=%n",
        ":only,",
    ];
    for field in ["trailers", "contents:trailers", "*trailers"] {
        let shown: String = good.iter().map(|form| format!("{form}[%({field}{form})]")).collect();
        for setting in ["a.b=c", "trailer.separators==:", "trailer.ack.key=Acked-by: ", "core.commentChar=a"] {
            same(repo.dir(), &["-c", setting, "for-each-ref", &format!("--format=%(refname) {shown}")], b"");
        }
        let alias = ["-c", "trailer.ack.where=end", "-c", "trailer.Ack.key=Acked-by"];
        same(repo.dir(), &[&alias[..], &["for-each-ref", &format!("--format=%({field}:only)")]].concat(), b"");
        for form in [":only=x", ":key", ":,only", ":foo,only"] {
            same(repo.dir(), &["for-each-ref", &format!("--format=%({field}{form})")], b"");
        }
    }
    for words in ["%(contents:trailersonly)", "%(contents:trailers,only)"] {
        same(repo.dir(), &["for-each-ref", &format!("--format={words}")], b"");
    }
    same(repo.dir(), &["for-each-ref", "--sort=-trailers:key=a", "--sort=trailers"], b"");
}

#[test]
fn people_are_shown_by_the_mail_map() {
    let people = [
        "A U Thor <a@x> 1 +0000",
        "<a@x> 1 +0000",
        " <a@x> 1 +0000",
        "A<a@x> 1 +0000",
        "  A   B  <a@x>  1 +0000",
        "A <A@X> 1 +0000",
        "A <b@x> 1 +0000",
        "Other <b@x> 1 +0000",
        "A B a@x 1 +0000",
        "A <a@x",
        "A a@x> 1 +0000",
        "A <a@x>",
        "A  < a@x > 1 +0000",
        "A <b <a@x>> 1 +0000",
        "A <x> <a@x> 1 +0000",
        "A> <a@x> 1 +0000",
        "A B <> 1 +0000",
        "A <foo> 1 +0000",
        "A <a@x> z 1 +0000",
    ];
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        let tree = repo.git_with_input(["mktree"], "");
        for (at, person) in people.iter().enumerate() {
            let commit = format!("tree {tree}\nauthor {person}\ncommitter {person}\n\nx\n");
            let words = ["hash-object", "--literally", "-w", "-t", "commit", "--stdin"];
            let commit = repo.git_with_input(words, commit);
            repo.git(["update-ref", &format!("refs/heads/p{at:02}"), &commit]);
        }
        let fields = "%(refname) %(author)|%(authorname)|%(authorname:mailmap)|%(authoremail)|%(authoremail:mailmap)|\
            %(authoremail:trim)|%(authoremail:mailmap,trim)|%(authoremail:localpart)|%(committeremail:localpart,mailmap)|\
            %(committername:mailmap)|%(taggername:mailmap)|%(authordate)|%(authordate:raw)";
        let format = format!("--format={fields}");
        let map = "Proper <p@x> <a@x>\nNamed <q@x> other <b@x>\n# comment\n";
        same(repo.dir(), &["for-each-ref", &format], b"");
        std::fs::write(repo.dir().join(".mailmap"), map).unwrap();
        same(repo.dir(), &["for-each-ref", &format], b"");
        same(repo.dir(), &["for-each-ref", "--sort=authorname:mailmap", "--sort=-authoremail:mailmap"], b"");
        // The mail map also applies in a subfolder of the working tree, and where `mailmap.file` names it.
        std::fs::create_dir(repo.dir().join("folder")).unwrap();
        same(&repo.dir().join("folder"), &["for-each-ref", &format], b"");
        std::fs::rename(repo.dir().join(".mailmap"), repo.scratch().join("map")).unwrap();
        let setting = format!("mailmap.file={}", repo.scratch().join("map").display());
        same(repo.dir(), &["-c", &setting, "for-each-ref", &format], b"");
        for argument in ["mailmap,trim", "mailmapx", "mailmap=", ",", "trim"] {
            same(repo.dir(), &["for-each-ref", &format!("--format=%(authorname:{argument})")], b"");
            same(repo.dir(), &["for-each-ref", &format!("--format=%(authoremail:{argument})")], b"");
        }
    }
}

#[test]
fn objects_tell_how_they_are_stored() {
    for (format, hash) in Repo::KINDS {
        let repo = Repo::with_worktree(format, hash);
        let long: String = (0..400).map(|line| format!("line {line}\n")).collect();
        let blobs = [repo.blob(&long), repo.blob(&(long.clone() + "and one\n"))];
        repo.create_refs([("refs/x/one", blobs[0]), ("refs/x/two", blobs[1])]);
        let commits = repo.commits(3);
        let tag = repo.tag_object(commits[2], "v1");
        repo.create_refs([("refs/heads/main", commits[2]), ("refs/tags/v1", tag), ("refs/heads/a", commits[0])]);
        for packed in [false, true] {
            if packed {
                repo.git(["repack", "-q", "-a", "-d", "-f"]);
            }
            // Git 2.55 reports no delta base if the format also has a field with `*`, so these are kept apart.
            for fields in ["%(objectsize:disk) %(deltabase)", "%(objectsize:disk) %(*objectsize:disk)"] {
                same(repo.dir(), &["for-each-ref", &format!("--format=%(refname) {fields}")], b"");
            }
            same(repo.dir(), &["for-each-ref", "--sort=-objectsize:disk", "--sort=deltabase"], b"");
        }
        for field in ["deltabase:x", "objectsize:x", "objectsize:disk,x"] {
            same(repo.dir(), &["for-each-ref", &format!("--format=%({field})")], b"");
        }
    }
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    repo.commit();
    std::fs::write(repo.git_dir().join("refs/heads/gone"), "1".repeat(40) + "\n").unwrap();
    for field in ["deltabase", "objectsize:disk", "describe", "trailers", "is-base:HEAD"] {
        same(repo.dir(), &["for-each-ref", &format!("--format=%(refname) %({field})")], b"");
    }
}

#[test]
fn commits_are_described_and_their_signatures_judged() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        let commits = repo.commits(5);
        let blob = repo.blob("text");
        repo.create_refs([
            ("refs/heads/main", commits[4]),
            ("refs/heads/old", commits[0]),
            ("refs/tags/v1", repo.tag_object(commits[1], "v1")),
            ("refs/tags/v2", repo.tag_object(commits[3], "v2")),
            ("refs/tags/light", commits[4]),
            ("refs/tags/blob", repo.tag_object(blob, "blob")),
            ("refs/blob", blob),
        ]);
        let arguments = [
            "",
            ":",
            ":tags",
            ":tags=no",
            ":tags=x",
            ":tags=x,abbrev=3",
            ":abbrev",
            ":abbrev=x,tags",
            ":abbrev=-1",
            ":abbrev= 5",
            ":abbrev=12,tags",
            ":match",
            ":match=v*,exclude=v2",
            ":exclude=v1",
            ":tags,",
            ":,tags",
            ":tags,foo",
        ];
        for argument in arguments {
            for star in ["", "*"] {
                let format = format!("--format=%(refname) [%({star}describe{argument})]");
                same(repo.dir(), &["for-each-ref", &format], b"");
            }
        }
        same(repo.dir(), &["for-each-ref", "--sort=-describe", "--format=%(refname)"], b"");
        for argument in ["", ":grade", ":signer", ":key", ":fingerprint", ":primarykeyfingerprint", ":trustlevel", ":x"]
        {
            let format = format!("--format=%(refname) [%(signature{argument})] [%(*signature{argument})]");
            same(repo.dir(), &["for-each-ref", &format], b"");
        }
    }
}

#[test]
fn the_ref_from_which_a_branch_began_is_marked() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        let tree = repo.git_with_input(["mktree"], "");
        let mut turn = 0;
        let mut commit = |parents: &[&str]| {
            turn += 1;
            let parents: Vec<&str> = parents.iter().flat_map(|parent| ["-p", parent]).collect();
            repo.git([&["commit-tree", "-m", &turn.to_string(), &tree], &parents[..]].concat())
        };
        let root = commit(&[]);
        let middle = commit(&[&root]);
        let tip = commit(&[&middle]);
        let (one, two) = (commit(&[&middle]), commit(&[&root, &middle]));
        let further = commit(&[&tip]);
        let blob = repo.blob("text").to_string();
        let tag = repo.tag_object(repo.rev_parse(&middle), "v1").to_string();
        for (name, id) in [("blob", &blob), ("tip", &tip), ("root", &root)] {
            repo.git(["update-ref", &format!("refs/x/{name}"), id]);
        }
        for listed in [
            &[&one, &two][..],
            &[&two, &one],
            &[&further, &tip],
            &[&tip, &further],
            &[&one, &middle],
            &[&two, &root],
            &[&blob, &tag, &one],
            &[&blob],
        ] {
            for (at, id) in listed.iter().enumerate() {
                repo.git(["update-ref", &format!("refs/listed/{at}"), id]);
            }
            let format = "--format=%(refname) %(is-base:refs/x/tip)%(*is-base:refs/x/tip) %(is-base:refs/x/root)";
            same(repo.dir(), &["for-each-ref", format, "refs/listed"], b"");
            same(repo.dir(), &["for-each-ref", "--sort=-is-base:refs/x/tip", "--count=1", "refs/listed"], b"");
        }
        for argument in ["", ":", ":nothing", ":refs/x/blob"] {
            same(repo.dir(), &["for-each-ref", &format!("--format=%(is-base{argument})")], b"");
        }
    }
}

/// Writes a tag object whose date lies `past` seconds before now, and returns its id.
fn dated(repo: &Repo, target: ObjectId, past: i64, offset: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let tag = format!("object {target}\ntype commit\ntag t\ntagger T <t@x> {} {offset}\n\nx\n", now - past);
    repo.git_with_input(["hash-object", "-w", "-t", "tag", "--stdin"], tag)
}

#[test]
fn a_date_is_told_as_people_tell_it() {
    const DAY: i64 = 86_400;
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let target = repo.commit();
    // These ages are far from where the unit changes, so that it does not matter if the two programs run a second
    // apart.
    for (at, past) in [3 * 3600 + 100, 40_000, DAY + 500, 3 * DAY, 5 * DAY, 20 * DAY, 200 * DAY, 500 * DAY, -3 * DAY]
        .iter()
        .enumerate()
    {
        for (turn, offset) in ["+0000", "-0730"].iter().enumerate() {
            let tag = dated(&repo, target, *past, offset);
            repo.git(["update-ref", &format!("refs/tags/{at}-{turn}"), &tag]);
        }
    }
    for form in ["human", "human-local", "auto:human", "humanx", "human-x"] {
        let format = format!("--format=%(refname) %(taggerdate:{form})");
        for zone in ["UTC0", "EST5EDT,M3.2.0,M11.1.0", "IST-5:30"] {
            same_with(repo.dir(), ("TZ", zone), &["for-each-ref", &format]);
        }
    }
}

#[test]
fn relative_dates_go_by_the_time_that_gits_tests_set() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let tag = dated(&repo, repo.commit(), 0, "+0000");
    repo.git(["update-ref", "refs/tags/v1", &tag]);
    for now in ["2000000000", "1000000000"] {
        let words = ["for-each-ref", "--format=%(taggerdate:relative) %(taggerdate:human)"];
        same_with(repo.dir(), ("GIT_TEST_DATE_NOW", now), &words);
    }
}

#[test]
fn a_git_that_is_not_there_is_named() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/main", repo.commit())]);
    let words = ["-c", "a.b=c", "for-each-ref", "--format=%(describe)"];
    let shown = crate::common::refdb_with(repo.dir(), ("REFDB_GIT", "/nowhere/git"), &words);
    let told = String::from_utf8(shown.stderr).unwrap();
    assert_eq!(
        told,
        "fatal: cannot run '/nowhere/git describe', to which a field of the format is left: No such file or directory\n"
    );
    assert_eq!(shown.status.code(), Some(128));
    let plain = refdb(repo.dir(), &["for-each-ref"], b"");
    assert!(plain.status.success());
}
