//! Compares `refdb for-each-ref` with git's in rare cases: mistakes, odd fields, colors, a HEAD that leads elsewhere.

use crate::{
    common::{Twins, git, refdb, same},
    for_each_ref::repo,
};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::process::Command;

#[test]
fn sizes_are_sorted_as_numbers() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    for (name, length) in [("a", 9), ("b", 100), ("c", 20)] {
        let blob = repo.blob("text");
        let tag = format!("object {blob}\ntype blob\ntag t\ntagger T <t@x> 1 +0000\n\n{}\n", "x".repeat(length));
        let tag = repo.git_with_input(["mktag"], tag);
        repo.git(["update-ref", &format!("refs/tags/{name}"), &tag]);
    }
    for key in ["contents:size", "-contents:size", "raw:size", "*contents:size", "objectsize"] {
        same(repo.dir(), &["for-each-ref", &format!("--sort={key}"), "--format=%(refname) %(contents:size)"], b"");
    }
}

/// Git quotes even an empty color, so refdb must not omit colors from quoted lines.
#[test]
fn colors_are_quoted_as_every_value_is() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    for quote in ["--shell", "--perl", "--python", "--tcl"] {
        for when in ["--color=always", "--color=never"] {
            for format in ["%(color:red)x", "%(color:normal)%(refname)", "%(align:9)%(color:red)a%(end)", "%(flag)"] {
                same(repo.dir(), &["for-each-ref", quote, when, &format!("--format={format}"), "refs/heads/A"], b"");
            }
        }
    }
    for text in ["\u{1b}[31mx", "漢字", "e\u{301}", "\t"] {
        let format = format!("--format=%(align:9)%(color:red){text}%(end)|");
        same(repo.dir(), &["for-each-ref", "--color=always", &format, "refs/heads/A"], b"");
    }
}

#[test]
fn the_flag_of_a_ref_tells_whether_it_is_symbolic_and_packed() {
    for format in RefFormat::ALL {
        let repo = repo(format, HashKind::Sha1);
        repo.git(["pack-refs", "--all"]);
        repo.git(["update-ref", "refs/heads/main", "refs/heads/A"]);
        repo.git(["update-ref", "refs/heads/new", "refs/heads/A"]);
        same(repo.dir(), &["for-each-ref", "--include-root-refs", "--format=%(refname) [%(flag)] [%(*flag:x)]"], b"");
        same(repo.dir(), &["for-each-ref", "--sort=-flag", "--format=%(refname)"], b"");
    }
}

#[test]
fn a_ref_of_a_linked_worktree_is_not_shown_as_packed() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    repo.git(["pack-refs", "--all"]);
    let tree = repo.scratch().join("tree");
    repo.git(["worktree", "add", "-q", "--detach", tree.to_str().unwrap(), "refs/heads/A"]);
    repo.git(["-C", tree.to_str().unwrap(), "update-ref", "refs/worktree/own", "refs/heads/A"]);
    same(&tree, &["for-each-ref", "--format=%(refname) [%(flag)]"], b"");
}

/// With such a tag git lists for ever, depending on the option and the version.
#[test]
fn a_tag_that_a_replacement_makes_lead_to_itself_ends_no_list() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let commit = repo.commit();
    let tag = repo.tag_object(commit, "circle");
    repo.create_refs([("refs/heads/main", commit), ("refs/tags/circle", tag)]);
    let content = format!("object {tag}\ntype tag\ntag circle\ntagger a <a@b> 1 +0000\n\n");
    let by = repo.git_with_input(["hash-object", "-t", "tag", "-w", "--stdin"], content);
    repo.git(["update-ref", &format!("refs/replace/{tag}"), by.trim()]);
    let (main, circle) = ("refs/heads/main", "refs/tags/circle");
    for words in [
        &["for-each-ref", "--points-at", main][..],
        &["for-each-ref", "--format=%(*objecttype)", circle],
        &["for-each-ref", "--format=%(ahead-behind:refs/heads/main)", circle],
        &["for-each-ref", "--contains", main],
        &["tag", "--contains", main],
        &["for-each-ref", "--contains", circle],
    ] {
        let mut listed = Command::new("timeout");
        listed.arg("60").arg(env!("CARGO_BIN_EXE_refdb")).args(words).current_dir(repo.dir());
        let output = listed.output().unwrap();
        assert!(output.status.code().is_some_and(|code| code != 124), "{words:?}: {output:?}");
    }
}

