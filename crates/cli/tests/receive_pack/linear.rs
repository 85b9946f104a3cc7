//! The cost of a push is linear in each of its parts, and the number of programs that it starts does not depend on
//! them.

use crate::{
    common::{REFDB, hook},
    crafted::{Kind, Pack, change, commit, request, tag, tree},
};
use refdb_testkit::{Git, RefFormat, Repo, every};
use refdb_types::{HashKind, ObjectId};
use std::{fmt::Write as _, io::Write as _, os::unix::fs::PermissionsExt, process::Stdio};

/// The parts of a push that a client, or the server's configuration, can multiply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Commands,
    ChangedCommands,
    Objects,
    TreeEntries,
    Commits,
    Parents,
    Tags,
    RefsToTags,
    PushOptions,
    HiddenPatterns,
}

const PARTS: [Part; 10] = [
    Part::Commands,
    Part::ChangedCommands,
    Part::Objects,
    Part::TreeEntries,
    Part::Commits,
    Part::Parents,
    Part::Tags,
    Part::RefsToTags,
    Part::PushOptions,
    Part::HiddenPatterns,
];

const ONE: [(&str, usize); 1] = [("refs/heads/main", 0)];

/// Returns a push with `count` of a part: its pack, objects for refs, and the refs to create with the indices of
/// their objects. Push options and hidden patterns are not in the pack.
fn pack(part: Part, count: usize) -> (Vec<u8>, Vec<ObjectId>, Vec<(String, usize)>) {
    let mut pack = Pack::default();
    let blob = pack.whole(Kind::Blob, b"file");
    let root = pack.whole(Kind::Tree, &tree(&[("100644", "f", blob)]));
    let first = pack.whole(Kind::Commit, &commit(root, &[], "first"));
    let one = |id| (vec![id], ONE.map(|(name, at)| (name.to_owned(), at)).to_vec());
    let names: Vec<_> = (0..count).map(|at| format!("{at:06}")).collect();
    let (ids, refs) = match part {
        Part::Commands | Part::ChangedCommands => {
            (vec![first], names.iter().map(|name| (format!("refs/heads/{name}"), 0)).collect())
        }
        Part::Objects | Part::TreeEntries => {
            let blobs = names.iter().map(|name| match part {
                Part::Objects => pack.whole(Kind::Blob, name.as_bytes()),
                _ => blob,
            });
            let blobs: Vec<_> = blobs.collect();
            let entries: Vec<_> = names.iter().zip(blobs).map(|(name, id)| ("100644", &name[..], id)).collect();
            let root = pack.whole(Kind::Tree, &tree(&entries));
            one(pack.whole(Kind::Commit, &commit(root, &[], "many files")))
        }
        Part::Commits => {
            one(names.iter().fold(first, |last, name| pack.whole(Kind::Commit, &commit(root, &[last], name))))
        }
        Part::Parents => {
            let parents: Vec<_> = names.iter().map(|name| pack.whole(Kind::Commit, &commit(root, &[], name))).collect();
            one(pack.whole(Kind::Commit, &commit(root, &parents, "merge")))
        }
        Part::Tags | Part::RefsToTags => {
            let (mut ids, mut last, mut kind) = (Vec::new(), first, Kind::Commit);
            for name in &names {
                last = pack.whole(Kind::Tag, &tag(last, kind, name));
                kind = Kind::Tag;
                ids.push(last);
            }
            let refs = (0..count).map(|at| (format!("refs/tags/{at:06}"), at));
            let refs: Vec<_> = if part == Part::Tags { refs.skip(count - 1).collect() } else { refs.collect() };
            (ids, refs)
        }
        Part::PushOptions | Part::HiddenPatterns => one(first),
    };
    (pack.finish(), ids, refs)
}

fn server(part: Part, count: usize) -> Repo {
    let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    server.config("receive.autogc", "false");
    server.config("receive.advertisePushOptions", "true");
    server.config("receive.denyNonFastForwards", "true");
    if part == Part::HiddenPatterns {
        let mut config = String::from("[receive]\n");
        (0..count).for_each(|at| _ = writeln!(config, "\thideRefs = refs/hidden/{at:06}"));
        let path = server.git_dir().join("config");
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + &config).unwrap();
    }
    hook(&server, "post-receive", "cut -d' ' -f14,15 /proc/$PPID/stat >ticks");
    server
}

/// Returns the request with `count` push options between its commands and its pack.
fn with_options(bytes: &[u8], count: usize) -> Vec<u8> {
    let line_len = usize::from_str_radix(str::from_utf8(&bytes[..4]).unwrap(), 16).unwrap();
    let line = [&bytes[4..line_len], b" push-options"].concat();
    let mut all = [format!("{:04x}", line.len() + 4).as_bytes(), &line, b"0000"].concat();
    (0..count).for_each(|at| all.extend_from_slice(format!("000d{at:08}\n").as_bytes()));
    all.extend_from_slice(&bytes[line_len..]);
    all
}

/// Sends a push, and returns the processor time that refdb itself used until its post-receive hook, in hundredths of a
/// second, and the number of git programs that refdb started.
fn send(server: &Repo, bytes: &[u8]) -> (u64, usize) {
    let (file, notes) = (server.scratch().join("noting-git"), server.scratch().join("gits"));
    let git = Git::find().program().display();
    std::fs::write(&file, format!("#!/bin/sh\necho >>'{}'\nexec '{git}' \"$@\"\n", notes.display())).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = server.command(REFDB);
    command.env("REFDB_GIT", &file).args(["receive-pack", "--stateless-rpc"]).arg(server.dir());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("unpack ok") && !said.contains("ng "), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let ticks = std::fs::read_to_string(server.git_dir().join("ticks")).unwrap();
    let ticks = ticks.split_whitespace().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    let gits = std::fs::read(&notes).map_or(0, |lines| lines.len());
    std::fs::remove_file(notes).ok();
    (ticks, gits)
}

fn cost(part: Part, count: usize) -> (u64, usize) {
    let server = server(part, count);
    let (pack, ids, refs) = pack(part, count);
    let refs: Vec<_> = refs.iter().map(|(name, at)| (&name[..], ids[*at])).collect();
    let created = request(&refs, pack);
    match part {
        Part::PushOptions => send(&server, &with_options(&created, count)),
        Part::ChangedCommands => {
            send(&server, &created);
            let mut pack = Pack::default();
            let blob = pack.whole(Kind::Blob, b"file");
            let root = pack.whole(Kind::Tree, &tree(&[("100644", "f", blob)]));
            let next = pack.whole(Kind::Commit, &commit(root, &[refs[0].1], "next"));
            let changes: Vec<_> = refs.iter().map(|(name, old)| (*name, *old, next)).collect();
            send(&server, &change(&changes, pack.finish()))
        }
        _ => send(&server, &created),
    }
}

#[test]
fn ten_times_as_many_parts_cost_a_push_no_more_than_thirteen_times_as_much_and_no_more_programs() {
    for part in PARTS.into_iter().step_by(every(3)) {
        let (empty, _) = cost(part, 1);
        let (few, few_gits) = cost(part, 1_000);
        let (many, many_gits) = cost(part, 10_000);
        // A tick is a hundredth of a second. Fewer than five are too few to compare, so they count as five.
        let (few, many) = (few.saturating_sub(empty).max(5), many.saturating_sub(empty));
        assert!(many <= 13 * few, "{part:?}: {few} ticks for 1,000, {many} for 10,000");
        assert_eq!(many_gits, few_gits, "{part:?}: programs");
    }
}
