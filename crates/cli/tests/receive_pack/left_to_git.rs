//! Pushes that are delegated to the real git, entirely or after the client's first lines, end as without refdb.

use crate::common::{Client, NOTE, Servers, guard, hook, shown};
use refdb_testkit::Repo;

#[test]
fn a_branch_that_is_checked_out_is_guarded_as_by_git() {
    for (format, hash) in Repo::KINDS {
        let client = Client::new(hash);
        for value in
            [None, Some("ignore"), Some("warn"), Some("refuse"), Some("updateInstead"), Some("true"), Some("false")]
        {
            let make = || Repo::with_worktree(format, hash);
            let servers = Servers { git: make(), refdb: make() };
            for server in servers.all() {
                if let Some(value) = value {
                    server.config("receive.denyCurrentBranch", value);
                }
            }
            for commit in [client.commits[0], client.commits[1]] {
                let words = [format!("{commit}:refs/heads/main"), format!("{commit}:refs/heads/other")];
                let said = [(&servers.git, false), (&servers.refdb, true)]
                    .map(|(server, by_refdb)| shown(server, &client.push(server, by_refdb, &words)));
                assert_eq!(said[1], said[0], "{format:?} {hash:?} {value:?}");
                servers.assert_same(&format!("{format:?} {hash:?} {value:?}"));
            }
        }
    }
}

/// The working tree follows the branch, or local changes keep the branch where it is.
#[test]
fn update_instead_changes_the_working_tree_as_git_does() {
    for (format, hash) in Repo::KINDS {
        let client = Client::new(hash);
        let commit = |content: &str, parent: Option<&str>| {
            let blob = client.repo.git_with_input(["hash-object", "-w", "--stdin"], content);
            let tree = client.repo.git_with_input(["mktree"], format!("100644 blob {blob}\tfile\n"));
            let parents = parent.map(|parent| ["-p", parent]);
            client
                .repo
                .git(["commit-tree", "-m", content].into_iter().chain(parents.into_iter().flatten()).chain([&*tree]))
        };
        let first = commit("first", None);
        let second = commit("second", Some(&first));
        let third = commit("third", Some(&second));
        let make = || Repo::with_worktree(format, hash);
        let servers = Servers { git: make(), refdb: make() };
        let mut files = Vec::new();
        for (server, by_refdb) in [(&servers.git, false), (&servers.refdb, true)] {
            server.config("receive.denyCurrentBranch", "updateInstead");
            let file = server.dir().join("file");
            let push = |id: &str| shown(server, &client.push(server, by_refdb, &[format!("{id}:refs/heads/main")]));
            let mut seen = vec![push(&first), std::fs::read_to_string(&file).unwrap()];
            seen.extend([push(&second), std::fs::read_to_string(&file).unwrap()]);
            std::fs::write(&file, "changed by hand").unwrap();
            seen.extend([push(&third), std::fs::read_to_string(&file).unwrap()]);
            assert_eq!([&*seen[1], &*seen[3], &*seen[5]], ["first", "second", "changed by hand"]);
            files.push(seen);
        }
        assert_eq!(files[1], files[0], "{format:?} {hash:?}");
        servers.assert_same(&format!("{format:?} {hash:?}"));
    }
}

