//! Compares with git the options that stand before the command.

use crate::common::{Folder, Twins, git, refdb, same, same_with};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;

#[test]
fn repositories_are_found_and_refused_as_git_does() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let commits = repo.commits(1);
    repo.create_refs([("refs/heads/main", commits[0])]);
    std::fs::create_dir(repo.dir().join("below")).unwrap();
    for words in [
        &["-C", "below", "show-ref"][..],
        &["-C", "below", "-C", "..", "show-ref"],
        &["-C", "", "show-ref"],
        &["-C", "none", "show-ref"],
        &["--git-dir", ".git", "show-ref"],
        &["--git-dir=.git", "show-ref"],
        &["--git-dir=none", "show-ref"],
        &["-C", ".git", "--bare", "show-ref"],
        &["-c", "core.warnAmbiguousRefs=false", "for-each-ref", "--format=%(refname:short)"],
        &["-c", "a", "show-ref"],
        &["-c", "=b", "show-ref"],
        &["--config-env=x", "show-ref"],
        &["--config-env=x.y=REFDB_NO_SUCH", "show-ref"],
        &["--no-pager", "-P", "-p", "--no-replace-objects", "--literal-pathspecs", "show-ref"],
        &["--namespace=n", "show-ref"],
        &["--work-tree=below", "show-ref"],
    ] {
        same(repo.dir(), words, b"");
    }
    let outside = Folder::outside();
    for command in ["show-ref", "update-ref", "symbolic-ref", "for-each-ref", "pack-refs"] {
        outside.same(&[command]);
        outside.same(&[command, "--foo"]);
        outside.same(&[command, "-h"]);
    }
}

#[test]
fn usages_and_completions_are_shown_where_git_shows_them() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let outside = Folder::outside();
    for command in ["show-ref", "update-ref", "symbolic-ref", "for-each-ref", "pack-refs", "check-ref-format"] {
        for word in ["-h", "--help-all", "--git-completion-helper", "--git-completion-helper-all"] {
            outside.same(&[command, word]);
            same(repo.dir(), &[command, word], b"");
            same(repo.dir(), &[command, word, "x"], b"");
        }
    }
}

#[test]
fn a_command_of_our_own_is_called_refdbs_in_its_usage() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    for command in ["stat", "dump", "cache"] {
        let output = refdb(repo.dir(), &[command, "-h"], b"");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with(&format!("usage: refdb {command} ")), "{text}");
    }
}

/// A bad value of a setting is no error in a command for which git does not read the setting.
#[test]
fn bad_settings_that_git_does_not_look_at_are_ignored() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        let id = repo.commit();
        repo.create_refs([("refs/heads/main", id)]);
        for setting in [
            "core.filesRefLockTimeout=x",
            "core.packedRefsTimeout=x",
            "gc.auto=x",
            "gc.packRefs=x",
            "color.branch.x=y",
            "advice.x=maybe",
            "log.date=x",
            "branch.b.rebase=perhaps",
            "remote.origin.fetch=bogus:*:",
            "reftable.blockSize=x",
            "reftable.indexObjects=x",
            "reftable.restartInterval=x",
            "reftable.geometricFactor=x",
            "reftable.lockTimeout=x",
            "maintenance.auto=x",
            "mailmap.file",
        ] {
            if format == RefFormat::Reftable && setting.starts_with("reftable.") {
                continue; // Both programs read this setting, but git later.
            }
            for command in [&["show-ref"][..], &["for-each-ref"], &["symbolic-ref", "HEAD"]] {
                same(repo.dir(), &[&["-c", setting], command].concat(), b"");
            }
        }
    }
}

