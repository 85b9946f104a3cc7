//! Pushes that are damaged, invalid or expensive to receive.

use crate::crafted::{Kind, Pack, commit, id_of, request, tag, tree};
use refdb_types::{HashKind, ObjectId};

/// A push: its name, and the bytes that the client sends.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// Returns all cases. `size` is about the number of whatever a case has many of.
pub(crate) fn cases(size: usize) -> Vec<Case> {
    let named = [packs(size), damaged(), contents(size), requests(size)].concat();
    named.into_iter().map(|(name, bytes)| Case { name, bytes }).collect()
}

type Named = Vec<(&'static str, Vec<u8>)>;

const MAIN: &str = "refs/heads/main";

/// Returns a pack with a commit of an empty tree, and the commit's id.
fn small() -> (Pack, ObjectId) {
    let mut pack = Pack::default();
    let root = pack.whole(Kind::Tree, b"");
    let new = pack.whole(Kind::Commit, &commit(root, &[], "c"));
    (pack, new)
}

fn to_main(pack: Pack, new: ObjectId) -> Vec<u8> {
    request(&[(MAIN, new)], pack.finish())
}

/// Returns pushes of packs whose objects refer to each other in unusual ways.
fn packs(size: usize) -> Named {
    let empty_tree = id_of(Kind::Tree, b"");
    let missing = id_of(Kind::Blob, b"nowhere");

    let mut thin = Pack::default();
    let new = thin.delta(Kind::Commit, &commit(empty_tree, &[], "base"), &commit(empty_tree, &[], "base and more"));
    let mut circular = Pack::default();
    let (first, second) = (tree(&[("100644", "a", missing)]), tree(&[("100644", "b", missing)]));
    circular.delta(Kind::Tree, &first, &second);
    circular.delta(Kind::Tree, &second, &first);
    let in_circle = circular.whole(Kind::Commit, &commit(id_of(Kind::Tree, &first), &[], "c"));
    let (mut twice, same) = small();
    twice.whole(Kind::Tree, b"");
    twice.whole(Kind::Commit, &commit(empty_tree, &[], "c"));

    let (mut chain, mut base) = (Pack::default(), commit(empty_tree, &[], "0"));
    chain.whole(Kind::Tree, b"");
    let mut last = chain.whole(Kind::Commit, &base);
    for at in 1..size {
        let next = commit(empty_tree, &[], &at.to_string());
        last = chain.delta(Kind::Commit, &base, &next);
        base = next;
    }
    let (mut tags, mut tagged) = small();
    let mut kind = Kind::Commit;
    for _ in 0..size {
        tagged = tags.whole(Kind::Tag, &tag(tagged, kind, "t"));
        kind = Kind::Tag;
    }
    let (mut history, mut tip) = small();
    for _ in 0..size {
        tip = history.whole(Kind::Commit, &commit(empty_tree, &[tip], "c"));
    }
    vec![
        ("thin, without its base", to_main(thin, new)),
        ("deltas in a circle", to_main(circular, in_circle)),
        ("objects twice", to_main(twice, same)),
        ("a long chain of deltas", to_main(chain, last)),
        ("tags of tags", request(&[("refs/tags/t", tagged)], tags.finish())),
        ("a long history", to_main(history, tip)),
    ]
}

/// Returns pushes of damaged packs.
fn damaged() -> Named {
    let (pack, new) = small();
    let whole = pack.finish();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut pack = whole.clone();
        change(&mut pack);
        request(&[(MAIN, new)], pack)
    };
    vec![
        ("cut off", with(&|pack| pack.truncate(pack.len() - 30))),
        ("data behind the pack", with(&|pack| pack.extend(vec![b'z'; 700_000]))),
        ("no pack", with(&|pack| pack.clear())),
        ("a count too high", with(&|pack| pack[11] += 1)),
        ("a count too low", with(&|pack| pack[11] -= 1)),
        ("an enormous count", with(&|pack| pack[8] = 0xff)),
        ("a wrong checksum", with(&|pack| *pack.last_mut().unwrap() ^= 1)),
        ("an unknown version", with(&|pack| pack[7] = 9)),
        ("an impossible kind of object", with(&|pack| pack[12] |= 0x70)),
    ]
}

