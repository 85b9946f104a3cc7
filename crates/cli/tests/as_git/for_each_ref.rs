//! Compares `refdb for-each-ref` with git's.

use crate::common::{git, refdb, same};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;

pub(crate) fn repo(format: RefFormat, hash: HashKind) -> Repo {
    let repo = Repo::with_worktree(format, hash);
    let commits = repo.commits(4);
    let tag = repo.tag_object(commits[0], "v1");
    let nested = repo.tag_object(tag, "v2");
    let blob = repo.blob("text");
    repo.create_refs([
        ("refs/heads/main", commits[3]),
        ("refs/heads/v1", commits[1]),
        ("refs/heads/A", commits[0]),
        ("refs/heads/b", commits[2]),
        ("refs/heads/dir/x", commits[2]),
        ("refs/heads/dir-y", commits[2]),
        ("refs/remotes/origin/main", commits[0]),
        ("refs/remotes/main/HEAD", commits[0]),
        ("refs/tags/v1", tag),
        ("refs/tags/v2", nested),
        ("refs/tags/v1.10", commits[1]),
        ("refs/tags/v1.9", commits[1]),
        ("refs/blob", blob),
    ]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/dir/x"]);
    repo.git(["symbolic-ref", "refs/heads/dangling", "refs/heads/none"]);
    repo.git(["update-ref", "ORIG_HEAD", "refs/heads/A"]);
    repo
}

const ALL_FIELDS: &str = "%(refname)|%(refname:short)|%(refname:lstrip=1)|%(refname:rstrip=-1)|%(objectname)|\
    %(objectname:short)|%(objectname:short=12)|%(objecttype)|%(objectsize)|%(symref)|%(symref:short)|%(HEAD)|\
    %(*objectname)|%(*objecttype)|%(*objectsize)|%(*refname)|%(tree)|%(tree:short)|%(parent)|%(parent:short)|\
    %(numparent)|%(object)|%(type)|%(tag)|%(*tag)|%(author)|%(authorname)|%(authoremail)|%(authoremail:trim)|\
    %(authoremail:localpart)|%(authordate)|%(authordate:short)|%(authordate:iso)|%(authordate:iso-strict)|\
    %(authordate:rfc)|%(authordate:raw)|%(authordate:unix)|%(committer)|%(committerdate)|%(tagger)|%(taggername)|\
    %(taggerdate)|%(creator)|%(creatordate)|%(*authorname)|%(subject)|%(subject:sanitize)|%(body)|%(contents)|\
    %(contents:subject)|%(contents:body)|%(contents:size)|%(contents:lines=2)|%(contents:signature)|%(raw:size)|\
    %(if)%(HEAD)%(then)%(HEAD)%(else)no%(end)|%(if:equals=tag)%(objecttype)%(then)t%(end)|%(align:20,right)%(refname)%(end)|\
    %(align:width=30,position=middle)%(refname:short)%(end)|%%|%41|%zz";

const LINES: &[&[&str]] = &[
    &[],
    &["--format=%(refname)"],
    &["--format=%(objectname) %(refname)"],
    &["--format=x"],
    &["--format="],
    &["--omit-empty", "--format=%(symref)"],
    &["--include-root-refs"],
    &["--include-root-refs", "refs/heads", "HEAD"],
    &["--count=3"],
    &["--count=2k", "--sort=-refname"],
    &["--count=0"],
    &["--count=-1"],
    &["--count=x"],
    &["--count"],
    &["--count=99999999999"],
    &["refs/heads"],
    &["refs/heads/"],
    &["refs/heads/d"],
    &["refs/heads/dir"],
    &["refs/heads/*"],
    &["refs/heads/**"],
    &["**/main"],
    &["refs/*/main", "refs/tags/v1"],
    &["refs/heads", "refs/heads/dir", "refs"],
    &["refs/tags/v1.[0-9]*"],
    &["main"],
    &[""],
    &["--exclude=refs/heads", "--exclude=refs/tags/*"],
    &["--exclude=refs/heads/", "refs/heads"],
    &["--ignore-case", "REFS/HEADS/MAIN"],
    &["--ignore-case", "REFS/HEADS"],
    &["--ignore-case", "--sort=refname", "refs/heads"],
    &["--start-after=refs/heads/main"],
    &["--start-after=refs/heads/mai"],
    &["--start-after=refs/tags", "--count=1"],
    &["--start-after=refs/heads/main", "--exclude=refs/tags"],
    &["--start-after=x", "--sort=refname"],
    &["--start-after=x", "refs"],
    &["--sort=-refname"],
    &["--sort=version:refname", "refs/tags"],
    &["--sort=-v:refname", "refs/tags"],
    &["--sort=objecttype"],
    &["--sort=objectsize", "--sort=-objecttype"],
    &["--sort=-objectname", "--sort=refname:short"],
    &["--sort=creatordate", "--sort=-refname"],
    &["--sort=-creatordate"],
    &["--sort=*objectname"],
    &["--sort=HEAD"],
    &["--sort=foo"],
    &["--sort="],
    &["--sort"],
    &["--sort=foo", "--no-sort"],
    &["--points-at=main"],
    &["--points-at=v1"],
    &["--points-at", "refs/heads/A"],
    &["--points-at=refs/heads/A", "--points-at=main", "refs/heads"],
    &["--points-at=nothing"],
    &["--contains=refs/heads/v1"],
    &["--contains"],
    &["--no-contains=refs/heads/v1"],
    &["--contains", "refs/heads/b", "--no-contains", "refs/heads/main"],
    &["--merged=refs/heads/b"],
    &["--merged"],
    &["--no-merged=refs/heads/b", "refs/heads"],
    &["--merged=nothing"],
    &["--contains=nothing"],
    &["--shell", "--format=r=%(refname) s=%(subject)", "refs/tags"],
    &["--perl", "--format=%(contents)"],
    &["--python", "--format=%(contents)"],
    &["--tcl", "--format=%(contents)"],
    &["--shell", "--perl"],
    &["--shell", "--no-shell", "--tcl", "--format=%(refname)"],
    &["--shell", "--format=%(raw)"],
    &["--format=%(color:red)%(refname)%(color:reset)", "--color"],
    &["--format=%(color:bold red)%(refname)", "--color=always"],
    &["--format=%(color:red)%(refname)", "--color=never"],
    &["--color=foo"],
    &["--format=%(nothing)"],
    &["--format=%(refname"],
    &["--format=%(if)x"],
    &["--no-c"],
    &["--foo"],
    &["--stdin", "x"],
    &["--end-of-options", "refs/heads"],
    &["-h"],
];

#[test]
fn refs_are_listed_as_git_lists_them() {
    for (format, hash) in Repo::KINDS {
        let repo = repo(format, hash);
        for packed in [false, true] {
            if packed {
                repo.git(["pack-refs", "--all"]);
            }
            for words in LINES {
                same(repo.dir(), &[&["for-each-ref"], *words].concat(), b"");
            }
            same(repo.dir(), &["for-each-ref", &format!("--format={ALL_FIELDS}")], b"");
            same(repo.dir(), &["for-each-ref", "--shell", &format!("--format={ALL_FIELDS}")], b"");
        }
    }
}

#[test]
fn patterns_come_from_standard_input_too() {
    let repo = repo(RefFormat::Reftable, HashKind::Sha1);
    let odd = [&b"refs/tags/v1\r\nrefs/heads\r\n"[..], b"refs/tags\r", b"refs/tags\r\r\n", b"refs/tags\0x\n", b"\r\n"];
    for input in [&b"refs/tags/v1\nrefs/heads\n"[..], b"", b"\n", b"refs/tags"].into_iter().chain(odd) {
        same(repo.dir(), &["for-each-ref", "--stdin"], input);
    }
}

#[test]
fn versions_are_sorted_by_their_configured_suffixes() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let versions =
        ["1.0", "1.0-rc1", "1.0-rc10", "1.0-rc2", "1.0-pre1", "1.0-ck1", "1.0rc", "1.10", "1.9-rc", "-rc", "rc-rc-pre"];
    repo.create_refs(versions.map(|version| (format!("refs/tags/v{version}"), id)));
    for settings in [
        &["versionsort.suffix=-rc"][..],
        &["versionsort.suffix=-pre", "versionsort.suffix=-rc"],
        &["versionsort.suffix=-rc", "versionsort.suffix=", "versionsort.suffix=-ck"],
        &["versionsort.suffix=-r", "versionsort.suffix=-rc", "versionsort.suffix=rc"],
        &["versionsort.prereleaseSuffix=-rc"],
        &["versionsort.prereleaseSuffix=-rc", "versionsort.suffix=-pre"],
        &["versionsort.suffix=-rc", "versionsort.suffix"],
        &["versionsort.prereleaseSuffix"],
    ] {
        let globals: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
        for words in [
            &["for-each-ref", "--sort=version:refname", "--format=%(refname)"][..],
            &["for-each-ref", "--sort=-v:refname:short"],
            &["for-each-ref", "--sort=refname"],
            &["for-each-ref", "--sort=v:refname", "refs/tags/v1.0"],
        ] {
            same(repo.dir(), &[&globals[..], words].concat(), b"");
        }
    }
}

