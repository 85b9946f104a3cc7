//! Many refs at once: proofs of listings, and refs by object when not everything fits in memory.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use bstr::{BStr, BString};
use common::{each, listed, open, open_at, prefixed, unsynced};
use refdb::TargetView;
use refdb_refcache::{ListOptions, Row, TrustSettings, View, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{collections::BTreeMap, fs, ops::ControlFlow, thread, time::Duration};

/// Longer than the time for which the time stamp of a changed file proves nothing, so that the file is read again.
const TOO_RECENT: Duration = Duration::from_millis(100);

fn proof(view: &View) -> Vec<u8> {
    view.list(&ListOptions::default()).unwrap().proof().unwrap()
}

#[test]
fn a_listing_has_another_ones_proof_only_if_it_has_the_same_rows() {
    each(|repo| {
        let ids = repo.commits(2);
        let refs = |at: usize| ids[at].to_string();
        repo.git(["update-ref", "refs/heads/a", &refs(0)]);
        repo.git(["update-ref", "refs/heads/b", &refs(0)]);
        repo.git(["pack-refs", "--all"]);
        let view = open(repo);
        let mut seen = vec![(proof(&view), listed(&view, &ListOptions::default()))];
        for change in [
            vec!["update-ref", "refs/heads/a", &refs(1)],
            vec!["update-ref", "refs/heads/c", &refs(1)],
            vec!["symbolic-ref", "refs/heads/d", "refs/heads/a"],
            vec!["symbolic-ref", "refs/heads/d", "refs/heads/b"],
            vec!["update-ref", "-d", "refs/heads/c"],
            vec!["pack-refs", "--all"],
            vec!["update-ref", "-d", "refs/heads/b"],
            vec!["update-ref", "refs/heads/a", &refs(0)],
        ] {
            repo.git(&change);
            let now = (proof(&view), listed(&view, &ListOptions::default()));
            for (proof, rows) in &seen {
                assert!(*proof != now.0 || *rows == now.1, "{change:?}");
            }
            seen.push(now);
        }
        thread::sleep(TOO_RECENT);
        proof(&view);
        assert_eq!(proof(&view), proof(&view), "nothing has changed since");
    });
}

#[test]
fn a_listing_of_a_repository_that_was_replaced_has_another_proof() {
    each(|repo| {
        let id = repo.commit().to_string();
        repo.git(["update-ref", "refs/heads/a", &id]);
        let view = open_at(repo.git_dir());
        let before = proof(&view);
        let other = if repo.format() == RefFormat::Files { "reftable" } else { "files" };
        repo.git(["refs", "migrate", &format!("--ref-format={other}")]);
        assert_ne!(proof(&view), before);
    });
}

/// Previously, looking for refs by object all over a large file filled the memory with its pages, until the index
/// itself was dropped and built again. Every second query at 1.5 million refs thus cost as much as reading the file.
#[test]
fn the_index_of_objects_is_not_given_up_because_refs_all_over_the_file_were_found() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    const REFS: usize = 20_000;
    let id = |at: usize| {
        let mut raw = [0x5a; 20];
        raw[..8].copy_from_slice(&(at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        ObjectId::from_bytes(HashKind::Sha1, &raw).unwrap()
    };
    let mut text = String::from("# pack-refs with: peeled fully-peeled sorted \n");
    for at in 0..REFS {
        text += &format!("{} refs/changes/{at:06}/meta\n", id(at));
    }
    fs::write(repo.git_dir().join("packed-refs"), text).unwrap();
    thread::sleep(TOO_RECENT);
    // The limit is less than the 1.3 MB of the file.
    let views = Views::new(&ViewsSettings::new().memory_bytes(1 << 20));
    let view = views.open(repo.git_dir(), &unsynced(TrustSettings::default())).unwrap();
    for round in 0..400 {
        let at = round * 7919 % REFS;
        assert_eq!(view.pointing_at(&id(at)).unwrap(), [format!("refs/changes/{at:06}/meta")]);
    }
    assert_eq!(view.stats().loads, 1, "the index was made once");
    assert!(view.stats().bytes < 400_000, "{} bytes", view.stats().bytes);
}

#[test]
fn an_object_with_very_many_refs_is_left_out_where_few_are_asked_for() {
    each(|repo| {
        let ids = repo.commits(3);
        repo.create_refs((0..1000).map(|at| (format!("refs/heads/{at:04}"), ids[0])));
        repo.create_refs([("refs/heads/a", ids[1]), ("refs/heads/b", ids[1])]);
        repo.git(["pack-refs", "--all"]);
        let view = open(repo);
        let few = |most| view.few_pointing_at_each(&ids, most).unwrap();
        let names: Vec<BString> = vec!["refs/heads/a".into(), "refs/heads/b".into()];
        for most in [2, 100, 999] {
            assert_eq!(few(most), [(ids[1], names.clone()), (ids[2], Vec::new())].into(), "{most}");
        }
        assert_eq!(few(1), [(ids[2], Vec::new())].into());
        assert_eq!(few(1000)[&ids[0]].len(), 1000);
        assert_eq!(few(1000), view.pointing_at_each(&ids).unwrap());
    });
}

/// The refs of one change, which Gerrit asks for all the time, come from memory. Every loose ref still counts: a new
/// one, one that hides a packed one, and one in a new folder.
#[test]
fn the_refs_of_a_folder_of_many_are_the_loose_ones_over_the_packed_ones() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let (ids, refs) = (repo.commits(2), 3000);
    let name = |at: usize, last: &str| format!("refs/changes/{:02}/{at:05}/{last}", at / 100);
    let mut text = String::from("# pack-refs with: peeled fully-peeled sorted \n");
    for at in 0..refs {
        text += &format!("{} {}\n{} {}\n", ids[0], name(at, "1"), ids[0], name(at, "meta"));
    }
    fs::write(repo.git_dir().join("packed-refs"), text).unwrap();
    thread::sleep(TOO_RECENT);
    let view = open(&repo);
    let change = |at: usize| {
        let rows = listed(&view, &prefixed(&[&name(at, "")]));
        rows.into_iter().map(|(name, target)| (name.to_string(), target.id().unwrap())).collect::<Vec<_>>()
    };
    let packed = |at: usize| vec![(name(at, "1"), ids[0]), (name(at, "meta"), ids[0])];
    // The first time the refs come from text, then from the block that is made of the page when it is wanted again.
    for at in (0..4 * refs).map(|at| at / 4) {
        assert_eq!(change(at), packed(at));
    }
    let before = view.stats().bytes;
    for at in 0..refs {
        change(at);
    }
    assert_eq!(view.stats().bytes, before, "nothing more is read");
    let [one, meta] = &packed(7)[..] else { unreachable!() };
    for new in ["0", "10", "z/y"] {
        repo.git(["update-ref", &name(7, new), &ids[1].to_string()]);
        let mut expected = vec![(name(7, new), ids[1]), one.clone(), meta.clone()];
        expected.sort();
        assert_eq!(change(7), expected);
        assert_eq!(change(8), packed(8));
        repo.git(["update-ref", "-d", &name(7, new)]);
        assert_eq!(change(7), packed(7));
    }
    let newer = [(name(7, "1"), ids[1]), meta.clone()];
    repo.git(["update-ref", &name(7, "1"), &ids[1].to_string()]);
    assert_eq!(change(7), newer);
    repo.git(["pack-refs", "--all"]);
    assert_eq!(change(7), newer);
    assert_eq!(change(refs), []);
}

/// Packed refs are read in parts of 64 KiB. Wherever a part ends, each loose ref once hides the packed one and once
/// follows it.
#[test]
fn loose_refs_are_listed_in_their_places_wherever_a_part_of_packed_refs_ends() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let (ids, refs, step) = (repo.commits(2), 5000, 9);
    let name = |at: usize| format!("refs/heads/{at:04}");
    let packed: String = (0..refs).map(|at| format!("{} {}\n", ids[0], name(at))).collect();
    let text = format!("# pack-refs with: peeled fully-peeled sorted \n{packed}");
    fs::write(repo.git_dir().join("packed-refs"), text).unwrap();
    let loose = |name: &str| fs::write(repo.git_dir().join(name), format!("{}\n", ids[1])).unwrap();
    for (shift, hides) in (0..step).flat_map(|shift| [(shift, true), (shift, false)]) {
        fs::remove_dir_all(repo.git_dir().join("refs/heads")).unwrap();
        fs::create_dir(repo.git_dir().join("refs/heads")).unwrap();
        let mut expected: BTreeMap<String, ObjectId> = (0..refs).map(|at| (name(at), ids[0])).collect();
        for at in (shift..refs).step_by(step) {
            let new = if hides { name(at) } else { format!("{}x", name(at)) };
            loose(&new);
            expected.insert(new, ids[1]);
        }
        let view = open(&repo);
        let mut read = Vec::new();
        let mut listing = view.list(&ListOptions::default()).unwrap();
        let take = &mut |row: &Row<'_>| {
            let TargetView::Direct(id) = row.target else { unreachable!("none is symbolic") };
            read.push((row.name.to_string(), id));
            ControlFlow::Continue(())
        };
        listing.each(take).unwrap();
        assert!(read.iter().map(|(name, id)| (name, id)).eq(&expected), "all at once, shift {shift}");
        let one_by_one = listed(&view, &ListOptions::default()).into_iter();
        let one_by_one = one_by_one.map(|(name, target)| (name.to_string(), target.id().unwrap()));
        assert!(one_by_one.eq(expected), "one by one, shift {shift}");
    }
}

