//! Compares `refdb reflog expire` with git's: settings and options, reachability, worktrees, and random reflogs.

use crate::{
    common::{Twins, refdb},
    reflog::{at, do_all, everything, set_up, set_up_tree},
};
use bstr::ByteSlice;
use refdb_testkit::{RefFormat, Repo, Rng, differential::State};
use std::fs;

/// Adds a commit of a detached HEAD, a stash, tags of trees and commits, and reflogs without refs to [`set_up`].
fn set_up_oddities(repo: &Repo) {
    set_up(repo);
    drop_link(repo);
    let [main, old] = ["main", "main~3"].map(|name| repo.rev_parse(name).to_string());
    for (turn, line) in [
        &["update-ref", "--create-reflog", "-m", "st", "refs/stash", "main"][..],
        &["checkout", "-q", "--detach", &old],
        &["commit", "-q", "--allow-empty", "-m", "detached"],
        &["checkout", "-q", "main"],
        &["update-ref", "--create-reflog", "-m", "tree", "refs/tags/tree", "main^{tree}"],
        &["update-ref", "-m", "commit", "refs/tags/tree", "main"],
        &["update-ref", "--create-reflog", "-m", "commit", "refs/tags/now-tree", "main"],
        &["update-ref", "-m", "tree", "refs/tags/now-tree", "main^{tree}"],
        &["tag", "-a", "-m", "x", "annotated", "main~1"],
        &["update-ref", "--create-reflog", "-m", "tag", "refs/tags/t", "annotated"],
        &["update-ref", "-m", "commit", "refs/tags/t", "main"],
        &["update-ref", "-m", "tag", "refs/tags/t", "annotated"],
        &["reflog", "write", "refs/heads/gone", &"0".repeat(40), &main, "no ref"],
        &["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"],
        &["reflog", "write", "refs/heads/dangling", &"0".repeat(40), &main, "no end"],
    ]
    .into_iter()
    .enumerate()
    {
        at(repo, 10 + turn, line);
    }
}

/// Drops the reflog of `link`, because git's reftables log updates through a symbolic ref but expire its log as one of
/// a ref without a value.
fn drop_link(repo: &Repo) {
    repo.try_git(["reflog", "drop", "refs/heads/link"], "");
}

#[test]
fn the_log_of_a_symbolic_ref_keeps_entries_that_the_ref_leads_to() {
    let repo = Repo::with_worktree(RefFormat::Reftable, Default::default());
    set_up(&repo);
    let words = ["reflog", "expire", "--expire=never", "--expire-unreachable=now", "refs/heads/link"];
    assert!(refdb(repo.dir(), &words, b"").status.success());
    assert_eq!(repo.reflog("refs/heads/link").len(), 1);
}

const NEVER: [&str; 2] = ["--expire=never", "--expire-unreachable=never"];

#[test]
fn wrong_use_is_told_as_git_tells_it() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up);
        do_all(
            &twins,
            &[
                &["expire"],
                &["expire", "--expire=foo", "main"],
                &["expire", "--expire-unreachable=foo", "main"],
                &["expire", "--expire=", "main"],
                &["expire", "--expire"],
                &["expire", "--no-expire", "main"],
                &["expire", "-v"],
                &["expire", "main@{0}"],
                &["expire", "none", "--verbose", "main", NEVER[0], NEVER[1]],
                &["expire", "--all", "none", NEVER[0], NEVER[1]],
            ],
        );
        for setting in
            ["gc.reflogExpire=foo", "gc.reflogExpire", "gc.reflogExpire=", "gc.refs/heads/*.reflogExpire=foo"]
        {
            twins.same(&["-c", setting, "reflog", "expire", "--all"], b"");
            twins.same(&["-c", setting, "reflog", "list"], b"");
        }
    }
}

#[test]
fn settings_and_patterns_count_as_in_git() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &set_up_oddities);
        for settings in [
            &[][..],
            &["gc.reflogExpire=now"],
            &["gc.reflogExpire=never", "gc.reflogExpireUnreachable=now"],
            &["gc.reflogExpire=2023-11-14 22:50", "gc.reflogExpireUnreachable=2023-11-14 23:40"],
            &["gc.refs/*.reflogExpire=now"],
            &["gc.refs/heads/*.reflogExpireUnreachable=never"],
            &["gc.refs/heads/*.reflogExpire=never", "gc.refs/heads/c.reflogExpire=now"],
            &["gc.refs/heads/c.reflogExpire=now", "gc.refs/heads/*.reflogExpire=never"],
            &["gc.reflogExpire=never", "gc.refs/heads/?.reflogExpire=now"],
            &["gc.reflogExpire=false", "gc.reflogExpireUnreachable=false", "gc.refs/stash.reflogExpire=all"],
        ] {
            let mut line: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
            line.extend(["reflog", "expire", "--verbose", "--dry-run"]);
            twins.same(&[&line[..], &["--all"]].concat(), b"");
            twins.same(&[&line[..], &["main", "b", "c", "refs/stash", "HEAD"]].concat(), b"");
            twins.same(&[&line[..], &["--expire=never", "main", "c"]].concat(), b"");
        }
    }
}

