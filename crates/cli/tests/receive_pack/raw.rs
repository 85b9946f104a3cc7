//! Requests that `git push` never makes, and servers with odd refs, are answered as by git's receive-pack.

use crate::{
    common::{REFDB, Servers, shown},
    trouble::feed,
};
use bstr::ByteSlice;
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};

/// Two servers with four commits each. New servers take long to create, so the cases share them and use different
/// refnames.
pub(crate) struct Asked {
    pub(crate) servers: Servers,
    pub(crate) commits: Vec<ObjectId>,
    hash: HashKind,
}

/// An old and a new value, as indices of commits or `None` for the null id, and a refname.
pub(crate) type Wish<'a> = (Option<usize>, Option<usize>, &'a str);

impl Asked {
    pub(crate) fn of(format: RefFormat, hash: HashKind) -> Self {
        let servers = Servers { git: Repo::bare(format, hash), refdb: Repo::bare(format, hash) };
        let [commits, same] = servers.all().map(|server| server.commits(4));
        assert_eq!(commits, same);
        for server in servers.all() {
            server.config("core.logAllRefUpdates", "true");
            // What happens after a push is no part of its answer.
            server.config("receive.autogc", "false");
            server.create_refs([("refs/keep/all", commits[3])]);
        }
        Asked { servers, commits, hash }
    }

