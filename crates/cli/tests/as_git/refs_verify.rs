//! Compares `refdb refs verify` with git's. Lines are sorted before they are compared, because git prints them in the
//! order of the file system.

use crate::common::{git, refdb, same};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::{fs, os::unix::fs::symlink, process::Output};

/// Returns the sorted lines of stderr and the exit code.
fn said(output: &Output) -> (Vec<String>, Option<i32>) {
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    lines.sort();
    assert!(output.stdout.is_empty());
    (lines, output.status.code())
}

/// Requires that both programs report the same with the options `before` and `after` the command, and returns the
/// lines.
fn agree(what: &str, repo: &Repo, before: &[&str], after: &[&str]) -> Vec<String> {
    let words = [before, &["refs", "verify"], after].concat();
    let by_refdb = said(&refdb(repo.dir(), &words, b""));
    assert_eq!(said(&git(repo.dir(), &words, b"")), by_refdb, "{what}: {words:?}");
    by_refdb.0
}

fn repo(format: RefFormat, hash: HashKind) -> (Repo, String) {
    let repo = Repo::with_worktree(format, hash);
    let commit = repo.commit();
    let tag = repo.tag_object(commit, "v1");
    repo.create_refs([("refs/heads/main", commit), ("refs/heads/dir/a", commit), ("refs/tags/v1", tag)]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/main"]);
    repo.git(["worktree", "add", "-q", "-b", "tree", "../tree"]);
    repo.git(["update-ref", "ORIG_HEAD", &commit.to_string()]);
    (repo, commit.to_string())
}

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

#[test]
fn a_sound_repository_is_sound_and_verbose_names_what_is_looked_at() {
    for format in RefFormat::ALL {
        for hash in HASHES {
            let (repo, _) = repo(format, hash);
            assert!(agree("sound", &repo, &[], &[]).is_empty());
            let shown = agree("sound", &repo, &[], &["--verbose"]);
            assert!(shown.len() > 4, "{shown:?}");
        }
    }
}

#[test]
fn each_kind_of_loose_file_is_judged_as_git_does() {
    let (repo, id) = repo(RefFormat::Files, HashKind::Sha1);
    let null = "0".repeat(40);
    let with = |text: &str| [&id, text].concat();
    let contents = [
        with(""),
        with("\n"),
        with("\n\n"),
        with(" garbage"),
        with("x"),
        with("\t\n"),
        String::new(),
        "junk\n\n".to_owned(),
        format!("{null}\n"),
        null.clone(),
        format!("{null} x"),
        "ref: refs/heads/main".to_owned(),
        "ref: refs/heads/main \n".to_owned(),
        "ref: refs/heads/main\n\n".to_owned(),
        "ref:refs/heads/main\n".to_owned(),
        "ref:\trefs/heads/main\n  ".to_owned(),
        "ref: \n".to_owned(),
        "ref: main\n".to_owned(),
        "ref: HEAD\n".to_owned(),
        "ref: foo/bar\n".to_owned(),
        "ref: refs/heads/a..b\n".to_owned(),
        "ref: worktrees/tree/refs/bisect/bad\n".to_owned(),
        "ref: main-worktree/HEAD\n".to_owned(),
    ];
    for content in &contents {
        for name in ["refs/heads/x", "refs/heads/~x", "ORIG_HEAD", "worktrees/tree/refs/worktree/x"] {
            let path = repo.git_dir().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            agree(&format!("{name}: {content:?}"), &repo, &[], &[]);
            fs::remove_file(&path).unwrap();
        }
    }
    for head in ["ref: refs/tags/v1\n", "ref: refs/heads/../x\n", "ref: refs/heads/none\n", "ref: refs/heads/main"] {
        for path in ["HEAD", "worktrees/tree/HEAD"] {
            let path = repo.git_dir().join(path);
            let before = fs::read(&path).unwrap();
            fs::write(&path, head).unwrap();
            agree(head, &repo, &[], &[]);
            fs::write(&path, before).unwrap();
        }
    }
}

#[test]
fn names_locks_links_and_other_files_are_judged_as_git_does() {
    let (repo, id) = repo(RefFormat::Files, HashKind::Sha1);
    let heads = repo.git_dir().join("refs/heads");
    for name in [".lock", "x.lock", ".x.lock", "@", ".x", "a b", "x.lock/y", "one/two/.three", "-x"] {
        let path = heads.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("{id}\n")).unwrap();
        agree(name, &repo, &[], &[]);
        fs::remove_file(&path).unwrap();
        let _ = fs::remove_dir(path.parent().unwrap());
    }
    // Git gives up altogether at a link into a folder that does not exist.
    fs::create_dir_all(repo.git_dir().join("worktrees/tree/refs/tags")).unwrap();
    for target in
        ["main", "./main", "nowhere", "../tags/v1", "../../logs/x", "../../HEAD", "../../../x", "/etc/passwd", "./.x"]
    {
        for folder in [heads.clone(), repo.git_dir().join("worktrees/tree/refs/worktree")] {
            fs::create_dir_all(&folder).unwrap();
            symlink(target, folder.join("s")).unwrap();
            agree(target, &repo, &[], &[]);
            fs::remove_file(folder.join("s")).unwrap();
        }
    }
    let socket = std::os::unix::net::UnixListener::bind(heads.join("s")).unwrap();
    assert_eq!(agree("a socket", &repo, &[], &[]).len(), 1);
    drop(socket);
}