#[test]
fn entries_expire_as_git_expires_them() {
    for format in RefFormat::ALL {
        for lines in [
            &[&["--expire=never", "--expire-unreachable=now"][..]][..],
            &[&["--expire=now", "--expire-unreachable=never"]],
            &[&["--expire=2023-11-14 23:00", "--expire-unreachable=now", "--rewrite", "--updateref"]],
            &[
                &["--expire=2023-11-15 01:30", "--rewrite"],
                &["--expire=2023-11-15 02:40", "--updateref"],
                &["--expire=all"],
            ],
            &[&["--stale-fix", NEVER[0], NEVER[1]]],
            &[&["--dry-run", "--expire=now"]],
        ] {
            let twins = Twins::new(format, &set_up_oddities);
            for line in lines {
                do_all(&twins, &[&[&["expire", "--all"], *line].concat()]);
            }
            let twins = Twins::new(format, &set_up_oddities);
            for line in lines {
                do_all(&twins, &[&[&["expire", "--all", "--verbose"], *line].concat()]);
            }
            if !lines[0].contains(&"--expire-unreachable=now") {
                continue;
            }
            let twins = Twins::new(format, &set_up_oddities);
            for line in lines {
                for name in ["HEAD", "c", "refs/stash", "refs/tags/tree", "now-tree", "refs/tags/t", "main"] {
                    do_all(&twins, &[&[&["expire", "--verbose"], *line, &[name]].concat()]);
                }
            }
        }
    }
}

#[test]
fn logs_of_worktrees_expire_as_in_git() {
    for format in RefFormat::ALL {
        for words in [
            &["--expire=now"][..],
            &["--expire=now", "--single-worktree"],
            &["--expire=never", "--expire-unreachable=now", "--verbose"],
        ] {
            for in_tree in [false, true] {
                let twins = Twins::new(format, &|repo| {
                    set_up_tree(repo);
                    drop_link(repo);
                });
                let folder = |repo: &Repo| if in_tree { repo.dir().join("../wt") } else { repo.dir().to_owned() };
                let line = [&["reflog", "expire", "--all"], words].concat();
                twins.same_in(&folder(&twins.git), &folder(&twins.refdb), &line, b"");
                assert_eq!(everything(&twins.git), everything(&twins.refdb), "{words:?} {in_tree}");
            }
        }
    }
}

#[test]
fn stale_entries_go_as_in_git() {
    for format in RefFormat::ALL {
        for lost in ["stale", "stale~1", "stale^{tree}", "stale:f", "main", "main~2"] {
            let twins = Twins::new(format, &|repo| {
                set_up(repo);
                drop_link(repo);
                fs::write(repo.dir().join("f"), "content").unwrap();
                for words in [
                    &["checkout", "-q", "-b", "stale"][..],
                    &["add", "f"],
                    &["commit", "-q", "-m", "one"],
                    &["commit", "-q", "--allow-empty", "-m", "two"],
                ] {
                    at(repo, 20, words);
                }
                let lost = repo.rev_parse(lost).to_string();
                at(repo, 21, &["checkout", "-q", "main"]);
                at(repo, 22, &["update-ref", "-m", "rewind", "refs/heads/stale", "main"]);
                fs::remove_file(repo.git_dir().join("objects").join(&lost[..2]).join(&lost[2..])).unwrap();
            });
            do_all(&twins, &[&["expire", "--stale-fix", "--verbose", "--all", NEVER[0], NEVER[1]]]);
        }
    }
}

/// Covers logs of good, odd and broken lines.
#[test]
fn random_logs_in_files_are_left_as_git_leaves_them() {
    for seed in 0..12 {
        let twins = Twins::new(RefFormat::Files, &|repo| random_logs(repo, &mut Rng::new(seed)));
        let mut rng = Rng::new(seed + 1000);
        for _ in 0..6 {
            let mut line = vec!["expire"];
            for options in [
                &["--expire=2023-11-14 22:30", "--expire=never", "--expire=1.day.ago"][..],
                &["--expire-unreachable=now", "--expire-unreachable=never"],
                &["--rewrite"],
                &["--updateref"],
                &["--verbose"],
            ] {
                line.extend((!rng.one_in(3)).then(|| *rng.pick(options)));
            }
            line.push(*rng.pick(&["--all", "main", "b", "c", "HEAD"]));
            if rng.one_in(3) {
                let which = *rng.pick(&["main@{1}", "b@{0}", "c@{2}", "HEAD@{2023-11-14 22:40}"]);
                line = vec!["delete", "--verbose", *rng.pick(&["--rewrite", "--updateref", "--no-rewrite"]), which];
            }
            do_all(&twins, &[&line]);
        }
    }
}