/// Previously, a bad value of one of these settings also ended commands for which git does not read it.
#[test]
fn bad_settings_end_the_commands_that_git_reads_them_for_and_no_others() {
    let commands: &[&[&str]] = &[
        &["show-ref"],
        &["for-each-ref"],
        &["for-each-ref", "--format=%(refname:short)"],
        &["for-each-ref", "--merged=main"],
        &["symbolic-ref", "--short", "HEAD"],
        &["branch", "--list"],
        &["branch", "--format=%(refname:short)"],
        &["tag", "-n"],
        &["tag", "--points-at", "main"],
        &["reflog", "list"],
        &["reflog", "exists", "refs/heads/main"],
        &["reflog", "drop", "main"],
        &["refs", "exists", "HEAD"],
        &["refs", "verify"],
        &["refs", "optimize"],
        &["pack-refs", "--all"],
        &["update-ref", "refs/heads/new", "main"],
        &["update-ref", "-d", "refs/heads/main"],
    ];
    for format in RefFormat::ALL {
        for setting in ["core.warnAmbiguousRefs=bogus", "core.sharedRepository=0999", "core.sharedRepository=bogus"] {
            let twins = Twins::new(format, &|repo| {
                let id = repo.commit();
                repo.create_refs([("refs/heads/main", id), ("refs/tags/v1", id)]);
            });
            // From git 2.56 on, a bad `core.sharedRepository` ends only commands that write, with reftables as well.
            let is_for_writers = setting.starts_with("core.shared") && format == RefFormat::Reftable;
            let is_left_out = |command: &[&str]| {
                let writes = ["drop", "optimize", "pack-refs", "update-ref"].iter().any(|word| command.contains(word));
                is_for_writers && Git::find().version() >= (2, 56) && !writes
            };
            for command in commands.iter().filter(|command| !is_left_out(command)) {
                twins.same(&[&["-c", setting], *command].concat(), b"");
            }
        }
        // The last of several values counts, so an earlier bad one is no error.
        let twins = Twins::new(format, &|repo| repo.create_refs([("refs/heads/main", repo.commit())]));
        let last = ["-c", "core.sharedRepository=0999", "-c", "core.sharedRepository=group"];
        twins.same(&[&last[..], &["update-ref", "refs/heads/new", "main"]].concat(), b"");
    }
}

#[test]
fn dubious_ownership_is_told_of_the_folder_that_git_names() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    repo.commit();
    repo.create_refs([("refs/heads/main", repo.commit())]);
    let tree = repo.scratch().join("tree");
    repo.git(["worktree", "add", "-q", "-f", tree.to_str().unwrap(), "main"]);
    for folder in [repo.dir(), repo.git_dir(), &tree] {
        same_with(folder, ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1"), &["show-ref"]);
    }
}

#[test]
fn a_folder_of_a_dubious_owner_is_quoted_as_by_git() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    for character in (b' '..=b'~').map(char::from).filter(|character| *character != '/') {
        let folder = repo.scratch().join(format!("a{character}b"));
        repo.git(["init", "-q", "--bare", folder.to_str().unwrap()]);
        same_with(&folder, ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1"), &["show-ref"]);
    }
}

#[test]
fn a_bare_repository_that_nobody_named_is_forbidden_before_its_owner_is_looked_at() {
    let mut twins = Twins::new(RefFormat::Files, &|_| {});
    twins.environment = vec![("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1".into())];
    twins.git.git(["init", "-q", "--bare", "bare"]);
    let folder = twins.git.dir().join("bare");
    for setting in ["safe.bareRepository=explicit", "safe.bareRepository=all"] {
        twins.same_in(&folder, &folder, &["-c", setting, "show-ref"], b"");
    }
}

/// An included file may contain settings that make a server refuse pushes, so `onbranch` must follow symbolic refs from
/// HEAD.
#[test]
fn a_condition_on_the_branch_follows_symbolic_refs_as_git_does() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        repo.create_refs([("refs/heads/main", repo.commit()), ("refs/heads/other", repo.commit())]);
        for (branch, digits) in [("main", 5), ("other", 9), ("none", 11), ("end", 13)] {
            let file = format!("for-{branch}");
            repo.git(["config", &format!("includeIf.onbranch:{branch}.path"), &file]);
            std::fs::write(repo.git_dir().join(&file), format!("[core]\n\tabbrev = {digits}\n")).unwrap();
        }
        let shown = |head: &str| {
            repo.git(["symbolic-ref", "HEAD", head]);
            same(repo.dir(), &["for-each-ref", "--format=%(objectname:short)"], b"");
        };
        ["refs/heads/main", "refs/heads/other", "refs/heads/none"].iter().for_each(|head| shown(head));
        for target in ["refs/heads/other", "refs/heads/none", "refs/tags/v1", "refs/bisect/bad", "refs/heads/alias"] {
            repo.git(["symbolic-ref", "refs/heads/alias", target]);
            shown("refs/heads/alias");
        }
        // Chains of up to as many symbolic refs as git follows, and longer ones.
        let names =
            |length: usize| (0..length).map(|at| format!("refs/heads/hop-{at}")).chain(["refs/heads/end".into()]);
        for length in 1..8 {
            let names: Vec<String> = names(length).collect();
            names.windows(2).for_each(|two| drop(repo.git(["symbolic-ref", &two[0], &two[1]])));
            shown("refs/heads/hop-0");
        }
    }
}