#[test]
fn of_several_mistakes_the_first_is_told_that_git_tells() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    let (tree, missing) = ("main^{tree}", "1234567890123456789012345678901234567890");
    for value in ["nothing", tree, missing, "refs/blob", "v1", ""] {
        for option in ["points-at", "contains", "no-contains", "merged", "no-merged"] {
            for mistake in ["--format=%(nothing)", "--sort=nothing", "--count=-1", "--foo", "--no-points-at"] {
                let option = format!("--{option}={value}");
                same(repo.dir(), &["for-each-ref", &option, mistake], b"");
                same(repo.dir(), &["for-each-ref", mistake, &option], b"");
            }
        }
    }
    for words in [
        &["--merged=nothing", "--contains=nothing"][..],
        &["--contains=nothing", "--merged=nothing"],
        &["--sort=nothing", "--format=%(nothing)"],
        &["--start-after=x", "--format=%(nothing)", "refs"],
        &["--start-after=x", "--sort=nothing"],
        &["--stdin", "x", "--sort=nothing"],
        &["--shell", "--format=%(raw)%(nothing)"],
        &["--shell", "--format=%(nothing)%(raw)"],
        &["--format=%(ahead-behind:nothing)%(nothing)"],
        &["--format=%(nothing)%(ahead-behind:nothing)"],
        &["--sort=ahead-behind:nothing", "--format=%(nothing)"],
        &["--format=%(rest)%(nothing)"],
        &["--sort=rest"],
        &["--sort=**creator"],
        &["--sort=if", "--sort=align:3", "--sort=end"],
        &["--sort=align"],
        &["--format=%(*nothing)"],
        &["--format=%(*authoremail:x)"],
        &["--format=%(*objectname:short=0)"],
        &["--format=%(*objectsize:x)"],
    ] {
        same(repo.dir(), &[&["for-each-ref"], words].concat(), b"");
    }
}

/// Git notices a misplaced beginning or end of a group only when it shows a ref, so without a ref to show it succeeds,
/// unless a field is invalid.
#[test]
fn misplaced_ends_matter_only_where_a_ref_is_shown() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    for format in [
        "%(if)",
        "%(end)",
        "%(then)",
        "%(else)",
        "%(align:3)",
        "%(if)%(then)%(else)%(then)%(end)",
        "%(if)a%(end)%(end)",
        "%(*if)%(then)%(end)",
        "%(if:x)",
        "%(align:x)",
        "%(end)%(nothing)",
    ] {
        for pattern in ["refs/heads", "refs/none"] {
            same(repo.dir(), &["for-each-ref", &format!("--format={format}"), pattern], b"");
        }
    }
}

#[test]
fn fields_with_a_colon_too_many_are_shown_as_git_shows_them() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    for field in
        ["author", "authordate", "authorname", "committer", "tagger", "creator", "creatordate", "body", "tag", "object"]
    {
        for argument in ["", "x"] {
            same(repo.dir(), &["for-each-ref", &format!("--format=%(refname) [%({field}:{argument})]")], b"");
        }
    }
}

#[test]
fn ids_are_as_short_as_is_configured() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    for digits in ["9", "4", "40", "no", "off", "auto"] {
        let setting = format!("core.abbrev={digits}");
        for words in [
            &["for-each-ref", "--format=%(objectname:short) %(objectname:short=5) %(tree:short) %(parent:short)"][..],
            &["show-ref", "--abbrev"],
            &["show-ref", "--abbrev=6"],
            &["show-ref", "--abbrev", "--no-hash"],
            &["show-ref", "--hash=7", "--no-hash"],
        ] {
            same(repo.dir(), &[&["-c", &setting], words].concat(), b"");
        }
    }
}

