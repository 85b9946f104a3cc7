//! Which repository is found, and the message where none is: as real git, environment by environment.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod place;

use place::Place;
use refdb_repo::{Repository, RepositoryError};
use refdb_vfs::Fs;
use std::{fs, os::unix::fs::symlink, path::Path, sync::mpsc, time::Duration};
#[test]
fn repositories_are_found_from_everywhere_inside_them() {
    let place = Place::new();
    for dir in [
        "main",
        "main/sub/deep",
        "main/.git",
        "main/.git/refs/heads",
        "main/.git/worktrees/linked",
        "linked",
        "bare.git",
        "bare.git/refs",
        "tables",
        "long",
    ] {
        place.same(dir, &[]);
    }
    place.same_error("none/deep", &[]);
}

#[test]
fn git_dir_names_the_repository() {
    let place = Place::new();
    fs::create_dir(place.path("by-file")).unwrap();
    fs::write(place.path("by-file/.git"), "gitdir: ../main/.git\n").unwrap();
    for dir in ["main/.git", "bare.git", "linked/.git", "main/.git/worktrees/linked", "by-file/.git"] {
        place.same("", &[("GIT_DIR", dir)]);
    }
    place.same("", &[("GIT_DIR", place.path("main/.git").to_str().unwrap())]);
    place.same("", &[("GIT_DIR", "main/.git"), ("GIT_COMMON_DIR", "bare.git")]);
    place.same("main", &[("GIT_COMMON_DIR", "../bare.git")]);
    place.same("", &[("GIT_DIR", "bare.git"), ("GIT_WORK_TREE", "none")]);
    for dir in ["nope", "main", "none", ""] {
        place.same_error("main", &[("GIT_DIR", dir)]);
    }
    place.same_error("main", &[("GIT_COMMON_DIR", "../nope")]);
    place.same_error("main", &[("GIT_OBJECT_DIRECTORY", "nope")]);
}

#[test]
fn the_search_stops_at_ceilings() {
    let place = Place::new();
    let ceiling = |below: &str| place.path(below).to_str().unwrap().to_owned();
    symlink(place.path("main"), place.path("link")).unwrap();
    for (below, found) in [("main", false), ("main/sub", false), ("main/sub/deep", true), ("ma", true), ("link", false)]
    {
        let list = ceiling(below);
        let compared = place.compare("main/sub/deep", &[("GIT_CEILING_DIRECTORIES", &list)]);
        assert_eq!(compared.is_ok(), found, "{below}");
    }
    let unresolved = format!(":{}", ceiling("link"));
    place.same("main/sub/deep", &[("GIT_CEILING_DIRECTORIES", &unresolved)]);
    let list = format!("/elsewhere:{}:{}", ceiling("main"), ceiling(""));
    place.same_error("main/sub/deep", &[("GIT_CEILING_DIRECTORIES", &list)]);
    place.same("main/sub/deep", &[("GIT_CEILING_DIRECTORIES", "relative")]);
}

#[test]
fn git_files_lead_to_repositories_or_are_complained_about() {
    let place = Place::new();
    let file = place.path("none/.git");
    for (content, good) in [
        ("gitdir: ../main/.git\n", true),
        ("gitdir: ../main/.git\r\n\n", true),
        ("gitdri: ../main/.git\n", false),
        ("gitdir:../main/.git\n", false),
        ("gitdir: \n", false),
        ("", false),
    ] {
        fs::write(&file, content).unwrap();
        assert_eq!(place.compare("none/deep", &[]).is_ok(), good, "{content:?}");
    }
    // Here git prints "(null)" for the path; a message that names it is of more use.
    fs::write(&file, "gitdir: ../nope\n").unwrap();
    let said = place.our_answer("none", &[]).unwrap_err();
    assert_eq!(said, format!("fatal: not a git repository: {}\n", place.path("none/../nope").display()));
    assert_eq!(place.gits_answer("none", &[]).unwrap_err(), "fatal: not a git repository: (null)\n");
    fs::remove_file(&file).unwrap();
    // Neither an empty folder nor a dangling link is a repository, and neither stops the search.
    fs::create_dir(&file).unwrap();
    place.same_error("none", &[]);
    fs::remove_dir(&file).unwrap();
    symlink("nowhere", &file).unwrap();
    place.same_error("none", &[]);
    fs::remove_file(&file).unwrap();
    symlink("../main/.git", &file).unwrap();
    place.same("none/deep", &[]);
    fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    place.same_error("none", &[]);
}

