//! Files that are truncated, replaced, out of order or garbage under a reader: each answer is right or an error, and
//! the view goes on when the files are whole again.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use bstr::BStr;
use common::{direct, names, open, prefixed};
use refdb_refcache::ListOptions;
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::fs;

/// Creates a repository with thousands of refs in one file.
fn filled(format: RefFormat) -> (Repo, Vec<String>) {
    let repo = Repo::bare(format, HashKind::Sha1);
    let ids = repo.commits(3);
    let names: Vec<String> = (0..8_000).map(|at| format!("refs/changes/{:02}/{at:05}/meta", at / 80)).collect();
    if format == RefFormat::Reftable {
        repo.create_refs(names.iter().enumerate().map(|(at, name)| (name, ids[at % 3])));
        repo.git(["pack-refs", "--all"]);
    } else {
        // Git would create a loose file for each of them first.
        let lines: String = names.iter().enumerate().map(|(at, name)| format!("{} {name}\n", ids[at % 3])).collect();
        let text = format!("# pack-refs with: peeled fully-peeled sorted \n{lines}");
        fs::write(repo.git_dir().join("packed-refs"), text).unwrap();
    }
    (repo, names)
}

fn big_file(repo: &Repo) -> std::path::PathBuf {
    match repo.format() {
        RefFormat::Files => repo.git_dir().join("packed-refs"),
        RefFormat::Reftable => {
            let tables = fs::read_dir(repo.git_dir().join("reftable")).unwrap().map(|entry| entry.unwrap().path());
            tables.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
        }
    }
}