#[test]
fn packed_refs_is_judged_line_by_line_as_git_does() {
    for hash in HASHES {
        let (repo, id) = repo(RefFormat::Files, hash);
        let null = "0".repeat(id.len());
        let (a, q, z) = (format!("{id} refs/heads/a"), format!("{id} refs/heads/q"), format!("{id} refs/heads/z"));
        let path = repo.git_dir().join("packed-refs");
        for text in [
            String::new(),
            "\n".to_owned(),
            "#\n".to_owned(),
            "# pack-refs with: peeled".to_owned(),
            "# pack-refs with:peeled sorted\n".to_owned(),
            format!("# pack-refs with: peeled fully-peeled sorted \n{a}\n{q}"),
            format!("# pack-refs with: sorted\n{z}\n{a}\n{q}\n"),
            format!("# pack-refs with: sorted\n{a}\n{a}\n"),
            format!("# pack-refs with: sorted\n{z}\nbad refs/heads/q\n{id} refs/heads/r..\n{a}\n"),
            format!("{z}\n{a}\n"),
            format!("^{id}\n{q}\n"),
            format!("{q}\n^{id}\n^{id}\n"),
            format!("{q}\n\n{a}\n"),
            format!("{q}\n^{id} garbage\n{a}\n^{}\n", &id[..4]),
            format!("{q}\n^{null}\n{null} refs/heads/z\n"),
            format!("{id} HEAD\n{id}\trefs/heads/x\n{id}  refs/heads/y\n{id}x\n{id}\n{id}"),
            format!("bad x\n^{id}\n{id} refs/heads/a \n{id} refs/heads/b\r\n# x\n"),
        ] {
            fs::write(&path, &text).unwrap();
            agree(&format!("{text:?}"), &repo, &[], &[]);
        }
        fs::remove_file(&path).unwrap();
        symlink("elsewhere", &path).unwrap();
        agree("a link", &repo, &[], &[]);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        agree("a folder", &repo, &[], &[]);
    }
}

#[test]
fn settings_and_strictness_change_what_a_fault_is() {
    let (repo, id) = repo(RefFormat::Files, HashKind::Sha1);
    fs::write(repo.git_dir().join("refs/heads/x"), &id).unwrap();
    fs::write(repo.git_dir().join("refs/heads/.y"), "junk").unwrap();
    for setting in [
        "fsck.refMissingNewline=error",
        "fsck.refMissingNewline=ignore",
        "fsck.refMissingNewline=info",
        "fsck.refmissingnewline=warn",
        "fsck.refMissingNewline=ERROR",
        "fsck.refMissingNewline=",
        "fsck.refMissingNewline",
        "fsck.badRefName=warn",
        "fsck.badRefContent=ignore",
        "fsck.foo=error",
        "fsck.badTimezone=ignore",
        "fsck.nulInHeader=warn",
        "fsck.largePathname=warn",
        "fsck.largePathname=warn:10",
        "fsck.largePathname=ignore:0x1k",
        "fsck.largePathname=foo:10",
        "fsck.largePathname=foo:x",
        "fsck.largePathname=warn:",
        "fsck.largePathname=warn:5:6",
        "fsck.largePathname=error:9223372036854775808",
        "fsck.badTree=warn:10",
    ] {
        for after in [&[][..], &["--strict"], &["--no-strict", "--verbose", "--no-verbose"]] {
            agree(setting, &repo, &["-c", setting], after);
        }
    }
}