/// git waits for ever here. A server must not.
#[test]
fn a_pipe_in_the_place_of_a_file_is_an_error() {
    let place = Place::new();
    fs::write(place.path("bare.git/included"), "").unwrap();
    place.git("bare.git", &["config", "include.path", "included"]);
    for name in ["HEAD", "commondir", "config", "included"] {
        let (path, away) = (place.path("bare.git").join(name), place.path("away"));
        let is_there = path.exists();
        if is_there {
            fs::rename(&path, &away).unwrap();
        }
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (tell, told) = mpsc::channel();
        let environment = place.environment("bare.git", &[]);
        std::thread::spawn(move || {
            let found = Repository::discover(&Fs::real(), &environment);
            let settings = found.map(|found| found.config(&Fs::real(), &environment, &|| None).is_ok());
            let _ = tell.send(settings.map_err(|error| error.report()));
        });
        let told = told.recv_timeout(Duration::from_secs(60)).expect("it does not wait");
        assert!(!matches!(told, Ok(true)), "{name}: {told:?}");
        fs::remove_file(&path).unwrap();
        if is_there {
            fs::rename(&away, &path).unwrap();
        }
        place.same("bare.git", &[]);
    }
}

#[test]
fn a_repository_needs_a_head_objects_and_refs() {
    let place = Place::new();
    let head = place.path("bare.git/HEAD");
    for (content, good) in [
        ("ref: refs/heads/x\n", true),
        ("ref:refs/x", true),
        ("ref: \t refs/heads/x\n", true),
        ("ref: heads/x\n", false),
        ("0123456789012345678901234567890123456789\n", true),
        ("012345678901234567890123456789012345678\n", false),
        ("", false),
    ] {
        fs::write(&head, content).unwrap();
        assert_eq!(place.compare("bare.git", &[]).is_ok(), good, "{content:?}");
    }
    fs::remove_file(&head).unwrap();
    place.same_error("bare.git", &[]);
    symlink("refs/heads/unborn", &head).unwrap();
    place.same("bare.git", &[]);
    fs::remove_dir_all(place.path("bare.git/refs")).unwrap();
    place.same_error("bare.git", &[]);
}

#[test]
fn format_versions_and_extensions_are_understood_or_refused() {
    let place = Place::new();
    let config = place.path("main/.git/config");
    let compare = |settings: &str, good: bool| {
        fs::write(&config, settings).unwrap();
        assert_eq!(place.compare("main/sub", &[]).is_ok(), good, "{settings}");
    };
    for version in ["0", "1", "2", "x", "99999999999", "-1"] {
        compare(&format!("[core]\n\trepositoryformatversion = {version}\n"), matches!(version, "0" | "1" | "-1"));
    }
    compare("", true);
    compare("[core]\n\tbare\n[extensions]\n\tfoo = 1\n\tobjectformat = sha256\n\trefstorage = reftable\n", true);
    for (extensions, in_v0, in_v1) in [
        ("noop", true, true),
        ("preciousobjects = true", true, true),
        ("partialclone = origin", true, true),
        ("worktreeconfig = true", true, true),
        ("noop-v1", false, true),
        ("objectformat = sha1", false, true),
        ("objectformat = sha256", false, true),
        ("refstorage = files", false, true),
        ("relativeworktrees = true", false, true),
        ("submodulepathconfig = true", false, true),
        ("refstorage = files\n\tobjectformat = sha1", false, true),
        ("foo", true, false),
        ("foo\n\tFoo = 1\n\tbar", true, false),
        ("x.y = 1", false, false),
        ("worktreeconfig = bogus", false, false),
        ("partialclone", false, false),
        ("objectformat = md5", false, false),
        ("objectformat", false, false),
        ("refstorage", false, false),
        ("refstorage = bogus", false, false),
        ("refstorage = reftable:", false, false),
        ("refstorage = reftable@/x", false, false),
        ("refstorage = db://x", false, false),
        ("compatobjectformat = md5", false, false),
        ("relativeworktrees = bogus", false, false),
    ] {
        let extensions = format!("[extensions]\n\t{extensions}\n");
        compare(&format!("[core]\n\trepositoryformatversion = 0\n{extensions}"), in_v0);
        compare(&format!("[core]\n\trepositoryformatversion = 1\n{extensions}"), in_v1);
    }
    compare("[core]\n\tbare = bogus\n", false);
    compare("[core\n", false);
    compare("[core]\n\tbare\n", true);
    fs::write(&config, "[foo\n").unwrap();
    for dir in ["main/sub", "linked", "main/.git", "main/.git/refs"] {
        place.same_error(dir, &[]);
    }
    place.same_error("", &[("GIT_DIR", "main/.git")]);
}

