//! Whatever changes on disk applies to the next request: settings, refs, and which repository is where.

use crate::support::{Options, Request, Server, export, exported};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns whether a list shows a ref.
fn shows(server: &Server, name: &str) -> bool {
    let shown = |request| {
        let answer = server.ask(&request);
        assert_eq!(answer.status, 200, "{}", server.errors());
        answer.text().contains(&format!(" {name}"))
    };
    let [by_list, by_advertisement] =
        [Request::ls_refs("repo"), Request::discovery("repo", "git-upload-pack")].map(shown);
    assert_eq!(by_list, by_advertisement, "the versions agree on {name}");
    by_list
}

/// Writes a file in place, or a new one that is renamed to it.
fn write(path: &Path, text: &str, by_rename: bool) {
    if !by_rename {
        return fs::write(path, text).unwrap();
    }
    let other = path.with_extension("new");
    fs::write(&other, text).unwrap();
    fs::rename(other, path).unwrap();
}

const HIDING: &str = "[transfer]\n\thideRefs = refs/heads/old\n";
/// Settings of the same length as [`HIDING`], so that the size of the file does not tell that it has changed.
const SHOWING: &str = "[transfer]\n\thideRefs = refs/heads/ole\n";

/// Writes settings that hide and show a ref in turn, and asks after each.
fn assert_fresh(server: &Server, path: &Path, before: &str) {
    for by_rename in [false, true] {
        for _ in 0..25 {
            write(path, &format!("{before}{HIDING}"), by_rename);
            assert!(!shows(server, "refs/heads/old"), "{}", path.display());
            write(path, &format!("{before}{SHOWING}"), by_rename);
            assert!(shows(server, "refs/heads/old"), "{}", path.display());
        }
    }
}

#[test]
fn a_setting_applies_to_the_next_request_wherever_it_stands() {
    for format in RefFormat::ALL {
        let repo = exported(format, HashKind::Sha1);
        let server = Options::root(repo.scratch()).start();
        assert!(shows(&server, "refs/heads/old"));
        let config = repo.git_dir().join("config");
        let before = fs::read_to_string(&config).unwrap();
        assert_fresh(&server, &config, &before);
        let included = repo.git_dir().join("more");
        write(&config, &format!("{before}[include]\n\tpath = more\n"), true);
        assert!(shows(&server, "refs/heads/old"));
        assert_fresh(&server, &included, "");
        fs::remove_file(&included).unwrap();
        // The two files in which a user may have settings. Neither exists at first.
        assert_fresh(&server, &server.home.join(".gitconfig"), "");
        fs::create_dir_all(server.home.join(".config/git")).unwrap();
        assert_fresh(&server, &server.home.join(".config/git/config"), "");
    }
}

#[test]
fn a_setting_for_one_branch_applies_when_head_leads_to_it() {
    for format in RefFormat::ALL {
        let repo = exported(format, HashKind::Sha1);
        let server = Options::root(repo.scratch()).start();
        fs::write(repo.git_dir().join("more"), HIDING).unwrap();
        repo.config("includeIf.onbranch:other.path", "more");
        for _ in 0..5 {
            assert!(shows(&server, "refs/heads/old"));
            repo.git(["symbolic-ref", "HEAD", "refs/heads/other"]);
            assert!(!shows(&server, "refs/heads/old"));
            repo.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
        }
    }
}

/// Previously, the server found no repository if its own environment named another one's folder.
#[test]
fn folders_in_the_servers_environment_are_not_heeded() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    for name in ["GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"] {
        let server = Options::root(repo.scratch()).variable(name, "/nonexistent").start();
        assert!(shows(&server, "refs/heads/main"), "{name}");
    }
}

#[test]
fn settings_in_the_servers_environment_are_heeded_as_by_git() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    let file = repo.scratch().join("settings");
    fs::write(&file, HIDING).unwrap();
    let server = Options::root(repo.scratch()).variable("GIT_CONFIG_GLOBAL", &file).start();
    assert!(!shows(&server, "refs/heads/old"));
    assert_fresh(&server, &file, "");
    let options = Options::root(repo.scratch()).variable("GIT_CONFIG_COUNT", "1");
    let options = options.variable("GIT_CONFIG_KEY_0", "uploadpack.hideRefs");
    assert!(!shows(&options.variable("GIT_CONFIG_VALUE_0", "refs/heads/old").start(), "refs/heads/old"));
}

#[test]
fn settings_that_cannot_be_read_hide_everything() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    let server = Options::root(repo.scratch()).start();
    assert!(shows(&server, "refs/heads/old"));
    let config = repo.git_dir().join("config");
    let before = fs::read_to_string(&config).unwrap();
    for text in ["[transfer\n", "[transfer]\n\thideRefs\n", "[lsrefs]\n\tunborn\n"] {
        fs::write(&config, format!("{before}{text}")).unwrap();
        let answer = server.ask(&Request::ls_refs("repo"));
        assert!(answer.status != 200 && answer.body.is_empty(), "{text}: {answer:?}");
        fs::write(&config, &before).unwrap();
        assert!(shows(&server, "refs/heads/old"));
    }
}

