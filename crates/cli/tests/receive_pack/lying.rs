//! Random objects that state a wrong type for what they name: files that are commits, trees that are files, tags of
//! another type. A push of such objects is accepted where git accepts it, and nowhere else.

use crate::common::REFDB;
use refdb_testkit::{Git, RefFormat, Repo, Rng};
use refdb_types::{HashKind, ObjectId};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// An object that can be pushed.
#[derive(Clone)]
struct Made {
    id: ObjectId,
    kind: &'static str,
    links: Vec<ObjectId>,
}

/// Objects in a client's repository, most of which state the right types. The servers have the first `held` from the
/// start.
struct Pool {
    client: Repo,
    made: Vec<Made>,
    held: usize,
}

const KINDS: [&str; 4] = ["blob", "tree", "commit", "tag"];

impl Pool {
    fn new(rng: &mut Rng) -> Self {
        let client = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let mut pool = Pool { client, made: Vec::new(), held: 0 };
        pool.add("blob", b"a file".to_vec(), Vec::new());
        pool.add_tree(&[("100644", pool.made[0].id)]);
        pool.add_commit(pool.made[1].id, &[]);
        pool.add_tree(&[("100644", pool.made[0].id), ("40000", pool.made[1].id)]);
        pool.add_commit(pool.made[3].id, &[pool.made[2].id]);
        pool.held = pool.made.len();
        for at in 0..40 {
            match rng.below(8) {
                0 => pool.add("blob", format!("file {at}").into_bytes(), Vec::new()),
                1..=3 => {
                    let entries: Vec<_> = (0..1 + rng.below(3)).map(|_| pool.entry(rng)).collect();
                    pool.add_tree(&entries);
                }
                4..=6 => {
                    let tree = pool.some("tree", rng);
                    let parents: Vec<_> = (0..rng.below(3)).map(|_| pool.some("commit", rng)).collect();
                    pool.add_commit(tree, &parents);
                }
                _ => {
                    let kind = *rng.pick(&KINDS);
                    let target = pool.some(kind, rng);
                    let text = format!("object {target}\ntype {kind}\ntag t{at}\ntagger T <t@x> {at} +0000\n\nt\n");
                    pool.add("tag", text.into_bytes(), vec![target]);
                }
            }
        }
        pool
    }

    /// Returns an object of this kind in seven of eight cases, or the first object if none is of this kind. In the
    /// other cases, returns an object of any kind.
    fn some(&self, kind: &str, rng: &mut Rng) -> ObjectId {
        let lies = rng.one_in(8);
        let fit: Vec<_> = self.made.iter().filter(|made| lies || made.kind == kind).collect();
        if fit.is_empty() { self.made[0].id } else { rng.pick(&fit).id }
    }

    fn entry(&self, rng: &mut Rng) -> (&'static str, ObjectId) {
        match rng.below(6) {
            0..=2 => ("100644", self.some("blob", rng)),
            3 | 4 => ("40000", self.some("tree", rng)),
            // A submodule names a commit of another repository.
            _ => ("160000", self.some("commit", rng)),
        }
    }

    fn add_tree(&mut self, entries: &[(&str, ObjectId)]) {
        let mut content = Vec::new();
        for (at, (mode, id)) in entries.iter().enumerate() {
            content.extend_from_slice(format!("{mode} entry{at}\0").as_bytes());
            content.extend_from_slice(id.as_bytes());
        }
        let links = entries.iter().filter(|(mode, _)| *mode != "160000").map(|(_, id)| *id).collect();
        self.add("tree", content, links);
    }

    fn add_commit(&mut self, tree: ObjectId, parents: &[ObjectId]) {
        let mut text = format!("tree {tree}\n");
        parents.iter().for_each(|parent| writeln!(text, "parent {parent}").unwrap());
        let at = 1_700_000_000 + self.made.len();
        writeln!(text, "author A <a@x> {at} +0000\ncommitter A <a@x> {at} +0000\n\nx").unwrap();
        self.add("commit", text.into_bytes(), [&[tree], parents].concat());
    }