#[test]
fn bareness_follows_the_configuration() {
    let place = Place::new();
    for value in ["true", "false"] {
        place.git("main", &["config", "core.bare", value]);
        for dir in ["main", "main/.git", "linked", "main/.git/worktrees/linked"] {
            place.same(dir, &[]);
        }
        place.same("", &[("GIT_DIR", "main/.git")]);
        place.same("", &[("GIT_DIR", "main/.git"), ("GIT_WORK_TREE", "none")]);
    }
    place.git("main", &["config", "extensions.worktreeConfig", "true"]);
    place.git("linked", &["config", "--worktree", "core.bare", "true"]);
    place.same("linked", &[]);
    place.git("bare.git", &["config", "--unset", "core.bare"]);
    place.same("bare.git", &[]);
    place.same("", &[("GIT_DIR", "bare.git")]);
}

#[test]
fn another_ref_backend_can_be_named() {
    let place = Place::new();
    let found = |dir: &str, value: &str| {
        let variables = [("GIT_REFERENCE_BACKEND", value)];
        place.same(dir, &variables);
        Repository::discover(&Fs::real(), &place.environment(dir, &variables)).unwrap()
    };
    let repository = found("main", "reftable");
    assert_eq!(repository.refs_dir(), repository.common_dir());
    // Paths are relative to the folder that all worktrees share, as strace shows of git.
    let repository = found("linked", "reftable://../tables");
    assert_eq!(repository.refs_dir(), place.path("main/.git/../tables"));
    assert_eq!(repository.worktree_refs_dir(), place.path("main/.git/../tables/worktrees/linked"));
    assert_eq!(found("main", "files:///x/y").worktree_refs_dir(), Path::new("/x/y"));
    assert_eq!(found("main", "files://").refs_dir(), found("main", "files").refs_dir());
    for bogus in ["bogus", "bogus://x", "", "reftable:"] {
        place.same_error("main", &[("GIT_REFERENCE_BACKEND", bogus)]);
    }
    place.git("main", &["config", "core.repositoryFormatVersion", "1"]);
    place.git("main", &["config", "extensions.refStorage", "reftable:///x/y"]);
    let repository = Repository::discover(&Fs::real(), &place.environment("linked", &[])).unwrap();
    assert_eq!(repository.worktree_refs_dir(), Path::new("/x/y/worktrees/linked"));
}

#[test]
fn what_belongs_to_someone_else_is_refused_unless_declared_safe() {
    let place = Place::new();
    let owner = |path: &str, uid| std::os::unix::fs::lchown(place.path(path), Some(uid), None);
    if owner("main", 12345).is_err() {
        // Only root can give files away; without that there is nobody else's file to try this on.
        assert_ne!(refdb_vfs::effective_user(), 0, "root can change owners");
        return;
    }
    let git_as_root = |dir: &str, variables: &[(&str, &str)]| place.compare(dir, variables);
    git_as_root("main/sub", &[]).unwrap_err();
    let main = place.path("main").display().to_string();
    let safe = |value: &str| format!("'safe.directory'='{value}'");
    let all_below = format!("{}/*", place.path("").display().to_string().trim_end_matches('/'));
    for (value, good) in
        [(main.as_str(), true), ("*", true), ("/elsewhere", false), (&all_below, true), ("main", false), (".", false)]
    {
        assert_eq!(git_as_root("main/sub", &[("GIT_CONFIG_PARAMETERS", &safe(value))]).is_ok(), good, "{value}");
    }
    let reset = format!("{} {}", safe("*"), safe(""));
    git_as_root("main", &[("GIT_CONFIG_PARAMETERS", &reset)]).unwrap_err();
    git_as_root("main", &[("SUDO_UID", "12345")]).unwrap();
    git_as_root("main", &[("SUDO_UID", "54321")]).unwrap_err();
    git_as_root("main", &[("GIT_DIR", ".git")]).unwrap();
    owner("main", 0).unwrap();
    for part in ["main/.git", "bare.git", "linked/.git", "main/.git/worktrees/linked"] {
        owner(part, 12345).unwrap();
        git_as_root(part.split('/').next().unwrap().replace("main", "linked").as_str(), &[]).err();
    }
    for dir in ["main", "bare.git", "bare.git/refs", "linked", "main/.git"] {
        git_as_root(dir, &[]).unwrap_err();
    }
}

