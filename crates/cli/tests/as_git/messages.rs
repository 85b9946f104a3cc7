//! What a message becomes between its object and a field, beside git: line ends, blank lines, NULs, signatures, trailers.

use crate::common::same;
use refdb_testkit::{RefFormat, Repo, Rng, rounds};
use refdb_types::{HashKind, ObjectId};

/// What messages are made of.
const PARTS: [&[u8]; 24] = [
    b"\n",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b"Subject",
    b"a line",
    b"x",
    b"Key: value",
    b"Signed-off-by: A <a@b>",
    b"---\n",
    b"-----BEGIN PGP SIGNATURE-----\n",
    b"-----BEGIN SSH SIGNATURE-----\r\n",
    b"-----BEGIN PGP MESSAGE-----",
    b"# c",
    b"\xff",
    b"\x0b",
    b"..",
    b"-",
];

/// What ends the headers: a blank line, and what a broken tool writes.
const ENDS: [&[u8]; 5] = [b"\n", b"\n", b"\n\n", b"\r\n", b""];

const FIELDS: [&str; 15] = [
    "subject",
    "subject:sanitize",
    "body",
    "contents",
    "contents:subject",
    "contents:subject:sanitize",
    "contents:body",
    "contents:signature",
    "contents:size",
    "contents:lines=1",
    "contents:lines=3",
    "trailers",
    "trailers:only",
    "trailers:unfold",
    "raw:size",
];

#[test]
fn every_message_falls_into_the_same_parts_as_for_git() {
    for seed in 0..rounds(1, 20) {
        let rng = &mut Rng::new(seed as u64);
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let tree = repo.git_with_input(["hash-object", "-t", "tree", "-w", "--stdin"], "");
        let mut objects = Vec::new();
        for _ in 0..150 {
            let (kind, headers) = if rng.one_in(2) {
                ("commit", format!("tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n"))
            } else {
                ("tag", format!("object {tree}\ntype tree\ntag t\ntagger A <a@b> 1 +0000\n"))
            };
            let mut message = Vec::new();
            for _ in 0..rng.below(10) {
                let part = *rng.pick(&PARTS);
                // A NUL is rare, since it hides all that follows.
                if part != b"\0" || rng.one_in(3) {
                    message.extend_from_slice(part);
                }
            }
            let end = *rng.pick(&ENDS);
            let object = [headers.as_bytes(), end, &message].concat();
            let words = ["hash-object", "-t", kind, "-w", "--literally", "--stdin"];
            let id = repo.git_with_input(words, object);
            objects.push(ObjectId::from_hex(HashKind::Sha1, id.as_bytes()).unwrap());
        }
        repo.create_refs(objects.into_iter().enumerate().map(|(at, id)| (format!("refs/x/{at:03}"), id)));
        for field in FIELDS {
            same(repo.dir(), &["for-each-ref", &format!("--format=%(refname) [%({field})]")], b"");
            same(repo.dir(), &["for-each-ref", &format!("--sort={field}"), "--format=%(refname)"], b"");
        }
    }
}

#[test]
fn branch_lists_a_subject_with_crlf_as_git_does() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let tree = repo.git_with_input(["mktree"], "");
    let people = "author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n";
    for (name, message) in [("a", "one\r\ntwo\r\n\r\nbody\r\n"), ("b", "one\r\n"), ("c", "\r\n\r\none\r\n")] {
        let id = repo.git_with_input(
            ["hash-object", "-t", "commit", "-w", "--stdin"],
            format!("tree {tree}\n{people}\n{message}"),
        );
        repo.git(["update-ref", &format!("refs/heads/{name}"), &id]);
    }
    same(repo.dir(), &["branch", "-v"], b"");
    same(repo.dir(), &["tag", "-n3", "-l"], b"");
}
