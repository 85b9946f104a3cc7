//! The capabilities that upload-pack offers to clients. The server asks the installed git for them, and caches up to
//! [`KNOWN_MAX`] answers.

use crate::{
    program::{Git, Place},
    repository::Facts,
};
use bstr::{BStr, ByteSlice};
use refdb::{HashKind, ObjectId};
use refdb_receive::{
    session_id,
    wire::{
        Version,
        pkt::{self, Decoded, Packet},
    },
};
use refdb_refcache::Resolved;
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Semaphore;

/// A cache of what git offers in each configuration.
#[derive(Debug)]
pub(crate) struct Capabilities {
    known: Mutex<Known>,
    /// Limits the processes of git that are asked at a time.
    asking: Semaphore,
}

#[derive(Debug, Default)]
struct Known {
    /// The program whose offers these are. Requests that began before a reload may still ask another one.
    git: OsString,
    offers: HashMap<Key, Arc<[u8]>>,
    /// How many times the cache was cleared because another git may have been installed.
    cleared: u64,
}

/// What git's offer depends on: whether the protocol version is 2, the hash function, and the whole configuration.
type Key = (bool, HashKind, Arc<[u8]>);

/// Maximum number of cached offers. A full cache is cleared.
const KNOWN_MAX: usize = 4096;

/// Maximum number of processes of git that are asked for their capabilities at a time.
const ASKED_MAX: usize = 8;

/// Options with which git lists no ref, only HEAD, and all refs. They are tried in this order, because listing is slow,
/// but an old git such as 2.39 sends its capabilities of versions 0 and 1 only with a ref.
const HIDING: [&[&str]; 3] =
    [&["-c", "transfer.hideRefs=refs", "-c", "transfer.hideRefs=HEAD"], &["-c", "transfer.hideRefs=refs"], &[]];

const TOO_SHORT: &str = "the output of git upload-pack ends too early";

/// The name that a recent git sends with its capabilities if it lists no ref.
const NO_REF: &str = "capabilities^{}";

impl Known {
    /// Returns the offers of this program, after forgetting those of another one.
    fn of(&mut self, git: &OsStr) -> &mut HashMap<Key, Arc<[u8]>> {
        if self.git != git {
            self.offers.clear();
            self.git = git.to_owned();
        }
        &mut self.offers
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities { known: Mutex::default(), asking: Semaphore::new(ASKED_MAX) }
    }
}

impl Capabilities {
    /// Returns the capabilities of version 2 in packet lines, with a flush packet at the end.
    pub(crate) async fn version_2(&self, git: &Git, folder: &Path, facts: &Facts) -> io::Result<Vec<u8>> {
        let offered = self.offered(true, git, folder, facts).await?;
        let mut packets = Vec::with_capacity(offered.len() + 64);
        each_line(&offered, |line| {
            if line.starts_with(b"session-id=") {
                pkt::line(&[b"session-id=", session_id().as_bytes(), b"\n"], &mut packets);
            } else {
                pkt::line(&[line, b"\n"], &mut packets);
            }
        })?;
        pkt::flush(&mut packets);
        Ok(packets)
    }

    /// Returns the capabilities for an advertisement of version 0 or 1.
    pub(crate) async fn offer(&self, version: Version, git: &Git, folder: &Path, facts: &Facts) -> io::Result<Offer> {
        let offered = self.offered(false, git, folder, facts).await?;
        let mut text = None;
        each_line(&offered, |line| {
            text = text.take().or_else(|| line.split_once_str("\0").map(|(_, text)| text.to_vec()));
        })?;
        let session = facts.settings.session_id.then(session_id);
        let text = text.map(|text| (text, session));
        let without_refs = offered.contains_str(NO_REF);
        Ok(Offer { version_1: version == Version::V1, text, left: None, without_refs, hash: facts.hash })
    }

