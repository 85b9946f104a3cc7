//! Compares `refdb show-ref` with git's.

use crate::common::same;
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;

/// Creates branches, tags of all kinds, a dangling symbolic ref, and names that only look alike.
fn repo(format: RefFormat, hash: HashKind) -> Repo {
    let repo = Repo::with_worktree(format, hash);
    let commits = repo.commits(3);
    let tag = repo.tag_object(commits[0], "v1");
    let nested = repo.tag_object(tag, "v2");
    repo.create_refs([
        ("refs/heads/main", commits[2]),
        ("refs/heads/a/main", commits[1]),
        ("refs/heads/domain", commits[0]),
        ("refs/remotes/origin/main", commits[0]),
        ("refs/tags/v1", tag),
        ("refs/tags/v2", nested),
        ("refs/tags/light", commits[1]),
        ("refs/notes/x", commits[0]),
    ]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/a/main"]);
    repo.git(["symbolic-ref", "refs/heads/dangling", "refs/heads/none"]);
    repo.git(["symbolic-ref", "refs/heads/loop", "refs/heads/loop"]);
    repo.git(["update-ref", "ORIG_HEAD", "refs/heads/domain"]);
    repo
}

const LINES: &[&[&str]] = &[
    &[],
    &["main"],
    &["heads/main"],
    &["refs/heads/main"],
    &["main", "v1"],
    &["/main"],
    &[""],
    &["nothing"],
    &["--head"],
    &["--head", "nothing"],
    &["--head", "-d", "v1"],
    &["-h", "main"],
    &["-d"],
    &["-s"],
    &["-ds"],
    &["-s5"],
    &["--hash=7", "-d"],
    &["--hash=2"],
    &["--hash=100"],
    &["--hash=x"],
    &["--hash="],
    &["--no-hash", "main"],
    &["--abbrev"],
    &["--abbrev=10"],
    &["--abbrev=0", "-s"],
    &["--abbrev", "--no-abbrev"],
    &["--tags"],
    &["--branches"],
    &["--heads"],
    &["--tags", "--branches", "main"],
    &["--tags", "--no-tags", "--branches"],
    &["-q"],
    &["-q", "nothing"],
    &["--verify"],
    &["--verify", "refs/heads/main"],
    &["--verify", "refs/heads/main", "HEAD", "-d", "refs/tags/v2"],
    &["--verify", "-s", "-d", "refs/tags/v1"],
    &["--verify", "main"],
    &["--verify", "heads/main"],
    &["--verify", "-q", "refs/heads/none"],
    &["--verify", "refs/heads/none", "refs/heads/main"],
    &["--verify", "refs/heads/dangling"],
    &["--verify", "refs/heads/loop"],
    &["--verify", "refs/heads/link"],
    &["--verify", "ORIG_HEAD"],
    &["--verify", "FETCH_HEAD"],
    &["--verify", "config"],
    &["--verify", "refs/heads/../heads/main"],
    &["--verify", "--tags", "refs/heads/main"],
    &["--exists"],
    &["--exists", "a", "b"],
    &["--exists", "refs/heads/main"],
    &["--exists", "refs/heads/dangling"],
    &["--exists", "refs/heads/loop"],
    &["--exists", "refs/heads/none"],
    &["--exists", "refs/heads"],
    &["--exists", "HEAD"],
    &["--exists", "bad..name"],
    &["--verify", "--exists"],
    &["--exists", "--exclude-existing"],
    &["--verify", "--exists", "--exclude-existing"],
    &["--ex"],
    &["--foo"],
    &["-X"],
    &["-tags"],
    &["--verify=1"],
    &["--help-all"],
];

#[test]
fn refs_are_shown_as_git_shows_them() {
    for (format, hash) in Repo::KINDS {
        let repo = repo(format, hash);
        for words in LINES {
            same(repo.dir(), &[&["show-ref"], *words].concat(), b"");
        }
        repo.git(["pack-refs", "--all"]);
        for words in LINES {
            same(repo.dir(), &[&["show-ref"], *words].concat(), b"");
        }
    }
}

#[test]
fn lines_whose_ref_does_not_exist_are_passed_on() {
    let input =
        b"refs/heads/dangling\nabc refs/heads/main\nabc refs/heads/new^{}\nrefs/heads/x y\nbad..name\nrefs/tags/q\n\n";
    for format in RefFormat::ALL {
        let repo = repo(format, HashKind::Sha1);
        for option in ["--exclude-existing", "--exclude-existing=refs/tags", "--exclude-existing=refs/ta"] {
            same(repo.dir(), &["show-ref", option], input);
            same(repo.dir(), &["show-ref", option], b"refs/tags/new\0x\nx refs/tags/new^{}\0 y\n\0refs/tags/new\n");
        }
    }
}

#[test]
fn a_ref_that_holds_a_missing_object_is_a_failure() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    std::fs::write(repo.git_dir().join("refs/heads/zmissing"), "1234567890123456789012345678901234567890\n").unwrap();
    for words in
        [&["show-ref"][..], &["show-ref", "--verify", "refs/heads/zmissing"], &["show-ref", "-q"], &["for-each-ref"]]
    {
        same(repo.dir(), words, b"");
    }
    for content in ["garbage\n", "", "0000000000000000000000000000000000000000\n"] {
        std::fs::write(repo.git_dir().join("refs/heads/zmissing"), content).unwrap();
        for words in [
            &["show-ref"][..],
            &["show-ref", "--verify", "refs/heads/zmissing"],
            &["show-ref", "--exists", "refs/heads/zmissing"],
            &["for-each-ref"],
            &["for-each-ref", "refs/tags"],
        ] {
            if content.starts_with('0') && words.contains(&"--verify") {
                // `broken_refs` compares what both programs say about the null id here.
                continue;
            }
            same(repo.dir(), words, b"");
        }
    }
}

