//! Lists of refs must equal those of `git upload-pack` byte for byte, but for the agent and the session id.

use crate::support::{Options, Request, Server, export, feed, masked, packets, plain_upload_pack, upload_pack};
use bstr::{BString, ByteSlice};
use refdb_testkit::{Git, RefFormat, Repo, Rng, rounds};
use refdb_types::{HashKind, ObjectId};
use std::path::{Path, PathBuf};

/// A served repository, with the content of its configuration file before a test adds to it.
struct Served {
    repo: Repo,
    git: PathBuf,
    server: Server,
    config: Vec<u8>,
    commits: Vec<ObjectId>,
}

impl Served {
    fn new(repo: Repo, commits: Vec<ObjectId>) -> Self {
        Self::with(Git::find().program(), repo, commits)
    }

    /// Serves a repository with a certain git.
    fn with(git: &Path, repo: Repo, commits: Vec<ObjectId>) -> Self {
        export(repo.git_dir());
        let server = Options::root(repo.scratch()).variable("REFDB_GIT", git).start();
        let config = std::fs::read(repo.git_dir().join("config")).unwrap();
        Served { repo, git: git.to_owned(), server, config, commits }
    }

    /// Replaces the settings that a test has added.
    fn set(&self, settings: &[&str]) {
        let mut text = self.config.clone();
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap();
            let (section, name) = key.split_once('.').unwrap();
            text.extend_from_slice(format!("[{section}]\n\t{name} = \"{value}\"\n").as_bytes());
        }
        std::fs::write(self.repo.git_dir().join("config"), text).unwrap();
    }

    fn assert_same(&self, version: &str, body: Option<&[u8]>, what: &str) {
        let request = match body {
            None => Request::discovery("repo", "git-upload-pack"),
            Some(body) => Request::post("repo", "git-upload-pack", body),
        };
        let answer = self.server.ask(&request.with("Git-Protocol", version));
        let mut git = upload_pack(&self.git, self.repo.git_dir(), &self.server.home, version, body);
        self.assert_same_by_shim(version, body, &git, what);
        if body.is_none() && version != "version=2" {
            git = [&b"001e# service=git-upload-pack\n0000"[..], &git].concat();
        }
        let (ours, gits) = (masked(&answer.body), masked(&git));
        let what = format!("{version} {what}");
        assert!(answer.status == 200 && answer.is_complete, "{what}: {}: {}", answer.status, self.server.errors());
        if ours != gits {
            panic!("{what}: {}", first_difference(&ours, &gits));
        }
    }

    /// Asks through the socket for shims as well. The shim finds no git then, unless the repository is one that the
    /// server leaves to git.
    fn assert_same_by_shim(&self, version: &str, body: Option<&[u8]>, git: &[u8], what: &str) {
        let is_left = ["shallow", "info/grafts"].iter().any(|name| self.repo.git_dir().join(name).exists());
        let program = if is_left { &self.git } else { Path::new("/nonexistent") };
        let shim = || {
            let mut shim = self.server.shim();
            shim.env("REFDB_GIT", program).env("GIT_PROTOCOL", version);
            shim
        };
        let mut part = shim();
        part.arg(if body.is_some() { "--stateless-rpc" } else { "--http-backend-info-refs" });
        let said = feed(part.arg(self.repo.git_dir()), body.unwrap_or_default());
        let (ours, git) = (masked(&said.output), masked(git));
        assert!(ours == git, "{version} {what}: {}\n{}", first_difference(&ours, &git), said.errors);

        // Two requests and the flush that ends the connection, all at once, as over ssh.
        let input = [body.unwrap_or_default(), body.unwrap_or_default(), b"0000"].concat();
        let said = feed(shim().arg(self.repo.git_dir()), &input);
        let mut plain = plain_upload_pack(&self.git, &self.server.home);
        let gits = feed(plain.env("GIT_PROTOCOL", version).arg(self.repo.git_dir()), &input);
        let (ours, git) = (masked(&said.output), masked(&gits.output));
        assert!(ours == git, "whole {version} {what}: {}\n{}", first_difference(&ours, &git), said.errors);
        assert_eq!((said.code, &said.errors), (gits.code, &gits.errors), "{version} {what}");
    }

    fn assert_same_discovery(&self, what: &str) {
        ["version=0", "version=1", "version=2"].iter().for_each(|version| self.assert_same(version, None, what));
    }

    fn assert_same_list(&self, arguments: &[&str], what: &str) {
        let format = format!("object-format={}\n", self.repo.hash().name());
        let lines = [&["command=ls-refs\n", &format, "0001"], arguments, &["0000"]].concat();
        self.assert_same("version=2", Some(&packets(&lines)), &format!("{arguments:?} {what}"));
    }
}

