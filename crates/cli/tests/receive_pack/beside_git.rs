//! The same pushes to git's receive-pack and to refdb's: the same report, refs, reflogs, objects and calls of hooks.

use crate::common::{Client, guard, hook, quarantines};
use refdb_testkit::{Repo, Rng};
use std::process::Output;

const NAMES: [&str; 10] = [
    "refs/heads/main",
    "refs/heads/a",
    "refs/heads/a/b",
    "refs/heads/a-b",
    "refs/heads/no",
    "refs/tags/v1",
    "refs/tags/a",
    "refs/hidden/x",
    "refs/changes/01/1/1",
    "refs/heads/link",
];

const SETTINGS: [(&str, &str); 10] = [
    ("receive.denyDeletes", "true"),
    ("receive.denyNonFastForwards", "true"),
    ("receive.denyDeleteCurrent", "ignore"),
    ("receive.denyDeleteCurrent", "warn"),
    ("receive.unpackLimit", "1"),
    ("receive.advertiseAtomic", "false"),
    ("receive.advertisePushOptions", "true"),
    ("transfer.fsckObjects", "true"),
    ("transfer.advertiseSID", "true"),
    ("receive.hideRefs", "refs/hidden"),
];

/// Two servers of the same content.
struct Servers {
    git: Repo,
    refdb: Repo,
}

impl Servers {
    fn all(&self) -> [&Repo; 2] {
        [&self.git, &self.refdb]
    }

    fn assert_same(&self, what: &str) {
        for words in [
            &["for-each-ref", "--format=%(refname) %(objectname) %(symref)"][..],
            &["cat-file", "--batch-all-objects", "--batch-check"],
            &["fsck", "--strict", "--no-dangling"],
        ] {
            let [git, refdb] = self.all().map(|server| shown(server, &server.try_git(words, "")));
            assert_eq!(refdb, git, "{what}: {words:?}");
        }
        for name in NAMES.into_iter().chain(["HEAD"]) {
            let words = ["reflog", "show", "--format=%H %gs %ge", name, "--"];
            let [git, refdb] = self.all().map(|server| shown(server, &server.try_git(words, "")));
            assert_eq!(refdb, git, "{what}: reflog of {name}");
        }
        let [git, refdb] =
            self.all().map(|server| std::fs::read_to_string(server.scratch().join("calls")).unwrap_or_default());
        assert_eq!(refdb, git, "{what}: calls of hooks");
        assert!(quarantines(&self.refdb).is_empty(), "{what}");
    }
}

/// What a program said, wherever it ran.
fn shown(server: &Repo, output: &Output) -> String {
    let text = [&output.stdout[..], b"--\n", &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).replace(server.dir().to_str().unwrap(), "SERVER");
    // The advice for users who have set nothing is in our own words.
    // Ours says where in the request an error is.
    let lines = text.lines().map(|line| line.split_once(" (in the packet at byte ").map_or(line, |(start, _)| start));
    let lines: Vec<_> = lines.filter(|line| !line.starts_with("remote: ") || is_no_advice(line)).collect();
    format!("{}\n{}", lines.join("\n"), output.status)
}

fn is_no_advice(line: &str) -> bool {
    let advice = ["By default, ", "The branch is checked out on", "Without the branch that"];
    let said = ["remote: hook ", "remote: warning: ", "remote: error: ", "remote: fatal: "];
    said.iter().any(|start| line.starts_with(start)) && !advice.iter().any(|words| line.contains(words))
}

/// Notes how a hook is called, and refuses refs that are called `no`.
const NOTE: &str =
    "{ echo \"$0 $*\" | sed 's|.*/||'; env | grep ^GIT_PUSH_OPTION | sort; } >>../calls; echo \"hook $*\"";