#[test]
fn wrong_use_is_told_as_git_tells_it() {
    let (repo, _) = repo(RefFormat::Files, HashKind::Sha1);
    for line in [&["x"][..], &["-h"], &["--foo"], &["--strict", "x"], &["--", "x"]] {
        same(repo.dir(), &[&["refs", "verify"], line].concat(), b"");
    }
}

#[test]
fn names_of_tables_and_targets_in_reftables_are_judged_as_git_does() {
    for hash in HASHES {
        let (repo, _) = repo(RefFormat::Reftable, hash);
        for target in ["garbage", "foo/bar", "FOO_HEAD", "HEAD", "refs/heads/none"] {
            repo.git(["symbolic-ref", "refs/heads/s", target]);
            let of_tree = git(&repo.dir().join("../tree"), &["symbolic-ref", "refs/bisect/s", target], b"");
            assert!(of_tree.status.success(), "{of_tree:?}");
            agree(target, &repo, &[], &[]);
        }
        repo.git(["update-ref", "TEMP_TAG", "refs/heads/main"]);
        agree("a ref at the root that is not listed", &repo, &[], &["--strict"]);
        repo.git(["symbolic-ref", "HEAD", "refs/tags/x"]);
        agree("HEAD", &repo, &[], &[]);
        repo.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
        repo.git(["pack-refs"]);
        let folder = repo.git_dir().join("reftable");
        let list = folder.join("tables.list");
        for name in
            ["x.ref", "0x1-0x1-abc.ref", "0x1-0x1-abc.log", "0x1-0x1-abc.refabc", "0x1-0x1-z.ref", "1-0X2-a.ref"]
        {
            let old = fs::read_to_string(&list).unwrap();
            fs::rename(folder.join(old.trim()), folder.join(name)).unwrap();
            fs::write(&list, format!("{name}\n")).unwrap();
            agree(name, &repo, &[], &[]);
            agree(name, &repo, &[], &["--strict"]);
        }
        fs::write(repo.git_dir().join("worktrees/tree/reftable/tables.list"), "garbage\n").unwrap();
        let lines = agree("a broken stack", &repo, &[], &[]);
        assert!(lines.contains(&"error: reftable stack for worktree 'tree' is broken".to_owned()), "{lines:?}");
    }
}

/// Checked without git, because git 2.55 crashes here.
#[test]
fn a_broken_common_stack_is_told_with_its_reason() {
    let (repo, _) = repo(RefFormat::Reftable, HashKind::Sha1);
    fs::write(repo.git_dir().join("reftable/tables.list"), "garbage\n").unwrap();
    let (lines, code) = said(&refdb(repo.dir(), &["refs", "verify"], b""));
    assert_eq!(code, Some(255));
    assert!(lines[0].starts_with("error: reftable stack is broken: ") && lines[0].contains("garbage"), "{lines:?}");
}

#[test]
fn deep_also_looks_at_objects() {
    for format in RefFormat::ALL {
        let (repo, _) = repo(format, HashKind::Sha1);
        let deep = || said(&refdb(repo.dir(), &["refs", "verify", "--deep"], b""));
        let blob = repo.blob("to be lost");
        let tag = repo.tag_object(blob, "leads-nowhere");
        repo.create_refs([("refs/tags/blob", blob), ("refs/tags/tag", tag)]);
        assert_eq!(deep(), (Vec::new(), Some(0)), "a tag may hold anything");
        let hex = blob.to_string();
        fs::remove_file(repo.git_dir().join("objects").join(&hex[..2]).join(&hex[2..])).unwrap();
        let expected = vec![
            format!("error: refs/tags/blob: missingRefObject: points to {hex}, which is not there"),
            format!(
                "error: refs/tags/tag: missingRefObject: holds the tag {tag}, which leads to no object that is there"
            ),
        ];
        assert_eq!(deep(), (expected, Some(255)));
    }
}

