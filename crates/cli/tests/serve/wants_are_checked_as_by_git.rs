//! Fetches of versions 0 and 1, for which the server checks the wants so that git need not walk all refs: what is given
//! and what is refused is the same as by git alone.

use crate::support::{Options, Request, export, packets, upload_pack};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};

/// A repository with objects of every relation to its visible refs, and the objects by name.
fn repository(format: RefFormat, settings: &[(&str, &str)]) -> (Repo, Vec<(&'static str, ObjectId)>) {
    let repo = Repo::bare(format, HashKind::Sha1);
    // Each is the parent of the next, so that what is hidden cannot be reached from what is visible.
    let [root, tip, crowd, hidden, alone] = repo.commits(5)[..] else { unreachable!("five were made") };
    let tag = repo.tag_object(root, "v1");
    repo.create_refs([("refs/heads/main", tip), ("refs/tags/v1", tag), ("refs/hidden/a", hidden)]);
    repo.create_refs((0..400).map(|at| (format!("refs/crowd/{at}"), crowd)));
    repo.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
    settings.iter().for_each(|(key, value)| repo.config(key, value));
    export(repo.git_dir());
    let unknown = ObjectId::from_bytes(HashKind::Sha1, &[0x11; 20]).unwrap();
    let named = [
        ("the tip", tip),
        ("below the tip", root),
        ("a tag", tag),
        ("hidden", hidden),
        ("without a ref", alone),
        ("of very many refs", crowd),
        ("unknown", unknown),
    ];
    (repo, named.to_vec())
}

/// The rest of a request after its first want. `{tip}` is the id of the tip.
const RESTS: [&[&str]; 7] = [
    &["0000", "done\n"],
    &["0000", "have {tip}\n", "done\n"],
    &["0000", "have {tip}\n", "0000"],
    &["deepen 1\n", "0000", "done\n"],
    &["deepen-not refs/hidden/a\n", "0000", "done\n"],
    &["filter blob:none\n", "0000", "done\n"],
    &["want {tip}\n", "0000", "done\n"],
];

const SETTINGS: [&[(&str, &str)]; 6] = [
    &[("transfer.hideRefs", "refs/hidden")],
    &[("transfer.hideRefs", "refs/hidden"), ("uploadpack.allowTipSHA1InWant", "true")],
    &[("transfer.hideRefs", "refs/hidden"), ("uploadpack.allowReachableSHA1InWant", "true")],
    &[("transfer.hideRefs", "refs/hidden"), ("uploadpack.allowAnySHA1InWant", "true")],
    &[("uploadpack.hideRefs", "refs"), ("uploadpack.hideRefs", "HEAD"), ("uploadpack.allowFilter", "true")],
    &[("uploadpack.packObjectsHook", "exec"), ("transfer.hideRefs", "refs/hidden")],
];

#[test]
fn what_is_given_and_what_is_refused_is_as_by_git() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        // The formats differ in how refs are found, and not in what settings mean.
        for settings in SETTINGS.into_iter().take(if format == RefFormat::Files { SETTINGS.len() } else { 1 }) {
            let (repo, named) = repository(format, settings);
            let server = Options::root(repo.scratch()).start();
            let tip = named[0].1;
            for (name, id) in &named {
                for rest in RESTS {
                    let rest = rest.iter().map(|line| line.replace("{tip}", &tip.to_string()));
                    let first = format!("want {id} include-tag no-progress ofs-delta\n");
                    let lines: Vec<String> = [first].into_iter().chain(rest).collect();
                    let lines: Vec<&str> = lines.iter().map(|line| &line[..]).collect();
                    let body = packets(&lines);
                    let gits = upload_pack(repo.git_dir(), &server.home, "", Some(&body));
                    let ours = server.ask(&Request::post("repo", "git-upload-pack", body));
                    assert_eq!(ours.status, 200);
                    let same = String::from_utf8_lossy(&ours.body) == String::from_utf8_lossy(&gits);
                    assert!(same, "{format:?} {settings:?} {name} {lines:?}: {:?} {:?}", ours.text(), gits.len());
                }
            }
        }
    }
}