#[test]
fn signed_pushes_are_verified_as_by_git() {
    const NOTE: &str = "echo $GIT_PUSH_CERT_STATUS $GIT_PUSH_CERT_NONCE_STATUS $GIT_PUSH_CERT_SIGNER >>../calls
        test -n \"$GIT_PUSH_CERT\" && git cat-file blob $GIT_PUSH_CERT | grep refs/heads >>../calls";
    for (format, hash) in Repo::KINDS {
        let client = Client::new(hash);
        let key = client.repo.scratch().join("key");
        let made =
            std::process::Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).output();
        assert!(made.unwrap().status.success(), "ssh-keygen makes a key");
        let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
        let signers = client.repo.scratch().join("signers");
        std::fs::write(&signers, format!("pusher@example.com {public}")).unwrap();
        client.repo.config("gpg.format", "ssh");
        client.repo.config("user.signingKey", key.to_str().unwrap());
        let calls = |server: &Repo| server.scratch().join("calls");
        let make = || Repo::bare(format, hash);
        let servers = Servers { git: make(), refdb: make() };
        for server in servers.all() {
            server.config("receive.certNonceSeed", "seed");
            server.config("gpg.ssh.allowedSignersFile", signers.to_str().unwrap());
            hook(server, "post-receive", NOTE);
        }
        for (words, status) in [
            (vec!["--signed".into(), format!("{}:refs/heads/main", client.commits[1])], "G OK pusher@example.com"),
            (vec![format!("{}:refs/heads/unsigned", client.commits[2])], ""),
        ] {
            let said = [(&servers.git, false), (&servers.refdb, true)]
                .map(|(server, by_refdb)| shown(server, &client.push(server, by_refdb, &words)));
            assert_eq!(said[1], said[0], "{format:?} {hash:?} {words:?}");
            let said_by_hook = std::fs::read_to_string(calls(&servers.refdb)).unwrap();
            assert!(said_by_hook.lines().any(|line| line == status), "{format:?} {hash:?} {words:?}: {said_by_hook}");
            // Objects are not compared, because the certificates are objects that each have a nonce of their own.
            let [git, refdb] =
                servers.all().map(|server| (server.refs(), std::fs::read_to_string(calls(server)).unwrap()));
            assert_eq!(refdb, git, "{format:?} {hash:?} {words:?}");
        }
    }
}

/// Sets up a server whose pushes are delegated to git.
pub(crate) type MakeRare = fn(&Repo);

pub(crate) const LEFT_TO_GIT: [(&str, MakeRare); 10] = [
    ("receive.certNonceSeed", |server| server.config("receive.certNonceSeed", "seed")),
    ("receive.procReceiveRefs", |server| server.config("receive.procReceiveRefs", "refs/for")),
    ("receive.fsck.badDate", |server| server.config("receive.fsck.badDate", "warn")),
    ("receive.fsck with fsckObjects", |server| {
        server.config("receive.fsck.missingEmail", "error");
        server.config("receive.fsckObjects", "true");
    }),
    ("updateInstead", |server| server.config("receive.denyCurrentBranch", "updateInstead")),
    ("a shallow repository", |server| {
        let id = server.commit();
        std::fs::write(server.git_dir().join("shallow"), format!("{id}\n")).unwrap();
        server.git(["update-ref", "refs/heads/old", &id.to_string()]);
    }),
    ("a partial clone", |server| {
        server.config("core.repositoryFormatVersion", "1");
        server.config("extensions.partialClone", "origin");
        server.config("remote.origin.promisor", "true");
        server.config("remote.origin.url", "/nowhere");
    }),
    ("a linked worktree", |server| {
        let id = server.commit();
        server.git(["update-ref", "refs/heads/taken", &id.to_string()]);
        let place = server.scratch().join("linked");
        server.git(["worktree", "add", "--quiet", place.to_str().unwrap(), "taken"]);
    }),
    ("a bisection", |server| std::fs::write(server.git_dir().join("BISECT_LOG"), "").unwrap()),
    ("alternates of alternates", |server| {
        let others = server.scratch().join("others");
        for (folder, of) in [("a", "../b"), ("b", "")] {
            let info = others.join(folder).join("info");
            std::fs::create_dir_all(&info).unwrap();
            std::fs::write(info.join("alternates"), of).unwrap();
        }
        let line = format!("{}\n", others.join("a").display());
        std::fs::write(server.git_dir().join("objects/info/alternates"), line).unwrap();
    }),
];

