//! Objects and packs that git only just accepts or refuses, for example deep trees, huge contents, and packs that name
//! an object twice.

use crate::{
    common::{REFDB, hook, quarantines},
    crafted::{Kind, Pack, commit, id_of, request, tag, tree},
    trouble::{feed, send},
};
use refdb_testkit::{Git, RefFormat, Repo, every};
use refdb_types::{HashKind, ObjectId};
use std::path::Path;

fn server() -> Repo {
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    server.config("receive.autogc", "false");
    server
}

/// Returns a pack and a commit whose deepest tree lies `depth` levels below its root tree. With `shortcut`, the root
/// tree also names the tree in the middle, so that a shorter path leads to the deepest tree as well.
fn nested(depth: usize, shortcut: bool) -> (Pack, ObjectId) {
    let mut pack = Pack::default();
    let blob = pack.whole(Kind::Blob, b"deep");
    let mut below = pack.whole(Kind::Tree, &tree(&[("100644", "f", blob)]));
    let mut middle = below;
    for at in 1..depth {
        below = pack.whole(Kind::Tree, &tree(&[("40000", "d", below)]));
        if at == depth / 2 {
            middle = below;
        }
    }
    let mut entries = vec![("40000", "d", below)];
    if shortcut {
        entries.insert(0, ("40000", "a", middle));
    }
    let root = pack.whole(Kind::Tree, &tree(&entries));
    let commit = pack.whole(Kind::Commit, &commit(root, &[], "deep"));
    (pack, commit)
}

#[test]
fn a_tree_deeper_than_git_walks_is_not_let_in() {
    for (setting, limit) in [(None, 2048), (Some("100"), 100), (Some("4000"), 4000)] {
        for depth in [limit - 1, limit, limit + 1] {
            for shortcut in [false, true] {
                let (pack, commit) = nested(depth, shortcut);
                let bytes = request(&[("refs/heads/main", commit)], pack.finish());
                let said = [Git::find().program(), Path::new(REFDB)].map(|program| {
                    let server = server();
                    if let Some(setting) = setting {
                        server.config("core.maxTreeDepth", setting);
                    }
                    String::from_utf8_lossy(&feed(&server, program, &bytes).stdout).into_owned()
                });
                assert_eq!(said[1], said[0], "depth {depth}, limit {limit}, shortcut: {shortcut}");
                // Git counts the levels of the path on which it first meets a tree.
                let is_let_in = depth <= limit || shortcut;
                assert_eq!(said[0].contains("ok refs/heads/main"), is_let_in, "depth {depth}, limit {limit}");
            }
        }
    }
}

/// Starts of tree entries, up to the id, and whether git walks the tree.
const STARTS: [(&[u8], bool); 16] = [
    (b"100644 f\0", true),
    (b"0000000000000000000000100664 f\0", true),
    (b"4000000100644 f\0", true),
    (b"100644 ../f\n\0", true),
    (b"0 f\0", true),
    (b"140000 f\0", true),
    (b"100644 \0", false),
    (b" f\0", false),
    (b" \0", false),
    (b" 100644 f\0", false),
    (b"100648 f\0", false),
    (b"0x1 f\0", false),
    (b"-100644 f\0", false),
    (b"100644\t f\0", false),
    (b"100644\0", false),
    (b"100644 f", false),
];

#[test]
fn a_tree_that_git_cannot_walk_is_not_let_in() {
    let blob_id = id_of(Kind::Blob, b"content");
    let good = tree(&[("100644", "e", blob_id)]);
    for (start, is_walked) in STARTS {
        let last = [start, blob_id.as_bytes()].concat();
        for (at, content) in
            [last.clone(), [&good[..], &last].concat(), last[..last.len() - 1].to_vec()].iter().enumerate()
        {
            let mut pack = Pack::default();
            pack.whole(Kind::Blob, b"content");
            let bad = pack.whole(Kind::Tree, content);
            let above = pack.whole(Kind::Tree, &tree(&[("40000", "d", bad)]));
            let new = pack.whole(Kind::Commit, &commit(if at == 1 { above } else { bad }, &[], "c"));
            let bytes = request(&[("refs/heads/main", new)], pack.finish());
            let said = [Git::find().program(), Path::new(REFDB)].map(|program| {
                let output = feed(&server(), program, &bytes);
                [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned())
            });
            let what = format!("{} {at}", start.escape_ascii());
            assert_eq!(said[1], said[0], "{what}");
            assert_eq!(said[0][0].contains("ok refs/heads/main"), is_walked && at < 2, "{what}: {:?}", said[0]);
        }
    }
}