/// Refdb may copy a line of packed-refs to its output only if the ref is shown exactly as that line.
#[test]
fn a_packed_refs_by_another_hand_is_shown_as_git_shows_it() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = Repo::bare(RefFormat::Files, hash);
        let ids: Vec<String> = repo.commits(3).iter().map(ToString::to_string).collect();
        let missing = "1".repeat(ids[0].len());
        let name = |number: usize| format!("refs/heads/topic/number-{number:03}");
        let line = |number: usize| format!("{} {}\n", ids[number % 3], name(number));
        let header = "# pack-refs with: peeled fully-peeled sorted \n";
        let lines: Vec<String> = (0..40).map(line).collect();
        let with = |at: usize, other: String| {
            let mut lines = lines.clone();
            lines[at] = other;
            lines.concat()
        };
        let null = "0".repeat(ids[0].len());
        let mut bodies = vec![
            lines.concat(),
            with(20, format!("{} {}\n", ids[0].to_uppercase(), name(20))),
            with(20, format!("{}\t{}\n", ids[0], name(20))),
            with(20, format!("{} {}\n", missing, name(20))),
            with(20, format!("{} {}\n", null, name(20))),
            with(20, format!("{} {}..\n", ids[0], name(20))),
            with(20, format!("{} {}.lock\n", ids[0], name(20))),
            with(20, format!("{} {}\n^{}\n", ids[0], name(20), ids[1])),
        ];
        // Longer malformed lines, those with SHA-256, are left out because git prints less of them.
        if hash == HashKind::Sha1 {
            bodies.extend([
                with(20, format!("{} {}\n^{}\n", ids[0], name(20), &ids[1][1..])),
                with(20, format!("{} {}\n", &ids[0][1..], name(20))),
                with(20, format!("x{} {}\n", &ids[0][1..], name(20))),
                with(39, format!("{} {}", ids[0], name(39))),
            ]);
        }
        for body in bodies {
            std::fs::write(repo.git_dir().join("packed-refs"), header.to_owned() + &body).unwrap();
            for words in
                [&["show-ref"][..], &["show-ref", "number-021"], &["show-ref", "--branches"], &["show-ref", "-d"]]
            {
                same(repo.git_dir(), words, b"");
            }
        }
    }
}
