//! The files backend reads what real git wrote, loose or packed.

#![allow(clippy::unwrap_used, reason = "tests")]

mod files_common;

use bstr::ByteSlice;
use files_common::*;
use refdb::{Backend, Error, HashKind, Maintenance, Result, backend::Peeled};
use refdb_testkit::{RefFormat, Repo};
use std::{
    fs,
    ops::ControlFlow,
    os::unix::fs::symlink,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

/// Creates a repository with packed refs, loose refs, loose refs that override packed ones, a tag, and a symbolic ref.
fn mixed(hash: HashKind) -> (Repo, Vec<String>) {
    let repo = Repo::bare(RefFormat::Files, hash);
    let commits = repo.commits(3);
    let tag = repo.tag_object(commits[0], "v1");
    let names: Vec<String> = (0..200).map(|i| format!("refs/heads/dir{}/name{i:03}", i % 7)).collect();
    repo.create_refs(names.iter().step_by(2).map(|name| (name, commits[0])));
    repo.create_refs([("refs/tags/v1", tag), ("refs/heads/a-b", commits[0]), ("refs/heads/main", commits[0])]);
    repo.git(["pack-refs", "--all"]);
    repo.create_refs(
        names.iter().skip(1).step_by(3).filter(|name| !exists(&repo, name)).map(|name| (name, commits[1])),
    );
    repo.create_refs([("refs/heads/a/b", commits[1])]);
    for name in names.iter().step_by(10) {
        repo.git(["update-ref", name, &commits[2].to_string()]);
    }
    repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main"]);
    (repo, names)
}

fn exists(repo: &Repo, name: &str) -> bool {
    repo.try_git(["show-ref", "--quiet", "--verify", name], "").status.success()
}

#[test]
fn a_cursor_lists_what_git_lists_in_both_hashes() {
    for hash in HASHES {
        let (repo, _) = mixed(hash);
        let snapshot = backend(&repo).snapshot().unwrap();
        assert_eq!(rest(&mut *snapshot.cursor(true).unwrap()), git_list(&repo));
    }
}

#[test]
fn a_cursor_seeks_forward_and_back_to_any_name() {
    let (repo, names) = mixed(HashKind::Sha1);
    let snapshot = backend(&repo).snapshot().unwrap();
    let all: Vec<String> = git_list(&repo).into_iter().filter(|line| line.starts_with("refs/")).collect();
    let mut cursor = snapshot.cursor(false).unwrap();
    let mut rng = refdb_testkit::Rng::new(1);
    for round in 0..300 {
        let mut wanted = rng.pick(&names).clone();
        if rng.one_in(3) {
            wanted.truncate(rng.below(wanted.len()));
        }
        cursor.seek(wanted.as_bytes().as_bstr()).unwrap();
        let expected: Vec<&String> =
            all.iter().filter(|line| line.split(' ').next().unwrap() >= wanted.as_str()).take(5).collect();
        let mut got = Vec::new();
        while got.len() < expected.len() {
            let view = cursor.next().unwrap().unwrap();
            got.push(format!("{} {}", view.name, show(view.target)));
        }
        assert_eq!(got.iter().collect::<Vec<_>>(), expected, "round {round}: {wanted}");
    }
}

#[test]
fn single_look_ups_and_probes_agree_with_git() {
    for hash in HASHES {
        let (repo, names) = mixed(hash);
        let snapshot = backend(&repo).snapshot().unwrap();
        let listed = git_list(&repo);
        let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
        wanted.extend([
            "HEAD",
            "refs",
            "refs/heads",
            "refs/heads/a",
            "refs/heads/a-b",
            "refs/heads/none/x",
            "refs/tags/v1",
        ]);
        wanted.sort_unstable();
        let collected = probe(&*snapshot, wanted.iter().copied());
        for (at, name) in wanted.iter().enumerate() {
            let line = listed.iter().find_map(|line| line.strip_prefix(&format!("{name} ")).map(str::to_owned));
            assert_eq!(collected.values[at], line, "{name}");
            assert_eq!(snapshot.get(name.as_bytes().as_bstr()).unwrap().as_ref().map(show_target), line, "{name}");
            let child = listed.iter().map(|line| line.split(' ').next().unwrap());
            let child = child.filter(|child| child.starts_with(&format!("{name}/"))).min();
            let said = collected.below.iter().find(|(probe, _)| *probe == at).map(|(_, child)| child.as_str());
            assert_eq!(said, child, "below {name}");
        }
    }
}

#[test]
fn packed_tags_come_with_what_they_peel_to() {
    let (repo, _) = mixed(HashKind::Sha1);
    let snapshot = backend(&repo).snapshot().unwrap();
    let known = peeled(&mut *snapshot.cursor(false).unwrap());
    let of = |name: &str| known.iter().find(|(known, _)| known == name).unwrap().1;
    assert_eq!(of("refs/tags/v1"), Peeled::To(repo.rev_parse("v1^{}")));
    assert_eq!(of("refs/heads/main"), Peeled::NotTag);
    assert_eq!(of("refs/heads/a/b"), Peeled::Unknown);
    let mut found = Vec::new();
    let mut collect = |view: refdb::RefView<'_>| {
        found.push(view.name.to_string());
        Ok(())
    };
    snapshot.pointing_at(&repo.rev_parse("v1^{}"), &mut collect).unwrap();
    assert!(found.contains(&"refs/tags/v1".to_string()) && found.contains(&"refs/heads/main".to_string()));
}

