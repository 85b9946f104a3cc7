//! Compares refused pushes with git's receive-pack: the same hooks must be called in the same order, with the same
//! arguments, input and variables of git.

use crate::{
    common::{Client, REFDB, Servers, assert_untouched, hook, shown},
    raw::KINDS,
    trouble::feed,
};
use refdb_testkit::{Git, RefFormat, Repo, every};
use refdb_types::{HashKind, ObjectId};
use std::path::Path;

const EVENTS: [&str; 4] = ["pre-receive", "update", "post-receive", "post-update"];

/// Shell commands that log a hook's arguments, its input, git's variables and, if the hook has input, the number of
/// quarantines. The update hook, which has no input, would count more of them under refdb, which keeps the quarantine
/// longer than git. The quarantine's random name, the server's folder, and the place of git's own programs are replaced
/// or left out.
const NOTE: &str = r#"{ echo "$NAME $*"; test -z "$READS" || sed 's/^/  /'
env | grep -E '^(GIT_|PWD=)' | grep -v ^GIT_EXEC_PATH= | sed -e "s|$(cd ..; pwd)|TOP|g" -e 's|incoming-[A-Za-z0-9]*|incoming|g' -e 's|/\./|/|g' -e 's/^/  /' | sort
test -z "$READS" || echo "  quarantines $(ls objects | grep -c tmp_objdir)"; } >>../calls; echo "hook $NAME $1""#;

struct Scene {
    servers: Servers,
    commits: Vec<ObjectId>,
    hash: HashKind,
}

/// An object id, by the role that it has in a case.
#[derive(Clone, Copy, PartialEq)]
enum Id {
    Null,
    At(usize),
    Missing,
}
use Id::{At, Missing, Null};

type Wish<'a> = (Id, Id, &'a str);

/// The pack that follows a request.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Pack {
    Empty,
    Broken,
}

impl Scene {
    fn new(format: RefFormat, hash: HashKind) -> Self {
        let make = || {
            let repo = Repo::bare(format, hash);
            let mut commits = repo.commits(3);
            commits.push(repo.commit());
            for (key, value) in [
                ("core.logAllRefUpdates", "true"),
                ("receive.autogc", "false"),
                ("receive.advertisePushOptions", "true"),
                ("receive.hideRefs", "refs/hidden"),
                ("receive.denyDeletes", "true"),
                ("receive.denyNonFastForwards", "true"),
            ] {
                repo.config(key, value);
            }
            repo.create_refs([
                ("refs/heads/main", commits[1]),
                ("refs/heads/other", commits[1]),
                ("refs/heads/aside", commits[3]),
                ("refs/heads/no", commits[0]),
                ("refs/hidden/x", commits[0]),
                ("refs/tags/v1", commits[0]),
                ("refs/keep/all", commits[2]),
            ]);
            repo.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
            repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/other"]);
            repo.git(["symbolic-ref", "refs/heads/astray", "refs/heads/astray"]);
            (repo, commits)
        };
        let ((git, commits), (refdb, same)) = (make(), make());
        assert_eq!(commits, same);
        Scene { servers: Servers { git, refdb }, commits, hash }
    }

    /// Installs the hooks as files, by settings or both. The hook for the event `declines` fails, and the update hook
    /// also fails for refs whose names end in `/no`.
    fn set_hooks(&self, by: &str, declines: &str) {
        for server in self.servers.all() {
            for event in EVENTS {
                let reads = if event.ends_with("-receive") { "1" } else { "" };
                let end = match event {
                    _ if event == declines => "exit 1",
                    "update" => "case $1 in */no) exit 1;; esac",
                    _ => "exit 0",
                };
                let script = |name: &str| format!("NAME={name} READS={reads}\n{NOTE}\n{end}");
                if by != "settings" {
                    hook(server, event, &script(event));
                }
                if by != "files" {
                    let file = server.scratch().join(format!("set-{event}"));
                    std::fs::write(&file, script(&format!("set-{event}"))).unwrap();
                    server.config(&format!("hook.set-{event}.event"), event);
                    server.config(&format!("hook.set-{event}.command"), &format!("sh ../set-{event}"));
                }
            }
        }
    }