#[test]
fn the_branch_that_is_checked_out_is_where_head_ends() {
    for format in RefFormat::ALL {
        let repo = repo(format, HashKind::Sha1);
        let words = ["for-each-ref", "--include-root-refs", "--format=%(HEAD)%(refname) [%(worktreepath)]"];
        repo.git(["symbolic-ref", "HEAD", "refs/heads/link"]);
        same(repo.dir(), &words, b"");
        repo.git(["symbolic-ref", "HEAD", "refs/tags/v1"]);
        same(repo.dir(), &words, b"");
        repo.git(["update-ref", "--no-deref", "HEAD", "refs/heads/A"]);
        same(repo.dir(), &words, b"");
        let tree = repo.scratch().join("tree").to_str().unwrap().to_owned();
        repo.git(["worktree", "add", "-q", "-f", &tree, "main"]);
        repo.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
        same(repo.dir(), &words, b"");
    }
}

#[test]
fn a_packed_ref_beside_an_empty_folder_of_its_name_is_shown_as_packed() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    repo.git(["pack-refs", "--all"]);
    std::fs::create_dir_all(repo.git_dir().join("refs/heads/main/empty")).unwrap();
    same(repo.dir(), &["for-each-ref", "--format=%(refname) %(flag)"], b"");
}

#[test]
fn what_cannot_be_quoted_is_named_as_it_was_asked_for() {
    let repo = repo(RefFormat::Files, HashKind::Sha1);
    for format in ["%(raw)", "%(*raw)", "%(raw:)", "%(*raw:size)"] {
        same(repo.dir(), &["for-each-ref", "--shell", &format!("--format={format}")], b"");
    }
}

/// Regression: the search for the ref that tracks a branch ended at a refspec without a destination.
#[test]
fn a_refspec_without_a_destination_leaves_a_name_to_the_others() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs(["refs/heads/b", "refs/heads/bc", "refs/remotes/o/b", "refs/remotes/p/b"].map(|name| (name, id)));
    for (key, value) in [("url", "x"), ("remote", "o"), ("merge", "refs/heads/b")] {
        let section = if key == "url" { "remote.o" } else { "branch.b" };
        repo.config(&format!("{section}.{key}"), value);
    }
    let all = "+refs/heads/*:refs/remotes/o/*";
    let specs = [
        &["refs/heads/b", all][..],
        &["refs/heads/b", "+refs/heads/b:refs/remotes/p/b", all],
        &["refs/heads/b:", all],
        &["^refs/heads/b", all],
        &[all, "^refs/heads/b"],
        &["+refs/heads/*:refs/heads/*", "^refs/heads/b"],
        &["+refs/heads/*:refs/heads/*", "^refs/heads/b*"],
        &["+refs/heads/x:refs/heads/b", "+refs/heads/b:refs/heads/bc", "^refs/heads/x"],
        &["+refs/heads/x*:refs/heads/*", "+refs/heads/b:refs/heads/bc", "^refs/heads/xb"],
        &["+refs/heads/x*:refs/heads/*", "+refs/heads/b:refs/heads/bc", "^refs/heads/xc"],
        &["+refs/heads/b:refs/heads/bc", "^refs/heads/b*"],
        &["refs/heads/b", all, "^refs/heads/b*"],
        &[all, "^refs/heads/b*", "+refs/heads/bc:refs/heads/b"],
        &[":", "refs/heads/*:refs/heads/x/*", "^refs/heads/b"],
        &["refs/heads/*:refs/heads/x/*", "+:", "^refs/heads/b"],
        &[":", "^refs/heads/b"],
    ];
    let fields = "%(upstream) %(upstream:track) %(upstream:remotename) %(push) %(push:track) %(push:remoteref)";
    for (key, specs) in ["fetch", "push"].into_iter().flat_map(|key| specs.iter().map(move |specs| (key, specs))) {
        // git refuses to delete a branch by an empty destination.
        if key == "push" && specs[0].ends_with(':') {
            continue;
        }
        let others = if key == "push" { format!("remote.o.fetch={all}") } else { "push.default=current".to_owned() };
        let settings = specs.iter().map(|spec| format!("remote.o.{key}={spec}")).chain([others]);
        let mut words: Vec<String> = settings.flat_map(|setting| ["-c".to_owned(), setting]).collect();
        words.extend(["for-each-ref".into(), format!("--format=%(refname) {fields}")]);
        same(repo.dir(), &words, b"");
    }
}