#[test]
fn a_linked_worktree_sees_its_own_refs_among_the_shared_ones() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let commit = repo.commit();
    repo.create_refs([("refs/heads/main", commit), ("refs/bisect/main-only", commit), ("refs/heads/w", commit)]);
    repo.git(["worktree", "add", "-q", "../w", "w"]);
    repo.git(["-C", "../w", "update-ref", "refs/bisect/bad", &commit.to_string()]);
    repo.git(["-C", "../w", "update-ref", "refs/worktree/x", &commit.to_string()]);
    let mut options = options(refdb_vfs::Fs::real(), repo.git_dir(), repo.hash());
    options.git_dir = repo.git_dir().join("worktrees/w");
    options.worktree = Some("w".into());
    let snapshot = refdb::files::FilesBackend::new(options).snapshot().unwrap();
    let git = repo.git(["-C", "../w", "for-each-ref", "--format=%(refname)", "--include-root-refs"]);
    let ours = rest(&mut *snapshot.cursor(true).unwrap());
    let ours: Vec<&str> = ours.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(ours, git.lines().collect::<Vec<_>>());
    for name in ["main-worktree/refs/bisect/main-only", "worktrees/w/refs/bisect/bad", "refs/worktree/x"] {
        assert_eq!(snapshot.get(name.into()).unwrap().unwrap().id(), Some(commit), "{name}");
    }
    let names: Vec<String> =
        (0..40).map(|i| format!("refs/bisect/b{i:02}")).chain(["refs/bisect/bad".into()]).collect();
    let answers = probe(&*snapshot, names.iter().map(String::as_str));
    assert_eq!(answers.values.iter().flatten().count(), 1);
}

#[test]
fn broken_and_odd_loose_refs_are_read_as_git_reads_them() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id)]);
    let heads = repo.git_dir().join("refs/heads");
    std::fs::write(heads.join("empty"), "").unwrap();
    std::fs::write(heads.join("odd"), format!("{id} trailing")).unwrap();
    std::fs::write(heads.join("link"), "ref:  refs/heads/main \n\n").unwrap();
    symlink("refs/heads/main", heads.join("symlink")).unwrap();
    symlink("main", heads.join("follow")).unwrap();
    symlink("nowhere", heads.join("dangling")).unwrap();
    let snapshot = backend(&repo).snapshot().unwrap();
    let value = |name: &str| snapshot.get(name.into()).map(|value| value.as_ref().map(show_target));
    assert_eq!(value("refs/heads/odd").unwrap(), Some(id.to_string()));
    assert_eq!(value("refs/heads/link").unwrap(), Some("-> refs/heads/main".into()));
    assert_eq!(value("refs/heads/symlink").unwrap(), Some("-> refs/heads/main".into()));
    assert_eq!(value("refs/heads/follow").unwrap(), Some(id.to_string()));
    assert_eq!(value("refs/heads/dangling").unwrap(), None);
    assert_eq!(value("refs/heads").unwrap(), None);
    let error = value("refs/heads/empty").unwrap_err().to_string();
    assert!(error.contains("refs/heads/empty: reference broken: the file is empty"), "{error}");
    let mut cursor = snapshot.cursor(false).unwrap();
    let mut errors = 0;
    let mut names = Vec::new();
    loop {
        match cursor.next() {
            Ok(None) => break,
            Ok(Some(view)) => names.push(view.name.to_string()),
            Err(Error::BrokenRef(broken)) => {
                assert_eq!(broken.name, "refs/heads/empty");
                errors += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let git = repo.git(["for-each-ref", "--format=%(refname)"]);
    assert_eq!((names.join("\n"), errors), (git, 1));
}

/// Neither link affects other refs.
#[test]
fn a_link_to_itself_or_to_too_long_a_name_is_one_broken_ref_and_no_more() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id)]);
    let heads = repo.git_dir().join("refs/heads");
    symlink("loop", heads.join("loop")).unwrap();
    symlink("n".repeat(300), heads.join("long")).unwrap();
    let snapshot = backend(&repo).snapshot().unwrap();
    for (name, words) in [("loop", "Too many levels of symbolic links"), ("long", "File name too long")] {
        match snapshot.get(format!("refs/heads/{name}").as_str().into()) {
            Err(Error::BrokenRef(broken)) => assert_eq!(broken.why.words(), words),
            other => panic!("{name}: {other:?}"),
        }
    }
    let answers = probe(&*snapshot, ["refs/heads/long", "refs/heads/loop", "refs/heads/main"]);
    assert_eq!((answers.broken, answers.values[2].is_some()), (vec![0, 1], true));
}