fn random_logs(repo: &Repo, rng: &mut Rng) {
    set_up(repo);
    let commits: Vec<String> =
        ["main", "main~1", "main~2", "main~3"].map(|name| repo.rev_parse(name).to_string()).into();
    let ids: Vec<String> = commits.into_iter().chain(["0".repeat(40), "1".repeat(40)]).collect();
    let long = "long ".repeat(4000);
    for name in ["HEAD", "refs/heads/main", "refs/heads/b", "refs/heads/c"] {
        let mut text = String::new();
        for turn in 0..rng.below(30) {
            let (old, new) = (rng.pick(&ids).clone(), rng.pick(&ids).clone());
            let time = 1_700_000_000 + turn * 200;
            text += &match rng.below(14) {
                0 => "broken\n".to_owned(),
                1 => format!("{old} {new} C <c@x> {time} +000\tm\n"),
                2 => format!("{old} {new}  A B  <c@x> {time} -0130\t  m\n"),
                3 => format!("{old} {new} C <c@x> {time} +0000\n"),
                4 => format!("{} {} C <c@x> {time} +0000\tupper\n", old.to_uppercase(), new.to_uppercase()),
                5 => format!("{old} {new} C <c@x> {time} +0000\t{long}\n"),
                6 => "\n".to_owned(),
                7 => format!("{old} {new} <c@x>  {time} +00000\tm\n"),
                _ => format!("{old} {new} C O <c@x> {time} +0200\tmove {turn}\n"),
            };
        }
        if rng.one_in(3) {
            text += "torn";
        }
        fs::write(repo.git_dir().join("logs").join(name), text).unwrap();
    }
}

#[test]
fn no_entry_is_called_whole_where_a_ref_is_broken() {
    for (name, content) in [("broken", "garbage\n"), ("bad..name", "6d40690c7af22574296144d63cbd6f4a2d761089\n")] {
        let twins = Twins::new(RefFormat::Files, &|repo| {
            set_up(repo);
            fs::write(repo.git_dir().join("refs/heads").join(name), content).unwrap();
        });
        twins.same(&["reflog", "expire", "--stale-fix", "--all"], b"");
    }
    let twins = Twins::new(RefFormat::Files, &|repo| {
        set_up(repo);
        fs::write(repo.git_dir().join("refs/heads/a^b"), "ref: refs/heads/main\n").unwrap();
    });
    twins.same(&["reflog", "expire", "--stale-fix", "--all"], b"");
}

/// The table must record the tag's peeled value, because a lookup of the refs of an object trusts it.
#[test]
fn a_ref_that_takes_a_tag_from_its_reflog_has_what_the_tag_leads_to() {
    let twins = Twins::new(RefFormat::Reftable, &|repo| {
        let commits = repo.commits(2);
        let tag = repo.tag_object(commits[0], "v1").to_string();
        repo.create_refs([("refs/tags/v1", commits[1])]);
        repo.git(["reflog", "write", "refs/tags/v1", &commits[1].to_string(), &tag, "to a tag"]);
    });
    twins.same(&["reflog", "expire", "--updateref", NEVER[0], NEVER[1], "--all"], b"");
    let [git, ours] = [&twins.git, &twins.refdb]
        .map(|repo| State::of(repo.git_dir()).get("refs/tags/v1".into()).map(ToOwned::to_owned));
    assert!(git.as_ref().is_some_and(|value| value.contains_str(" peeled ")), "{git:?}");
    assert_eq!(ours, git);
}

#[test]
fn usual_times_count_from_the_system_and_dates_from_the_time_that_gits_tests_set() {
    for format in RefFormat::ALL {
        for words in [&["reflog", "expire", "--expire=1.year.ago", "--all"][..], &["reflog", "expire", "--all"]] {
            let mut twins = Twins::new(format, &|repo| {
                set_up(repo);
                drop_link(repo);
            });
            twins.environment.push(("GIT_TEST_DATE_NOW", "1700000000".to_owned()));
            twins.same(words, b"");
            assert_eq!(everything(&twins.git), everything(&twins.refdb), "{words:?}");
        }
    }
}