/// A missing peeled value in a reftable or packed-refs does not mean that the ref holds no tag, because a broken tag
/// has none either.
#[test]
fn a_tag_that_names_the_wrong_type_is_refused_whatever_is_shown_of_it() {
    for format in RefFormat::ALL {
        let repo = Repo::bare(format, HashKind::Sha1);
        let good = repo.tag_object(repo.commit(), "good");
        let content = repo.git(["cat-file", "tag", &good.to_string()]).replace("type commit", "type blob");
        let bad = repo.git_with_input(["hash-object", "-w", "-t", "tag", "--stdin"], content + "\n");
        repo.create_refs([("refs/tags/good", good), ("refs/tags/light", repo.commit())]);
        repo.git(["update-ref", "refs/tags/wrong", &bad]);
        for field in ["*objectname", "*objecttype", "*refname", "*subject", "*objectsize"] {
            same(repo.dir(), &["for-each-ref", &format!("--format=%(refname) %({field})")], b"");
        }
        let shown = refdb(repo.dir(), &["show-ref", "-d"], b"").stdout;
        assert_eq!(String::from_utf8(shown).unwrap().trim_end(), repo.git(["show-ref", "-d"]));
    }
}

#[test]
fn a_tag_that_its_store_took_for_none_is_followed() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let tag = repo.tag_object(repo.commit(), "v1");
    let packed = format!("# pack-refs with: peeled fully-peeled sorted \n{tag} refs/tags/v1\n");
    std::fs::write(repo.git_dir().join("packed-refs"), packed).unwrap();
    same(repo.dir(), &["for-each-ref", "--format=%(refname) %(*objectname)"], b"");
    same(repo.dir(), &["show-ref", "-d"], b"");
}