fn first_difference(ours: &BString, gits: &BString) -> String {
    let (mut ours, mut gits) = (ours.lines(), gits.lines());
    loop {
        match (ours.next(), gits.next()) {
            (None, None) => return "the lines are equal".into(),
            (ours, gits) if ours == gits => {}
            (ours, gits) => return format!("ours: {:?}\ngit:  {:?}", ours.map(BString::from), gits.map(BString::from)),
        }
    }
}

/// Serves a repository with refs of many kinds, whose list is sent in several pieces.
fn varied(format: RefFormat, hash: HashKind) -> Served {
    let repo = Repo::bare(format, hash);
    let commits = repo.commits(5);
    repo.fill(2500, &commits);
    let (blob, gone) = (repo.blob("a blob"), repo.blob("to be lost"));
    let tag = repo.tag_object(commits[0], "v1");
    let tags = [tag, repo.tag_object(tag, "v2"), repo.tag_object(blob, "blob"), repo.tag_object(gone, "gone")];
    let direct = [
        ("refs/heads/main", commits[4]),
        ("refs/heads/old", commits[1]),
        ("refs/lost/a", gone),
        ("refs/tags/v1", tags[0]),
        ("refs/tags/v2", tags[1]),
        ("refs/tags/blob", tags[2]),
        ("refs/tags/to-lost", tags[3]),
        ("refs/tags/light", commits[2]),
        ("refs/blobs/a", blob),
        ("refs/changes/01/1/1", commits[3]),
        ("refs/changes/01/1/meta", tags[0]),
    ];
    repo.create_refs(direct);
    for (name, target) in [
        ("refs/heads/link", "refs/heads/main"),
        ("refs/heads/chain", "refs/heads/link"),
        ("refs/heads/to-tag", "refs/tags/v2"),
        ("refs/heads/to-lost", "refs/lost/a"),
        ("refs/remotes/origin/HEAD", "refs/heads/nowhere"),
        ("refs/heads/loop", "refs/heads/pool"),
        ("refs/heads/pool", "refs/heads/loop"),
    ] {
        repo.git(["symbolic-ref", name, target]);
    }
    if format == RefFormat::Files {
        repo.git(["pack-refs", "--all"]);
        repo.git(["update-ref", "refs/heads/old", &commits[2].to_string()]);
        repo.git(["update-ref", "refs/tags/light", &tags[1].to_string()]);
        let write =
            |name: &str, text: &str| std::fs::write(repo.git_dir().join("refs/heads").join(name), text).unwrap();
        write("broken", "no id\n");
        write("empty", "");
        write("name.lock", &format!("{}\n", commits[0]));
        write("to-broken", "ref: refs/heads/broken\n");
        write("to-bad-name", "ref: refs/heads/bad..name\n");
        write("to-no-name", "ref: refs/heads/../x\n");
    }
    let lost = gone.to_string();
    std::fs::remove_file(repo.git_dir().join("objects").join(&lost[..2]).join(&lost[2..])).unwrap();
    Served::new(repo, commits)
}

const SETTINGS: [&str; 28] = [
    "transfer.hideRefs=refs/heads/load",
    "transfer.hideRefs=refs/tags",
    "transfer.hideRefs=refs/",
    "transfer.hideRefs=HEAD",
    "transfer.hideRefs=refs/heads/main",
    "transfer.hideRefs=^refs/changes",
    "transfer.hideRefs=!refs/heads/load/001",
    "uploadpack.hideRefs=refs/changes/",
    "uploadpack.hideRefs=!refs/tags/v1",
    "uploadpack.hideRefs=!HEAD",
    "uploadpack.hideRefs=^!refs/heads/old",
    "uploadpack.hideRefs=refs/heads/nowhere",
    "receive.hideRefs=refs/heads",
    "lsrefs.unborn=advertise",
    "lsrefs.unborn=allow",
    "lsrefs.unborn=ignore",
    "transfer.advertiseSID=true",
    "uploadpack.allowTipSHA1InWant=true",
    "uploadpack.allowReachableSHA1InWant=true",
    "uploadpack.allowAnySHA1InWant=true",
    "uploadpack.allowFilter=true",
    "uploadpack.allowRefInWant=true",
    "uploadpack.advertiseBundleURIs=true",
    "transfer.advertiseObjectInfo=true",
    "protocol.version=1",
    "uploadpack.allowSidebandAll=true",
    "core.abbrev=7",
    "uploadpack.blobPackfileUri=x y z",
];