#[test]
fn a_broken_packed_refs_gives_gits_words_and_ends_the_walk() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    for (text, words, line) in [
        (format!("{id} refs/heads/a\n{id} refs/heads/b"), format!("unterminated line in PATH: {id} refs/heads/b"), 2),
        (format!("{id} refs/heads/a\nfoo\n"), "unexpected line in PATH: foo".to_string(), 2),
    ] {
        let path = repo.git_dir().join("packed-refs");
        std::fs::write(&path, text).unwrap();
        let snapshot = backend(&repo).snapshot().unwrap();
        let mut cursor = snapshot.cursor(false).unwrap();
        let mut error = None;
        for _ in 0..5 {
            match cursor.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(found) => error = Some(found),
            }
        }
        let mut loops = snapshot.cursor(false).unwrap();
        let mut in_loops = None;
        for _ in 0..5 {
            in_loops = loops.for_each(&mut |_| ControlFlow::Continue(())).err().or(in_loops);
        }
        assert_eq!(in_loops.map(|error| error.to_string()), error.as_ref().map(Error::to_string));
        let Some(Error::Corrupt { line: at, what, .. }) = error else { panic!("{error:?}") };
        assert_eq!((what, at), (words.replace("PATH", &path.display().to_string()), line));
        let git = repo.try_git(["for-each-ref"], "");
        assert!(git.stderr.as_bstr().to_string().contains(&words[..12]));
    }
}

#[test]
fn reflogs_are_read_newest_first_and_broken_lines_are_passed_over_as_git_does() {
    for hash in HASHES {
        let repo = Repo::with_worktree(RefFormat::Files, hash);
        let commits = repo.commits(40);
        for (i, commit) in commits.iter().enumerate() {
            repo.git(["update-ref", "-m", &format!("message {i}"), "refs/heads/main", &commit.to_string()]);
        }
        let path = repo.git_dir().join("logs/refs/heads/main");
        let mut text = std::fs::read_to_string(&path).unwrap();
        text = text.replacen("message 20", "message 20\nbroken line", 1);
        text = text.replacen("1700000000 +0000\tmessage 21", "0 +0000\tmessage 21", 1);
        std::fs::write(&path, text).unwrap();
        let snapshot = backend(&repo).snapshot().unwrap();
        let mut ours = Vec::new();
        let found = snapshot.log("refs/heads/main".into(), &mut |entry| {
            let who = &entry.committer;
            ours.push(format!(
                "{} {} {} <{}> {} +{:04}\t{}",
                entry.old, entry.new, who.name, who.email, who.time_seconds, who.offset_decimal, entry.message
            ));
            ControlFlow::Continue(())
        });
        assert!(found.unwrap());
        ours.reverse();
        let git: Vec<String> = repo.reflog("refs/heads/main").iter().map(ToString::to_string).collect();
        assert_eq!(ours, git);
        assert_eq!(ours.len(), 39);
        assert!(snapshot.has_log("refs/heads/main".into()).unwrap());
        assert!(!snapshot.has_log("refs/heads".into()).unwrap());
        let names: Vec<String> = snapshot.log_names().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["HEAD", "refs/heads/main"]);
    }
}