/// Returns pushes of packs with objects that are large, wide or deep.
fn contents(size: usize) -> Named {
    let mut deep = Pack::default();
    let blob = deep.whole(Kind::Blob, b"f");
    let mut below = deep.whole(Kind::Tree, &tree(&[("100644", "f", blob)]));
    for _ in 0..size {
        below = deep.whole(Kind::Tree, &tree(&[("40000", "d", below)]));
    }
    let nested = deep.whole(Kind::Commit, &commit(below, &[], "deep"));

    let mut wide = Pack::default();
    let blob = wide.whole(Kind::Blob, b"f");
    let names: Vec<_> = (0..size).map(|at| format!("f{at:06}")).collect();
    let entries: Vec<_> = names.iter().map(|name| ("100644", &name[..], blob)).collect();
    let root = wide.whole(Kind::Tree, &tree(&entries));
    let of_many = wide.whole(Kind::Commit, &commit(root, &[], "wide"));

    let (mut parents, one) = small();
    let empty_tree = id_of(Kind::Tree, b"");
    let ids: Vec<_> =
        (0..size).map(|at| parents.whole(Kind::Commit, &commit(empty_tree, &[one], &at.to_string()))).collect();
    let octopus = parents.whole(Kind::Commit, &commit(empty_tree, &ids, "octopus"));

    let mut named = vec![
        ("deep trees", to_main(deep, nested)),
        ("a wide tree", to_main(wide, of_many)),
        ("many parents", to_main(parents, octopus)),
    ];
    // About 6 MiB in `make test`, and about 300 MiB otherwise.
    let times = size.max(200);
    for (kind, is_delta, name) in [
        (Kind::Commit, false, "a huge commit"),
        (Kind::Commit, true, "a huge commit as a delta"),
        (Kind::Tag, false, "a huge tag"),
        (Kind::Tag, true, "a huge tag as a delta"),
    ] {
        let (mut pack, one) = small();
        let start = if kind == Kind::Commit { commit(empty_tree, &[], "h") } else { tag(one, Kind::Commit, "h") };
        let rest = vec![b'x'; 0x8000];
        let huge = if is_delta {
            pack.repeating(kind, &start, &rest, times)
        } else {
            pack.whole(kind, &[start, rest.repeat(times)].concat())
        };
        let to = if kind == Kind::Commit { MAIN } else { "refs/tags/huge" };
        named.push((name, request(&[(to, huge)], pack.finish())));
    }
    named
}

/// Returns requests with odd lines before a good pack.
fn requests(size: usize) -> Named {
    let (_, new) = small();
    let zero = ObjectId::null(HashKind::Sha1);
    let line = |text: &[u8]| [format!("{:04x}", text.len() + 4).as_bytes(), text].concat();
    let command = |name: &str, capabilities: &str| line(format!("{zero} {new} {name}\0{capabilities}").as_bytes());
    let pack = || small().0.finish();
    let whole = |parts: &[&[u8]]| [parts.concat(), pack()].concat();
    let names: Vec<_> = (0..size).map(|at| format!("refs/heads/b{at:06}")).collect();
    let many: Vec<_> = names.iter().map(|name| (&name[..], new)).collect();
    let nested: Vec<_> = (1..=size.min(400)).map(|depth| format!("refs/heads{}", "/x".repeat(depth))).collect();
    let nested: Vec<_> = nested.iter().map(|name| (&name[..], new)).collect();
    let main = command(MAIN, "report-status");
    let options: Vec<u8> = (0..size).flat_map(|at| line(format!("option {at}").as_bytes())).collect();
    let mut named = vec![
        ("many commands", request(&many, pack())),
        ("one ref twice", request(&[(MAIN, new), (MAIN, new)], pack())),
        ("a ref within another", request(&[("refs/heads/a", new), ("refs/heads/a/b", new)], pack())),
        ("each ref within the one before", request(&nested, pack())),
        ("push options", whole(&[&command(MAIN, "report-status push-options"), b"0000", &options, b"0000"])),
        ("capabilities twice", whole(&[&command(MAIN, &"report-status atomic ".repeat(50)), b"0000"])),
        ("shallow lines", whole(&[&line(format!("shallow {new}").as_bytes()).repeat(100), &main, b"0000"])),
        (
            "atomic with a bad name",
            whole(&[&command(MAIN, "report-status atomic"), &command("refs/heads/..", ""), b"0000"]),
        ),
        ("a length of three", whole(&[&main, b"0003", b"0000"])),
        ("a length that is no number", whole(&[&main, b"zzzz", b"0000"])),
        ("a delimiter", whole(&[&main, b"0001", b"0000"])),
        ("no end of the commands", whole(&[&main])),
        ("an empty line", whole(&[&main, b"0004", b"0000"])),
    ];
    for (what, name) in [
        ("HEAD", "HEAD"),
        ("no folder", "main"),
        ("dots", "refs/heads/../../x"),
        ("a lock", "refs/heads/a.lock"),
        ("packed-refs", "packed-refs"),
        ("config", "config"),
        ("an empty part", "refs//heads"),
        ("a space", "refs/heads/a b"),
        ("nothing", ""),
    ] {
        named.push((what, request(&[(name, new)], pack())));
    }
    named
}
