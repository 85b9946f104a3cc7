//! Compares `refdb update-ref --stdin` with git's.

use crate::common::{Twins, git, refdb};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

fn set_up(repo: &Repo) {
    let commits = repo.commits(3);
    repo.create_refs([
        ("refs/heads/main", commits[2]),
        ("refs/heads/other", commits[1]),
        ("refs/heads/dir/x", commits[1]),
    ]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/other"]);
    std::fs::write(repo.dir().join("path with space"), "x").unwrap();
    repo.git(["add", "."]);
    repo.git(["commit", "--quiet", "-m", "file"]);
}

/// Runs a session with both forms of input, lines and `-z`; `|` in a line of `session` stands for the end of a field.
fn both_forms(twins: &Twins, options: &[&str], session: &[&str]) {
    let words = |z: &'static [&'static str]| [&["update-ref", "--stdin"], z, options].concat();
    let lines: String = session.iter().map(|line| line.replace('|', " ") + "\n").collect();
    twins.same(&words(&[]), lines.as_bytes());
    let fields: String = session.iter().map(|line| line.replace('|', "\0") + "\0").collect();
    twins.same(&words(&["-z"]), fields.as_bytes());
}

#[test]
fn sessions_that_succeed_do_what_git_does() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        for session in [
            &[][..],
            &["create refs/heads/new|main", "verify refs/heads/none|", "update refs/heads/other|main|main~2"],
            &["update refs/heads/new|main~1|", "delete refs/heads/other|main"],
            &["update refs/heads/other|main~1|0000000000000000000000000000000000000000", "delete refs/heads/new|"],
            &["start", "create refs/heads/new|main", "prepare", "commit"],
            &["start", "delete refs/heads/new|main", "abort", "start", "create refs/tags/t|main", "commit"],
            &["start", "create refs/heads/never|main", "prepare"],
            &["start", "create refs/heads/never|main"],
            &["commit"],
            &["abort"],
            &["symref-create refs/heads/sym|refs/heads/main"],
            &["symref-update refs/heads/sym|refs/heads/other|ref|refs/heads/main"],
            &["option no-deref", "symref-verify refs/heads/sym|refs/heads/other"],
            &["option no-deref", "update refs/heads/sym|main|"],
            &["option no-deref", "delete refs/heads/link|main~1"],
            &["update refs/heads/link|main|"],
            &["create refs/blobs/x|main:path with space"],
            // Not the checked-out branch, because git adds a line to HEAD's reflog if that one is verified, and refdb
            // does not.
            &["verify refs/heads/other|refs/heads/other"],
            &["create HEADX|main"],
        ] {
            if session.iter().any(|line| line.contains("path with space")) {
                // On a line such a path must be quoted, which is tested below.
                continue;
            }
            both_forms(&twins, &[], session);
            both_forms(&twins, &["--no-deref", "-m", "a reason", "--create-reflog"], session);
        }
        twins.same(&["update-ref", "--stdin"], b"create refs/blobs/x \"main:path with space\"\n");
        twins.same(&["update-ref", "--stdin", "-z"], b"create refs/blobs/y\0main:path with space\0");
    }
}

#[test]
fn sessions_that_fail_say_what_git_says() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        for session in [
            &["create refs/heads/main|main"][..],
            &["create refs/heads/a|main", "create refs/heads/a|main"],
            &["update refs/heads/main|main~1|main~2"],
            &["update refs/heads/none|main|main"],
            &["delete refs/heads/none|main"],
            &["verify refs/heads/none|main"],
            &["verify refs/heads/main|"],
            &["create refs/heads/main/x|main"],
            &["create refs/heads/dir|main"],
            &["create refs/heads/a/b|main", "create refs/heads/a|main"],
            &["delete refs/heads/dir/x|", "create refs/heads/dir|main"],
            &["create refs/heads/a|1234567890123456789012345678901234567890"],
            &["create refs/heads/a|main^{tree}"],
            &["create refs/heads/a|nothing"],
            &["symref-create refs/heads/main|refs/heads/x"],
            &["symref-update refs/heads/main|refs/heads/x|ref|refs/heads/y"],
            &["option no-deref", "symref-update refs/heads/link|refs/heads/x|ref|refs/heads/y"],
            &["option no-deref", "symref-delete refs/heads/main|refs/heads/x"],
            &["option no-deref", "symref-delete refs/heads/link|refs/heads/x"],
            &["option no-deref", "symref-verify refs/heads/link|"],
            &["option no-deref", "symref-verify refs/heads/none|refs/heads/x"],
            &["start", "create refs/heads/main|main", "prepare"],
            &["start", "create refs/heads/main|main", "commit"],
            &["start", "start"],
            &["abort", "abort"],
            &["prepare", "create refs/heads/a|main"],
            &["update refs/heads/link|main~2|", "update refs/heads/other|main~2|"],
            &["option no-deref", "update HEAD|main~1|main", "update refs/heads/main|main~2|main"],
            &["create low/er|main", "delete low|"],
            &["symref-create lower|refs/heads/x"],
            &["create FETCH_HEAD|main"],
        ] {
            both_forms(&twins, &[], session);
        }
    }
}

