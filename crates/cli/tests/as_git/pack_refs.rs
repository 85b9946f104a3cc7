//! Compares `refdb pack-refs` with git's.

use crate::common::{Twins, git, refdb};
use refdb_testkit::{RefFormat, Repo, files_below};
use std::{collections::BTreeMap, fs};

fn set_up(repo: &Repo) {
    let commits = repo.commits(2);
    let tag = repo.tag_object(commits[0], "v1");
    repo.create_refs([
        ("refs/heads/main", commits[1]),
        ("refs/heads/dir/a", commits[0]),
        ("refs/tags/v1", tag),
        ("refs/tags/light", commits[0]),
        ("refs/bisect/bad", commits[0]),
    ]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/main"]);
}

/// Writes loose refs with a content or a name that only an accident leaves.
fn damage(repo: &Repo) {
    let missing = "1234567890123456789012345678901234567890\n";
    let good = fs::read(repo.git_dir().join("refs/heads/main")).unwrap();
    for (name, content) in [
        ("refs/heads/missing", missing.as_bytes()),
        ("refs/tags/gone", missing.as_bytes()),
        ("refs/worktree/missing", missing.as_bytes()),
        ("refs/heads/null", b"0000000000000000000000000000000000000000\n"),
        ("refs/heads/empty", b""),
        ("refs/heads/broken", b"zzz\n"),
        ("refs/heads/bad..name", &good[..]),
    ] {
        let path = repo.git_dir().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Returns the content of all loose refs and of packed-refs, by name.
fn files(repo: &Repo) -> BTreeMap<String, Vec<u8>> {
    let loose = files_below(&repo.git_dir().join("refs")).into_iter().map(|name| format!("refs/{name}"));
    let content = |name: String| {
        let bytes = fs::read(repo.git_dir().join(&name)).unwrap_or_default();
        (name, bytes)
    };
    loose.chain(["packed-refs".to_owned()]).map(content).collect()
}

#[test]
fn refs_are_packed_and_missing_objects_reported_as_git_does() {
    for words in [
        &["--all"][..],
        &[],
        &["--all", "--no-prune"],
        &["--include", "refs/heads/m*"],
        &["--all", "--exclude", "refs/heads/*"],
        &["--auto"],
        &["--foo"],
        &["x"],
    ] {
        let twins = Twins::new(RefFormat::Files, &|repo| {
            set_up(repo);
            damage(repo);
        });
        twins.same(&[&["pack-refs"], words].concat(), b"");
        assert_eq!(files(&twins.git), files(&twins.refdb), "{words:?}");
    }
}

#[test]
fn packing_for_its_own_sake_waits_until_there_is_enough_to_pack() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        set_up(repo);
        damage(repo);
        let id = repo.rev_parse("refs/heads/main");
        repo.create_refs((0..20).map(|number| (format!("refs/heads/many/{number}"), id)));
    });
    for _ in 0..2 {
        twins.same(&["pack-refs", "--auto"], b"");
        assert_eq!(files(&twins.git), files(&twins.refdb));
    }
}

#[test]
fn a_reftable_is_packed_as_git_packs_it() {
    for words in [&["--all"][..], &[], &["--auto"], &["--include", "x"], &["--foo"]] {
        Twins::new(RefFormat::Reftable, &set_up).same(&[&["pack-refs"], words].concat(), b"");
    }
}

#[test]
fn a_packed_refs_out_of_order_is_listed_whole_with_a_warning_and_packed_in_order() {
    let repo = Repo::with_worktree(RefFormat::Files, refdb_types::HashKind::Sha1);
    let id = repo.commit();
    let head = "# pack-refs with: peeled fully-peeled sorted \n";
    let path = repo.git_dir().join("packed-refs");
    let line = |name: &str| format!("{id} refs/heads/{name}\n");
    fs::write(&path, [head, &line("a"), &line("c"), &line("b"), &line("d")].concat()).unwrap();
    let offset = head.len() + 2 * line("a").len();
    for (words, count) in [
        (&["show-ref"][..], 4),
        (&["for-each-ref"], 4),
        (&["for-each-ref", "refs/heads/"], 4),
        (&["show-ref", "--branches"], 4),
    ] {
        let shown = refdb(repo.dir(), words, b"");
        let (out, err) = (String::from_utf8(shown.stdout).unwrap(), String::from_utf8(shown.stderr).unwrap());
        assert_eq!(out.lines().count(), count, "{words:?}: {out}");
        let expected = format!(
            "warning: {} says that it is sorted, but refs/heads/b at byte {offset} is out of order; run `refdb pack-refs`\n",
            path.canonicalize().unwrap().display()
        );
        assert!(
            err.ends_with(&expected.replace(&*path.canonicalize().unwrap().to_string_lossy(), ".git/packed-refs"))
                || err == expected,
            "{words:?}: {err}"
        );
    }
    assert!(refdb(repo.dir(), &["pack-refs"], b"").status.success());
    let sorted = [head, &line("a"), &line("b"), &line("c"), &line("d")].concat();
    assert_eq!(fs::read_to_string(&path).unwrap(), sorted);
}

