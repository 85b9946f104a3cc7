//! Repositories that use the objects of another, as forks do on a host.

use crate::{
    common::{Client, REFDB, guard, quarantines},
    trouble::request,
};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::path::Path;

/// Lets `fork` use the objects of `pools`.
fn borrow(fork: &Repo, pools: &[&Repo]) {
    let lines: String = pools.iter().map(|pool| format!("{}/objects\n", pool.git_dir().display())).collect();
    std::fs::create_dir_all(fork.git_dir().join("objects/info")).unwrap();
    std::fs::write(fork.git_dir().join("objects/info/alternates"), lines).unwrap();
}

/// Returns the refs that a client is shown, without the capabilities, which name the server.
fn shown(server: &Repo, program: &Path) -> String {
    let mut command = server.command(program);
    // Fails if refdb delegates to git's receive-pack.
    command.args(["receive-pack", "--http-backend-info-refs"]).arg(server.dir()).env("REFDB_GIT", guard(server));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The length of the first line differs as well.
    let lines: Vec<_> = text.lines().map(|line| line.split('\0').next().unwrap()).collect();
    lines.iter().enumerate().map(|(at, line)| if at == 0 { &line[4..] } else { line }).collect::<Vec<_>>().join("\n")
}

#[test]
fn clients_are_shown_what_alternates_have_as_by_git() {
    for (format, hash) in Repo::KINDS {
        let client = Client::new(hash);
        let [pool, other, fork] = [0, 1, 2].map(|_| Repo::bare(format, hash));
        let push = |server: &Repo, at: usize, name: &str| {
            client.push_ok(server, &[format!("{}:{name}", client.commits[at])]);
        };
        push(&pool, 4, "refs/heads/main");
        push(&pool, 2, "refs/heads/old");
        push(&pool, 5, "refs/tags/aside");
        push(&other, 5, "refs/heads/again");
        borrow(&fork, &[&pool, &other]);
        let git = Git::find().program();
        let compare = |what: &str| {
            let (ours, gits) = (shown(&fork, Path::new(REFDB)), shown(&fork, git));
            assert_eq!(ours, gits, "{format:?} {hash:?}: {what}");
            assert_eq!(ours.matches(" .have").count() > 0, what != "no such prefix", "{what}: {ours}");
        };
        compare("no refs of our own");
        push(&fork, 2, "refs/heads/mine");
        compare("one of the ids is our own");
        fork.config("core.alternateRefsPrefixes", "refs/heads refs/nothing");
        compare("some prefixes");
        fork.config("core.alternateRefsPrefixes", "refs/nothing");
        compare("no such prefix");
        fork.config(
            "core.alternateRefsCommand",
            &format!("f() {{ echo {}; echo nonsense; echo $1; }}; f", client.commits[0]),
        );
        compare("a command");
    }
}

#[test]
fn a_fork_takes_pushes_whose_objects_are_its_pool_s() {
    for limit in ["1", "100"] {
        let client = Client::new(HashKind::Sha1);
        let [pool, fork] = [0, 1].map(|_| Repo::bare(RefFormat::Reftable, HashKind::Sha1));
        fork.config("receive.unpackLimit", limit);
        client.push_ok(&pool, &[format!("{}:refs/heads/main", client.commits[3])]);
        borrow(&fork, &[&pool]);
        // The value of a ref in the pool, an older commit of it, and a new commit on top.
        for (name, at) in [("same", 3), ("older", 1), ("new", 4)] {
            let mut push = client.repo.command(Git::find().program());
            push.env("REFDB_GIT", guard(&fork))
                .arg("push")
                .arg(format!("--receive-pack={}", client.receive_pack.display()));
            let output =
                push.arg(fork.dir()).arg(format!("{}:refs/heads/{name}", client.commits[at])).output().unwrap();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
        fork.git(["fsck", "--strict"]);
        let own = std::fs::read_dir(fork.git_dir().join("objects")).unwrap().count();
        assert!(own <= 4, "the pool's objects were sent again");
        assert!(quarantines(&fork).is_empty());
        // Objects in the pool that no ref leads to do not prove that their history is complete.
        let loose = client.repo.commits(7)[6];
        let pack = client.repo.try_git(["pack-objects", "--stdout", "-q"], format!("{loose}\n")).stdout;
        pool.try_git(["unpack-objects", "-q"], pack);
        let (bytes, starts) = request(&client, "report-status");
        let commands = String::from_utf8(bytes[..*starts.last().unwrap()].to_vec()).unwrap();
        let commands = commands.replace(&client.commits[4].to_string(), &loose.to_string());
        let empty = client.repo.try_git(["pack-objects", "--stdout", "-q"], "").stdout;
        let said = crate::trouble::send(&fork, &[commands.as_bytes(), &empty].concat()).stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("ng refs/heads/main missing necessary objects\n"), "{said}");
    }
}
