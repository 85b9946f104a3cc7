//! Sends the same pushes to the receive-pack of git and to that of refdb, and compares the reports, refs, reflogs,
//! objects and calls of hooks.

use crate::common::{Client, NAMES, NOTE, Servers, hook, shown};
use refdb_testkit::{Git, Repo, Rng, rounds};

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

#[test]
fn random_pushes_end_as_with_git() {
    for (at, (format, hash)) in Repo::KINDS.into_iter().enumerate() {
        let client = Client::new(hash);
        for round in 0..rounds(2, 4) {
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
                        // Git runs two transactions where refdb runs one, and splits them differently.
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
                remove_forgotten_keeps(&servers.git);
                servers.assert_same(&what);
            }
        }
    }
}

/// Removes the `.keep` files that git's development version of 2.56 leaves after each push whose pack it keeps, because
/// it refuses a later push of the same pack on account of them.
fn remove_forgotten_keeps(server: &Repo) {
    if Git::find().version() < (2, 56) {
        return;
    }
    for entry in server.git_dir().join("objects/pack").read_dir().expect("the repository has packs") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_some_and(|extension| extension == "keep") {
            std::fs::remove_file(path).expect("the file can be removed");
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
            // The symbolic ref is not deleted, because it may dangle, and then git logs the deletion of a missing ref.
            0 if !name.ends_with("link") => format!(":{name}"),
            1 => format!("{}:{name}", rng.pick(&client.commits)),
            _ => format!("+{}:{name}", rng.pick(&client.commits)),
        });
    }
    words
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

/// Cuts the path and the system's message off errors about locks: git repeats the path by which it was given the
/// repository, and says less about folders.
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

/// Compares what an update hook inherits from refdb and from git, with and without a `#!` line.
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

/// `receive.updateServerInfo` writes the files that clients of plain HTTP read, and `receive.autogc` has git clean up.
#[test]
fn what_is_done_behind_a_push_is_what_git_does() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    let git = refdb_testkit::Git::find().program();
    for format in refdb_testkit::RefFormat::ALL {
        for settings in [
            &[("receive.autogc", "false")][..],
            &[("receive.autogc", "false"), ("receive.updateServerInfo", "true"), ("receive.unpackLimit", "1")],
            &[("maintenance.autoDetach", "false")],
            &[("maintenance.auto", "false")],
            &[("gc.autoDetach", "true")],
        ] {
            let make = || Repo::bare(format, refdb_types::HashKind::Sha1);
            let servers = Servers { git: make(), refdb: make() };
            let seen = [(&servers.git, false), (&servers.refdb, true)].map(|(server, by_refdb)| {
                settings.iter().for_each(|(key, value)| server.config(key, value));
                let trace = server.scratch().join("trace");
                let mut push = client.repo.command(git);
                push.env("REFDB_GIT", git).env("GIT_TRACE", &trace).arg("push").arg("--porcelain");
                if by_refdb {
                    push.arg(format!("--receive-pack={}", client.receive_pack.display()));
                }
                let output = push.arg(server.dir()).arg(format!("{}:refs/heads/main", client.commits[2])).output();
                let trace = std::fs::read_to_string(trace).unwrap();
                let started = trace.lines().filter_map(|line| line.split_once("built-in: git maintenance "));
                // For git before 2.47, which lacks the option, refdb overrides `gc.autoDetach` instead.
                let swept: Vec<_> = started.map(|(_, words)| words.replace(" --no-detach", "")).collect();
                let info = ["info/refs", "objects/info/packs"]
                    .map(|file| std::fs::read_to_string(server.git_dir().join(file)).unwrap_or_default());
                (shown(server, &output.unwrap()), swept, info)
            });
            assert_eq!(seen[1], seen[0], "{format:?} {settings:?}");
            let (_, swept, [refs, _]) = &seen[1];
            let sweeps = !matches!(settings[0], ("receive.autogc" | "maintenance.auto", "false"));
            assert_eq!(!swept.is_empty(), sweeps, "{format:?} {settings:?}: {swept:?}");
            assert_eq!(refs.contains("refs/heads/main"), settings.len() > 1, "{format:?} {settings:?}");
        }
    }
}

/// Git before 2.47, such as 2.39 of Debian 12, has no `git maintenance run --detach` and no `--no-detach`.
#[test]
fn an_old_git_sweeps_up_behind_a_push_and_the_client_is_told_nothing_of_words_that_it_lacks() {
    let client = Client::new(refdb_types::HashKind::Sha1);
    for setting in ["gc.autoDetach=true", "gc.autoDetach=false", "maintenance.autoDetach=false"] {
        let server = Repo::bare(refdb_testkit::RefFormat::Files, refdb_types::HashKind::Sha1);
        let (key, value) = setting.split_once('=').unwrap();
        server.config(key, value);
        let trace = server.scratch().join("trace");
        let mut push = client.repo.command(refdb_testkit::Git::find().program());
        push.env_remove("GIT_EXEC_PATH").env("REFDB_GIT", "/usr/bin/git").env("GIT_TRACE", &trace);
        push.args(["push", "--porcelain"]).arg(format!("--receive-pack={}", client.receive_pack.display()));
        let output = push.arg(server.dir()).arg(format!("{}:refs/heads/main", client.commits[2])).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("option"), "{setting}: {said}");
        let trace = std::fs::read_to_string(trace).unwrap();
        assert!(trace.contains("built-in: git maintenance run --auto --quiet\n"), "{setting}: {trace}");
        assert_eq!(server.rev_parse("refs/heads/main"), client.commits[2]);
    }
}
