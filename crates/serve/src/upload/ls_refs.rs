//! Parses requests of protocol version 2: recognizes a plain `ls-refs` and its arguments. See gitprotocol-v2(5).

use bstr::BString;
use refdb::HashKind;
use refdb_receive::wire::pkt::{Decoded, Packet, decode};

/// The arguments of `ls-refs`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LsRefs {
    /// `peel`: list with each tag the object to which it leads.
    pub peel: bool,
    /// `symrefs`: list with each symbolic ref its target.
    pub symrefs: bool,
    /// `unborn`: list HEAD even if its branch does not exist yet.
    pub unborn: bool,
    /// `ref-prefix`: list only refs with one of these prefixes, or all refs if there are none.
    pub prefixes: Vec<BString>,
}

/// What is known of a request so far.
#[derive(PartialEq, Eq, Debug)]
pub enum Progress {
    /// More bytes are needed.
    Incomplete,
    /// The request is a complete `ls-refs` with these arguments.
    Complete(LsRefs),
    /// Git must handle the request: it is another command, or has a part that the server leaves to git.
    ForGit,
}

/// The number of prefixes from which on all refs are listed, as in git.
const PREFIXES_MAX: usize = 65_536;

/// Parses a request that arrives in pieces.
#[derive(Debug)]
pub struct RequestReader {
    hash: HashKind,
    bytes: Vec<u8>,
    /// The number of bytes that have been parsed.
    at: usize,
    stage: Stage,
    found: LsRefs,
    names_hash: bool,
    /// The number of prefixes in the request, which may exceed those that are kept.
    prefixes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Command,
    Capabilities,
    Arguments,
}

impl RequestReader {
    /// Returns a reader for a repository with this hash function.
    pub fn new(hash: HashKind) -> Self {
        let (stage, found) = (Stage::Command, LsRefs::default());
        RequestReader { hash, bytes: Vec::new(), at: 0, stage, found, names_hash: false, prefixes: 0 }
    }

    /// Adds bytes from the client, and returns what is known of the request.
    pub fn add(&mut self, bytes: &[u8]) -> Progress {
        self.bytes.extend_from_slice(bytes);
        loop {
            let (packet, length) = match decode(&self.bytes[self.at..]) {
                Ok(Decoded::Packet(packet, length)) => (packet, length),
                Ok(Decoded::Missing(_)) => return Progress::Incomplete,
                Err(_) => return Progress::ForGit,
            };
            let line = match packet {
                Packet::Line(line) => line,
                Packet::Special(1) if self.stage == Stage::Capabilities => {
                    (self.stage, self.at) = (Stage::Arguments, self.at + length);
                    continue;
                }
                Packet::Flush if self.stage != Stage::Command => {
                    self.at += length;
                    return self.complete();
                }
                Packet::Flush | Packet::Special(_) => return Progress::ForGit,
            };
            let is_known = match self.stage {
                // Git takes such a line to end there.
                _ if line.contains(&0) => false,
                Stage::Command => line == b"command=ls-refs",
                Stage::Capabilities => is_capability(line, self.hash, &mut self.names_hash),
                Stage::Arguments => argument(line, &mut self.found, &mut self.prefixes),
            };
            if !is_known {
                return Progress::ForGit;
            }
            self.at += length;
            if self.stage == Stage::Command {
                self.stage = Stage::Capabilities;
            }
        }
    }

    /// Returns all bytes that have been added.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Consumes the reader and returns all bytes that have been added.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the bytes after a complete request, which are the start of the next one.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.bytes.split_off(self.at)
    }

    fn complete(&mut self) -> Progress {
        // Git refuses a client that does not know the repository's hash function.
        if self.hash != HashKind::Sha1 && !self.names_hash {
            return Progress::ForGit;
        }
        if self.prefixes >= PREFIXES_MAX {
            self.found.prefixes.clear();
        }
        Progress::Complete(std::mem::take(&mut self.found))
    }
}

/// Returns whether the line is a capability that does not change what git does.
fn is_capability(line: &[u8], hash: HashKind, names_hash: &mut bool) -> bool {
    if let Some(name) = line.strip_prefix(b"object-format=") {
        *names_hash = true;
        return name == hash.name().as_bytes();
    }
    line.starts_with(b"agent=") || line.starts_with(b"server-option=")
}

