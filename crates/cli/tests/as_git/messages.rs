//! Compares with git the fields that are taken from a message: line ends, NULs, encodings, signatures, trailers.

use crate::common::same;
use refdb_testkit::{RefFormat, Repo, Rng, rounds};
use refdb_types::{HashKind, ObjectId};

/// The pieces that random messages are made of.
const PARTS: [&[u8]; 28] = [
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
    b"na\xefve",
    b"na\xc3\xafve",
    b"\xfe\xffUTF-16",
    b"\x0b",
    b"\x0c",
    b"..",
    b"-",
];

/// What stands between headers and message: a blank line, or what broken tools write.
const ENDS: [&[u8]; 5] = [b"\n", b"\n", b"\n\n", b"\r\n", b""];

/// Headers of commits that state the encoding of the message, or none.
const ENCODINGS: [&str; 8] = [
    "",
    "",
    "encoding ISO-8859-1\n",
    "encoding latin-1\n",
    "encoding UTF-8\n",
    "encoding UTF-16\n",
    "encoding bogus\n",
    "encoding\n",
];

const FIELDS: [&str; 17] = [
    "authorname",
    "author",
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
            let encoding = *rng.pick(&ENCODINGS);
            let (kind, headers) = if rng.one_in(2) {
                ("commit", format!("tree {tree}\nauthor \u{fc} <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n{encoding}"))
            } else {
                ("tag", format!("object {tree}\ntype tree\ntag t\ntagger A <a@b> 1 +0000\n"))
            };
            let mut message = Vec::new();
            for _ in 0..rng.below(10) {
                let part = *rng.pick(&PARTS);
                // A NUL is chosen rarely, because it hides everything after it.
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
        // Git shows the bytes of the message as they are, whatever its encoding header or `i18n.logOutputEncoding`
        // says.
        let setting = format!("i18n.logOutputEncoding={}", rng.pick(&["UTF-8", "ISO-8859-1", "UTF-16", "bogus", ""]));
        for field in FIELDS {
            let format = format!("--format=%(refname) [%({field})]");
            same(repo.dir(), &["-c", &setting, "for-each-ref", &format], b"");
            same(repo.dir(), &["for-each-ref", &format!("--sort={field}"), "--format=%(refname)"], b"");
        }
        same(repo.dir(), &["-c", &setting, "tag", "-n2"], b"");
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

#[test]
fn a_form_feed_is_no_white_space_in_trailers() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let tree = repo.git_with_input(["mktree"], "");
    let trailers = [
        "A: b\x0c\nC: d\n",
        "A: b\n\x0cx\nC: d\n",
        "A:\x0cb\n",
        "A: b\x0b\nC:\x0b d\n",
        "A: b\n\x0c\nC: d\n",
        "A: b\n \x0c cont\nC: d\n",
        "A: b\r\n\x0c\r\n",
        "\x0cA: b\nC: d\n",
        "A\x0c: b\nC: d\n",
    ];
    for (at, trailers) in trailers.iter().enumerate() {
        let object = format!("tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\ns\n\nb\n\n{trailers}");
        let id = repo.git_with_input(["hash-object", "-t", "commit", "-w", "--stdin"], object);
        repo.git(["update-ref", &format!("refs/x/{at}"), &id]);
    }
    for field in ["trailers", "trailers:unfold", "trailers:only", "trailers:key=A", "trailers:separator=|,valueonly"] {
        same(repo.dir(), &["for-each-ref", &format!("--format=%(refname) [%({field})]")], b"");
    }
}

#[test]
fn behind_a_nul_there_are_no_headers() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let tree = repo.git_with_input(["mktree"], "");
    let whole = format!("tree {tree}\nauthor A <a@b> 1700000000 +0000\ncommitter C <c@d> 1700000001 +0100\n\ns\n\nb\n");
    let tag = format!("object {tree}\ntype tree\ntag t\ntagger T <a@b> 1700000002 +0000\n\ns\n\nb\n");
    // No NUL is put before the author or the tagger, because git treats a NUL in the ids there differently.
    for (kind, whole, start) in [("commit", whole, "author "), ("tag", tag, "tagger ")] {
        let start = whole.find(start).unwrap();
        for at in start..whole.len() {
            let object = [&whole.as_bytes()[..at], b"\0", &whole.as_bytes()[at..]].concat();
            let id = repo.git_with_input(["hash-object", "-t", kind, "-w", "--literally", "--stdin"], object);
            let id = ObjectId::from_hex(HashKind::Sha1, id.as_bytes()).unwrap();
            repo.create_refs([(format!("refs/{kind}/{at:03}"), id)]);
        }
    }
    for field in [
        "author",
        "authorname",
        "authoremail",
        "authoremail:localpart",
        "authordate:raw",
        "committer",
        "committername",
        "committerdate",
        "tagger",
        "taggeremail:trim",
        "taggerdate:unix",
        "creator",
        "creatordate:raw",
        "tree",
        "numparent",
        "object",
        "tag",
        "subject",
        "contents",
    ] {
        same(repo.dir(), &["for-each-ref", &format!("--format=%(refname) [%({field})]")], b"");
        same(repo.dir(), &["for-each-ref", &format!("--sort={field}"), "--format=%(refname)"], b"");
    }
}