#[test]
fn random_pushes_end_as_with_git() {
    for (at, (format, hash)) in Repo::KINDS.into_iter().enumerate() {
        let client = Client::new(hash);
        for round in 0..4 {
            let seed = (at * 100 + round) as u64;
            let mut rng = Rng::new(seed);
            let servers = Servers { git: Repo::bare(format, hash), refdb: Repo::bare(format, hash) };
            let settings: Vec<_> = SETTINGS.iter().filter(|_| rng.one_in(3)).collect();
            let hooks: Vec<_> = ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"]
                .into_iter()
                .filter(|_| rng.one_in(2))
                .collect();
            for server in servers.all() {
                for (key, value) in [("core.logAllRefUpdates", "true"), ("gc.auto", "0"), ("maintenance.auto", "false")]
                {
                    server.config(key, value);
                }
                settings.iter().for_each(|(key, value)| server.config(key, value));
                server.git(["symbolic-ref", "refs/heads/link", "refs/heads/a-b"]);
                for name in &hooks {
                    let rest = match *name {
                        "update" => "case $1 in */no) exit 1;; esac",
                        "pre-receive" | "post-receive" => "cat >>../calls; test \"$GIT_PUSH_OPTION_0\" != no",
                        // git runs two transactions where we run one, in parts of other sizes.
                        "reference-transaction" => "exit 0",
                        _ => "",
                    };
                    let note = if *name == "reference-transaction" { "" } else { NOTE };
                    hook(server, name, &format!("{note}\n{rest}"));
                }
            }
            for step in 0..8 {
                let words = push_words(&mut rng, &client, settings.iter().any(|(key, _)| key.ends_with("PushOptions")));
                let what = format!("seed {seed}, step {step}, {format:?}, {settings:?}, {hooks:?}: {words:?}");
                let said = [(&servers.git, false), (&servers.refdb, true)]
                    .map(|(server, by_refdb)| shown(server, &client.push(server, by_refdb, &words)));
                assert_eq!(said[1], said[0], "{what}");
                servers.assert_same(&what);
            }
        }
    }
}

fn push_words(rng: &mut Rng, client: &Client, options: bool) -> Vec<String> {
    let mut words = Vec::new();
    if rng.one_in(4) {
        words.push("--atomic".into());
    }
    if rng.one_in(4) {
        words.push("--quiet".into());
    }
    if options && rng.one_in(2) {
        words.push(format!("--push-option={}", rng.pick(&["yes", "no", "two words"])));
    }
    let mut names = NAMES;
    rng.shuffle(&mut names);
    for name in &names[..1 + rng.below(4)] {
        words.push(match rng.below(4) {
            // Of a dangling symbolic ref, git logs the deletion of a missing ref.
            0 if !name.ends_with("link") => format!(":{name}"),
            1 => format!("{}:{name}", rng.pick(&client.commits)),
            _ => format!("+{}:{name}", rng.pick(&client.commits)),
        });
    }
    words
}

#[test]
fn a_branch_that_is_checked_out_is_guarded_as_by_git() {
    for value in
        [None, Some("ignore"), Some("warn"), Some("refuse"), Some("updateInstead"), Some("true"), Some("false")]
    {
        let client = Client::new(refdb_types::HashKind::Sha1);
        let make = || Repo::with_worktree(refdb_testkit::RefFormat::Files, refdb_types::HashKind::Sha1);
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
            assert_eq!(said[1], said[0], "{value:?}");
            servers.assert_same(&format!("{value:?}"));
        }
    }
}

/// Makes a server one whose pushes are left to git.
type MakeRare = fn(&Repo);

const LEFT_TO_GIT: [(&str, MakeRare); 10] = [
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
            // It is git that answers, but for what only the client's words show.
            let mut show = client.repo.command(crate::common::REFDB);
            show.env("REFDB_GIT", refdb_testkit::Git::find().program());
            let shown =
                show.args(["receive-pack", "--http-backend-info-refs"]).arg(servers.refdb.dir()).output().unwrap();
            let by_git = String::from_utf8_lossy(&shown.stdout).contains("agent=git/");
            assert_eq!(by_git, what != "receive.procReceiveRefs", "{format:?}, {what}");
        }
    }
}