/// Regression: for-each-ref wrote colors to a terminal that has none, and no list wrote them to git's pager.
#[test]
fn colors_depend_on_the_terminal_and_the_pager() {
    let mut twins = Twins::new(RefFormat::Files, &|repo| {
        repo.create_refs([("refs/heads/main", repo.commit()), ("refs/heads/other", repo.commit())]);
    });
    let format = "--format=%(color:red)%(refname)";
    for (term, pager) in [("xterm", "1"), ("xterm", "0"), ("xterm", ""), ("dumb", "true"), ("", "yes")] {
        twins.environment = vec![("TERM", term.into()), ("GIT_PAGER_IN_USE", pager.into())];
        for settings in [
            &[][..],
            &["-c", "color.pager=false"],
            &["-c", "color.pager"],
            &["-c", "color.ui=false"],
            &["-c", "color.branch=auto"],
            &["-c", "column.ui=auto"],
        ] {
            for words in [&["for-each-ref", format][..], &["branch"], &["branch", format], &["tag", "-l", format]] {
                twins.same(&[settings, words].concat(), b"");
            }
        }
        for date in ["auto:raw", "auto:bogus"] {
            twins.same(&["for-each-ref", &format!("--format=%(committerdate:{date})")], b"");
        }
    }
    // Previously, `--color=auto` left the choice to the configuration.
    for settings in [&[][..], &["-c", "color.ui=always"], &["-c", "color.branch=always"], &["-c", "color.branch=bad"]] {
        for when in ["ALWAYS", "Never", "AUTO", "", "true"] {
            for words in [&["for-each-ref", format][..], &["branch", "--list"], &["tag", "--list", format]] {
                twins.same(&[settings, words, &[&format!("--color={when}")]].concat(), b"");
            }
        }
    }
}

/// Regression: a form feed counted as white space, which it does not in git.
#[test]
fn a_form_feed_is_no_white_space() {
    let twins = Twins::new(RefFormat::Files, &|repo| repo.create_refs([("refs/heads/main", repo.commit())]));
    for character in ["\t", "\n", "\u{b}", "\u{c}", "\r"] {
        twins.same(&["for-each-ref", &format!("--format=%(if){character}%(then)yes%(else)no%(end)")], b"");
        let format = format!("--format=%(color:red{character}blue)%(refname)");
        twins.same(&["for-each-ref", "--color=always", &format], b"");
        for line in [
            "Cdelete refs/heads/main\n",
            "deleteCrefs/heads/main\n",
            "delete refs/heads/mainC\n",
            "delete \"refs/heads/main\"C\n",
        ] {
            twins.same(&["update-ref", "--stdin"], line.replace('C', character).as_bytes());
        }
        for line in ["aCrefs/heads/new\n", "refs/heads/newC\n"] {
            twins.same(&["show-ref", "--exclude-existing"], line.replace('C', character).as_bytes());
        }
    }
}

/// Regression: fields that need no object were shown for a tag that git refuses.
#[test]
fn every_starred_field_needs_a_sound_tag() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let lie = format!("object {id}\ntype blob\ntag t\ntagger T <t@x> 1 +0000\n\nm\n");
    let lie = repo.git_with_input(["hash-object", "-t", "tag", "-w", "--stdin", "--literally"], lie);
    repo.create_refs([("refs/heads/main", id), ("refs/tags/good", repo.tag_object(id, "good"))]);
    let fields = ["HEAD", "color:red", "flag", "worktreepath", "refname", "symref", "body:"];
    let ask = |field: &str, tag: &str| ["for-each-ref".to_owned(), format!("--format=%(*{field})|"), tag.to_owned()];
    for field in fields {
        same(repo.dir(), &ask(field, "refs/tags/good"), b"");
    }
    repo.git(["update-ref", "refs/tags/lie", &lie]);
    for field in fields.into_iter().chain([
        "upstream",
        "push",
        "is-base:main",
        "ahead-behind:main",
        "align:9)%(end",
        "if)%(then)x%(end",
    ]) {
        let said = [git, refdb].map(|run| run(repo.dir(), &ask(field, "refs/tags/lie"), b""));
        let [of_git, own] = said.map(|output| (output.status.code(), output.stdout));
        assert_eq!(own, of_git, "{field}");
        assert_eq!(own.0, Some(128), "{field}");
    }
}