#[test]
fn a_relative_safe_directory_trusted_the_current_folder_and_the_root_with_a_star_trusted_nothing() {
    let place = Place::new();
    std::os::unix::fs::symlink("main", place.path("link")).unwrap();
    let root = place.path("").display().to_string();
    let root = root.trim_end_matches('/');
    let mut values: Vec<String> = [
        "",
        ".",
        "./",
        "./.",
        ".//",
        "..",
        "../",
        "./*",
        "*",
        "**",
        "*/",
        "/*",
        "//*",
        "/",
        "/.",
        "/**",
        "main",
        "main/*",
        "~",
        "~/",
        "~/*",
        "/tmp*",
        "%(prefix)/*",
        "~nobody-of-this-name/x",
        ":(optional).",
        ":(optional)./",
        ":(optional)*",
        ":(optional)main",
        ":(optional)/missing/*",
    ]
    .map(str::to_owned)
    .into();
    for below in [
        "",
        "/",
        "/*",
        "/*/",
        "/**",
        "/.",
        "/./*",
        "//*",
        "/main",
        "/main/",
        "//main",
        "/main/.",
        "/./main",
        "/main/*",
        "/main/.git",
        "/main/.git/*",
        "/MAIN",
        "/link",
        "/link/*",
        "/link/../main",
        "/none/../main",
        "/missing/../*",
        "/m*",
        "/bare.git",
        "/bare.git/",
        "/linked",
        "/tables",
    ] {
        values.push(format!("{root}{below}"));
    }
    let foreign = ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    let mut trusted = 0;
    for value in &values {
        let setting = format!("'safe.directory'='{value}'");
        for dir in ["main", "main/sub", "bare.git", "linked"] {
            trusted += usize::from(place.compare(dir, &[("GIT_CONFIG_PARAMETERS", &setting), foreign]).is_ok());
        }
        // The owner of the repository needs no such setting, and none of the settings stops the owner.
        place.same("main", &[("GIT_CONFIG_PARAMETERS", &setting)]);
    }
    assert!((20..200).contains(&trusted), "{trusted} of {} times four", values.len());
    for settings in ["'safe.directory'=", "'safe.directory'", "'safe.directory'='*' 'safe.directory'"] {
        place.same_error("main", &[("GIT_CONFIG_PARAMETERS", settings), foreign]);
    }
}

#[test]
fn bare_repositories_can_be_forbidden() {
    let place = Place::new();
    let with = |value: &str| format!("'safe.bareRepository'='{value}'");
    for dir in ["bare.git", "bare.git/refs", "main/.git", "main"] {
        let compared = place.compare(dir, &[("GIT_CONFIG_PARAMETERS", &with("explicit"))]);
        assert_eq!(compared.is_ok(), !dir.starts_with("bare"), "{dir}");
        place.same(dir, &[("GIT_CONFIG_PARAMETERS", &with("all"))]);
    }
    place.same("", &[("GIT_CONFIG_PARAMETERS", &with("explicit")), ("GIT_DIR", "bare.git")]);
    place.same_error("bare.git", &[("GIT_CONFIG_PARAMETERS", &with("bogus"))]);
}

