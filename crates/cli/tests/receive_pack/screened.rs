//! Pushes that are delegated to git never reach git if they would create a ref whose name is too long for a reftable.

use crate::{
    common::{Client, REFDB, refs},
    left_to_git::LEFT_TO_GIT,
    raw::empty_pack,
};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{io::Write, process::Output, process::Stdio};

/// The length of the longest refname that refdb accepts in tables with blocks of 4,096 bytes.
const LEN_MAX: usize = 2008;

fn name(prefix: &str, len: usize) -> String {
    format!("{prefix}{}", "n".repeat(len - prefix.len()))
}

fn packet(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

/// A server with one ref, and the commit that the ref and all requests name.
struct Asked {
    server: Repo,
    id: ObjectId,
}

impl Asked {
    fn new() -> Self {
        let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
        let id = server.commit();
        server.create_refs([("refs/heads/old", id)]);
        server.config("receive.autogc", "false");
        Asked { server, id }
    }

    fn create(&self, name: &str) -> String {
        format!("{} {} {name}", ObjectId::null(HashKind::Sha1), self.id)
    }

    fn delete(&self, name: &str) -> String {
        format!("{} {} {name}", self.id, ObjectId::null(HashKind::Sha1))
    }

    /// Sends packets, a flush packet and a pack without objects. The variables are set for refdb.
    fn send(&self, options: &[&str], variables: &[(&str, &str)], packets: &str) -> String {
        let mut command = self.server.command(REFDB);
        command.env("REFDB_GIT", Git::find().program()).envs(variables.iter().copied());
        command.arg("receive-pack").args(options).arg(self.server.dir());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let bytes = [packets.as_bytes(), b"0000", &empty_pack(HashKind::Sha1)].concat();
        // The write fails if the program ends before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(&bytes);
        let output = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    fn assert_refused(&self, said: &str, long: &str, what: &str) {
        assert!(said.contains(&format!("ng {long} entry too large")), "{what}: {said}");
        assert_eq!(refs(&self.server), 1, "{what}: {said}");
    }
}

const CAPABILITIES: &str = "\0report-status";

#[test]
fn no_first_line_of_a_client_lets_a_name_through_that_is_too_long() {
    let asked = Asked::new();
    let long = name("refs/heads/", LEN_MAX + 1);
    let shallow = packet(&format!("shallow {}", asked.id));
    let commands = [packet(&(asked.create("refs/heads/short") + CAPABILITIES)), packet(&asked.create(&long))].concat();
    let certificate = |lines: &str| {
        let head = "certificate version 0.1\npusher A <a@x> 1 +0000\nnonce 1\n\n";
        [packet(&format!("push-cert{CAPABILITIES}")), packet(head), lines.to_owned(), packet("push-cert-end\n")]
            .concat()
    };
    let line = asked.create(&long);
    let (start, end) = line.split_at(900);
    let whole = certificate(&packet(&format!("{line}\n")));
    let in_parts = certificate(&[packet(&format!("{start}\0hidden")), packet(&format!("{end}\n"))].concat());
    let signed = certificate(
        &[
            packet(&format!("{line}\n")),
            packet("-----BEGIN PGP SIGNATURE-----\n"),
            packet("-----END PGP SIGNATURE-----\n"),
        ]
        .concat(),
    );
    for (what, packets) in [
        ("shallow", shallow.clone() + &commands),
        ("shallow at the end", commands.clone() + &shallow),
        ("certificate", whole.clone()),
        ("certificate in parts", in_parts),
        ("signed certificate", signed),
        ("shallow, certificate", shallow + &whole),
        ("certificate beside commands", whole + &commands),
    ] {
        for options in [&["--stateless-rpc"][..], &[], &["--stateless"]] {
            let said = asked.send(options, &[], &packets);
            if what == "shallow at the end" {
                // Nothing is left to git here.
                assert!(said.contains(&format!("ng {long} entry too large")), "{what}: {said}");
                asked.server.git(["update-ref", "-d", "refs/heads/short"]);
            } else {
                asked.assert_refused(&said, &long, what);
            }
        }
    }
    assert!(!asked.server.git_dir().join("shallow").exists());
}

#[test]
fn a_shallow_client_may_create_short_names_and_delete_long_ones() {
    let asked = Asked::new();
    let long = name("refs/heads/", LEN_MAX + 1);
    let large = ["-c", "reftable.blockSize=65536"];
    asked.server.git([&large[..], &["update-ref", &long, &asked.id.to_string()]].concat());
    let longest = name("refs/heads/", LEN_MAX);
    let packets = [
        packet(&format!("shallow {}", asked.id)),
        packet(&(asked.delete(&long) + CAPABILITIES)),
        packet(&asked.create(&longest)),
    ];
    let said = asked.send(&["--stateless-rpc"], &[], &packets.concat());
    assert!(said.contains(&format!("ok {long}\n")) && said.contains(&format!("ok {longest}\n")), "{said}");
    assert_eq!(refs(&asked.server), 2);
}

#[test]
fn variables_that_leave_a_push_to_git_let_no_name_through_that_is_too_long() {
    const NAMESPACE: &str = "refs/namespaces/part/refs/namespaces/of/";
    for (variables, prefix) in [
        (&[("GIT_NAMESPACE", "part/of")][..], NAMESPACE),
        (&[("GIT_WORK_TREE", "/")], ""),
        (&[("GIT_QUARANTINE_PATH", "/tmp")], ""),
        (&[("GIT_REFERENCE_BACKEND", "reftable")], ""),
        (&[("GIT_ALTERNATE_OBJECT_DIRECTORIES", "/tmp")], ""),
        (&[("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "receive.fsck.x"), ("GIT_CONFIG_VALUE_0", "warn")], ""),
    ] {
        for options in [&["--stateless-rpc"][..], &[]] {
            let asked = Asked::new();
            let name = |len: usize| name("refs/heads/", len - prefix.len());
            let (long, longest) = (name(LEN_MAX + 1), name(LEN_MAX));
            for atomic in ["", " atomic"] {
                let packets =
                    [packet(&(asked.create(&longest) + CAPABILITIES + atomic)), packet(&asked.create(&long))].concat();
                let said = asked.send(options, variables, &packets);
                asked.assert_refused(&said, &long, &format!("{variables:?}"));
            }
            let said = asked.send(options, variables, &packet(&(asked.create(&longest) + CAPABILITIES)));
            let is_quarantined = variables[0].0 == "GIT_QUARANTINE_PATH";
            assert_eq!(said.contains(&format!("ok {longest}\n")), !is_quarantined, "{variables:?}: {said}");
        }
    }
}

#[test]
fn a_symbolic_ref_leads_no_push_that_is_left_to_git_to_a_name_that_is_too_long() {
    let asked = Asked::new();
    let long = name("refs/heads/", LEN_MAX + 1);
    asked.server.git(["symbolic-ref", "refs/heads/link", &long]);
    let packets = packet(&format!("shallow {}", asked.id)) + &packet(&(asked.create("refs/heads/link") + CAPABILITIES));
    let said = asked.send(&["--stateless-rpc"], &[], &packets);
    assert!(said.contains("ng refs/heads/link entry too large"), "{said}");
    assert!(!asked.server.try_git(["rev-parse", "--verify", "-q", &long], "").status.success());
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn git_push_is_told_that_a_name_is_too_long_where_the_server_leaves_pushes_to_git() {
    let client = Client::new(HashKind::Sha1);
    for (what, make_rare) in LEFT_TO_GIT {
        let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
        make_rare(&server);
        let before = server.refs();
        let prefix = if what == "receive.procReceiveRefs" { "refs/for/" } else { "refs/heads/" };
        let long = format!("{}:{}", client.commits[4], name(prefix, 2900));
        let short = format!("{}:refs/heads/short", client.commits[3]);
        for words in [vec![long.clone(), short.clone()], vec!["--atomic".into(), short.clone(), long.clone()]] {
            let output = client.push(&server, true, &words);
            let said = text(&output);
            assert!(!output.status.success() && said.contains("[remote rejected] (entry too large)"), "{what}: {said}");
            assert!(said.contains("is too long for an index") && !said.contains("unpack"), "{what}: {said}");
            assert_eq!(server.refs(), before, "{what}: {said}");
        }
        client.push_ok(&server, std::slice::from_ref(&short));
    }
}

#[test]
fn a_clone_of_depth_one_cannot_push_names_that_are_too_long() {
    let client = Client::new(HashKind::Sha1);
    client.repo.git(["update-ref", "refs/heads/main", &client.commits[4].to_string()]);
    let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    client.push_ok(&server, &[format!("{}:refs/heads/main", client.commits[4])]);
    let shallow = client.repo.scratch().join("shallow");
    let url = format!("file://{}", server.dir().display());
    client.repo.git(["clone", "--quiet", "--bare", "--depth=1", &url, shallow.to_str().unwrap()]);
    let words = ["-C", shallow.to_str().unwrap(), "commit-tree", "-p", "main", "-m", "new", "main^{tree}"];
    let new = client.repo.git(words);
    let push = |name: &str| {
        let mut push = client.repo.command(Git::find().program());
        push.env("REFDB_GIT", Git::find().program()).arg("-C").arg(&shallow).arg("push");
        push.arg(format!("--receive-pack={}", client.receive_pack.display()));
        push.arg(server.dir()).arg(format!("{new}:{name}")).output().unwrap()
    };
    let refused = push(&name("refs/heads/", 2100));
    assert!(!refused.status.success() && text(&refused).contains("(entry too large)"), "{refused:?}");
    assert_eq!(refs(&server), 1);
    assert!(push("refs/heads/new").status.success());
    assert_eq!(refs(&server), 2);
}
