//! The line in a signed lock file, which names the process that made it. `lock/signing.rs` explains its purpose.

use std::{
    collections::hash_map::RandomState,
    fmt,
    hash::{BuildHasher, Hasher},
    sync::OnceLock,
};

/// The maximum length in bytes of the line of a signature. A refdb that does not know host names takes a longer lock
/// file for one of git.
pub(crate) const LEN_MAX: usize = 128;

/// The maximum length in bytes of the start of a journal file (slot), which signs its locks: the line of the batch, and
/// that of the host.
pub(crate) const SLOT_LEN_MAX: usize = LEN_MAX + "host \n".len() + HOST_LEN_MAX;

/// The maximum length in bytes of a host name; a longer one is cut. With this length the longest line of a lock stays
/// below [`LEN_MAX`].
const HOST_LEN_MAX: usize = 40;

/// The process that made a lock file, as the file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The process id, which later processes, and those of other machines and containers, can have too.
    pub pid: u32,
    /// Linux' `boot_id`. Two running kernels have the same only after a machine was copied while it ran.
    pub boot: String,
    /// The host name, for people. It proves nothing, because machines can share it. `None` in signatures of a refdb
    /// that did not write it, in a batch's lock that is no link to a journal file, and on a machine without a host
    /// name.
    pub host: Option<String>,
}

impl Signature {
    /// Returns the signature of this process; `None` if the system does not provide the boot id.
    pub(crate) fn own() -> Option<&'static Self> {
        static OWN: OnceLock<Option<Signature>> = OnceLock::new();
        let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let sign = |boot: String| Signature {
            pid: std::process::id(),
            boot: boot.trim().to_owned(),
            host: plain_host(rustix::system::uname().nodename().to_bytes()),
        };
        OWN.get_or_init(|| read().map(sign)).as_ref()
    }

    /// Returns the line in the lock file. A refdb that does not know host names reads the host as a part of the boot
    /// id, so that it takes the lock for one of another boot: on a network file system it leaves the lock, which is
    /// safe.
    pub(crate) fn encode(&self) -> String {
        let host = self.host.as_ref().map_or_else(String::new, |host| format!(", host {host}"));
        format!("held by refdb, process {}, boot {}{host}\n", self.pid, self.boot)
    }

    /// Reads a line of the form that [`encode`](Self::encode) makes, with a host or without; `None` for another form.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        Self::decode_owner(text.strip_prefix("held by refdb, process ")?)
    }

    /// Reads the end of a line, from the process id on; `None` for anything else.
    fn decode_owner(text: &str) -> Option<Self> {
        let (pid, boot) = text.strip_suffix('\n')?.split_once(", boot ")?;
        let (boot, host) = match boot.split_once(", host ") {
            Some((boot, host)) => (boot, plain_host(host.as_bytes())),
            None => (boot, None),
        };
        Some(Signature { pid: pid.parse().ok()?, boot: boot.to_owned(), host })
    }

    /// Returns the line in the lock files of a batch, which names its journal entry (record). A program that does not
    /// know journal entries takes such a file for a lock of git. The line has no room for the host.
    pub(crate) fn encode_batch(&self, id: BatchId) -> String {
        format!("held by a batch of refdb, record {id}, process {}, boot {}\n", self.pid, self.boot)
    }

    /// Reads a line of the form that [`encode_batch`](Self::encode_batch) makes, even with a host at its end; `None`
    /// for another form.
    pub(crate) fn decode_batch(bytes: &[u8]) -> Option<(Self, BatchId)> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (id, owner) = text.strip_prefix("held by a batch of refdb, record ")?.split_once(", process ")?;
        Some((Self::decode_owner(owner)?, BatchId::parse(id)?))
    }

    /// Reads the start of a journal file (slot), whose first line signs the locks that are links to the file. The
    /// second line, with the host, is zeros if the refdb that made the file did not write it.
    pub(crate) fn decode_slot(start: &[u8]) -> Option<(Self, BatchId)> {
        let mut lines = start.split_inclusive(|byte| *byte == b'\n');
        let (owner, id) = Self::decode_batch(lines.next()?).filter(|(_, id)| id.is_slot())?;
        let mut host = || plain_host(lines.next()?.strip_prefix(b"host ")?.strip_suffix(b"\n")?);
        Some((Signature { host: host(), ..owner }, id))
    }

    /// Returns whether the absence of a `flock` on the file, and on a local file system also of an NFS client's record
    /// lock, proves that its owner is dead. On a local file system it always does. On other file systems, where `flock`
    /// may be local to a machine, it does if the owner belongs to the current boot of this machine, unless `flock` may
    /// be local to a mount.
    pub(crate) fn is_proof(
        &self,
        own: Option<&Signature>,
        is_local: bool,
        may_stay_in_mount: impl FnOnce() -> bool,
    ) -> bool {
        is_local || own.is_some_and(|own| own.boot == self.boot) && !may_stay_in_mount()
    }
}