    pub(crate) fn bytes(&self, wishes: &[Wish<'_>], atomic: bool) -> Vec<u8> {
        let id = |at: Option<usize>| at.map_or(ObjectId::null(self.hash), |at| self.commits[at]);
        let mut bytes = Vec::new();
        for (at, (old, new, name)) in wishes.iter().enumerate() {
            let mut line = format!("{} {} {name}", id(*old), id(*new));
            if at == 0 {
                let format = self.hash.name();
                line += &format!("\0report-status object-format={format}{}", if atomic { " atomic" } else { "" });
            }
            bytes.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
        }
        bytes.extend_from_slice(b"0000");
        if wishes.iter().any(|(_, new, _)| new.is_some()) {
            bytes.extend_from_slice(&empty_pack(self.hash));
        }
        bytes
    }

    /// Returns the answers of git's server and of refdb's to a request of these bytes.
    fn answers(&self, bytes: &[u8]) -> [String; 2] {
        [(&self.servers.git, Git::find().program()), (&self.servers.refdb, REFDB.as_ref())]
            .map(|(server, program)| shown(server, &feed(server, program, bytes)))
    }

    /// Requires that both servers answer the same, and returns the answer.
    pub(crate) fn same(&self, wishes: &[Wish<'_>], atomic: bool) -> String {
        let [git, refdb] = self.answers(&self.bytes(wishes, atomic));
        assert_eq!(refdb, git, "{wishes:?}, atomic: {atomic}");
        refdb
    }

    fn link(&self, name: &str, target: &str) {
        self.servers.all().iter().for_each(|server| drop(server.git(["symbolic-ref", name, target])));
    }

    pub(crate) fn create(&self, name: &str, at: usize) {
        self.servers.all().iter().for_each(|server| server.create_refs([(name, self.commits[at])]));
    }
}

/// Both formats and both hashes, but not every pair, because the two do not depend on each other.
pub(crate) const KINDS: [(RefFormat, HashKind); 2] =
    [(RefFormat::Files, HashKind::Sha256), (RefFormat::Reftable, HashKind::Sha1)];

pub(crate) const NONE: Option<usize> = None;

pub(crate) fn empty_pack(hash: HashKind) -> Vec<u8> {
    let checksum = match hash {
        HashKind::Sha1 => EMPTY_SHA1,
        HashKind::Sha256 => EMPTY_SHA256,
    };
    [b"PACK\0\0\0\x02\0\0\0\0", checksum].concat()
}

/// The checksum of a pack without objects.
const EMPTY_SHA1: &[u8] = b"\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";
const EMPTY_SHA256: &[u8] = b"\x7e\xd8\x90\xd8\xa4\x57\x60\xf3\xee\xcf\x73\x04\x5b\x1d\x10\x47\x08\x5a\xf4\x77\x6d\xc6\x83\xd7\x8e\xac\x82\x20\x3d\xf1\x99\x3f";

#[test]
fn a_message_about_a_name_that_is_not_utf_8_has_the_names_own_bytes() {
    for (format, hash) in KINDS {
        let asked = Asked::of(format, hash);
        for name in [&b"refs/heads/\xff"[..], b"refs/heads/\xff/b\xfe"] {
            let line = [format!("{} {} ", ObjectId::null(hash), asked.commits[1]).as_bytes(), name].concat();
            let words = format!("\0report-status object-format={}", hash.name());
            let mut bytes = format!("{:04x}", line.len() + words.len() + 4).into_bytes();
            bytes.extend([&line, words.as_bytes(), b"0000PACK\0\0\0\x02\0\0\0\0"].concat());
            bytes.extend_from_slice(if hash == HashKind::Sha1 { EMPTY_SHA1 } else { EMPTY_SHA256 });
            let [git, refdb] = [(&asked.servers.git, Git::find().program()), (&asked.servers.refdb, REFDB.as_ref())]
                .map(|(server, program)| feed(server, program, &bytes).stderr);
            assert_eq!(refdb.as_bstr(), git.as_bstr(), "{format:?}");
            assert_eq!(git.contains_str(b"refs/heads/\xff/b\xfe"), name.ends_with(b"\xfe"), "{}", git.as_bstr());
        }
        asked.servers.assert_same(&format!("{format:?}"));
    }
}

#[test]
fn of_a_capability_that_is_given_twice_the_first_counts_as_for_git() {
    let asked = Asked::of(RefFormat::Files, HashKind::Sha1);
    let id = asked.commits[1];
    for (at, words) in [
        "report-status object-format=sha1 object-format=sha256",
        "report-status object-format=sha256 object-format=sha1",
        "report-status object-format=sha1 object-format=sha1",
        "report-status object-format=sha1 object-format",
        "report-status object-format object-format=sha1",
        "report-status object-format",
        "report-status object-format=",
        "report-status xobject-format=sha256",
        "report-status=3",
        "report-status report-status-v2=x",
        "report-status quiet=1 atomic=no agent=a agent=b session-id=c session-id=d",
    ]
    .into_iter()
    .enumerate()
    {
        let line = format!("{} {id} refs/heads/{at}\0{words}", ObjectId::null(HashKind::Sha1));
        let mut bytes = format!("{:04x}{line}0000PACK\0\0\0\x02\0\0\0\0", line.len() + 4).into_bytes();
        bytes.extend_from_slice(EMPTY_SHA1);
        // Git quotes the rest of the line as part of the unknown object format, so only the text before is compared.
        let [git, refdb] = asked.answers(&bytes).map(|said| said.split('\'').next().unwrap_or_default().to_owned());
        assert_eq!(refdb, git, "{words}");
    }
    asked.servers.assert_same("capabilities that are given twice");
}

#[test]
fn a_push_to_a_symbolic_ref_that_leads_nowhere_is_refused_as_by_git() {
    for (format, hash) in KINDS {
        let asked = Asked::of(format, hash);
        for (at, (chain, end, is_broken)) in [
            (&["a"][..], "a", true),
            (&["a", "b"], "a", true),
            (&["a", "b", "c"], "b", true),
            (&["a", "b", "c", "d"], "main", false),
            (&["a", "b", "c", "d", "e"], "main", true),
        ]
        .into_iter()
        .enumerate()
        {
            let name = |name: &str| format!("refs/heads/{at}/{name}");
            for (link, target) in chain.iter().zip(chain[1..].iter().chain([&end])) {
                asked.link(&name(link), &name(target));
            }
            for (old, new) in [(Some(1), Some(0)), (Some(0), NONE), (NONE, NONE), (NONE, Some(0))] {
                for atomic in [true, false] {
                    let beside = name(&format!("beside-{old:?}{new:?}{atomic}").replace(['(', ')'], ""));
                    let wishes = [(old, new, &name("a")[..]), (NONE, Some(2), &beside)];
                    if is_broken {
                        let said = asked.same(&wishes, atomic);
                        assert!(said.contains(&format!("ng {} broken symref\n", name("a"))), "{said}");
                    }
                }
            }
            if !is_broken {
                asked.same(&[(NONE, Some(0), &name("a"))], false);
            }
        }
        asked.servers.assert_same(&format!("{format:?}, {hash:?}"));
    }
}

#[test]
fn a_push_to_a_symbolic_ref_to_what_is_no_name_or_no_ref_is_refused_as_by_git() {
    let asked = Asked::of(RefFormat::Files, HashKind::Sha1);
    for (at, target) in
        ["refs/heads/a..b", "refs/heads/x.lock", "refs/heads/", "../../x", "/x", "config", ""].into_iter().enumerate()
    {
        for server in asked.servers.all() {
            std::fs::write(server.git_dir().join("refs/heads/link"), format!("ref: {target}\n")).unwrap();
        }
        for new in [Some(1), NONE] {
            let beside = format!("refs/heads/{at}/{}", new.is_some());
            let said = asked.same(&[(NONE, new, "refs/heads/link"), (NONE, Some(2), &beside)], false);
            let why = if target.is_empty() { "" } else { "broken symref\n" };
            assert!(said.contains(&format!("ng refs/heads/link {why}")), "{target}: {said}");
        }
    }
    asked.servers.assert_same("targets that are no refnames");
}

#[test]
fn commands_for_a_ref_and_for_symbolic_refs_that_lead_to_it_are_judged_as_by_git() {
    for (format, hash) in KINDS {
        let asked = Asked::of(format, hash);
        let mut at = 0;
        for (first, second) in [("link", "end"), ("to-link", "end"), ("end", "to-link")] {
            for (one, other) in [
                ((Some(0), Some(1)), (Some(0), Some(1))),
                ((Some(0), Some(1)), (Some(0), Some(2))),
                ((Some(0), NONE), (Some(0), Some(1))),
                ((NONE, Some(1)), (Some(0), Some(1))),
            ] {
                for (atomic, hidden) in [(false, false), (true, false), (false, true)] {
                    at += 1;
                    let name = |name: &str| format!("refs/heads/{at}/{name}");
                    asked.create(&name("end"), 0);
                    asked.link(&name("link"), &name("end"));
                    asked.link(&name("to-link"), &name("link"));
                    if hidden {
                        asked.servers.all().iter().for_each(|server| server.config("receive.hideRefs", &name("end")));
                    }
                    let [first, second, beside] = [first, second, "beside"].map(name);
                    let wishes = [(one.0, one.1, &first[..]), (other.0, other.1, &second), (NONE, Some(2), &beside)];
                    asked.same(&wishes, atomic);
                }
            }
        }
        asked.servers.assert_same(&format!("{format:?}, {hash:?}"));
    }
}

#[test]
fn a_length_that_is_none_is_told_as_by_git() {
    let asked = Asked::of(RefFormat::Files, HashKind::Sha1);
    let git = Git::find().program();
    for length in ["0003", "fff0", "fff3", "fff4", "ffff", "zzzz", "-001"] {
        for start in ["", "0000"] {
            let bytes = [length.as_bytes(), start.as_bytes()].concat();
            let said = [(&asked.servers.git, git), (&asked.servers.refdb, REFDB.as_ref())]
                .map(|(server, program)| shown(server, &feed(server, program, &bytes)));
            assert_eq!(said[1], said[0], "{length}, {start}");
        }
    }
}

#[test]
fn commands_for_one_ref_fail_together_as_with_git() {
    let kinds =
        [(NONE, Some(1)), (Some(0), Some(1)), (Some(0), Some(2)), (Some(0), NONE), (Some(3), NONE), (NONE, NONE)];
    for (format, hash) in KINDS {
        let asked = Asked::of(format, hash);
        let mut at = 0;
        for one in kinds {
            for other in kinds {
                for exists in [false, true] {
                    at += 1;
                    let [name, beside] = ["it", "beside"].map(|name| format!("refs/heads/{at}/{name}"));
                    if exists {
                        asked.create(&name, 0);
                    }
                    let wishes = [(one.0, one.1, &name[..]), (other.0, other.1, &name), (NONE, Some(3), &beside)];
                    asked.same(&wishes, false);
                    asked.same(&wishes[..2], true);
                }
            }
        }
        asked.servers.assert_same(&format!("{format:?}, {hash:?}"));
    }
}