#[test]
fn a_file_that_is_truncated_under_a_reader_is_an_error_and_not_the_end() {
    for format in RefFormat::ALL {
        let (repo, all) = filled(format);
        let view = open(&repo);
        assert!(direct(&view, &all[0]).is_some());
        let mut listing = view.list(&ListOptions::default()).unwrap();
        listing.next().unwrap();
        let path = big_file(&repo);
        let whole = fs::read(&path).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(whole.len() as u64 / 3).unwrap();
        let mut failures = 0;
        for name in all.iter().step_by(29) {
            match view.get(BStr::new(name)) {
                Ok(_) => {}
                Err(error) => {
                    failures += 1;
                    let file = path.file_name().unwrap().to_str().unwrap();
                    assert!(error.to_string().contains(file), "an error names the file: {error}");
                }
            }
        }
        assert!(failures > 0, "{format:?}: a truncated file gave answers all the same");
        let mut seen = 1;
        let end = loop {
            match listing.next() {
                Ok(Some(_)) => seen += 1,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        assert!(end.is_err() && seen < all.len(), "{format:?}: {seen} refs listed of a truncated file");
        // The right file is put in its place.
        let temporary = path.with_file_name("new");
        fs::write(&temporary, &whole).unwrap();
        fs::rename(&temporary, &path).unwrap();
        if format == RefFormat::Reftable {
            // A table is never changed, so it is not looked at again: the stack has to be opened anew.
            view.flush().unwrap();
        }
        assert!(all.iter().step_by(97).all(|name| direct(&view, name).is_some()));
        assert_eq!(names(&view, &prefixed(&["refs/changes/"])).len(), all.len());
    }
}

#[test]
fn a_file_that_is_replaced_under_a_listing_does_not_disturb_it() {
    for format in RefFormat::ALL {
        let (repo, all) = filled(format);
        let view = open(&repo);
        let mut listing = view.list(&ListOptions::default()).unwrap();
        listing.next().unwrap();
        repo.git(["update-ref", "-d", &all[5_000]]);
        repo.git(["pack-refs", "--all"]);
        let mut seen = 1;
        while listing.next().unwrap().is_some() {
            seen += 1;
        }
        assert_eq!(seen, all.len());
        assert_eq!(names(&view, &ListOptions::default()).len(), all.len() - 1);
    }
}

#[test]
fn a_packed_refs_changed_in_place_is_read_again() {
    let (repo, all) = filled(RefFormat::Files);
    let view = open(&repo);
    let ids = repo.commits(3);
    assert_eq!(direct(&view, &all[0]), Some(ids[0]));
    // The new content has the same length and is written immediately to the same inode, so that only the recent
    // timestamp says that the file may have changed.
    let path = repo.git_dir().join("packed-refs");
    let changed = String::from_utf8(fs::read(&path).unwrap()).unwrap();
    let changed = changed.replacen(&ids[0].to_string(), &ids[2].to_string(), 1);
    fs::write(&path, &changed).unwrap();
    assert_eq!(direct(&view, &all[0]), Some(ids[2]));
    fs::write(&path, changed.replacen(&ids[2].to_string(), &ids[1].to_string(), 1)).unwrap();
    assert_eq!(direct(&view, &all[0]), Some(ids[1]));
}

#[test]
fn a_loose_ref_changed_in_place_is_read_again_and_a_broken_one_is_named() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(8);
    let view = open(&repo);
    let path = repo.git_dir().join("refs/heads/main");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for id in &ids {
        fs::write(&path, format!("{id}\n")).unwrap();
        assert_eq!(direct(&view, "refs/heads/main"), Some(*id));
        assert_eq!(view.pointing_at(id).unwrap(), ["refs/heads/main"]);
    }
    fs::write(&path, "garbage\n").unwrap();
    let error = view.get("refs/heads/main".into()).unwrap_err().to_string();
    assert!(error.contains("refs/heads/main") && error.contains("reference broken"), "{error}");
    assert_eq!(direct(&view, "refs/heads/other"), None);
}

/// JGit writes packed-refs without the claim that the file is sorted, and such a file need not be sorted.
#[test]
fn a_packed_refs_that_does_not_say_it_is_sorted_is_read_right() {
    let (repo, mut all) = filled(RefFormat::Files);
    let ids = repo.commits(3);
    for is_sorted in [true, false] {
        if !is_sorted {
            all.reverse();
        }
        let text: String = all.iter().map(|name| format!("{} {name}\n", ids[0])).collect();
        fs::write(repo.git_dir().join("packed-refs"), format!("# pack-refs with: peeled \n{text}")).unwrap();
        let view = open(&repo);
        assert!(all.iter().step_by(501).all(|name| direct(&view, name) == Some(ids[0])));
        let mut listed = names(&view, &ListOptions::default());
        if !is_sorted {
            listed.reverse();
        }
        assert_eq!(listed, all);
        assert_eq!(view.pointing_at(&ids[0]).unwrap().len(), all.len());
    }
}

/// Moves 20 lines of a packed-refs that claims to be sorted to line `place` or to its end, and returns their names.
fn leave_disorder(repo: &Repo, place: usize) -> Vec<String> {
    let path = repo.git_dir().join("packed-refs");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let moved: Vec<&str> = lines.drain(300..320).collect();
    let place = place.min(lines.len());
    lines.splice(place..place, moved.iter().copied());
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    moved.iter().map(|line| line[41..].to_owned()).collect()
}

#[test]
fn a_packed_refs_that_is_not_sorted_though_it_says_so_is_listed_whole_and_then_believed_no_more() {
    for place in [4000, usize::MAX] {
        let (repo, mut all) = filled(RefFormat::Files);
        repo.git(["update-ref", &all[301], "refs/changes/00/00000/meta"]);
        let moved = leave_disorder(&repo, place);
        let id = direct(&open(&repo), &all[0]);
        for by_row in [true, false] {
            let view = open(&repo);
            let mut listing = view.list(&ListOptions::default()).unwrap();
            let mut listed: Vec<String> = Vec::new();
            if by_row {
                while let Some(row) = listing.next().unwrap() {
                    listed.push(row.name.to_string());
                }
            } else {
                let mut show = |row: &refdb_refcache::Row<'_>| {
                    listed.push(row.name.to_string());
                    std::ops::ControlFlow::Continue(())
                };
                listing.each(&mut show).unwrap();
            }
            listed.sort_unstable();
            all.sort_unstable();
            assert!(listed == all, "{place} {by_row}: {} of {}", listed.len(), all.len());
            // From now on the file counts as unsorted.
            assert!(moved.iter().all(|name| direct(&view, name).is_some()), "{place}");
            assert_eq!(names(&view, &prefixed(&["refs/changes/03/"])), all[240..320]);
            assert_eq!(names(&view, &ListOptions::default()), all);
            assert!(direct(&view, &all[0]) == id);
        }
    }
}

#[test]
fn looking_up_names_in_a_page_that_is_not_sorted_finds_all_of_them() {
    let (repo, all) = filled(RefFormat::Files);
    leave_disorder(&repo, 330);
    let view = open(&repo);
    // The second look-up in a page converts the whole page to a block. The file must not be so new that its stat proves
    // nothing, because it would then be opened again at each look-up.
    std::thread::sleep(std::time::Duration::from_millis(100));
    direct(&view, &all[290]);
    for name in &all[290..350] {
        assert!(direct(&view, name).is_some(), "{name}");
    }
}

#[test]
fn a_reftable_with_a_flipped_bit_in_a_name_is_an_error_and_not_fewer_refs() {
    let (repo, _) = filled(RefFormat::Reftable);
    let path = big_file(&repo);
    let mut bytes = fs::read(&path).unwrap();
    // A name that is stored whole, in a block of refs.
    let at = bytes.windows(16).position(|part| part == b"refs/changes/50/").unwrap();
    let folder = "refs/changes/50/";
    bytes[at + 5] ^= 1 << 4;
    fs::write(&path, bytes).unwrap();
    for prefix in ["", "refs/", "refs/changes/", folder] {
        let view = open(&repo);
        let mut listing = view.list(&prefixed(&[prefix])).unwrap();
        let error = loop {
            match listing.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{prefix:?} is listed as if nothing were wrong"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains(".ref' is corrupt at byte") && error.contains("behind 'refs/"), "{error}");
    }
}