/// Returns the start of a journal file (slot) of this process: the line that signs the locks that are links to the
/// file, and a line with the host, which older refdbs do not read. `None` if the system does not provide the boot id.
pub fn slot_start(id: BatchId) -> Option<String> {
    debug_assert!(id.is_slot, "only a slot is signed for the locks of more than one batch: {id}");
    let own = Signature::own()?;
    let host = own.host.as_ref().map_or_else(String::new, |host| format!("host {host}\n"));
    Some(own.encode_batch(id) + &host)
}

/// Returns a host name in the form for signatures: cut, and with a dash for each byte other than an ASCII letter or
/// digit, `.` and `_`, so that none ends the line or controls a terminal. `None` for an empty one.
fn plain_host(name: &[u8]) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let plain = name.iter().take(HOST_LEN_MAX).map(|&byte| if is_plain(byte) { char::from(byte) } else { '-' });
    Some(plain.collect()).filter(|host: &String| !host.is_empty())
}

/// Returns the running kernel's `boot_id`; `None` if the system does not provide it.
pub fn boot_id() -> Option<&'static str> {
    Signature::own().map(|own| own.boot.as_str())
}

/// The name of the journal entry (record) of a batch: 16 hexadecimal digits, which never lead to another folder. The
/// name of a journal file (slot), which is reused for one entry after the other, has a suffix too. A program that does
/// not know journal files takes a lock that names one for a lock of git.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BatchId {
    number: u64,
    is_slot: bool,
}

impl BatchId {
    const DIGITS: usize = 16;
    const SLOT: &str = ".slot";

    /// Returns a random id, which in all likelihood no other batch has.
    pub fn random() -> Self {
        // The keys of a map are the system's random numbers.
        BatchId { number: RandomState::new().build_hasher().finish(), is_slot: false }
    }

    /// Returns a random id for a new journal file (slot).
    pub fn random_slot() -> Self {
        BatchId { is_slot: true, ..Self::random() }
    }

    /// Returns whether the journal entry is in a journal file that is reused (slot).
    pub fn is_slot(self) -> bool {
        self.is_slot
    }