#[test]
fn core_bare_decides_about_reflogs_wherever_it_is_set() {
    for format in RefFormat::ALL {
        for bare in ["false", "true"] {
            let repos = [Repo::bare(format, HashKind::Sha1), Repo::bare(format, HashKind::Sha1)];
            let id = repos.each_ref().map(|repo| repo.commit().to_string())[0].clone();
            let set = format!("core.bare={bare}");
            let words = ["-c", &set, "update-ref", "refs/heads/main", &id];
            assert!(git(repos[0].dir(), &words, b"").status.success());
            assert!(refdb(repos[1].dir(), &words, b"").status.success());
            let logs = repos.each_ref().map(|repo| [repo.reflog("refs/heads/main"), repo.reflog("HEAD")]);
            assert_eq!(logs[0][0].len(), usize::from(bare == "false"));
            assert_eq!(logs[0], logs[1], "{bare}");
        }
    }
}

/// A message names the lock file by its absolute path, so that the path is right whatever folder the reader is in.
#[test]
fn a_lock_in_the_way_is_named_by_its_whole_path() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/main", repo.commit())]);
    let lock = repo.git_dir().join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    let output = refdb(repo.dir(), &["-c", "core.filesRefLockTimeout=0", "update-ref", "-d", "refs/heads/main"], b"");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(&format!("Unable to create '{}': File exists.", lock.display())), "{text}");
}

/// Git tells of such a condition each time it reads the configuration, and goes on as if the condition held.
#[test]
fn a_relative_condition_outside_files_stops_no_command() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/main", repo.commit())]);
    let file = repo.scratch().join("included");
    std::fs::write(&file, "[core]\n\tabbrev = 12\n").unwrap();
    for (condition, path) in [
        ("gitdir:./x", file.to_str().unwrap()),
        ("gitdir:./", file.to_str().unwrap()),
        ("gitdir/i:./x", file.to_str().unwrap()),
        ("gitdir:./x", "/nonexistent"),
        ("gitdir:x", "relative"),
        ("gitdir:/**", "relative"),
        ("onbranch:main", "relative"),
    ] {
        let setting = format!("includeIf.{condition}.path={path}");
        for words in [&["for-each-ref", "--format=%(objectname:short)"][..], &["update-ref", "refs/heads/x", "main"]] {
            let words = [&["-c", &setting], words].concat();
            let said = [git(repo.dir(), &words, b""), refdb(repo.dir(), &words, b"")].map(|output| {
                let mut lines: Vec<_> = output.stderr.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
                lines.dedup();
                (output.status.code(), output.stdout, lines)
            });
            assert_eq!(said[1], said[0], "{words:?}");
        }
    }
}

#[test]
fn a_bad_abbreviation_stops_commands_that_show_short_ids() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/main", repo.commit())]);
    let words = ["for-each-ref", "--format=%(objectname:short) %(parent:short)"];
    for value in ["x", "3", "0", "-1", "", "4", "5k", "100", "no", "No", "auto", "true", "yes", "1x", "99999999999"] {
        for words in [&words[..], &["tag"], &["branch"], &["show-ref", "--abbrev"]] {
            same(repo.dir(), &[&["-c", &format!("core.abbrev={value}")], words].concat(), b"");
        }
        same(repo.dir(), &[&["-c", &format!("core.abbrev={value}"), "-c", "core.abbrev=9"], &words[..]].concat(), b"");
        repo.config("core.abbrev", "7");
        let config = repo.git_dir().join("config");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("abbrev = 7", &format!("abbrev = {value}"))).unwrap();
        same(repo.dir(), &words, b"");
        std::fs::write(&config, text.replace("abbrev = 7", "")).unwrap();
    }
    same(repo.dir(), &[&["-c", "core.abbrev"], &words[..]].concat(), b"");
}