#[test]
fn what_is_left_to_git_before_the_advertisement_works_as_with_git() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    let id = |at: usize| client.commits[at].to_string();
    for format in refdb_testkit::RefFormat::ALL {
        for (what, make_rare) in LEFT_TO_GIT {
            let make = || Repo::bare(format, refdb_types::HashKind::Sha1);
            let servers = Servers { git: make(), refdb: make() };
            servers.all().iter().for_each(|server| make_rare(server));
            for words in [
                vec![format!("{}:refs/heads/main", id(1)), format!("{}:refs/heads/side", id(2))],
                vec![format!("+{}:refs/heads/main", id(4)), ":refs/heads/side".into()],
                vec![format!("+{}:refs/heads/taken", id(3))],
            ] {
                let said = [(&servers.git, false), (&servers.refdb, true)]
                    .map(|(server, by_refdb)| shown(server, &client.push(server, by_refdb, &words)));
                assert_eq!(said[1], said[0], "{format:?}, {what}: {words:?}");
                servers.assert_same(&format!("{format:?}, {what}: {words:?}"));
            }
            // The advertisement is git's as well, except where only the client's commands show that git is needed.
            let mut show = client.repo.command(crate::common::REFDB);
            show.env("REFDB_GIT", refdb_testkit::Git::find().program());
            let shown =
                show.args(["receive-pack", "--http-backend-info-refs"]).arg(servers.refdb.dir()).output().unwrap();
            let by_git = String::from_utf8_lossy(&shown.stdout).contains("agent=git/");
            assert_eq!(by_git, what != "receive.procReceiveRefs", "{format:?}, {what}");
        }
    }
}

/// Such pushes are refused, because git would write changes that the global ref database has not heard of.
#[test]
fn where_a_global_ref_database_decides_nothing_is_left_to_git() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    for format in refdb_testkit::RefFormat::ALL {
        for (what, make_rare) in LEFT_TO_GIT {
            let server = Repo::bare(format, refdb_types::HashKind::Sha1);
            make_rare(&server);
            server.config("refdb.global", "etcd");
            let before = server.refs();
            let output = client.push(&server, true, &[format!("{}:refs/heads/main", client.commits[1])]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains("refdb.global = etcd"), "{format:?}, {what}: {said}");
            assert_eq!(server.refs(), before, "{format:?}, {what}");
        }
    }
}

#[test]
fn variables_that_lead_elsewhere_leave_the_push_to_git() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    for format in refdb_testkit::RefFormat::ALL {
        let backend = format!("GIT_REFERENCE_BACKEND={}", format.name());
        for variable in [
            "GIT_NAMESPACE=part",
            "GIT_NAMESPACE=",
            "GIT_WORK_TREE=/",
            "GIT_QUARANTINE_PATH=/tmp",
            "GIT_QUARANTINE_PATH=",
            "GIT_OBJECT_DIRECTORY=",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES=",
            &backend,
        ] {
            let make = || Repo::bare(format, refdb_types::HashKind::Sha1);
            let servers = Servers { git: make(), refdb: make() };
            let said = [
                (&servers.git, "git receive-pack".to_owned()),
                (&servers.refdb, client.receive_pack.display().to_string()),
            ]
            .map(|(server, program)| {
                let git = refdb_testkit::Git::find().program();
                let mut push = client.repo.command(git);
                let path = format!("PATH={}:/usr/bin:/bin", git.parent().unwrap().display());
                let program = format!("env {variable} {path} REFDB_GIT={} {program}", git.display());
                push.args(["push", "--porcelain"]).arg(format!("--receive-pack={program}")).arg(server.dir());
                shown(server, &push.arg(format!("{}:refs/heads/main", client.commits[1])).output().unwrap())
            });
            assert_eq!(said[1], said[0], "{format:?}, {variable}");
            servers.assert_same(&format!("{format:?}, {variable}"));
        }
    }
}

