//! What the server does when the machine has no room, descriptor or process left, and when a repository goes away: a
//! client gets a whole answer, an error, or one that breaks off, nothing acknowledged is lost, nothing refused appears,
//! and afterwards the server is as well as before.

mod full_disk;
mod gone;
mod scarce;

use crate::support::{Answer, Request, packets};
use refdb_testkit::{Git, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    net::TcpStream,
    path::Path,
};

const NULL: ObjectId = ObjectId::null(HashKind::Sha1);

/// One command of a push, with the objects for it.
#[derive(Clone)]
struct Push {
    name: String,
    old: ObjectId,
    new: ObjectId,
    pack: Vec<u8>,
}

impl Push {
    /// Returns a push from `client` whose pack has the history of `new` without that of `old`.
    fn new(client: &Repo, name: &str, old: ObjectId, new: ObjectId) -> Self {
        let mut pack = Vec::new();
        if new != NULL {
            let exclude = if old == NULL { String::new() } else { format!("^{old}\n") };
            let words = ["pack-objects", "--revs", "--stdout", "--quiet"];
            pack = client.try_git(words, format!("{new}\n{exclude}")).stdout;
        }
        Push { name: name.into(), old, new, pack }
    }

    /// Returns a push of this commit and pack to another ref.
    fn to(&self, name: &str) -> Self {
        Push { name: name.into(), ..self.clone() }
    }

    fn body(&self) -> Vec<u8> {
        let Push { name, old, new, pack } = self;
        [&packets(&[&format!("{old} {new} {name}\0 report-status"), "0000"])[..], pack].concat()
    }

    fn request(&self, repository: &str) -> Request {
        Request::post(repository, "git-receive-pack", self.body())
    }

    /// Records in `refs` what this report promises. A push without a report promises nothing, so that its ref may have
    /// either value, which is then taken from `found`.
    fn note(&self, report: &[u8], refs: &mut Refs, found: &Refs) {
        let report = String::from_utf8_lossy(report);
        let is_done = report.contains(&format!("ok {}\n", self.name));
        if !is_done && !report.contains(&format!("ng {} ", self.name)) {
            assert!(!report.contains("ok refs/"), "{report}");
            let now = found.get(&self.name).copied().unwrap_or(NULL);
            assert!(now == self.old || now == self.new, "{} is {now}", self.name);
            if now == self.old {
                return;
            }
        } else if !is_done {
            return;
        }
        match self.new {
            NULL => refs.remove(&self.name),
            new => refs.insert(self.name.clone(), new),
        };
    }
}

/// The names and the values of refs.
type Refs = BTreeMap<String, ObjectId>;

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Git::find().command(folder);
    let output = command.args(["-c", "safe.directory=*"]).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refs_of(folder: &Path) -> Refs {
    parse(&git(folder, &["for-each-ref", "--format=%(objectname) %(refname)"]))
}

/// The refs in the answer to `ls-refs`, except for HEAD.
fn listed(answer: &Answer) -> Refs {
    assert!(answer.status == 200 && answer.is_complete && answer.body.ends_with(b"0000"), "{answer:?}");
    let text = answer.text();
    let lines = text.lines().filter_map(|line| line.get(4..)).filter(|line| line.contains(" refs/"));
    parse(&lines.collect::<Vec<_>>().join("\n"))
}

fn parse(lines: &str) -> Refs {
    let fields = lines.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let id = |hex: &str| ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).unwrap();
    fields.map(|fields| (fields[1].to_owned(), id(fields[0]))).collect()
}

/// Asserts that git finds nothing wrong with a repository, and that no push has left a lock or a quarantine behind.
fn assert_whole(folder: &Path) {
    git(folder, &["fsck", "--strict"]);
    git(folder, &["refs", "verify"]);
    for place in ["", "objects", "refs", "refs/heads", "reftable"] {
        let Ok(entries) = fs::read_dir(folder.join(place)) else { continue };
        for entry in entries {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.ends_with(".lock") && !name.starts_with("tmp_objdir"), "{place}/{name}");
        }
    }
}

/// A connection that stays open between requests.
struct Kept {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Kept {
    fn new(stream: TcpStream) -> Self {
        Kept { stream, rest: Vec::new() }
    }

    /// Sends a request and reads the answer, as far as it comes.
    fn ask(&mut self, request: &Request) -> Answer {
        // The server may have closed the connection after an error.
        let _ = self.stream.write_all(&request.clone().with("Connection", "keep-alive").bytes());
        let mut buffer = [0; 4096];
        loop {
            let (answer, rest) = Answer::parse(&self.rest, false);
            let is_whole = answer.status != 0 && answer.is_complete;
            let rest = rest.to_vec();
            if is_whole {
                self.rest = rest;
                return answer;
            }
            match self.stream.read(&mut buffer) {
                Ok(count @ 1..) => self.rest.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return answer,
            }
        }
    }
}