    /// Clears the cache, because another git may have been installed.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.offers.clear();
        known.cleared += 1;
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn offered(&self, is_v2: bool, git: &Git, folder: &Path, facts: &Facts) -> io::Result<Arc<[u8]>> {
        let key = (is_v2, facts.hash, Arc::clone(&facts.config_text));
        if let Some(offered) = self.known().of(git.program()).get(&key) {
            return Ok(Arc::clone(offered));
        }
        let _turn = self.asking.acquire().await.map_err(io::Error::other)?;
        let cleared = {
            let mut known = self.known();
            if let Some(offered) = known.of(git.program()).get(&key) {
                // Another request has asked meanwhile.
                return Ok(Arc::clone(offered));
            }
            known.cleared
        };
        let place = Place::new(folder).with("GIT_PROTOCOL", if is_v2 { "version=2" } else { "version=0" });
        let words = ["upload-pack", "--http-backend-info-refs", "."];
        let mut offered: Arc<[u8]> = Arc::default();
        for options in HIDING {
            offered = git.output(&place, options, &words).await?.into();
            if offered[..] != *b"0000" {
                break;
            }
        }
        if offered[..] == *b"0000" {
            // An old git offers nothing for an empty repository. This is not cached, because it changes with the first
            // push.
            return Ok(offered);
        }
        if !is_v2 {
            offered = without_refs(&offered)?;
        }
        let mut known = self.known();
        if known.cleared == cleared {
            let offers = known.of(git.program());
            if offers.len() >= KNOWN_MAX {
                offers.clear();
            }
            offers.insert(key, Arc::clone(&offered));
        }
        Ok(offered)
    }
}

/// Returns the first packet of an advertisement, which has the capabilities, with a flush packet. An old git may have
/// listed all refs of a large repository.
fn without_refs(packets: &[u8]) -> io::Result<Arc<[u8]>> {
    match pkt::decode(packets).map_err(io::Error::other)? {
        Decoded::Packet(_, length) => Ok([&packets[..length], b"0000"].concat().into()),
        Decoded::Missing(_) => Err(io::Error::other(TOO_SHORT)),
    }
}

/// Calls `line` with each line of `packets` up to a flush packet.
fn each_line(packets: &[u8], mut line: impl FnMut(&[u8])) -> io::Result<()> {
    let mut at = 0;
    loop {
        match pkt::decode(&packets[at..]).map_err(io::Error::other)? {
            Decoded::Packet(Packet::Line(text), length) => {
                at += length;
                line(text);
            }
            Decoded::Packet(Packet::Flush, _) => return Ok(()),
            Decoded::Packet(Packet::Special(_), length) => at += length,
            Decoded::Missing(_) => return Err(io::Error::other(TOO_SHORT)),
        }
    }
}

/// The room in the line of a ref for what has a bounded length: two ids, a session id, and words.
const AROUND_BYTES: usize = 256;

/// Returns whether the line of a ref fits into a packet if its name and the rest of unbounded length have this many
/// bytes together.
pub(super) fn fits(bytes: usize) -> bool {
    bytes + AROUND_BYTES <= pkt::DATA_BYTES_MAX
}

/// The capabilities of versions 0 and 1, which follow the first ref of an advertisement.
#[derive(Debug)]
pub(crate) struct Offer {
    version_1: bool,
    /// Git's text, and the session id to insert if there is one. Both are missing if git offers nothing. The target of
    /// HEAD must be inserted too.
    text: Option<(Vec<u8>, Option<String>)>,
    /// The complete capabilities, from [`begin`](Self::begin) until they are written; `None` also if git offers
    /// nothing.
    left: Option<Vec<u8>>,
    /// Whether git sends its capabilities even if it lists no ref.
    without_refs: bool,
    hash: HashKind,
}

impl Offer {
    /// Removes the capability `no-done`, which git offers only if each request has a connection of its own.
    pub(crate) fn is_for_whole_connection(&mut self) {
        if let Some((text, _)) = &mut self.text {
            let words = text.split(|byte| *byte == b' ').filter(|word| *word != b"no-done");
            *text = bstr::join(" ", words);
        }
    }

    /// Writes the version line, if there is one, and completes the capabilities. They get `symref` if `head` is
    /// symbolic, its ref exists, and its name leaves room for a ref in the line.
    pub(super) fn begin(&mut self, head: &Resolved, out: &mut Vec<u8>) {
        if self.version_1 {
            pkt::line(&[b"version 1\n"], out);
        }
        let is_symbolic = !head.links.is_empty() && head.found.is_some();
        let head = is_symbolic.then_some(head.name.as_bstr());
        self.left = self.text.as_ref().map(|(text, session)| {
            // A target that leaves no room for a ref beside the capabilities is not told.
            let head = head.filter(|head| fits(text.len() + head.len() + AROUND_BYTES));
            complete(text, head, session.as_deref())
        });
    }