/// A prefix is not taken for a path: one with `..`, `.` or an empty part lists nothing, even where that path has refs.
#[test]
fn a_prefix_with_dots_lists_nothing_of_other_folders() {
    each(|repo| {
        let id = repo.commit().to_string();
        repo.git(["update-ref", "refs/heads/a", &id]);
        let view = open(repo);
        for prefix in ["refs/../refs/heads/", "refs/heads/../heads/", "refs//heads/", "refs/./heads/", "refs/heads/a/"]
        {
            assert_eq!(listed(&view, &prefixed(&[prefix])), [], "{prefix}");
        }
    });
}

/// Each change has a folder, as in Gerrit. From some number on, several threads look at the folders.
#[test]
fn loose_refs_in_many_folders_are_all_found_and_a_folder_that_cannot_be_read_is_told_of() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(3);
    let name =
        |at: usize| format!("refs/changes/{:02}/{at}/{}", at / 2 % 50, if at.is_multiple_of(2) { "1" } else { "meta" });
    repo.create_refs((0..1000).map(|at| (name(at), ids[at % 3])));
    let git = || -> Vec<String> {
        let text = repo.git(["for-each-ref", "--format=%(refname) %(objectname)"]);
        text.lines().map(str::to_owned).collect()
    };
    let view = open(&repo);
    let ours = || -> Vec<String> {
        let refs = listed(&view, &ListOptions::default()).into_iter();
        refs.map(|(name, target)| format!("{name} {}", target.id().unwrap())).collect()
    };
    assert_eq!((ours().len(), ours()), (1000, git()));
    for at in [0, 500, 999] {
        repo.git(["update-ref", &name(at), &ids[at % 3 + if at % 3 == 2 { 0 } else { 1 }].to_string()]);
    }
    repo.git(["update-ref", "-d", &name(77)]);
    assert_eq!((ours().len(), ours()), (999, git()));
    // A file takes the place of one of the folders.
    fs::remove_dir_all(repo.git_dir().join("refs/changes/07")).unwrap();
    fs::write(repo.git_dir().join("refs/changes/07"), "no ref").unwrap();
    let begun = ours();
    assert_eq!(begun.len(), 979);
    assert!(!begun.iter().any(|line| line.contains("/07/")));
    assert!(view.pointing_at(&ids[0]).unwrap().len() > 300);
}