    /// Parses the digits and the suffix of a slot, if there is one; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (digits, is_slot) = text.strip_suffix(Self::SLOT).map_or((text, false), |digits| (digits, true));
        let is_id =
            digits.len() == Self::DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = is_id.then(|| u64::from_str_radix(digits, 16).ok()).flatten()?;
        Some(BatchId { number, is_slot })
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{}", self.number, if self.is_slot { Self::SLOT } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_batch_names_its_record_and_is_foreign_to_who_knows_none() {
        let own = Signature { pid: u32::MAX, host: None, ..Signature::own().unwrap().clone() };
        for id in [BatchId::random(), BatchId::random_slot()] {
            let line = own.encode_batch(id);
            assert!(line.len() <= LEN_MAX);
            assert_eq!(Signature::decode_batch(line.as_bytes()), Some((own.clone(), id)));
            assert_eq!(Signature::decode(line.as_bytes()), None);
        }
        assert_eq!(Signature::decode_batch(own.encode().as_bytes()), None);
        for bad in [
            "",
            "../../../../../a",
            "0123456789ABCDEF",
            "0123456789abcde",
            "+123456789abcdef",
            ".slot",
            "0123456789abcdef.slot.slot",
            "0123456789abcdef.left",
        ] {
            assert_eq!(BatchId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_signature_is_read_as_it_was_written_and_nothing_else_is() {
        let own = Signature::own().unwrap();
        assert_eq!(Signature::decode(own.encode().as_bytes()).as_ref(), Some(own));
        assert!(own.encode().len() <= LEN_MAX);
        let cut = own.encode();
        for other in ["", "\n", "0123456789abcdef0123456789abcdef01234567\n", cut.trim_end(), &cut[1..]] {
            assert_eq!(Signature::decode(other.as_bytes()), None, "{other:?}");
        }
        assert_eq!(Signature::decode(b"held by refdb, process \xff, boot x\n"), None);
    }

    #[test]
    fn the_longest_host_fits_beside_the_longest_process_id() {
        let host = plain_host(&[b'x'; 300]).unwrap();
        let own = Signature { pid: u32::MAX, host: Some(host), ..Signature::own().unwrap().clone() };
        let line = own.encode();
        assert!(line.len() <= LEN_MAX, "{}", line.len());
        assert_eq!(Signature::decode(line.as_bytes()), Some(own));
        assert_eq!(plain_host(b"a b\n\x1b[1m.c_d-e\xff").unwrap(), "a-b---1m.c_d-e-");
        assert_eq!(plain_host(b""), None);
    }

    #[test]
    fn older_and_newer_signatures_are_read_side_by_side() {
        let without = Signature::decode(b"held by refdb, process 7, boot here\n").unwrap();
        assert_eq!(without, Signature { pid: 7, boot: "here".into(), host: None });
        let with = Signature::decode(b"held by refdb, process 7, boot here, host node-a\n").unwrap();
        assert_eq!(with, Signature { host: Some("node-a".into()), ..without });
        // A refdb that does not know host names reads the host as part of the boot, and so takes it for another boot,
        // whose locks stay on a network file system.
        let (_, boot) = "process 7, boot here, host node-a".split_once(", boot ").unwrap();
        assert_ne!(boot, with.boot);
    }

    #[test]
    fn a_slot_names_its_host_in_a_second_line_that_older_readers_do_not_read() {
        let id = BatchId::random_slot();
        let start = slot_start(id).unwrap();
        assert!(start.len() <= SLOT_LEN_MAX);
        let own = Signature::own().unwrap();
        assert_eq!(Signature::decode_slot(start.as_bytes()).unwrap(), (own.clone(), id));
        let old = [own.encode_batch(id).as_bytes(), &[0; 64]].concat();
        assert_eq!(Signature::decode_slot(&old).unwrap(), (Signature { host: None, ..own.clone() }, id));
        let first = start.split_inclusive('\n').next().unwrap();
        assert_eq!(Signature::decode_batch(first.as_bytes()).unwrap().0.boot, own.boot, "as before host names");
    }

    #[test]
    fn where_flock_may_not_reach_other_machines_only_this_ones_dead_are_known() {
        let own = Signature { pid: 1, boot: "here".into(), host: None };
        let other = Signature { boot: "there".into(), ..own.clone() };
        let reaches = || false;
        assert!(own.is_proof(Some(&own), false, reaches) && !other.is_proof(Some(&own), false, reaches));
        assert!(!own.is_proof(None, false, reaches));
        assert!(other.is_proof(Some(&own), true, || true), "from before a restart");
    }

    #[test]
    fn where_flock_may_stay_in_one_mount_no_owner_is_known_to_be_dead() {
        let own = Signature { pid: 1, boot: "here".into(), host: None };
        assert!(!own.is_proof(Some(&own), false, || true), "a second mount on this machine may have it locked");
    }
}