    /// Returns whether a line for a ref with this name can be written.
    pub(super) fn has_room_for(&self, name: &BStr) -> bool {
        fits(name.len() + self.left.as_ref().map_or(0, Vec::len))
    }

    /// Writes the line of a ref, with the capabilities if it is the first. `mark` follows the name: `^{}` or nothing.
    ///
    /// # Panics
    ///
    /// May panic if [`has_room_for`](Self::has_room_for) is false for the name.
    pub(super) fn line(&mut self, id: &ObjectId, name: &BStr, mark: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(b"0000");
        id.write_hex(out);
        out.push(b' ');
        out.extend_from_slice(name);
        out.extend_from_slice(mark);
        if let Some(text) = self.left.take() {
            out.push(0);
            out.extend_from_slice(&text);
        }
        out.push(b'\n');
        pkt::set_length(&mut out[start..]);
    }

    /// Writes a line with only the capabilities if no ref was written and git would do so.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        if self.without_refs && self.left.is_some() {
            self.line(&ObjectId::null(self.hash), NO_REF.into(), b"", out);
        }
    }
}

/// Returns git's capabilities with these values of `symref` and `session-id`, at the positions where git has them.
fn complete(text: &[u8], head: Option<&BStr>, session: Option<&str>) -> Vec<u8> {
    let mut complete = Vec::with_capacity(text.len() + 64);
    let (mut head, mut session) = (head, session);
    for word in text.trim_ascii().split(|byte| *byte == b' ') {
        if word.starts_with(b"symref=") || word.starts_with(b"session-id=") {
            continue;
        }
        if (word == b"filter" || word.starts_with(b"object-format="))
            && let Some(name) = head.take()
        {
            complete.extend_from_slice(b" symref=HEAD:");
            complete.extend_from_slice(name);
        }
        if word.starts_with(b"object-format=")
            && let Some(id) = session.take()
        {
            complete.extend_from_slice(b" session-id=");
            complete.extend_from_slice(id.as_bytes());
        }
        if !complete.is_empty() || !word.is_empty() {
            complete.push(b' ');
        }
        complete.extend_from_slice(word);
    }
    complete.strip_prefix(b" ").map(<[u8]>::to_vec).unwrap_or(complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that began before a reload with another `serve.git` may ask the old program after the reload.
    #[test]
    fn what_one_git_offers_is_not_taken_for_the_offer_of_another() {
        let mut known = Known::default();
        let key: Key = (true, HashKind::Sha1, Arc::from(&b"config"[..]));
        known.of("old".as_ref()).insert(key.clone(), Arc::from(&b"offer"[..]));
        assert!(known.of("old".as_ref()).contains_key(&key));
        assert!(!known.of("new".as_ref()).contains_key(&key));
    }

    #[test]
    fn of_an_advertisement_only_the_capabilities_are_kept() {
        let mut listed = Vec::new();
        pkt::line(&[b"id refs/heads/a\0multi_ack agent=git/2.39\n"], &mut listed);
        let first = listed.len();
        (0..1000).for_each(|at| pkt::line(&[format!("id refs/heads/{at}\n").as_bytes()], &mut listed));
        pkt::flush(&mut listed);
        assert_eq!(*without_refs(&listed).unwrap(), *[&listed[..first], b"0000"].concat());
        assert!(without_refs(b"00").is_err());
    }

    #[test]
    fn head_and_session_stand_where_git_has_them() {
        let git = b"multi_ack no-done symref=HEAD:refs/heads/x filter session-id=1 object-format=sha1 agent=git/2\n";
        let text = |head: Option<&str>, session: Option<&str>| {
            String::from_utf8(complete(git, head.map(Into::into), session)).unwrap()
        };
        assert_eq!(text(None, None), "multi_ack no-done filter object-format=sha1 agent=git/2");
        assert_eq!(
            text(Some("refs/heads/main"), Some("7")),
            "multi_ack no-done symref=HEAD:refs/heads/main filter session-id=7 object-format=sha1 agent=git/2"
        );
    }
}