#[test]
fn a_ref_is_seen_at_once_whoever_writes_it() {
    for (format, hash) in Repo::KINDS {
        let repo = exported(format, hash);
        let commits = repo.commits(3);
        let server = Options::root(repo.scratch()).start();
        let refdb = |words: &[&str]| {
            let output = repo.try_run(env!("CARGO_BIN_EXE_refdb"), words, "");
            assert!(output.status.success(), "{words:?}: {output:?}");
        };
        let is_now = |id: &ObjectId, by: &str| {
            for request in [Request::ls_refs_in("repo", hash), Request::discovery("repo", "git-upload-pack")] {
                let text = server.ask(&request).text();
                assert!(text.contains(&format!("{id} refs/heads/main")), "{by} in {format:?}: {text}");
            }
        };
        for round in 0..15 {
            let id = |more: usize| commits[(round + more) % 3];
            repo.git(["update-ref", "refs/heads/main", &id(0).to_string()]);
            is_now(&id(0), "git");
            refdb(&["update-ref", "refs/heads/main", &id(1).to_string()]);
            is_now(&id(1), "refdb");
            if format == RefFormat::Files {
                fs::write(repo.git_dir().join("refs/heads/main"), format!("{}\n", id(2))).unwrap();
                is_now(&id(2), "a file");
            }
        }
        let shows = |text: &str| server.ask(&Request::ls_refs_in("repo", hash)).text().contains(text);
        repo.git(["pack-refs", "--all"]);
        assert!(shows(" refs/heads/main"));
        repo.git(["update-ref", "-d", "refs/heads/main"]);
        assert!(!shows(" refs/heads/main") && shows(" refs/tags/v1"));
        repo.git(["symbolic-ref", "HEAD", "refs/heads/old"]);
        assert!(shows("HEAD symref-target:refs/heads/old"));
    }
}

/// A folder of repositories that come and go, and its server.
struct Place {
    folder: tempfile::TempDir,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Options::root(folder.path()).start();
        Place { folder, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a repository at a path. Whatever is there is moved away first.
    fn put(&self, repo: &Repo, name: &str) {
        if self.path(name).exists() {
            fs::rename(self.path(name), self.path(&format!("gone-{}", fs::read_dir(&self.folder).unwrap().count())))
                .unwrap();
        }
        let status = std::process::Command::new("cp").arg("-a").arg(repo.git_dir()).arg(self.path(name)).status();
        assert!(status.unwrap().success());
    }

    fn git(&self, name: &str, words: &[&str]) {
        let status = Git::find().command(&self.path(name)).args(words).status().unwrap();
        assert!(status.success(), "{words:?}");
    }

    /// Requires that the server's answers for this name are about this repository.
    fn assert_shows(&self, name: &str, repo: &Repo) {
        let id = repo.rev_parse("refs/heads/main");
        let discovery = self.server.ask(&Request::discovery(name, "git-upload-pack"));
        assert!(discovery.text().contains(&format!("{id} refs/heads/main")), "{name}: {}", self.server.errors());
        let hash = format!("object-format={}", repo.hash().name());
        assert!(discovery.text().contains(&hash), "{name}: {hash}");
        let version_2 = Request::discovery(name, "git-upload-pack").with("Git-Protocol", "version=2");
        assert!(self.server.ask(&version_2).text().contains(&hash), "{name}: {hash}");
        let list = Request::ls_refs_in(name, repo.hash());
        assert!(self.server.ask(&list).text().contains(&format!("{id} refs/heads/main")), "{name}");
    }

    fn assert_missing(&self, name: &str) {
        for request in [Request::discovery(name, "git-upload-pack"), Request::ls_refs(name)] {
            assert_eq!(self.server.ask(&request).status, 404, "{name}");
        }
    }
}

#[test]
fn a_repository_that_appears_moves_or_goes_is_seen_as_such() {
    let place = Place::new();
    let [one, other] = RefFormat::ALL.map(|format| exported(format, HashKind::Sha1));
    other.git(["update-ref", "refs/heads/main", "refs/heads/old"]);
    place.assert_missing("a");
    place.put(&one, "a");
    place.assert_shows("a", &one);
    fs::rename(place.path("a"), place.path("b")).unwrap();
    place.assert_missing("a");
    place.assert_shows("b", &one);
    place.put(&other, "a");
    place.assert_shows("a", &other);
    fs::remove_file(place.path("a/git-daemon-export-ok")).unwrap();
    place.assert_missing("a");
    export(&place.path("a"));
    place.assert_shows("a", &other);
    fs::remove_dir_all(place.path("a")).unwrap();
    place.assert_missing("a");
    fs::write(place.path("a"), "gitdir: b\n").unwrap();
    place.assert_shows("a", &one);
}

#[test]
fn a_repository_of_another_kind_may_take_the_place_of_one() {
    let place = Place::new();
    let repos = Repo::KINDS.map(|(format, hash)| exported(format, hash));
    for is_packed in [false, true] {
        if is_packed {
            repos.iter().for_each(|repo| _ = repo.git(["pack-refs", "--all"]));
        }
        for repo in repos.iter().chain(repos.iter().rev()) {
            place.put(repo, "a");
            place.assert_shows("a", repo);
        }
    }
}

#[test]
fn a_migrated_repository_is_read_in_its_new_format() {
    let place = Place::new();
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    place.put(&repo, "a");
    place.assert_shows("a", &repo);
    for _ in 0..3 {
        for format in ["reftable", "files"] {
            place.git("a", &["refs", "migrate", &format!("--ref-format={format}")]);
            place.assert_shows("a", &repo);
            place.git("a", &["update-ref", "refs/heads/main", "refs/heads/old"]);
            assert!(place.server.ask(&Request::ls_refs("a")).text().contains("refs/heads/main"));
            place.git("a", &["update-ref", "refs/heads/main", &repo.rev_parse("refs/heads/main").to_string()]);
            place.assert_shows("a", &repo);
        }
    }
}