#[test]
fn worktrees_are_listed_with_their_folders() {
    let place = Place::new();
    place.git("main", &["worktree", "add", "-q", "../another"]);
    let repository = Repository::discover(&Fs::real(), &place.environment("linked", &[])).unwrap();
    assert_eq!(repository.worktree_id(), Some("linked".into()));
    let ids: Vec<_> = repository.worktrees(&Fs::real()).unwrap().into_iter().map(|worktree| worktree.id).collect();
    assert_eq!(ids, ["another", "linked"]);
    let main = Repository::discover(&Fs::real(), &place.environment("main", &[])).unwrap();
    assert_eq!(main.worktree_id(), None);
    let bare = Repository::discover(&Fs::real(), &place.environment("bare.git", &[])).unwrap();
    assert!(bare.worktrees(&Fs::real()).unwrap().is_empty());
}

#[test]
fn namespaces_become_prefixes() {
    let place = Place::new();
    let namespace = |name: &str| {
        let environment = place.environment("main", &[("GIT_NAMESPACE", name)]);
        Repository::discover(&Fs::real(), &environment).unwrap().namespace(&environment)
    };
    assert_eq!(namespace("").unwrap(), "");
    assert_eq!(namespace("a").unwrap(), "refs/namespaces/a/");
    assert_eq!(namespace("a//b/").unwrap(), "refs/namespaces/a/refs/namespaces/b/");
    assert!(matches!(namespace("a..b"), Err(RepositoryError::BadNamespace(_))));
}

#[test]
fn an_empty_or_cut_off_commondir_is_read_as_git_reads_it() {
    let place = Place::new();
    let file = place.path("bare.git/commondir");
    // Git's message about an empty file ends in the text of an earlier error.
    fs::write(&file, "").unwrap();
    let variables = &[("GIT_DIR", ".")];
    for answer in [place.gits_answer("bare.git", variables), place.our_answer("bare.git", variables)] {
        let said = answer.unwrap_err();
        assert!(said.starts_with("fatal: failed to read ") && said.contains("commondir: "), "{said}");
    }
    for content in ["\n", "\r\n", "\0", "\0\0\0", ".\0x", ".\n\n", " ", "x\n", "../main/.git\0", "../main/.git\n"] {
        fs::write(&file, content).unwrap();
        let folders =
            |answer: Result<String, String>| answer.map(|text| text.lines().take(2).collect::<Vec<_>>().join(" "));
        let git = folders(place.gits_answer("bare.git", variables));
        assert_eq!(folders(place.our_answer("bare.git", variables)), git, "{content:?}");
        assert_eq!(git.is_ok(), ![" ", "x\n"].contains(&content), "{content:?}");
    }
}

#[test]
fn files_that_make_a_repository_are_read_up_to_a_limit() {
    let place = Place::new();
    let grow = |file: &str, len: u64| fs::File::options().write(true).open(place.path(file)).unwrap().set_len(len);
    for blanks in [200, 246, 247, 300] {
        fs::write(place.path("bare.git/HEAD"), format!("ref:{}refs/heads/main\n", " ".repeat(blanks))).unwrap();
        match blanks {
            200 | 246 => place.same("bare.git", &[("GIT_DIR", ".")]),
            _ => place.same_error("bare.git", &[("GIT_DIR", ".")]),
        }
    }
    // Files of these sizes do not fit into the memory of most machines.
    fs::write(place.path("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    grow("bare.git/HEAD", 1 << 40).unwrap();
    place.same("bare.git", &[("GIT_DIR", ".")]);
    fs::write(place.path("none/.git"), "gitdir: ../bare.git\n").unwrap();
    grow("none/.git", 1 << 40).unwrap();
    place.same_error("none", &[]);
    let too_large = |dir: &str| {
        let error = Repository::at(&Fs::real(), &place.environment(dir, &[]), &place.path(dir)).unwrap_err();
        matches!(error, RepositoryError::Io(error) if error.source.kind() == std::io::ErrorKind::FileTooLarge)
    };
    grow("main/.git/worktrees/linked/commondir", 1 << 40).unwrap();
    assert!(too_large("linked"));
    grow("tables/.git/config", 1 << 40).unwrap();
    assert!(too_large("tables"));
}