#[test]
fn a_list_of_some_refs_is_whole_behind_a_name_out_of_order() {
    let repo = Repo::with_worktree(RefFormat::Files, refdb_types::HashKind::Sha1);
    let id = repo.commit();
    // A flipped bit makes the first name sort after all others, so that a scan from there that trusts the order ends at
    // once.
    let mut text = format!("# pack-refs with: peeled fully-peeled sorted \n{id} refs/heqds/main\n");
    (0..400).for_each(|at| text += &format!("{id} refs/heads/p/{at:04}\n"));
    fs::write(repo.git_dir().join("packed-refs"), text).unwrap();
    for (pattern, count) in
        [("refs/heads/p/02*", 100), ("refs/heads/p/", 400), ("refs/heads/", 400), ("refs/heads/p/0399", 1)]
    {
        let shown = refdb(repo.dir(), &["for-each-ref", "--format=%(refname)", pattern], b"");
        let (out, err) = (String::from_utf8(shown.stdout).unwrap(), String::from_utf8(shown.stderr).unwrap());
        assert_eq!(out.lines().filter(|name| name.starts_with("refs/heads/p/")).count(), count, "{pattern}: {err}");
        assert!(err.contains("is out of order"), "{pattern}: {err}");
    }
}

#[test]
fn packing_keeps_no_promise_in_the_header_that_it_does_not_know() {
    for words in [&["pack-refs", "--all"][..], &["update-ref", "-d", "refs/tags/light"]] {
        let twins = Twins::new(RefFormat::Files, &|repo| {
            set_up(repo);
            repo.git(["pack-refs", "--all"]);
            let path = repo.git_dir().join("packed-refs");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replacen("sorted", "sorted strange", 1)).unwrap();
        });
        twins.same(words, b"");
        assert_eq!(files(&twins.git), files(&twins.refdb), "{words:?}");
    }
}

#[test]
fn a_lock_of_packed_refs_is_in_the_way_even_if_there_is_nothing_to_pack() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        set_up(repo);
        repo.config("core.packedRefsTimeout", "0");
        repo.git(["pack-refs", "--all"]);
    });
    for has_loose_refs in [false, true] {
        for repo in [&twins.git, &twins.refdb] {
            fs::write(repo.git_dir().join("packed-refs.lock"), "").unwrap();
            if has_loose_refs {
                fs::copy(repo.git_dir().join("refs/bisect/bad"), repo.git_dir().join("refs/heads/loose")).unwrap();
            }
        }
        let [of_git, of_refdb] = [
            git(twins.git.dir(), &["pack-refs", "--all"], b""),
            refdb(twins.refdb.dir(), &["pack-refs", "--all"], b""),
        ];
        assert!(!of_git.status.success() && of_git.status.code() == of_refdb.status.code(), "{of_refdb:?}");
        let said = String::from_utf8(of_refdb.stderr).unwrap();
        assert!(said.contains("packed-refs.lock': File exists."), "{said}");
        assert!(twins.refdb.git_dir().join("packed-refs.lock").exists());
        assert_eq!(files(&twins.git), files(&twins.refdb));
    }
}

/// A symbolic link to a packed ref must be removed as well, because git does not find the packed value of a name whose
/// file is a dangling link.
#[test]
fn links_to_refs_go_when_what_they_lead_to_is_packed() {
    let repo = Repo::with_worktree(RefFormat::Files, refdb_types::HashKind::Sha1);
    let commit = repo.commits(1)[0];
    repo.create_refs([("refs/heads/m", commit)]);
    for link in ["a", "z"] {
        std::os::unix::fs::symlink("m", repo.git_dir().join("refs/heads").join(link)).unwrap();
    }
    let said = refdb(repo.dir(), &["pack-refs", "--all"], b"");
    assert!(said.status.success(), "{said:?}");
    for name in ["a", "m", "z"] {
        let name = format!("refs/heads/{name}");
        assert!(repo.git_dir().join(&name).symlink_metadata().is_err(), "{name} is still loose");
        assert_eq!(repo.git(["rev-parse", &name]).trim_end(), commit.to_string());
    }
}