#[test]
fn batches_reject_what_git_rejects() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        // No branch of the sessions may be checked out, because git adds lines to HEAD's reflog even for its rejected
        // updates.
        for repo in [&twins.git, &twins.refdb] {
            repo.git(["symbolic-ref", "HEAD", "refs/heads/unborn"]);
        }
        for session in [
            &["create refs/heads/new|main", "create refs/heads/main|main"][..],
            &["update refs/heads/other|main|main", "update refs/heads/new|main~1|main"],
            &["delete refs/heads/none|main", "verify refs/heads/main|main~2"],
            &["create refs/heads/main/x|main"],
            &["update refs/heads/none|1234567890123456789012345678901234567890|"],
            &["start", "symref-update refs/heads/main|refs/heads/x|ref|refs/heads/y", "prepare", "commit"],
            &["update refs/heads/link|main~1|main~1"],
        ] {
            both_forms(&twins, &["--batch-updates"], session);
        }
    }
}

#[test]
fn a_rejected_request_of_a_batch_is_in_nobodys_way() {
    for format in RefFormat::ALL {
        for session in [
            &["delete refs/heads/none/x|main", "update refs/heads/none|main"][..],
            &["create refs/heads/none|main", "delete refs/heads/none/x/y|main"],
            &["symref-create refs/heads/none/x|refs/heads/y", "delete refs/heads/none|main"],
            &["delete refs/heads/none|main", "create refs/heads/none/x|main", "create refs/heads/z|main"],
            &["update refs/heads/other|main~1|main~2", "create refs/heads/other/x|main"],
            &["update refs/heads/dir/x|main~1|main~2", "update refs/heads/dir|main|"],
        ] {
            let twins = Twins::new(format, &set_up);
            both_forms(&twins, &["--batch-updates"], session);
        }
    }
}

#[test]
fn head_and_its_branch_are_not_both_changed_even_without_reflogs() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            set_up(repo);
            repo.git(["config", "core.logAllRefUpdates", "false"]);
            repo.git(["reflog", "expire", "--expire=now", "--all"]);
            let _ = std::fs::remove_dir_all(repo.git_dir().join("logs"));
        });
        for session in [
            &["update HEAD|main~1|main", "update refs/heads/main|main~2|main"][..],
            &["option no-deref", "update HEAD|main~1|main", "update refs/heads/main|main~2|main"],
            &["option no-deref", "update HEAD|main~1|main", "update refs/heads/other|main~2|other"],
        ] {
            both_forms(&twins, &[], session);
        }
    }
}

/// Git reports that a folder of loose refs keeps its name from being locked; packed refs below the name do not.
#[test]
fn conflicts_of_names_are_told_with_gits_words_before_them() {
    for format in RefFormat::ALL {
        for packed in [false, true] {
            let twins = Twins::new(format, &|repo| {
                set_up(repo);
                if packed {
                    repo.git(["pack-refs", "--all"]);
                }
            });
            for session in [
                &["create refs/heads/dir|main"][..],
                &["delete refs/heads/dir|"],
                &["verify refs/heads/dir|"],
                &["delete refs/heads/dir|main"],
                &["symref-create refs/heads/dir|refs/heads/x"],
                &["create refs/heads/main/x|main"],
                &["delete refs/heads/main/x|"],
                &["verify refs/heads/main/x|"],
                &["create refs/heads/n|main", "create refs/heads/n/m|main"],
                &["create refs/heads/n/m|main", "create refs/heads/n|main"],
                &["delete refs/heads/dir/x|", "create refs/heads/dir|main"],
                &["create refs/heads/dir|main", "delete refs/heads/dir/x|"],
                &["delete refs/heads/main|", "create refs/heads/main/x|main"],
            ] {
                both_forms(&twins, &[], session);
            }
        }
    }
}