#[test]
fn deep_wants_commits_in_branches() {
    let (repo, _) = repo(RefFormat::Files, HashKind::Sha1);
    let blob = repo.blob("no commit");
    fs::write(repo.git_dir().join("refs/heads/blob"), format!("{blob}\n")).unwrap();
    let words = ["-c", "fsck.badRefObjectType=warn", "refs", "verify", "--deep"];
    let expected = format!("warning: refs/heads/blob: badRefObjectType: points to {blob}, a blob and no commit");
    assert_eq!(said(&refdb(repo.dir(), &words, b"")), (vec![expected], Some(0)));
}

#[test]
fn deep_reads_every_block_of_a_table() {
    let (repo, _) = repo(RefFormat::Reftable, HashKind::Sha1);
    repo.git(["pack-refs"]);
    let folder = repo.git_dir().join("reftable");
    let table = folder.join(fs::read_to_string(folder.join("tables.list")).unwrap().trim());
    let mut bytes = fs::read(&table).unwrap();
    // The flipped bit lies before the footer and so outside its checksum: only a read of every block finds it.
    let at = bytes.len() - 80;
    bytes[at] ^= 1;
    fs::write(&table, bytes).unwrap();
    let (lines, code) = said(&refdb(repo.dir(), &["refs", "verify", "--deep"], b""));
    assert_eq!(code, Some(255), "{lines:?}");
}

#[test]
fn files_that_programs_write_are_verified_if_they_are_called_like_root_refs() {
    let (repo, id) = repo(RefFormat::Files, HashKind::Sha1);
    for name in
        ["AUTO_MERGE", "BISECT_EXPECTED_REV", "NOTES_MERGE_PARTIAL", "MERGE_AUTOSTASH", "FETCH_HEAD", "MERGE_MSG"]
    {
        for content in ["garbage\n", "", "ref: ../x\n", &id] {
            fs::write(repo.git_dir().join(name), content).unwrap();
            agree(&format!("{name} {content}"), &repo, &[], &[]);
        }
        fs::remove_file(repo.git_dir().join(name)).unwrap();
    }
}

#[test]
fn a_worktree_whose_name_no_ref_can_have_is_told_of() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let worktrees = repo.git_dir().join("worktrees");
    for name in ["ok", ".1", "w.lock", "sp ace", "a..b"] {
        let folder = worktrees.join(name);
        fs::create_dir_all(folder.join("refs/bisect")).unwrap();
        for (file, content) in [
            ("HEAD", id.to_string()),
            ("refs/bisect/bad", id.to_string()),
            ("gitdir", format!("/nonexistent/{name}/.git")),
            ("commondir", "../..".into()),
        ] {
            fs::write(folder.join(file), content + "\n").unwrap();
        }
    }
    let lines = agree("worktrees with odd names", &repo, &[], &[]);
    assert_eq!(lines.iter().filter(|line| line.contains("badRefName")).count(), 8, "{lines:?}");
}