#[test]
fn what_the_first_words_leave_to_git_works_as_with_git() {
    for (format, hash) in Repo::KINDS {
        let client = Client::new(hash);
        // The client is a shallow clone, which only its first lines show.
        client.repo.git(["update-ref", "refs/heads/main", &client.commits[4].to_string()]);
        let shallow = client.repo.scratch().join("shallow");
        let url = format!("file://{}", client.repo.dir().display());
        client.repo.git(["clone", "--quiet", "--bare", "--depth=1", &url, shallow.to_str().unwrap()]);
        let words = ["-C", shallow.to_str().unwrap(), "commit-tree", "-p", "main", "-m", "new", "main^{tree}"];
        let new = client.repo.git(words);
        // The server has the history that the client lacks, or lacks it too and becomes shallow if it may.
        for (has_history, may_be_shallow) in [(true, false), (false, false), (false, true)] {
            let make = || Repo::bare(format, hash);
            let servers = Servers { git: make(), refdb: make() };
            let said = [(&servers.git, false), (&servers.refdb, true)].map(|(server, by_refdb)| {
                if has_history {
                    let refspec = format!("{}:refs/heads/main", client.commits[4]);
                    server.git(["fetch", "--quiet", client.repo.dir().to_str().unwrap(), &refspec]);
                }
                server.config("receive.shallowUpdate", if may_be_shallow { "true" } else { "false" });
                let mut push = client.repo.command(refdb_testkit::Git::find().program());
                push.env("REFDB_GIT", refdb_testkit::Git::find().program()).arg("-C").arg(&shallow).arg("push");
                if by_refdb {
                    push.arg(format!("--receive-pack={}", client.receive_pack.display()));
                }
                let output = push.arg(server.dir()).arg(format!("{new}:refs/heads/new")).output().unwrap();
                assert_eq!(output.status.success(), has_history || may_be_shallow, "{format:?} {hash:?}");
                let boundary = std::fs::read_to_string(server.git_dir().join("shallow")).unwrap_or_default();
                (shown(server, &output), boundary)
            });
            assert_eq!(said[1], said[0], "{format:?} {hash:?} {has_history} {may_be_shallow}");
            servers.assert_same(&format!("a shallow clone, {format:?} {hash:?} {has_history} {may_be_shallow}"));
        }
    }
}

#[test]
fn of_pushes_only_those_for_the_proc_receive_hook_are_left_to_git() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    let make = || Repo::bare(refdb_testkit::RefFormat::Reftable, refdb_types::HashKind::Sha1);
    let servers = Servers { git: make(), refdb: make() };
    let tool = refdb_testkit::Git::find().test_tool();
    for server in servers.all() {
        server.config("receive.procReceiveRefs", "refs/for");
        server.config("receive.advertisePushOptions", "true");
        let answer = "-r 'ok refs/for/main/topic' -r 'option refname refs/pull/1/head'";
        hook(server, "proc-receive", &format!("{NOTE} >&2\nexec {} proc-receive {answer}", tool.display()));
        hook(server, "post-receive", "cat >>../calls");
    }
    let id = |at: usize| client.commits[at].to_string();
    for words in [
        vec![format!("{}:refs/heads/main", id(1))],
        vec![format!("{}:refs/for/main/topic", id(2))],
        vec![format!("{}:refs/heads/main", id(3)), format!("{}:refs/for/main/topic", id(4))],
        vec!["--atomic".into(), format!("{}:refs/heads/x", id(3)), format!("{}:refs/for/main/topic", id(5))],
        vec!["--push-option=a b".into(), format!("{}:refs/for/main/topic", id(5))],
        vec![":refs/heads/main".into()],
    ] {
        let said = [(&servers.git, false), (&servers.refdb, true)]
            .map(|(server, by_refdb)| shown(server, &client.push(server, by_refdb, &words)));
        assert_eq!(said[1], said[0], "{words:?}");
        servers.assert_same(&format!("{words:?}"));
    }
    let calls = std::fs::read_to_string(servers.refdb.scratch().join("calls")).unwrap();
    assert!(calls.contains("refs/pull/1/head") || calls.contains("refs/for/main/topic"), "{calls}");
    let mut push = client.repo.command(refdb_testkit::Git::find().program());
    push.env("REFDB_GIT", guard(&servers.refdb)).arg("push");
    push.arg(format!("--receive-pack={}", client.receive_pack.display())).arg(servers.refdb.dir());
    let output = push.arg(format!("{}:refs/heads/alone", id(4))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
