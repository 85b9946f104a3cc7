//! Times and zones that old tools wrote, beside git: in every form, and as sort keys.

use crate::common::same;
use refdb_testkit::{RefFormat, Repo, Rng, rounds};
use refdb_types::{HashKind, ObjectId};

/// Behind 2099 git's own calendar ends: `%s` and local zones are wrong there.
const TIMES: [&str; 14] = [
    "1700000000",
    "0",
    "1",
    "+1700000000",
    "100",
    "01700000000",
    "1e9",
    "",
    "x",
    "17.5",
    "1700000000x",
    "4102444799",
    "99999999999999999999",
    "18446744073709551615",
];

const ZONES: [&str; 31] = [
    "+0000", "-0000", "+0530", "+051800", "+530", "+05:30", "--700", "+0a00", "+1400", "+9999", "+2400", "+2359",
    "+0099", "+00", "+5", "-", "+", "", "0530", "530", "++0530", "+-530", "-+530", "+ 530", "+0530x", "x0530", "Z",
    "+0060", "+0159", "+1", "\t+0200",
];

const FORMS: [&str; 20] = [
    "default",
    "iso",
    "iso-strict",
    "rfc",
    "short",
    "raw",
    "unix",
    "human",
    "relative",
    "local",
    "iso-local",
    "raw-local",
    "short-local",
    "iso-strict-local",
    "rfc-local",
    "human-local",
    "unix-local",
    "default-local",
    "format:%Y-%m-%d %H:%M:%S %z",
    "format-local:%c %z",
];

#[test]
fn times_and_zones_that_no_git_writes_are_shown_and_sorted_as_by_git() {
    for seed in 0..rounds(1, 20) {
        let rng = &mut Rng::new(seed as u64);
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let tree = repo.git_with_input(["hash-object", "-t", "tree", "-w", "--stdin"], "");
        let mut objects = Vec::new();
        for zone in ZONES.into_iter().cycle().take(120) {
            // The blank may be missing, if the time ends all the same, or be two.
            let time = if rng.one_in(2) { "1700000000" } else { rng.pick(&TIMES) };
            let gap = if !rng.one_in(8) {
                " "
            } else if zone.starts_with(['+', '-']) {
                rng.pick(&["  ", "\t", ""])
            } else {
                "  "
            };
            let who = format!("A <a@b> {time}{gap}{zone}");
            let (kind, object) = if rng.one_in(2) {
                ("commit", format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nm\n"))
            } else {
                ("tag", format!("object {tree}\ntype tree\ntag t\ntagger {who}\n\nm\n"))
            };
            let id = repo.git_with_input(["hash-object", "-t", kind, "-w", "--literally", "--stdin"], object);
            objects.push(ObjectId::from_hex(HashKind::Sha1, id.as_bytes()).unwrap());
        }
        repo.create_refs(objects.into_iter().enumerate().map(|(at, id)| (format!("refs/x/{at:03}"), id)));
        for form in FORMS {
            let format =
                format!("--format=%(refname) [%(creatordate:{form})] [%(authordate:{form})] [%(taggerdate:{form})]");
            same(repo.dir(), &["for-each-ref", &format], b"");
        }
        for key in ["creatordate", "-authordate", "committerdate", "creatordate:iso", "creatordate:raw"] {
            same(repo.dir(), &["for-each-ref", &format!("--sort={key}"), "--format=%(refname)"], b"");
        }
    }
}