/// Plants what t0602-reffiles-fsck.sh plants in folders of all kinds that can hold refs. Files in them are checked from
/// both worktrees, and links only from the main one.
#[test]
fn what_gits_own_tests_plant_among_files_is_found_in_every_place() {
    let (repo, id) = repo(RefFormat::Files, HashKind::Sha1);
    let tree = repo.dir().join("../tree");
    let places = [
        "refs/heads",
        "refs/heads/a/b",
        "refs/tags",
        "refs/tags/multi_hierarchy",
        "refs/notes",
        "refs/remotes/origin",
        "refs/worktree",
        "refs/bisect",
        "refs/namespaces/x/refs/heads",
        "refs/namespaces/x",
        "refs",
        "worktrees/tree/refs/worktree",
        "worktrees/tree/refs/bisect",
        "worktrees/tree/refs/rewritten",
        "worktrees/tree/refs/heads",
    ];
    let names = ["@", "tag-1.lock", ".lock", ".branch-1.lock", ".starts-with-dot", "~has-stride", " branch-5", "x"];
    let contents = [
        id.clone(),
        format!("{id}\n"),
        format!("{id}x"),
        format!("{id} garbage"),
        format!("{id}\n\n\n  garbage"),
        "xfsazqfxcadas".into(),
        "foobar\n".into(),
        String::new(),
        "ref: refs/heads/branch\n".into(),
        "ref: HEAD\n".into(),
        "ref: refs/heads/branch     ".into(),
        "ref: refs/heads/branch \n  ".into(),
        "ref: refs/heads/.branch\n".into(),
        "ref: refs/heads/?branch".into(),
        "ref: refs-back/heads/main\n".into(),
        "ref: ../refs/heads/main\n".into(),
    ];
    let links =
        ["./main", "main", "../heads/main", "./.branch", "../../logs/branch-bad", "./branch   space", "/nowhere"];
    let same_from_both = |what: &str| {
        agree(what, &repo, &[], &[]);
        let words = ["refs", "verify", "--verbose"];
        let [by_git, by_refdb] = [git(&tree, &words, b""), refdb(&tree, &words, b"")].map(|output| said(&output));
        assert_eq!(by_git, by_refdb, "{what}, from the linked worktree");
    };
    for place in places {
        let folder = repo.git_dir().join(place);
        let was_there = folder.is_dir();
        fs::create_dir_all(&folder).unwrap();
        // All contents under good names, and all bad names, are checked in a few runs, because each is reported on a
        // line of its own.
        for (at, content) in contents.iter().enumerate() {
            fs::write(folder.join(format!("planted-{at}")), content).unwrap();
        }
        for name in names {
            fs::write(folder.join(name), format!("{id}\n")).unwrap();
        }
        fs::create_dir(folder.join(".folder")).unwrap();
        fs::write(folder.join(".folder/default-branch"), format!("{id}\n")).unwrap();
        same_from_both(place);
        for (at, _) in contents.iter().enumerate() {
            fs::remove_file(folder.join(format!("planted-{at}"))).unwrap();
        }
        for name in names {
            fs::remove_file(folder.join(name)).unwrap();
        }
        fs::remove_dir_all(folder.join(".folder")).unwrap();
        // Git gives up altogether at a link into a folder that does not exist.
        let leads_somewhere = |link: &&&str| folder.join(link).parent().is_some_and(|parent| parent.exists());
        for link in links.iter().filter(leads_somewhere) {
            symlink(link, folder.join("planted-link")).unwrap();
            // Checked from the main worktree alone, because from a linked one git 2.55 takes the absolute path of a
            // sound link's target for its refname.
            agree(&format!("{place}: a link to {link}"), &repo, &[], &[]);
            fs::remove_file(folder.join("planted-link")).unwrap();
        }
        if !was_there {
            fs::remove_dir_all(&folder).unwrap();
        }
    }
    for head in ["HEAD", "worktrees/tree/HEAD"] {
        let before = fs::read(repo.git_dir().join(head)).unwrap();
        fs::write(repo.git_dir().join(head), "ref: refs/heads/../HEAD\n").unwrap();
        agree(head, &repo, &[], &[]);
        fs::write(repo.git_dir().join(head), before).unwrap();
    }
    fs::remove_dir_all(repo.git_dir().join("worktrees/tree/refs")).unwrap();
    agree("a worktree without a folder of refs", &repo, &[], &["--verbose"]);
}