#[test]
fn variables_that_lead_elsewhere_leave_the_push_to_git() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    for format in refdb_testkit::RefFormat::ALL {
        let backend = format!("GIT_REFERENCE_BACKEND={}", format.name());
        for variable in ["GIT_NAMESPACE=part", "GIT_WORK_TREE=/", "GIT_QUARANTINE_PATH=/tmp", &backend] {
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
    let client = Client::new(refdb_types::HashKind::Sha1);
    let make = || Repo::bare(refdb_testkit::RefFormat::Files, refdb_types::HashKind::Sha1);
    // The client is a shallow clone, which only its first words show.
    client.repo.git(["update-ref", "refs/heads/main", &client.commits[4].to_string()]);
    let servers = Servers { git: make(), refdb: make() };
    for server in servers.all() {
        let refspec = format!("{}:refs/heads/main", client.commits[4]);
        server.git(["fetch", "--quiet", client.repo.dir().to_str().unwrap(), &refspec]);
    }
    let shallow = client.repo.scratch().join("shallow");
    let url = format!("file://{}", client.repo.dir().display());
    client.repo.git(["clone", "--quiet", "--bare", "--depth=1", &url, shallow.to_str().unwrap()]);
    let words = ["-C", shallow.to_str().unwrap(), "commit-tree", "-p", "main", "-m", "new", "main^{tree}"];
    let new = client.repo.git(words);
    for (server, by_refdb) in [(&servers.git, false), (&servers.refdb, true)] {
        let mut push = client.repo.command(refdb_testkit::Git::find().program());
        push.env("REFDB_GIT", refdb_testkit::Git::find().program()).arg("-C").arg(&shallow).arg("push");
        if by_refdb {
            push.arg(format!("--receive-pack={}", client.receive_pack.display()));
        }
        let output = push.arg(server.dir()).arg(format!("{new}:refs/heads/new")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    servers.assert_same("a shallow clone");
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

#[test]
fn a_name_that_no_file_can_have_is_refused_as_by_git() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    for format in refdb_testkit::RefFormat::ALL {
        for bytes in [250, 251, 255, 256, 1000] {
            let make = || Repo::bare(format, refdb_types::HashKind::Sha1);
            let servers = Servers { git: make(), refdb: make() };
            let (name, id) = ("a".repeat(bytes), |at: usize| client.commits[at].to_string());
            for words in [
                vec![format!("{}:refs/heads/{name}", id(1)), format!("{}:refs/heads/beside", id(1))],
                vec![format!("{}:refs/heads/{name}/below", id(1)), format!("{}:refs/heads/beside", id(2))],
                vec!["--atomic".into(), format!("{}:refs/heads/x", id(1)), format!("{}:refs/heads/{name}", id(2))],
                vec![format!(":refs/heads/{name}"), format!("{}:refs/heads/beside", id(3))],
            ] {
                let said = [(&servers.git, false), (&servers.refdb, true)]
                    .map(|(server, by_refdb)| without_why(&shown(server, &client.push(server, by_refdb, &words))));
                let what = format!("{format:?}, {bytes} bytes: {words:?}");
                assert_eq!(said[1], said[0], "{what}");
                servers.assert_same(&what);
            }
        }
    }
}

/// Without the path and the system's message. Git says how the repository was named to it, and of folders says less.
fn without_why(said: &str) -> String {
    let cut = |line: &str| line.split_inclusive("': ").take(1).collect::<String>();
    said.lines().map(|line| if line.contains("cannot lock ref") { cut(line) } else { line.to_owned() } + "\n").collect()
}

#[test]
fn hooks_are_called_and_their_deaths_told_as_by_git() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    for format in refdb_testkit::RefFormat::ALL {
        for (event, script) in [
            ("pre-receive", "kill -9 $$"),
            ("update", "kill -TERM $$"),
            ("post-receive", "kill -KILL $$"),
            ("post-update", "kill -INT $$"),
            ("update", "echo called as $0 in $(basename $PWD) >>../calls"),
            ("pre-receive", "echo called as $0 >>../calls"),
            ("reference-transaction", "echo called as $0 >../calls"),
        ] {
            let make = || Repo::bare(format, refdb_types::HashKind::Sha1);
            let servers = Servers { git: make(), refdb: make() };
            servers.all().iter().for_each(|server| hook(server, event, script));
            let words = [format!("{}:refs/heads/main", client.commits[1])];
            let said = [(&servers.git, false), (&servers.refdb, true)]
                .map(|(server, by_refdb)| shown(server, &client.push(server, by_refdb, &words)));
            assert_eq!(said[1], said[0], "{format:?}: {event}: {script}");
            servers.assert_same(&format!("{format:?}: {event}: {script}"));
        }
    }
}

/// A hook is started in a way of its own: what it inherits, and whether it needs its `#!` line.
#[test]
fn an_update_hook_inherits_what_it_does_from_git() {
    const SCRIPT: &str = r#"{
        env | grep ^GIT_ | grep -v ^GIT_EXEC_PATH= | sort
        echo $# $*
        cat
        for signal in HUP INT TERM USR1; do sh -c "kill -$signal \$\$; echo outlived $signal"; done
    } >>../calls 2>/dev/null; echo hook said"#;
    let client = Client::new(refdb_types::HashKind::Sha1);
    let git = refdb_testkit::Git::find().program();
    for format in refdb_testkit::RefFormat::ALL {
        for has_first_line in [true, false] {
            let make = || Repo::bare(format, refdb_types::HashKind::Sha1);
            let servers = Servers { git: make(), refdb: make() };
            let ours = client.receive_pack.display().to_string();
            let said =
                [(&servers.git, "git receive-pack".to_owned()), (&servers.refdb, ours)].map(|(server, program)| {
                    hook(server, "update", SCRIPT);
                    if !has_first_line {
                        std::fs::write(server.git_dir().join("hooks/update"), SCRIPT).unwrap();
                    }
                    let mut push = client.repo.command(git);
                    let path = format!("PATH={}:/usr/bin:/bin", git.parent().unwrap().display());
                    push.arg("push").arg("--porcelain").arg(format!("--receive-pack=trap '' USR1; {path} {program}"));
                    push.env("REFDB_GIT", git).arg(server.dir());
                    push.args([1, 2].map(|at| format!("{}:refs/heads/{at}", client.commits[at])));
                    shown(server, &push.output().unwrap())
                });
            assert!(said[0].contains("remote: hook said"), "{}", said[0]);
            assert_eq!(said[1], said[0], "{format:?}, {has_first_line}");
            let calls = std::fs::read_to_string(servers.refdb.scratch().join("calls")).unwrap();
            assert!(calls.contains("outlived USR1\n") && calls.matches("outlived").count() == 2, "{calls}");
            servers.assert_same(&format!("{format:?}, {has_first_line}"));
        }
    }
}

#[test]
fn what_is_no_commit_is_refused_for_branches_as_by_git() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    let tree = client.repo.git(["rev-parse", &format!("{}^{{tree}}", client.commits[1])]);
    for format in refdb_testkit::RefFormat::ALL {
        let make = || Repo::bare(format, refdb_types::HashKind::Sha1);
        let servers = Servers { git: make(), refdb: make() };
        for option in ["--atomic", "--no-atomic"] {
            let words =
                [option.to_owned(), format!("{tree}:refs/heads/x"), format!("{}:refs/heads/y", client.commits[1])];
            let said = [(&servers.git, false), (&servers.refdb, true)]
                .map(|(server, by_refdb)| shown(server, &client.push(server, by_refdb, &words)));
            assert_eq!(said[1], said[0], "{format:?} {option}");
            servers.assert_same(option);
        }
    }
}