const PREFIXES: [&str; 14] = [
    "HEAD",
    "HE",
    "HEADS",
    "",
    "refs",
    "refs/heads/",
    "refs/heads/ma",
    "refs/heads/main",
    "refs/heads/load/00",
    "refs/heads/load/001/",
    "refs/tags/",
    "refs/tags/v",
    "refs/remotes/origin/HEAD",
    "main",
];

fn point_head(served: &Served, rng: &mut Rng) -> String {
    let target = ["main", "link", "nowhere", "to-lost", "to-tag", "loop", "broken"][rng.below(7)];
    let repo = &served.repo;
    if rng.one_in(4) {
        let commit = rng.pick(&served.commits).to_string();
        repo.git(["update-ref", "--no-deref", "HEAD", &commit]);
        return format!("HEAD is {commit}");
    }
    repo.git(["symbolic-ref", "HEAD", &format!("refs/heads/{target}")]);
    format!("HEAD -> {target}")
}

fn random_round(served: &Served, rng: &mut Rng) {
    let settings: Vec<_> = (0..rng.below(5)).map(|_| *rng.pick(&SETTINGS)).collect();
    served.set(&settings);
    let what = format!("{settings:?} {} {:?}", point_head(served, rng), served.repo.format());
    served.assert_same_discovery(&what);
    for _ in 0..3 {
        let prefixes = (0..rng.below(4)).map(|_| format!("ref-prefix {}\n", rng.pick(&PREFIXES)));
        let mut arguments: Vec<String> = prefixes.collect();
        for word in ["peel\n", "symrefs\n", "unborn\n"] {
            if !rng.one_in(3) {
                arguments.push(word.into());
            }
        }
        rng.shuffle(&mut arguments);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        served.assert_same_list(&arguments, &what);
    }
}

#[test]
fn any_settings_with_refs_of_every_kind() {
    for (at, (format, hash)) in Repo::KINDS.into_iter().enumerate() {
        let served = varied(format, hash);
        let mut rng = Rng::new(at as u64);
        for _ in 0..rounds(6, 300) {
            random_round(&served, &mut rng);
        }
    }
}

#[test]
fn each_setting_alone() {
    let served = varied(RefFormat::Reftable, HashKind::Sha1);
    for setting in SETTINGS {
        served.set(&[setting]);
        served.assert_same_discovery(setting);
        served.assert_same_list(&["peel\n", "symrefs\n", "unborn\n"], setting);
    }
}

#[test]
fn a_repository_without_refs() {
    for (format, hash) in Repo::KINDS {
        let served = Served::new(Repo::bare(format, hash), Vec::new());
        for settings in [&[][..], &["lsrefs.unborn=ignore"], &["lsrefs.unborn=allow"], &["transfer.advertiseSID=true"]]
        {
            served.set(settings);
            served.assert_same_discovery(&format!("{settings:?}"));
            for arguments in [&[][..], &["unborn\n"], &["symrefs\n"], &["symrefs\n", "unborn\n"]] {
                served.assert_same_list(arguments, &format!("{settings:?}"));
            }
            served.assert_same_list(&["symrefs\n", "unborn\n", "ref-prefix refs/heads/\n"], "HEAD is not asked for");
        }
    }
}

#[test]
fn so_many_prefixes_that_git_shows_everything() {
    let served = varied(RefFormat::Files, HashKind::Sha1);
    for count in [65_535, 65_536] {
        let mut lines = vec!["command=ls-refs\n".to_owned(), "0001".into(), "ref-prefix refs/tags/v1\n".into()];
        lines.extend((1..count).map(|at| format!("ref-prefix refs/none/{at}\n")));
        lines.push("0000".into());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        served.assert_same("version=2", Some(&packets(&lines)), &format!("{count} prefixes"));
    }
}

/// Returns a clone of a repository, which git has made with these options.
fn clone(from: &Repo, options: &[&str]) -> Repo {
    let clone = Repo::bare(from.format(), from.hash());
    std::fs::remove_dir_all(clone.git_dir()).unwrap();
    let url = format!("file://{}", from.git_dir().display());
    let mut command = Git::find().command(clone.scratch());
    command.args(["clone", "--quiet", "--bare", &format!("--ref-format={}", from.format().name())]).args(options);
    assert!(command.arg(url).arg(clone.git_dir()).status().unwrap().success());
    clone
}