/// Plants what t0614-reftable-fsck.sh plants in the tables of each worktree.
#[test]
fn what_gits_own_tests_plant_among_reftables_is_found_in_every_place() {
    for hash in HASHES {
        let (repo, id) = repo(RefFormat::Reftable, hash);
        let tree = repo.dir().join("../tree");
        let same_from_both = |what: &str| {
            agree(what, &repo, &[], &[]);
            let words = ["refs", "verify", "--verbose"];
            let [by_git, by_refdb] = [git(&tree, &words, b""), refdb(&tree, &words, b"")].map(|output| said(&output));
            assert_eq!(by_git, by_refdb, "{what}, from the linked worktree");
        };
        for at in 0..20 {
            repo.git(["update-ref", &format!("refs/heads/branch-{at}"), &id]);
        }
        same_from_both("a sound repository of several tables");
        let folders = ["reftable", "worktrees/tree/reftable"].map(|folder| repo.git_dir().join(folder));
        for folder in &folders {
            let list = folder.join("tables.list");
            let before = fs::read_to_string(&list).unwrap();
            let first = before.lines().next().unwrap();
            for name in [
                "foo-bar-e4d12d59.ref",
                "0x00000000zzzz-0x00000000zzzz-e4d12d59.ref",
                "0x000000000001-0x000000000002-e4d12d59.abc",
                "0x000000000001-0x000000000002-e4d12d59.refabc",
                "broken.ref",
            ] {
                fs::rename(folder.join(first), folder.join(name)).unwrap();
                fs::write(&list, before.replace(first, name)).unwrap();
                same_from_both(name);
                fs::rename(folder.join(name), folder.join(first)).unwrap();
                fs::write(&list, &before).unwrap();
            }
        }
        let names =
            ["refs/heads/symref", "refs/notes/symref", "refs/worktree/symref", "refs/namespaces/x/refs/heads/symref"];
        for name in names {
            for from in [repo.dir(), &tree] {
                assert!(git(from, &["symbolic-ref", name, "garbage"], b"").status.success());
                same_from_both(name);
                assert!(git(from, &["symbolic-ref", "-d", name], b"").status.success());
            }
        }
        let list = folders[1].join("tables.list");
        fs::write(&list, "garbage\n").unwrap();
        let words = ["refs", "verify"];
        assert_eq!(
            said(&git(&tree, &words, b"")),
            said(&refdb(&tree, &words, b"")),
            "a broken stack, from its worktree"
        );
    }
}

/// Regression: `fsck.skipList` was not read, so that a list that git cannot use stopped nothing.
#[test]
fn a_list_of_objects_to_skip_must_be_readable() {
    let (repo, id) = repo(RefFormat::Files, HashKind::Sha1);
    fs::write(repo.git_dir().join("refs/heads/x"), &id).unwrap();
    let list = repo.scratch().join("list");
    let path = list.to_str().unwrap();
    for content in [
        "",
        "x\n",
        "ID",
        "ID\n",
        " ID \r\n",
        "ID # why\n",
        "# why\n\n \t\n",
        "ID x\n",
        "ID0\n",
        "1234\n",
        "ID\nx # y\n",
    ] {
        fs::write(&list, content.replace("ID", &id)).unwrap();
        agree(content, &repo, &["-c", &format!("fsck.skipList={path}")], &[]);
    }
    for setting in [
        "fsck.skipList=/nonexistent",
        "fsck.skipList=/",
        "fsck.skipList=",
        "fsck.skipList",
        "fsck.skipList=~/none",
        "fsck.skipList=:(optional)/nonexistent",
        "fsck.skipList=/none,/other",
    ] {
        for other in ["fsck.badRefName=warn", "fsck.badRefName=x"] {
            agree(setting, &repo, &["-c", setting, "-c", other], &[]);
            agree(setting, &repo, &["-c", other, "-c", setting], &[]);
        }
    }
    // To git, the words after the path are settings.
    fs::write(&list, "").unwrap();
    fs::write(repo.git_dir().join("refs/heads/a..b"), format!("{id}\n")).unwrap();
    for words in [
        ",",
        " x",
        "|Other",
        ",badRefName=warn",
        " badRefName=ignore||badref:ignore",
        ",badRefName:x",
        " nulInHeader=warn",
        ",none=warn",
        " largePathname=warn:x",
        ",skipList",
        ",skipList=/none",
        " SKIPLIST=LIST badRefName:ignore",
    ] {
        let setting = format!("fsck.skipList={path}{}", words.replace("LIST", path));
        agree(words, &repo, &["-c", &setting], &[]);
    }
}