/// Saves a setting that has nothing to do with refs.
fn save_a_setting(repo: &Repo, value: &str) {
    repo.git(["config", "test.value", value]);
}

#[test]
fn a_saved_configuration_was_taken_for_a_change_of_refs() {
    each(|repo| {
        let ids = repo.commits(2);
        repo.git(["update-ref", "refs/heads/a", &ids[0].to_string()]);
        let view = open(repo);
        let every = ListOptions::default();
        listed(&view, &every);
        let before = view.version();
        for value in ["one", "two"] {
            save_a_setting(repo, value);
            // A question about reflogs looks at the settings, in both formats.
            view.has_log(BStr::new("HEAD")).unwrap();
            listed(&view, &every);
            assert_eq!(view.version(), before, "{value}");
        }
        assert_eq!(view.stats().reopens, 2, "the settings were read again");
    });
}

/// A change of refs that comes with a saved configuration is found by comparing with what was known before.
#[test]
fn a_change_of_refs_beside_a_saved_configuration_is_found() {
    each(|repo| {
        let ids = repo.commits(2);
        let (one, two) = (ids[0].to_string(), ids[1].to_string());
        repo.git(["update-ref", "refs/heads/a", &one]);
        repo.git(["update-ref", "refs/heads/b", &one]);
        repo.git(["pack-refs", "--all"]);
        repo.git(["update-ref", "refs/heads/b", &two]);
        let view = open(repo);
        let every = ListOptions::default();
        for (at, change) in [
            vec!["update-ref", "refs/heads/a", &two],
            vec!["update-ref", "refs/heads/b", &one],
            vec!["update-ref", "refs/heads/c", &one],
            vec!["update-ref", "-d", "refs/heads/a"],
            vec!["symbolic-ref", "HEAD", "refs/heads/b"],
        ]
        .iter()
        .enumerate()
        {
            listed(&view, &every);
            common::direct(&view, "HEAD");
            let before = view.version();
            save_a_setting(repo, &at.to_string());
            repo.git(change);
            view.has_log(BStr::new("HEAD")).unwrap();
            common::direct(&view, "HEAD");
            listed(&view, &every);
            assert!(view.version() > before, "{change:?}");
        }
    });
}