const LARGE_BYTES: usize = 48 << 20;

/// Returns a start and a rest: an object of this kind is the start followed by the rest as often as fills
/// [`LARGE_BYTES`].
fn large(kind: Kind, beside: ObjectId) -> (Vec<u8>, Vec<u8>) {
    let letters = vec![b'x'; 0x8000];
    match kind {
        Kind::Commit => (commit(beside, &[], "large"), letters),
        Kind::Tag => (tag(beside, Kind::Tree, "large"), letters),
        Kind::Blob => (Vec::new(), letters),
        Kind::Tree => (Vec::new(), tree(&[("100644", &"f".repeat(2000), id_of(Kind::Blob, b"small"))]).repeat(8)),
    }
}

#[test]
fn no_content_fills_the_memory_that_the_walk_does_not_need() {
    const PEAK_MAX_KIB: u64 = 40 << 10;
    for kind in [Kind::Blob, Kind::Tree, Kind::Commit, Kind::Tag] {
        // In `make test` each kind is tried either whole or as a delta.
        for is_delta in [kind == Kind::Blob, kind != Kind::Blob].into_iter().take(3 - every(2)) {
            let mut pack = Pack::default();
            pack.whole(Kind::Blob, b"small");
            let small = pack.whole(Kind::Tree, &tree(&[("100644", "f", id_of(Kind::Blob, b"small"))]));
            let (start, rest) = large(kind, small);
            let times = LARGE_BYTES / rest.len();
            let large = if is_delta {
                pack.repeating(kind, &start, &rest, times)
            } else {
                pack.whole(kind, &[start, rest.repeat(times)].concat())
            };
            let tag = pack.whole(Kind::Tag, &tag(large, kind, "t"));
            let mode = if kind == Kind::Tree { "40000" } else { "100644" };
            let mut refs = vec![("refs/heads/unlike", large), ("refs/tags/tag", tag)];
            if kind == Kind::Commit {
                refs[0].0 = "refs/heads/main";
            } else if kind == Kind::Tag {
                refs[0].0 = "refs/tags/itself";
            } else {
                refs[0].0 = "refs/tags/itself";
                let root = pack.whole(Kind::Tree, &tree(&[(mode, "large", large)]));
                refs.push(("refs/heads/main", pack.whole(Kind::Commit, &commit(root, &[], "c"))));
            }
            let pack = pack.finish();
            for (name, id) in refs {
                let server = server();
                server.config("receive.unpackLimit", "1");
                hook(&server, "post-receive", "grep VmHWM /proc/$PPID/status >peak");
                let output = send(&server, &request(&[(name, id)], pack.clone()));
                let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
                let what = format!("{kind:?}, delta: {is_delta}, {name}");
                assert!(said.contains(&format!("ok {name}")), "{what}: {said}");
                let peak = std::fs::read_to_string(server.git_dir().join("peak")).unwrap();
                let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
                assert!(kib < PEAK_MAX_KIB, "{what}: {peak}");
            }
        }
    }
}