    fn add(&mut self, kind: &'static str, content: Vec<u8>, links: Vec<ObjectId>) {
        let words = ["hash-object", "-w", "--stdin", "--literally", "-t", kind];
        let written = self.client.try_git(words, content);
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        let id = ObjectId::from_hex(HashKind::Sha1, written.stdout.trim_ascii()).unwrap();
        self.made.push(Made { id, kind, links });
    }

    /// Creates a server with the held objects and a branch at the last of them.
    fn server(&self, format: RefFormat) -> Repo {
        let server = Repo::bare(format, HashKind::Sha1);
        server.config("receive.autogc", "false");
        let pack = self.pack(self.made[..self.held].iter().map(|made| made.id));
        assert!(server.try_git(["unpack-objects", "-q"], pack).status.success());
        server.create_refs([("refs/heads/main", self.made[self.held - 1].id)]);
        server
    }

    fn pack(&self, ids: impl Iterator<Item = ObjectId>) -> Vec<u8> {
        let pack = self
            .client
            .try_git(["pack-objects", "--stdout", "--quiet"], ids.map(|id| format!("{id}\n")).collect::<String>());
        assert!(pack.status.success(), "{}", String::from_utf8_lossy(&pack.stderr));
        pack.stdout
    }

    /// Returns a push of one object. The pack mostly has all objects that the pushed object leads to and that the
    /// servers lack at first, and in half of the cases one random object.
    fn request(&self, round: usize, rng: &mut Rng) -> Vec<u8> {
        let tip = rng.pick(&self.made).clone();
        let folder = if tip.kind == "commit" { "heads" } else { "tags" };
        let line = format!("{} {} refs/{folder}/r{round}\0report-status", "0".repeat(40), tip.id);
        let (mut came, mut to_do) = (BTreeSet::new(), vec![tip.id]);
        while let Some(id) = to_do.pop() {
            let at = self.made.iter().position(|made| made.id == id).unwrap();
            if at >= self.held && !rng.one_in(20) && came.insert(id) {
                to_do.extend(&self.made[at].links);
            }
        }
        came.extend((0..rng.below(2)).map(|_| rng.pick(&self.made).id));
        [format!("{:04x}{line}0000", line.len() + 4).as_bytes(), &self.pack(came.into_iter())].concat()
    }
}

/// Whether a program accepts a push.
fn lets_in(server: &Repo, program: &Path, request: &[u8], limit: usize) -> bool {
    let mut command: Command = server.command(program);
    command.env("REFDB_GIT", Git::find().program());
    command.env("GIT_CONFIG_PARAMETERS", format!("'receive.unpacklimit={limit}'"));
    command.args(["receive-pack", "--stateless-rpc"]).arg(server.dir());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(request).unwrap();
    let said = child.wait_with_output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("ok refs/") || said.contains("ng refs/"), "{said}");
    said.contains("ok refs/")
}

#[test]
fn no_lie_about_what_is_named_is_let_in_that_git_refuses() {
    const ROUNDS: usize = 30;
    let number = |name, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (seed, pools) = (number("REFDB_LYING_SEED", 0), number("REFDB_LYING_POOLS", 3));
    let (mut let_in, mut refused) = (0, 0);
    for seed in seed..seed + pools {
        let mut rng = Rng::new(seed);
        let pool = Pool::new(&mut rng);
        let format = *rng.pick(&RefFormat::ALL);
        let (git, refdb) = (pool.server(format), pool.server(format));
        for round in 0..ROUNDS {
            let request = pool.request(round, &mut rng);
            let limit = *rng.pick(&[1, 100]);
            let by_git = lets_in(&git, Git::find().program(), &request, limit);
            let by_refdb = lets_in(&refdb, Path::new(REFDB), &request, limit);
            let said = String::from_utf8_lossy(&request[..110]).into_owned();
            assert_eq!(by_refdb, by_git, "seed {seed}, round {round}, {format:?}, limit {limit}: {said}");
            *(if by_git { &mut let_in } else { &mut refused }) += 1;
        }
    }
    assert!(let_in > 6 * pools && refused > 6 * pools, "{let_in} let in, {refused} refused");
}
