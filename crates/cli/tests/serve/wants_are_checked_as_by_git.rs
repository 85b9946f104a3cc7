//! What a fetch of version 0 may want, and what it gets, must be as with `git upload-pack`. Git checks wants by a walk
//! over all refs, which the server spares it.

use crate::support::{Options, Request, Server, export, feed, masked, packets, plain_upload_pack, upload_pack};
use refdb_testkit::{Git, RefFormat, Repo, Rng, rounds};
use refdb_types::{HashKind, ObjectId};
use std::path::{Path, PathBuf};

/// A repository that is served, and objects to ask for.
struct Served {
    repo: Repo,
    git: PathBuf,
    server: Server,
    config: Vec<u8>,
    objects: Vec<(&'static str, ObjectId)>,
}

impl Served {
    fn new(format: RefFormat) -> Self {
        Self::with(Git::find().program(), format)
    }

    /// Serves a repository with a certain git.
    fn with(git: &Path, format: RefFormat) -> Self {
        let repo = Repo::bare(format, HashKind::Sha1);
        // Each is the parent of the next.
        let commits = repo.commits(7);
        let (blob, hidden_blob) = (repo.blob("a blob"), repo.blob("hidden"));
        let tag = repo.tag_object(commits[2], "v1");
        let outer = repo.tag_object(tag, "v2");
        let loose = repo.tag_object(commits[0], "none");
        let original = repo.tag_object(commits[0], "original");
        repo.create_refs([("refs/heads/main", commits[3]), ("refs/heads/hidden/x", commits[5])]);
        repo.create_refs([("refs/tags/v1", tag), ("refs/tags/v2", outer), ("refs/blobs/a", blob)]);
        repo.create_refs([("refs/secret/blob", hidden_blob), ("refs/secret/main", commits[3])]);
        repo.create_refs((0..400).map(|at| (format!("refs/crowd/{at}"), commits[6])));
        repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/main"]);
        repo.git(["symbolic-ref", "refs/heads/peek", "refs/heads/hidden/x"]);
        // `ORIG_HEAD` is not advertised.
        repo.git(["update-ref", "ORIG_HEAD", &original.to_string()]);
        // HEAD is detached at a commit that is the tip of no other ref.
        repo.git(["update-ref", "--no-deref", "HEAD", &commits[1].to_string()]);
        let missing = ObjectId::from_hex(HashKind::Sha1, &[b'1'; 40]).unwrap();
        let tree = repo.rev_parse("refs/heads/main^{tree}");
        let objects = vec![
            ("tip", commits[3]),
            ("ancestor", commits[0]),
            ("of HEAD", commits[1]),
            ("only peeled", commits[2]),
            ("ancestor of a hidden tip", commits[4]),
            ("hidden tip", commits[5]),
            ("tip of very many refs", commits[6]),
            ("tag", tag),
            ("tag of a tag", outer),
            ("tag without a ref", loose),
            ("of ORIG_HEAD", original),
            ("blob", blob),
            ("hidden blob", hidden_blob),
            ("tree", tree),
            ("missing", missing),
            ("zeros", ObjectId::null(HashKind::Sha1)),
        ];
        export(repo.git_dir());
        let server = Options::root(repo.scratch()).variable("REFDB_GIT", git).start();
        let config = std::fs::read(repo.git_dir().join("config")).unwrap();
        Served { repo, git: git.to_owned(), server, config, objects }
    }

    fn set(&self, settings: &[&str]) {
        let mut text = self.config.clone();
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap();
            let (section, name) = key.split_once('.').unwrap();
            text.extend_from_slice(format!("[{section}]\n\t{name} = {value}\n").as_bytes());
        }
        std::fs::write(self.repo.git_dir().join("config"), text).unwrap();
    }

    fn assert_same(&self, lines: &[String], what: &str) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let body = packets(&lines);
        let ours = self.server.ask(&Request::post("repo", "git-upload-pack", &body[..]));
        let gits = upload_pack(&self.git, self.repo.git_dir(), &self.server.home, "version=0", Some(&body));
        assert_eq!(masked(&ours.body), masked(&gits), "{what}: {lines:?} {}", self.server.errors());
        assert_eq!(ours.status, 200, "{what}: {lines:?}");
        self.assert_same_by_shim(&body, &gits, what);
    }

    /// Asks through the socket for shims: in a connection for this request alone, and in one for the advertisement and
    /// this request, as over ssh.
    fn assert_same_by_shim(&self, body: &[u8], gits: &[u8], what: &str) {
        let shim = || {
            let mut shim = self.server.shim();
            shim.env("REFDB_GIT", &self.git);
            shim
        };
        let said = feed(shim().arg("--stateless-rpc").arg(self.repo.git_dir()), body);
        assert_eq!(masked(&said.output), masked(gits), "by a shim: {what}: {}", said.errors);
        let mut plain = plain_upload_pack(&self.git, &self.server.home);
        let gits = feed(plain.arg(self.repo.git_dir()), body);
        let said = feed(shim().arg(self.repo.git_dir()), body);
        assert_eq!(masked(&said.output), masked(&gits.output), "whole: {what}: {}", said.errors);
        assert_eq!((said.code, &said.errors), (gits.code, &gits.errors), "whole: {what}");
    }

    fn want(&self, ids: &[ObjectId], more: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            let offer = if at == 0 { " no-progress include-tag ofs-delta side-band-64k filter" } else { "" };
            lines.push(format!("want {id}{offer}\n"));
        }
        lines.extend(more.iter().map(|line| line.to_string()));
        lines
    }
}