#[test]
fn shallow_and_borrowing_clones() {
    for (format, hash) in Repo::KINDS {
        let source = Repo::bare(format, hash);
        let commits = source.commits(4);
        source.create_refs([("refs/heads/main", commits[3]), ("refs/tags/v1", source.tag_object(commits[2], "v1"))]);
        let reference = source.git_dir().to_str().unwrap();
        for options in [&["--depth=2"][..], &["--no-single-branch", "--depth=1"], &["--reference", reference]] {
            let served = Served::new(clone(&source, options), Vec::new());
            served.assert_same_discovery(&format!("{options:?}"));
            served.assert_same_list(&["peel\n", "symrefs\n"], &format!("{options:?}"));
        }
    }
}

#[test]
fn refs_of_worktrees_and_root_refs_are_not_shown() {
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        let commits = repo.commits(2);
        repo.create_refs([("refs/heads/main", commits[0]), ("refs/bisect/bad", commits[1])]);
        repo.create_refs([("refs/worktree/x", commits[1]), ("ORIG_HEAD", commits[1])]);
        repo.git(["worktree", "add", "--quiet", "--detach", "../other", "main"]);
        let served = Served::new(repo, commits);
        served.assert_same_discovery("a worktree");
        served.assert_same_list(&["symrefs\n"], "a worktree");
        assert!(Path::new(served.repo.scratch()).join("other").is_dir());
    }
}

#[test]
fn an_old_git_that_offers_nothing_without_refs() {
    let old = Path::new("/usr/bin/git");
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = Repo::bare(RefFormat::Files, hash);
        let commits = repo.commits(2);
        let served = Served::with(old, repo, commits);
        let assert_same = |what: &str| {
            served.assert_same_discovery(what);
            served.assert_same_list(&["symrefs\n", "peel\n", "unborn\n"], what);
        };
        assert_same("empty");
        served.repo.create_refs([("refs/heads/other", served.commits[0])]);
        assert_same("HEAD is unborn");
        served.repo.create_refs([("refs/heads/main", served.commits[1])]);
        assert_same("HEAD is born");
        served.set(&["transfer.hideRefs=HEAD"]);
        assert_same("HEAD is hidden");
        served.set(&["transfer.hideRefs=refs", "transfer.hideRefs=HEAD", "uploadpack.allowFilter=true"]);
        assert_same("all is hidden");
    }
}

#[test]
fn tags_are_peeled_wherever_their_objects_come_from() {
    for format in RefFormat::ALL {
        let served = Served::new(Repo::bare(format, HashKind::Sha1), Vec::new());
        let assert_same = |what: &str| {
            served.assert_same("version=0", None, what);
            served.assert_same_list(&["peel\n"], what);
        };
        assert_same("empty");
        let repo = &served.repo;
        let commits = repo.commits(3);
        for (at, commit) in commits.into_iter().enumerate() {
            let name = format!("v{at}");
            repo.create_refs([(format!("refs/tags/{name}"), repo.tag_object(commit, &name))]);
            assert_same("a loose object");
            repo.git(["repack", "-adq"]);
            assert_same("a packed object");
        }
        let lender = Repo::bare(format, HashKind::Sha1);
        let tag = lender.tag_object(lender.commit(), "lent");
        std::fs::create_dir_all(repo.git_dir().join("objects/info")).unwrap();
        let alternates = repo.git_dir().join("objects/info/alternates");
        std::fs::write(alternates, format!("{}\n", lender.git_dir().join("objects").display())).unwrap();
        repo.create_refs([("refs/tags/lent", tag)]);
        assert_same("a borrowed object");
    }
}

#[test]
fn a_repository_that_becomes_shallow_says_so_at_once() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let commits = repo.commits(3);
    repo.create_refs([("refs/heads/main", commits[2])]);
    let served = Served::new(repo, commits);
    served.assert_same_discovery("complete");
    let shallow = served.repo.git_dir().join("shallow");
    std::fs::write(&shallow, format!("{}\n", served.commits[1])).unwrap();
    served.assert_same_discovery("shallow");
    std::fs::remove_file(shallow).unwrap();
    served.assert_same_discovery("complete again");
}