/// Returns a pack in which an object is stored whole and as a delta against another object, which is a delta against
/// the first.
pub(crate) fn circle() -> (Vec<u8>, ObjectId) {
    let mut pack = Pack::default();
    let blob = pack.whole(Kind::Blob, b"f");
    let first = tree(&[("100644", "a", blob)]);
    let second = tree(&[("100644", "a", blob), ("100644", "b", blob)]);
    pack.whole(Kind::Tree, &first);
    pack.delta(Kind::Tree, &first, &second);
    pack.delta(Kind::Tree, &second, &first);
    let new = pack.whole(Kind::Commit, &commit(id_of(Kind::Tree, &second), &[], "circle"));
    (pack.finish(), new)
}

#[test]
fn a_pack_that_names_an_object_twice_is_refused_before_git_walks_in_circles() {
    let (pack, new) = circle();
    let server = server();
    server.config("receive.unpackLimit", "1");
    server.config("receive.fsckObjects", "false");
    let output = send(&server, &request(&[("refs/heads/main", new)], pack));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("ng refs/heads/main unpacker error") && said.contains("twice"), "{said}");
    assert_eq!(server.refs(), []);
    assert!(quarantines(&server).is_empty());
}

#[test]
fn data_behind_a_pack_is_not_accepted_where_index_pack_reads_it() {
    for capabilities in ["report-status", "report-status side-band-64k"] {
        for behind in [0, 1, 3_000, 700_000] {
            let (pack, new) = nested(2, false);
            let bytes = [request(&[("refs/heads/main", new)], pack.finish()), vec![b'z'; behind]].concat();
            let bytes = if capabilities == "report-status" { bytes } else { with_side_band(&bytes) };
            let server = server();
            server.config("receive.unpackLimit", "1");
            let output = send(&server, &bytes);
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            let what = format!("{behind} bytes behind the pack, {capabilities}: {said}");
            assert_eq!(said.contains("ok refs/heads/main"), behind == 0, "{what}");
            assert_eq!(server.refs().is_empty(), behind > 0, "{what}");
            assert!(quarantines(&server).is_empty(), "{what}");
        }
    }
}

/// Adds the side-band capability to a request, whose first packet must be the only command.
pub(crate) fn with_side_band(bytes: &[u8]) -> Vec<u8> {
    let line_len = usize::from_str_radix(str::from_utf8(&bytes[..4]).unwrap(), 16).unwrap();
    let line = [&bytes[4..line_len], b" side-band-64k"].concat();
    [format!("{:04x}", line.len() + 4).as_bytes(), &line, &bytes[line_len..]].concat()
}

/// Returns the ticks of processor time that refdb itself takes to receive a commit whose tree has `length` files, each
/// a delta against the one before.
fn ticks_for_chain(length: usize) -> u64 {
    let mut pack = Pack::default();
    let content = |at: usize| format!("{}{at}", "a common start ".repeat(4)).into_bytes();
    let mut entries = vec![("100644", format!("{:06}", 0), pack.whole(Kind::Blob, &content(0)))];
    for at in 1..length {
        entries.push(("100644", format!("{at:06}"), pack.delta(Kind::Blob, &content(at - 1), &content(at))));
    }
    let entries: Vec<_> = entries.iter().map(|(mode, name, id)| (*mode, &name[..], *id)).collect();
    let root = pack.whole(Kind::Tree, &tree(&entries));
    let new = pack.whole(Kind::Commit, &commit(root, &[], "chain"));
    let server = server();
    server.config("receive.unpackLimit", "1");
    hook(&server, "post-receive", "cut -d' ' -f14,15 /proc/$PPID/stat >ticks");
    let output = send(&server, &request(&[("refs/heads/main", new)], pack.finish()));
    assert!(String::from_utf8_lossy(&output.stdout).contains("ok refs/heads/main"), "{length}");
    let ticks = std::fs::read_to_string(server.git_dir().join("ticks")).unwrap();
    ticks.split_whitespace().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_chain_of_deltas_costs_by_its_length_and_not_by_its_square() {
    // A tick is a hundredth of a second. Fewer than five count as five.
    let few = ticks_for_chain(1_000).max(5);
    let many = ticks_for_chain(10_000);
    assert!(many <= 13 * few, "{few} ticks for 1,000 objects, {many} for 10,000");
}