#[test]
fn the_file_of_a_bad_number_is_named_as_git_names_it() {
    for repo in [Repo::bare(RefFormat::Files, HashKind::Sha1), Repo::with_worktree(RefFormat::Files, HashKind::Sha1)] {
        repo.create_refs([("refs/heads/main", repo.commit())]);
        repo.config("core.filesRefLockTimeout", "x");
        same(repo.dir(), &["update-ref", "refs/heads/x", "refs/heads/main"], b"");
    }
}

/// git fetches a missing object of a partial clone when it needs the object, unless told not to.
#[test]
fn an_object_of_a_partial_clone_is_fetched_unless_told_not_to() {
    let origin = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let blob = origin.blob("elsewhere").to_string();
    for setting in ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
        origin.config(setting, "true");
    }
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| {
            repo.config("core.repositoryFormatVersion", "1");
            repo.config("extensions.partialClone", "origin");
            repo.config("remote.origin.promisor", "true");
            repo.config("remote.origin.url", &origin.git_dir().to_string_lossy());
        });
        twins.same(&["--no-lazy-fetch", "update-ref", "refs/tags/blob", &blob], b"");
        let refused = refdb(twins.refdb.dir(), &["--no-lazy-fetch", "update-ref", "refs/tags/blob", &blob], b"");
        assert!(!refused.status.success(), "{refused:?}");
        twins.same(&["update-ref", "refs/tags/blob", &blob], b"");
        let shown = refdb(twins.refdb.dir(), &["show-ref"], b"").stdout;
        assert!(shown.starts_with(blob.as_bytes()), "it was fetched: {}", String::from_utf8_lossy(&shown));
    }
}

/// Regression: name and value were joined and separated again at the first equals sign, so another setting was set.
#[test]
fn a_setting_from_a_variable_may_have_an_equals_sign_in_its_name() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/a=b", repo.commit())]);
    let words = ["-c", "branch.a.remote=x", "--config-env=branch.a=b.remote=REMOTE", "-c", "push.default=current"];
    let format = "--format=%(refname) %(push:remotename)";
    same_with(repo.dir(), ("REMOTE", "o=p"), &[&words[..], &["for-each-ref", format]].concat());
}

/// Regression: `--bare` named the folder in which the command runs, after every `-C`.
#[test]
fn bare_names_the_folder_at_its_place() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/heads/main", repo.commit())]);
    for before in [
        &["-C", ".git", "--bare"][..],
        &["-C", ".git", "--bare", "-C", "refs"],
        &["--bare", "-C", ".git"],
        &["-C", ".git/refs", "--bare", "-C", "..", "--bare"],
        &["--git-dir=.git", "--bare"],
        &["-C", "..", "--bare", "-C", ".git", "--git-dir=../.git"],
    ] {
        same(repo.dir(), &[before, &["show-ref"]].concat(), b"");
        same_with(repo.dir(), ("GIT_DIR", ".git"), &[before, &["show-ref"]].concat());
    }
    for option in ["--bare=1", "--help=x", "--version=1"] {
        let words = [option, "show-ref"];
        let codes = [git(repo.dir(), &words, b""), refdb(repo.dir(), &words, b"")].map(|output| output.status.code());
        assert_eq!(codes[0], codes[1], "{option}");
    }
}

/// Regression: `--no-advice` reached only the git to which a command is left.
#[test]
fn without_advice_nothing_is_said_about_an_ignored_hook() {
    let mut twins = Twins::new(RefFormat::Files, &|repo| {
        repo.create_refs([("refs/heads/main", repo.commit())]);
        std::fs::create_dir_all(repo.git_dir().join("hooks")).unwrap();
        std::fs::write(repo.git_dir().join("hooks/reference-transaction"), "#!/bin/sh\n").unwrap();
    });
    twins.same(&["update-ref", "refs/heads/new", "main"], b"");
    twins.same(&["--no-advice", "update-ref", "refs/heads/other", "main"], b"");
    twins.environment = vec![("GIT_ADVICE", "1".into())];
    twins.same(&["--no-advice", "update-ref", "-d", "refs/heads/other"], b"");
}