/// A lock of another process in a folder keeps the folder's name from being locked even if all refs in it are packed; a
/// lock of the same transaction does not.
#[test]
fn locks_of_others_in_a_folder_keep_its_name_from_being_locked() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        set_up(repo);
        repo.git(["pack-refs", "--all"]);
        let folder = repo.git_dir().join("refs/heads/dir/deep");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("other.lock"), "").unwrap();
    });
    for session in [
        &["create refs/heads/dir|main"][..],
        &["delete refs/heads/dir|"],
        &["verify refs/heads/dir|"],
        &["create refs/heads/dir/n|main", "create refs/heads/dir|main"],
        &["create refs/heads/dir|main", "create refs/heads/dir/n|main"],
        &["create refs/heads|main", "create refs/heads/a|main"],
    ] {
        both_forms(&twins, &[], session);
    }
}

#[test]
fn rejections_are_told_when_git_tells_them() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        let missing = "1234567890123456789012345678901234567890";
        for session in [
            &["update refs/heads/other|main~2|main~2".into(), format!("create refs/heads/a|{missing}")][..],
            &[format!("update refs/heads/a|{missing}|main"), "delete refs/heads/none|nothing".into()],
            &["create refs/heads/main/x|main".into(), "update refs/heads/other|main|main".into()],
            &["create refs/heads/a|main^{tree}".into()],
            &["update refs/heads/a|main^{tree}|0000000000000000000000000000000000000000".into()],
        ] {
            let session: Vec<&str> = session.iter().map(String::as_str).collect();
            both_forms(&twins, &["--batch-updates"], &session);
        }
    }
}

#[test]
fn a_nul_in_a_line_ends_it_as_in_git() {
    let twins = Twins::new(RefFormat::Files, &set_up);
    for input in [
        &b"create refs/heads/a\0main\n"[..],
        b"delete refs/heads/other\0\0\n",
        b"option no-deref\0\n",
        b"update refs/heads/a main\0\n",
        b"verify refs/heads/a\0\n",
    ] {
        twins.same(&["update-ref", "--stdin"], input);
    }
}

#[test]
fn a_name_that_no_file_can_have_ends_a_batch_as_with_git() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        for bytes in [250, 256, 1000] {
            let long = "a".repeat(bytes);
            for session in [
                format!("verify refs/heads/{long} 0000000000000000000000000000000000000000\n"),
                format!("create refs/heads/beside{bytes} main\ncreate refs/heads/{long} main\n"),
                format!("create refs/heads/further{bytes} main\ndelete refs/heads/{long} main\n"),
            ] {
                for options in [&["update-ref", "--stdin"][..], &["update-ref", "--stdin", "--batch-updates"]] {
                    let ended = [
                        (git(twins.git.dir(), options, session.as_bytes()), &twins.git),
                        (refdb(twins.refdb.dir(), options, session.as_bytes()), &twins.refdb),
                    ];
                    // The paths of the two repositories differ, so they are replaced.
                    let [git, refdb] = ended.map(|(output, repo)| {
                        let said =
                            String::from_utf8_lossy(&output.stderr).replace(repo.dir().to_str().unwrap(), "REPO");
                        (said, output.stdout, output.status.code(), repo.refs())
                    });
                    assert_eq!(refdb, git, "{options:?} {session}");
                }
            }
            twins.same(&["show-ref", "--verify", &format!("refs/heads/{long}")], b"");
            twins.same(&["for-each-ref", &format!("refs/heads/{long}")], b"");
        }
    }
}

/// Regression: the session waited for more input although the end of a long request had been read already.
#[test]
fn a_long_request_is_read_to_its_end_however_it_arrives() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let mut child = Command::new(env!("CARGO_BIN_EXE_refdb"))
        .args(["update-ref", "--stdin"])
        .current_dir(repo.dir())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // The rest does not fit into what is left of the reader's 64 KiB.
    input.write_all(&[b'x'; 60_000]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    input.write_all(&[&[b'x'; 6_500][..], b"\n"].concat()).unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = child.try_wait().unwrap();
    drop(input);
    child.wait().unwrap();
    assert_eq!(ended.and_then(|status| status.code()), Some(128), "the request is refused");
}