#[test]
fn short_names_are_as_short_as_git_makes_them() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        let id = repo.commit();
        let parts = ["a", "a-b", "b/c", "b/c-d", "b/c/HEAD", "heads/a", "tags/b", "z"];
        let folders = ["heads/", "tags/", "remotes/", "remotes/z/", ""];
        // Two of three combinations exist, unless they conflict with an earlier name.
        let mut names: Vec<String> = Vec::new();
        for (at, (part, folder)) in parts.iter().flat_map(|part| folders.map(|folder| (part, folder))).enumerate() {
            let name = format!("refs/{folder}{part}");
            let in_the_way = |other: &String| {
                name == *other || name.starts_with(&format!("{other}/")) || other.starts_with(&format!("{name}/"))
            };
            if at % 3 != 1 && !names.iter().any(in_the_way) {
                names.push(name);
            }
        }
        repo.create_refs(names.iter().map(|name| (name, id)));
        repo.git(["symbolic-ref", "refs/remotes/q/HEAD", "refs/heads/a"]);
        repo.git(["symbolic-ref", "refs/tags/dangling", "refs/heads/none"]);
        repo.git(["update-ref", "refs/heads/dangling", &id.to_string()]);
        for name in ["refs/heads/HEAD", "refs/heads/q"] {
            repo.git(["update-ref", name, &id.to_string()]);
        }
        for packed in [false, true] {
            if packed {
                repo.git(["pack-refs", "--all"]);
            }
            for warn in ["core.warnAmbiguousRefs=true", "core.warnAmbiguousRefs=false"] {
                let format = "--format=%(refname) %(refname:short) %(symref:short)";
                same(repo.dir(), &["-c", warn, "for-each-ref", "--include-root-refs", format], b"");
                same(repo.dir(), &["-c", warn, "for-each-ref", "--sort=-refname", format], b"");
            }
        }
        for name in &names {
            repo.git(["symbolic-ref", "refs/heads/link", name]);
            same(repo.dir(), &["symbolic-ref", "--short", "refs/heads/link"], b"");
        }
    }
}