const SETTINGS: [&[&str]; 11] = [
    &[],
    &["transfer.hideRefs=refs/heads/hidden", "transfer.hideRefs=refs/secret", "transfer.hideRefs=refs/crowd"],
    &["uploadpack.packObjectsHook=exec", "transfer.hideRefs=refs/heads/hidden"],
    &["uploadpack.hideRefs=refs", "uploadpack.hideRefs=HEAD"],
    &["uploadpack.hideRefs=refs/secret", "uploadpack.hideRefs=refs/heads", "uploadpack.hideRefs=!refs/heads/link"],
    &["transfer.hideRefs=HEAD"],
    &["transfer.hideRefs=refs", "uploadpack.allowTipSHA1InWant=true"],
    &[
        "transfer.hideRefs=refs/heads/hidden",
        "transfer.hideRefs=refs/crowd",
        "uploadpack.allowReachableSHA1InWant=true",
    ],
    &["transfer.hideRefs=refs/heads/hidden", "transfer.hideRefs=refs/crowd", "uploadpack.allowAnySHA1InWant=true"],
    &["transfer.hideRefs=refs/heads/hidden", "transfer.hideRefs=refs/crowd", "uploadpack.allowFilter=true"],
    &["uploadpack.hideRefs=refs/tags"],
];

#[test]
fn each_object_is_given_or_refused_as_by_git() {
    let old = Path::new("/usr/bin/git");
    // Neither the format of refs nor the age of git changes what settings mean, so three settings suffice for the
    // others.
    for (served, count) in [
        (Served::new(RefFormat::Files), SETTINGS.len()),
        (Served::new(RefFormat::Reftable), 3),
        (Served::with(old, RefFormat::Files), 3),
    ] {
        for settings in &SETTINGS[..count] {
            served.set(settings);
            for (what, id) in &served.objects {
                served.assert_same(&served.want(&[*id], &["0000", "done\n"]), &format!("{what} {settings:?}"));
            }
        }
    }
}

#[test]
fn haves_depths_and_filters_mean_the_same() {
    let served = Served::new(RefFormat::Reftable);
    let mut rng = Rng::new(7);
    for _ in 0..rounds(40, 1000) {
        let settings = rng.pick(&SETTINGS);
        served.set(settings);
        let ids: Vec<_> = (0..1 + rng.below(3)).map(|_| rng.pick(&served.objects).1).collect();
        let have = format!("have {}\n", rng.pick(&served.objects).1);
        let depths = ["deepen 1\n", "deepen 3\n", "deepen-not refs/heads/main\n", "deepen-not refs/tags/v1\n"];
        let more = match rng.below(6) {
            0 => vec![*rng.pick(&depths), "0000", "done\n"],
            1 => vec!["filter blob:none\n", "0000", "done\n"],
            2 => vec!["0000", &have, "done\n"],
            3 => vec!["0000", &have, "0000"],
            4 => vec!["deepen-since 1\n", "0000", &have, "done\n"],
            _ => vec!["0000", "done\n"],
        };
        served.assert_same(&served.want(&ids, &more), &format!("{settings:?}"));
    }
}

/// The server once hid all refs from git to spare it the check, which made git say "ready" here.
#[test]
fn the_negotiation_goes_on_while_the_client_has_nothing_in_common_with_what_it_wants() {
    let served = Served::new(RefFormat::Files);
    let id = |wanted: &str| served.objects.iter().find(|(what, _)| *what == wanted).unwrap().1;
    let want = format!("want {} multi_ack_detailed side-band-64k no-progress ofs-delta\n", id("of HEAD"));
    let (known, unknown) = (format!("have {}\n", id("tip")), format!("have {}\n", id("missing")));
    for round in [[&known, &unknown, "0000"], [&known, "0000", "done\n"], [&unknown, &known, "0000"]] {
        let lines: Vec<String> = [&want, "0000"].into_iter().chain(round).map(str::to_owned).collect();
        served.assert_same(&lines, "haves that do not lead to the want");
    }
}

#[test]
fn a_tip_is_known_as_soon_as_a_ref_holds_it_and_no_longer() {
    for format in RefFormat::ALL {
        let served = Served::new(format);
        served.set(&["uploadpack.allowReachableSHA1InWant=false"]);
        let loose = served.objects.iter().find(|(what, _)| *what == "tag without a ref").unwrap().1;
        for _ in 0..3 {
            served.assert_same(&served.want(&[loose], &["0000", "done\n"]), "before");
            served.repo.create_refs([("refs/tags/later", loose)]);
            served.assert_same(&served.want(&[loose], &["0000", "done\n"]), "with a ref");
            served.repo.git(["update-ref", "-d", "refs/tags/later"]);
        }
    }
}