    fn bytes(&self, wishes: &[Wish<'_>], atomic: bool, options: &[&str], pack: Pack) -> Vec<u8> {
        let id = |id: Id| match id {
            Null => ObjectId::null(self.hash).to_string(),
            At(at) => self.commits[at].to_string(),
            Missing => "1".repeat(self.hash.len_hex()),
        };
        let mut bytes = Vec::new();
        let mut add = |line: &str| bytes.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
        for (at, (old, new, name)) in wishes.iter().enumerate() {
            let words = [if atomic { " atomic" } else { "" }, if options.is_empty() { "" } else { " push-options" }];
            let capabilities =
                format!("\0report-status side-band-64k object-format={}{}", self.hash.name(), words.concat());
            add(&format!("{} {} {name}{}", id(*old), id(*new), if at == 0 { &capabilities } else { "" }));
        }
        bytes.extend_from_slice(b"0000");
        if !options.is_empty() {
            for option in options {
                bytes.extend_from_slice(format!("{:04x}{option}", option.len() + 4).as_bytes());
            }
            bytes.extend_from_slice(b"0000");
        }
        if wishes.iter().any(|(_, new, _)| *new != Null) {
            bytes.extend_from_slice(&crate::raw::empty_pack(self.hash));
            if pack == Pack::Broken {
                *bytes.last_mut().unwrap() ^= 1;
            }
        }
        bytes
    }

    /// Pushes to both servers, requires the same calls of hooks and the same repositories afterwards, and returns the
    /// calls.
    fn same(&self, wishes: &[Wish<'_>], atomic: bool, options: &[&str], pack: Pack, what: &str) -> String {
        let bytes = self.bytes(wishes, atomic, options, pack);
        let names: Vec<_> = wishes.iter().map(|(_, _, name)| name).collect();
        let what = format!("{what}: {names:?}, atomic: {atomic}, {options:?}");
        let [git, refdb] = [(&self.servers.git, Git::find().program()), (&self.servers.refdb, Path::new(REFDB))].map(
            |(server, program)| {
                let said = shown(server, &feed(server, program, &bytes));
                let calls = server.scratch().join("calls");
                let called = std::fs::read_to_string(&calls).unwrap_or_default();
                let _ = std::fs::remove_file(calls);
                (said, called)
            },
        );
        assert_eq!(refdb.1, git.1, "{what}: calls of hooks; git said\n{}\nwe said\n{}", git.0, refdb.0);
        self.servers.assert_same(&what);
        git.1
    }
}

/// Returns commands that are refused even when they are alone, and one that is accepted: the deletion of a missing ref
/// by the null id.
fn refused() -> Vec<(&'static str, Wish<'static>)> {
    vec![
        ("a hidden ref is updated", (At(0), At(1), "refs/hidden/x")),
        ("a hidden ref is made", (Null, At(1), "refs/hidden/new")),
        ("a hidden ref is deleted", (At(0), Null, "refs/hidden/x")),
        ("a hidden ref that is not there is deleted", (At(0), Null, "refs/hidden/none")),
        ("an object is missing", (Null, Missing, "refs/heads/new")),
        ("an object is missing, and the ref is hidden", (Null, Missing, "refs/hidden/new")),
        ("the old object is missing, too", (Missing, Missing, "refs/heads/main")),
        ("deletions are denied", (At(1), Null, "refs/heads/other")),
        ("the current branch is deleted", (At(1), Null, "refs/heads/main")),
        ("it is no fast-forward", (At(1), At(0), "refs/heads/other")),
        ("the name is funny", (Null, At(0), "refs/heads/a..b")),
        ("the name is not below refs", (Null, At(0), "heads/x")),
        ("the name is funny and goes", (At(0), Null, "refs/a..b")),
        ("the hook declines", (At(0), At(1), "refs/heads/no")),
        ("the old value is wrong", (At(0), At(2), "refs/heads/other")),
        ("it exists", (Null, At(2), "refs/heads/other")),
        ("it does not exist", (At(0), At(2), "refs/heads/none")),
        ("a folder is in the way", (Null, At(0), "refs/heads/other/below")),
        ("the tag's old value is wrong", (At(2), Null, "refs/tags/v1")),
        ("a missing ref is deleted", (At(0), Null, "refs/tags/none")),
        ("a missing ref is deleted by the null id", (Null, Null, "refs/tags/none")),
        ("a symbolic ref leads to itself", (Null, At(0), "refs/heads/astray")),
    ]
}

/// Returns pushes of several commands, of which some are refused, because of each other or by themselves.
fn together() -> Vec<(&'static str, Vec<Wish<'static>>)> {
    vec![
        ("one ref twice", vec![(At(1), At(2), "refs/heads/other"), (At(1), At(0), "refs/heads/other")]),
        ("a ref and its link", vec![(At(1), At(2), "refs/heads/link"), (At(1), At(3), "refs/heads/other")]),
        ("a ref and one below it", vec![(Null, At(0), "refs/heads/new"), (Null, At(0), "refs/heads/new/below")]),
        (
            "deletions",
            vec![(At(0), Null, "refs/hidden/x"), (At(1), Null, "refs/heads/main"), (At(0), Null, "refs/tags/v1")],
        ),
        ("a hook declines the last", vec![(At(3), At(2), "refs/heads/aside"), (At(0), At(1), "refs/heads/no")]),
        ("a hook declines the first", vec![(At(0), At(1), "refs/heads/no"), (Null, At(2), "refs/tags/v2")]),
        ("one is hidden", vec![(At(0), At(1), "refs/hidden/x"), (Null, At(2), "refs/tags/v2")]),
        ("one is missing", vec![(Null, At(2), "refs/tags/v2"), (Null, Missing, "refs/tags/v3")]),
    ]
}

#[test]
fn a_push_that_is_refused_calls_the_hooks_that_git_calls() {
    let mut count = 0;
    // A short run tries one case in 41, a number that has no divisor in common with how the cases are nested.
    let stride = every(41);
    let mut is_left_out = || {
        count += 1;
        count % stride != 0
    };
    for (format, hash) in KINDS {
        for (by, declines, atomic) in [
            ("files", "", false),
            ("files", "", true),
            ("settings", "", false),
            ("both", "", true),
            ("both", "pre-receive", false),
            ("files", "pre-receive", true),
            ("both", "update", false),
            ("settings", "update", true),
        ] {
            let scene = Scene::new(format, hash);
            scene.set_hooks(by, declines);
            let what = |why: &str| format!("{format:?}, hooks by {by}, {declines} declines: {why}");
            for (why, wish) in refused() {
                let missing = (Null, Missing, "refs/heads/missing");
                let hidden = (At(0), Null, "refs/hidden/x");
                let pushes: [(&[Wish<'_>], &[&str], Pack); 4] = [
                    (&[wish], &[], Pack::Empty),
                    (&[wish, missing], &["a", "b=c"], Pack::Empty),
                    (&[hidden, wish], &[], Pack::Empty),
                    (&[wish], &[], Pack::Broken),
                ];
                for (wishes, options, pack) in pushes {
                    if !is_left_out() {
                        scene.same(wishes, atomic, options, pack, &what(why));
                    }
                }
            }
            for (why, wishes) in together() {
                if !is_left_out() {
                    let scene = Scene::new(format, hash);
                    scene.set_hooks(by, declines);
                    scene.same(&wishes, atomic, &["a"], Pack::Empty, &what(why));
                }
            }
        }
    }
}

#[test]
fn a_push_whose_commands_are_all_refused_calls_pre_receive_with_all_and_lets_no_object_in() {
    for (format, hash) in KINDS {
        for atomic in [false, true] {
            let scene = Scene::new(format, hash);
            scene.set_hooks("files", "");
            let wishes =
                [(At(0), At(1), "refs/hidden/x"), (Null, Missing, "refs/heads/new"), (At(0), Null, "refs/hidden/y")];
            let calls = scene.same(&wishes, atomic, &[], Pack::Empty, "all are refused");
            assert!(calls.starts_with("pre-receive"), "{calls}");
            assert!(wishes.iter().all(|(_, _, name)| calls.contains(name)), "{calls}");
            scene.servers.assert_same("all are refused");
        }
    }
    let client = Client::new(HashKind::Sha1);
    for limit in ["1", "100"] {
        let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
        server.config("receive.hideRefs", "refs/hidden");
        server.config("receive.unpackLimit", limit);
        hook(&server, "pre-receive", "cat >>../calls");
        let output = client.push(&server, true, &[format!("{}:refs/hidden/x", client.commits[1])]);
        assert!(!output.status.success());
        assert!(server.scratch().join("calls").exists());
        assert_untouched(&server, "a hidden ref");
    }
}