const REMOTES: &str = r#"
[remote "origin"]
    url = /nowhere
    fetch = ^refs/heads/b
    fetch = +refs/heads/*:refs/remotes/origin/*
    fetch = refs/tags/c:refs/remotes/origin/tag-c
[remote "fork"]
    url = /elsewhere
    fetch = +refs/heads/*:refs/remotes/fork/x/*
    push = HEAD
    push = refs/heads/b:refs/heads/bb
    push = refs/heads/*:refs/heads/prefix/*
[remote "mirror"]
    fetch = +refs/heads/*:refs/remotes/mirror/*
    mirror = true
[branch "a"]
    remote = origin
    merge = refs/heads/a
[branch "b"]
    remote = origin
    merge = refs/heads/other
[branch "c"]
    remote = .
    merge = a
[branch "d"]
    remote = origin
    merge = refs/heads/gone
    pushRemote = fork
[branch "e"]
    remote = no-such-remote
    merge = refs/heads/e
[branch "f"]
    remote = origin
    merge = refs/tags/c
    pushRemote = mirror
[branch "g"]
    merge = refs/heads/a
[branch "dir/h"]
    remote = origin
[branch "diverged"]
    remote = origin
    merge = refs/heads/diverged
    merge = refs/heads/a
"#;

fn repo_with_remotes(format: RefFormat) -> Repo {
    let repo = Repo::with_worktree(format, HashKind::Sha1);
    let commits = repo.commits(6);
    // A fork and a merge of both lines: `diverged` gets the fork's one commit, and its upstream the merge, which is
    // three commits ahead.
    let tree = repo.git(["rev-parse", &format!("{}^{{tree}}", commits[0])]);
    let make = |parents: &[String]| {
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        repo.git(["commit-tree", "-m", "more"].into_iter().chain(parents).chain([tree.as_str()]))
    };
    let side = make(&[commits[2].to_string()]);
    let merge = make(&[commits[4].to_string(), side.clone()]);
    let names = ["a", "b", "c", "d", "e", "f", "g", "dir/h", "main"];
    repo.create_refs(names.map(|name| (format!("refs/heads/{name}"), commits[5])));
    repo.create_refs([
        ("refs/remotes/origin/a", commits[3]),
        ("refs/remotes/origin/b", commits[5]),
        ("refs/remotes/origin/tag-c", commits[5]),
        ("refs/remotes/fork/x/prefix/d", commits[1]),
        ("refs/remotes/mirror/f", commits[0]),
    ]);
    repo.git(["update-ref", "refs/heads/diverged", &side]);
    repo.git(["update-ref", "refs/remotes/origin/diverged", &merge]);
    let config = repo.git_dir().join("config");
    let text = std::fs::read_to_string(&config).unwrap() + REMOTES;
    std::fs::write(config, text).unwrap();
    repo
}

#[test]
fn branches_tell_where_they_come_from_and_go_to_as_in_git() {
    let fields = |field: &str| {
        let forms = ["", ":short", ":lstrip=2", ":rstrip=-2", ":track", ":track,nobracket", ":nobracket,track"];
        let forms = forms.into_iter().chain([":trackshort", ":remotename", ":remoteref", ":track,trackshort", ":"]);
        forms.map(|form| format!("{form}=%({field}{form})")).collect::<Vec<_>>().join(" ")
    };
    let format = format!("--format=%(refname) {} -- {}", fields("upstream"), fields("push"));
    for kind in RefFormat::ALL {
        let repo = repo_with_remotes(kind);
        for settings in [
            &[][..],
            &["push.default=nothing"],
            &["push.default=current"],
            &["push.default=matching"],
            &["push.default=upstream"],
            &["push.default=simple"],
            &["remote.pushDefault=fork"],
            &["remote.pushDefault=mirror"],
            &["remote.pushDefault=none"],
            &["remote.origin.push=:"],
            &["remote.origin.push=^refs/heads/a", "remote.origin.push=refs/heads/*:refs/heads/x/*"],
        ] {
            let globals: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
            same(repo.dir(), &[&globals[..], &["for-each-ref", &format]].concat(), b"");
        }
        same(repo.dir(), &["for-each-ref", "--sort=upstream", "--sort=-push:trackshort"], b"");
        for field in ["upstream:foo", "upstream:short,track", "push:track,lstrip=1", "push:lstrip=x", "symref:lstrip=x"]
        {
            same(repo.dir(), &["for-each-ref", &format!("--format=%({field})")], b"");
        }
    }
}

#[test]
fn refs_tell_how_far_they_are_ahead_and_behind_as_in_git() {
    let repo = repo_with_remotes(RefFormat::Reftable);
    let tag = repo.tag_object(repo.rev_parse("refs/remotes/origin/a"), "v1");
    repo.create_refs([("refs/tags/v1", tag)]);
    for base in ["main", "origin/diverged", "v1", "a~2", "nothing", "HEAD^{tree}", ""] {
        let field = format!("ahead-behind:{base}");
        same(repo.dir(), &["for-each-ref", &format!("--format=%(refname) %({field}) %(*{field})")], b"");
        same(repo.dir(), &["for-each-ref", &format!("--sort={field}"), "refs/heads", "refs/remotes"], b"");
    }
}

#[test]
fn branches_tell_in_which_working_tree_they_are_checked_out() {
    for format in RefFormat::ALL {
        let repo = repo_with_remotes(format);
        let tree = |name: &str| repo.scratch().join(name).to_str().unwrap().to_owned();
        repo.git(["worktree", "add", "-q", &tree("one"), "a"]);
        repo.git(["worktree", "add", "-q", "--detach", &tree("two"), "b"]);
        repo.git(["worktree", "add", "-q", "--relative-paths", &tree("three"), "c"]);
        repo.git(["worktree", "add", "-q", &tree("gone"), "d"]);
        std::fs::remove_dir_all(tree("gone")).unwrap();
        let words = ["for-each-ref", "--format=%(HEAD)%(refname) %(worktreepath)%(worktreepath:x)"];
        same(repo.dir(), &words, b"");
        same(std::path::Path::new(&tree("one")), &words, b"");
        same(repo.git_dir(), &words, b"");
        let bare = tree("bare.git");
        repo.git(["clone", "-q", "--bare", ".", &bare]);
        same(std::path::Path::new(&bare), &words, b"");
    }
}

#[test]
fn times_are_shown_in_all_forms_as_git_shows_them() {
    let repo = repo(RefFormat::Reftable, HashKind::Sha1);
    for form in [
        "local",
        "default-local",
        "iso-local",
        "iso8601-strict-local",
        "rfc-local",
        "short-local",
        "raw-local",
        "unix-local",
        "auto:iso",
        "auto:iso-local",
        "format:%a %A %b %B %d %D %e %F %g %G %H %I %j %k %l %m %M %n %p %P %r %R %S %t %T %u %U %V %w %W %x %X %y %Y %c %%",
        "format:%s %z %Z %h %C %-d %_H %03j %^a %Ey %Od %E %q %5Y %",
        "format-local:%s %z %Z %c",
        "format:",
        "format",
        "format-local",
        "iso-locall",
        "foo",
        "auto:foo",
    ] {
        let format = format!("--format=%(authordate:{form}) %(creatordate:{form})");
        same(repo.dir(), &["for-each-ref", &format], b"");
    }
    for key in ["-authordate:iso-local", "authordate:unix", "creatordate:format:%M:%S", "-creatordate:local"] {
        same(repo.dir(), &["for-each-ref", &format!("--sort={key}")], b"");
    }
}

#[test]
fn history_ends_where_a_shallow_clone_ends() {
    let origin = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let commits = origin.commits(5);
    origin.create_refs([("refs/heads/main", commits[4]), ("refs/heads/old", commits[3])]);
    let folder = origin.scratch().join("shallow");
    let (url, path) = (format!("file://{}", origin.dir().display()), folder.to_str().unwrap());
    origin.git(["clone", "-q", "--depth=2", "--no-single-branch", &url, path]);
    origin.git(["-C", path, "branch", "-q", "old", "origin/old"]);
    origin.git(["-C", path, "branch", "-q", "--set-upstream-to=origin/main", "old"]);
    for words in [
        &["--contains=origin/old"][..],
        &["--no-contains=origin/main"],
        &["--merged=origin/main"],
        &["--no-merged=origin/old"],
        &["--format=%(refname) %(upstream:track)"],
    ] {
        same(&folder, &[&["for-each-ref"], words].concat(), b"");
    }
}

#[test]
fn a_tag_whose_peeled_line_git_left_out_is_found_by_the_commit_it_leads_to() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let commits = repo.commits(2);
    let tag = repo.tag_object(commits[0], "v1");
    let packed = repo.git_dir().join("packed-refs");
    std::fs::write(&packed, format!("{tag} refs/tags/v1\n{} refs/tags/v2\n", commits[0])).unwrap();
    repo.git(["update-ref", "refs/heads/main", &commits[1].to_string()]);
    repo.git(["pack-refs", "--all"]);
    let text = std::fs::read_to_string(&packed).unwrap();
    assert!(text.contains("fully-peeled") && !text.contains('^'), "git has learnt it: {text}");
    for words in [&["main~1"][..], &["v1"], &["main"], &["main~1", "refs/tags/"]] {
        let words: Vec<_> = ["for-each-ref", "--points-at"].iter().chain(words).collect();
        same(repo.dir(), &words, b"");
    }
}

#[test]
fn the_only_remote_is_where_a_branch_without_one_is_pushed_to() {
    for settings in [
        &["remote.up.fetch=+refs/heads/*:refs/remotes/up/*"][..],
        &["remote.up.fetch=+refs/heads/*:refs/remotes/up/*", "push.default=current"],
        &["remote.up.fetch=+refs/heads/*:refs/remotes/up/*", "remote.up.mirror"],
        &["remote.up.fetch=+refs/heads/*:refs/remotes/up/*", "remote.up.mirror=false", "push.default=matching"],
        &["remote.up.fetch=+refs/heads/*:refs/remotes/up/*", "remote.up.push=refs/heads/a:refs/heads/b"],
        &["remote.up.fetch=+refs/heads/*:refs/remotes/up/*", "remote.up.push=HEAD", "remote.up.mirror=true"],
        &["remote.up.fetch=+refs/heads/*:refs/remotes/up/*", "remote.down.url=x", "push.default=current"],
        &["remote.up.fetch=+refs/heads/*:refs/remotes/up/*", "remote.pushDefault=none", "push.default=current"],
    ] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let id = repo.commit();
        repo.create_refs([("refs/heads/a", id), ("refs/heads/b", id), ("refs/remotes/up/a", id)]);
        let mut words: Vec<_> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
        let fields = "%(push) %(push:short) %(push:track) %(push:remotename) %(push:remoteref)";
        let format = format!("--format=%(refname) {fields}");
        words.extend(["for-each-ref", &format, "refs/heads"]);
        same(repo.dir(), &words, b"");
    }
}

#[test]
fn remotes_that_files_describe_are_read() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/a", id), ("refs/remotes/old/a", id)]);
    let fields =
        "%(upstream) %(upstream:remotename) %(upstream:remoteref) %(push) %(push:remotename) %(push:remoteref)";
    let format = format!("--format=%(refname) {fields}");
    for folder in ["remotes", "branches"] {
        std::fs::create_dir_all(repo.git_dir().join(folder)).unwrap();
    }
    let all = "Pull: refs/heads/*:refs/remotes/old/*\n";
    for (remotes, branches) in [
        (Some(format!("URL: /x\n{all}")), None),
        (Some(all.to_owned()), None),
        (Some(format!("URL: /x\n{all}")), Some("/y")),
        (Some(all.to_owned()), Some("/y#a")),
        (
            Some(
                "URL:/x\r\nPush:\t refs/heads/a:refs/heads/t  \n Pull: x:y\nPull:refs/heads/t:refs/remotes/old/a\n"
                    .into(),
            ),
            None,
        ),
        (Some(String::new()), None),
        (None, Some("/y\n")),
        (None, Some("/y#a\n")),
        (None, Some("\n")),
        (None, None),
    ] {
        for name in ["old", "origin"] {
            for (folder, text) in [("remotes", remotes.as_deref()), ("branches", branches)] {
                let path = repo.git_dir().join(folder).join(name);
                match text {
                    Some(text) => std::fs::write(path, text).unwrap(),
                    None => drop(std::fs::remove_file(path)),
                }
            }
        }
        for settings in [
            &["branch.a.remote=old", "branch.a.merge=refs/heads/a"][..],
            &["branch.a.remote=old", "branch.a.merge=refs/heads/master"],
            &["branch.a.remote=old", "branch.a.merge=refs/heads/a", "init.defaultBranch=a"],
            &["branch.a.remote=old", "branch.a.merge=refs/heads/a", "remote.old.fetch=refs/heads/a:refs/x/a"],
            &["branch.a.remote=old", "branch.a.merge=refs/heads/a", "remote.old.url=/z"],
            &["branch.a.pushRemote=old", "push.default=current"],
            &["remote.pushDefault=old", "push.default=current"],
            &["push.default=current"],
        ] {
            let mut words: Vec<_> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
            words.extend(["for-each-ref", &format, "refs/heads"]);
            let said = [git(repo.dir(), &words, b""), refdb(repo.dir(), &words, b"")];
            let what = format!("{words:?}: {remotes:?}, {branches:?}");
            let text = |bytes| String::from_utf8(bytes).unwrap();
            let [of_git, own] = said.map(|output| (text(output.stdout), text(output.stderr)));
            assert_eq!(own.0, of_git.0, "{what}");
            // Git warns only of the files that it needs for these refs, and gives a hint about `init.defaultBranch`.
            let warning = of_git.1.split("hint: ").next().unwrap();
            assert!(own.1.contains(warning), "{what}: {}", own.1);
        }
    }
}