#[test]
fn a_walk_through_a_packed_refs_that_is_not_sorted_though_it_says_so_leaves_out_nothing() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    let names: Vec<String> = (0..3000).map(|at| format!("refs/heads/{at:04}")).collect();
    let line = |name: &String| format!("{} {name}\n", ids[0]);
    let head = "# pack-refs with: peeled fully-peeled sorted \n";
    let text = |names: &[&[String]]| format!("{head}{}", names.concat().iter().map(line).collect::<String>());
    for name in ["0110", "0110a"] {
        let path = repo.git_dir().join("refs/heads").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{}\n", ids[1])).unwrap();
    }
    let one_part = [&names[..100], &names[120..2000], &names[100..120], &names[2000..]];
    let the_first = [&names[1..], &names[..1], &[], &[]];
    for (order, misplaced) in [(one_part, &*names[100]), (the_first, &*names[0])] {
        std::fs::write(repo.git_dir().join("packed-refs"), text(&order)).unwrap();
        let store = backend(&repo);
        let listed = || {
            let snapshot = store.snapshot().unwrap();
            let mut cursor = snapshot.cursor(false).unwrap();
            let mut listed = Vec::new();
            let walked = cursor.for_each(&mut |view| {
                listed.push(format!("{} {}", view.name, show(view.target)));
                ControlFlow::Continue(())
            });
            assert!(walked.unwrap().is_continue());
            listed
        };
        let mut expected: Vec<String> = names.iter().map(|name| format!("{name} {}", ids[0])).collect();
        expected[110] = format!("refs/heads/0110 {}", ids[1]);
        expected.insert(111, format!("refs/heads/0110a {}", ids[1]));
        assert_eq!(store.disorder(), None);
        let mut first = listed();
        first.sort_unstable();
        assert!(first == expected, "{} of {}", first.len(), expected.len());
        assert_eq!(store.disorder().unwrap().name, misplaced);
        assert!(listed() == expected, "from then on it counts as unsorted");
        let snapshot = store.snapshot().unwrap();
        assert!(names.iter().all(|name| snapshot.get(name.as_bytes().as_bstr()).unwrap().is_some()));
        // The wrong order is not written again either.
        transact(&store, &[delete("refs/heads/2500")]).unwrap();
        expected.retain(|line| !line.starts_with("refs/heads/2500 "));
        assert!(git_list(&repo).iter().filter(|line| line.starts_with("refs/")).eq(&expected));
    }
}

#[test]
fn a_walk_that_ends_too_early_at_a_misplaced_name_is_noticed() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    // One bit of `refs/heads/b` has flipped, too far from the beginning of the walk to be noticed there.
    let names = ["a", "a1", "a2", "a3"].map(|name| format!("refs/heads/{name}"));
    let names = [&names[..], &["refs/xeads/b", "refs/heads/c", "refs/tags/d"].map(str::to_owned)].concat();
    let lines: String = names.iter().map(|name| format!("{id} {name}\n")).collect();
    std::fs::write(
        repo.git_dir().join("packed-refs"),
        format!("# pack-refs with: peeled fully-peeled sorted \n{lines}"),
    )
    .unwrap();
    let store = backend(&repo);
    let below_heads = || {
        let snapshot = store.snapshot().unwrap();
        let mut cursor = snapshot.cursor(false).unwrap();
        cursor.seek("refs/heads/".into()).unwrap();
        let mut count = 0;
        let _ = cursor.for_each(&mut |view| {
            let is_below = view.name.starts_with(b"refs/heads/");
            count += usize::from(is_below);
            if is_below { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        count
    };
    assert_eq!(below_heads(), 4);
    assert_eq!(store.disorder().unwrap().name, "refs/heads/c");
    assert_eq!(below_heads(), 5);
}

#[test]
fn packing_sorts_a_packed_refs_that_nobody_has_walked_through() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let lines = format!("{id} refs/heads/b\n{id} refs/heads/a\n{id} refs/heads/c\n");
    let head = "# pack-refs with: peeled fully-peeled sorted \n";
    let path = repo.git_dir().join("packed-refs");
    for loose in [false, true] {
        std::fs::write(&path, format!("{head}{lines}")).unwrap();
        if loose {
            repo.git(["update-ref", "refs/heads/b", &id.to_string()]);
        }
        backend(&repo).optimize(&pack_all()).unwrap();
        let expected = format!("{head}{id} refs/heads/a\n{id} refs/heads/b\n{id} refs/heads/c\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}

#[test]
fn a_symbolic_link_that_a_file_replaces_while_it_is_read_is_a_ref_all_the_time() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id)]);
    let (head, aside) = (repo.git_dir().join("HEAD"), repo.git_dir().join("HEAD.new"));
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                symlink("refs/heads/main", &aside).unwrap();
                fs::rename(&aside, &head).unwrap();
                fs::write(&aside, "ref: refs/heads/main\n").unwrap();
                fs::rename(&aside, &head).unwrap();
            }
        });
        let refs = backend(&repo);
        let read = || -> Result<()> {
            for _ in 0..20_000 {
                let head = refs.snapshot()?.get("HEAD".into())?.unwrap();
                assert_eq!(head.symbolic().unwrap().as_bstr(), "refs/heads/main");
            }
            Ok(())
        };
        // The scope waits for its thread, also after a panic.
        let read = catch_unwind(AssertUnwindSafe(read));
        ended.store(true, Ordering::Relaxed);
        read.unwrap().unwrap();
    });
}