/// Parses an argument of `ls-refs`. Returns `false` if it is unknown.
fn argument(line: &[u8], found: &mut LsRefs, prefixes: &mut usize) -> bool {
    match line {
        b"peel" => found.peel = true,
        b"symrefs" => found.symrefs = true,
        b"unborn" => found.unborn = true,
        _ => {
            let Some(prefix) = line.strip_prefix(b"ref-prefix ") else { return false };
            *prefixes += 1;
            if *prefixes < PREFIXES_MAX {
                found.prefixes.push(prefix.into());
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_receive::wire::pkt;

    /// Previously, the server looked for refs with the whole prefix, and git looks for those with its beginning.
    #[test]
    fn lines_with_a_nul_are_left_to_git() {
        for line in ["ref-prefix refs/heads/\0x", "peel\0", "agent=\0"] {
            let place = if line.starts_with("agent") { "0001" } else { "peel" };
            let mut lines = vec!["command=ls-refs", "0001", "peel", "0000"];
            let at = lines.iter().position(|known| *known == place).unwrap();
            lines.insert(at, line);
            assert_eq!(read(&lines, HashKind::Sha1), Progress::ForGit, "{line:?}");
        }
    }

    fn request(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            match *line {
                "0001" => bytes.extend_from_slice(b"0001"),
                "0000" => pkt::flush(&mut bytes),
                line => pkt::line(&[line.as_bytes(), b"\n"], &mut bytes),
            }
        }
        bytes
    }

    fn read(lines: &[&str], hash: HashKind) -> Progress {
        let bytes = request(lines);
        let mut reader = RequestReader::new(hash);
        let mut progress = Progress::Incomplete;
        // Adding byte by byte gives the same result as adding all at once.
        for byte in &bytes {
            assert_eq!(progress, Progress::Incomplete);
            progress = reader.add(&[*byte]);
            if progress == Progress::ForGit {
                break;
            }
        }
        assert_eq!(RequestReader::new(hash).add(&bytes), progress);
        progress
    }

    const AGENT: &str = "agent=git/2.55.0";

    #[test]
    fn a_list_of_refs_is_understood() {
        let lines = ["command=ls-refs", AGENT, "object-format=sha1", "0001", "peel", "symrefs", "unborn"];
        let lines = [&lines[..], &["ref-prefix refs/heads/", "ref-prefix HEAD", "0000"]].concat();
        let prefixes = vec!["refs/heads/".into(), "HEAD".into()];
        let wanted = LsRefs { peel: true, symrefs: true, unborn: true, prefixes };
        assert_eq!(read(&lines, HashKind::Sha1), Progress::Complete(wanted));
        let bare = ["command=ls-refs", "0000"];
        assert_eq!(read(&bare, HashKind::Sha1), Progress::Complete(LsRefs::default()));
        assert_eq!(read(&bare, HashKind::Sha256), Progress::ForGit);
    }

    #[test]
    fn everything_else_is_left_to_git() {
        for lines in [
            &["command=fetch", AGENT, "0001", "done", "0000"][..],
            &["command=ls-refs", "object-format=sha256", "0000"],
            &["command=ls-refs", "session-id=x", "0000"],
            &["command=ls-refs", "0001", "other", "0000"],
            &["command=ls-refs", "0001", "peel", "0001"],
            &["agent=x", "command=ls-refs", "0000"],
            &["0000"],
            &["0001"],
        ] {
            assert_eq!(read(lines, HashKind::Sha1), Progress::ForGit, "{lines:?}");
        }
        assert_eq!(RequestReader::new(HashKind::Sha1).add(b"00zz"), Progress::ForGit);
    }

    #[test]
    fn too_many_prefixes_are_all_refs() {
        for (count, left) in [(PREFIXES_MAX - 1, PREFIXES_MAX - 1), (PREFIXES_MAX, 0)] {
            let mut bytes = request(&["command=ls-refs", "0001"]);
            (0..count).for_each(|at| pkt::line(&[format!("ref-prefix refs/heads/{at}").as_bytes()], &mut bytes));
            pkt::flush(&mut bytes);
            match RequestReader::new(HashKind::Sha1).add(&bytes) {
                Progress::Complete(found) => assert_eq!(found.prefixes.len(), left),
                other => panic!("{other:?}"),
            }
        }
    }
}
