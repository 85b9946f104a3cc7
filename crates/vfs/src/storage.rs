//! Examines the mount that a folder is on: its kind, its options, and what follows from them for refs before anything
//! is tried.

use crate::{Fs, Result, kind, planted};
use std::{fmt, path::Path};

/// Why refs must not be written on a network file system whose mount cannot be found.
const UNKNOWN: &str = "the mount is not in /proc/self/mountinfo, so that its options are not known, and some of them \
                       let a client miss changes";

/// Returns whether a mount option keeps `flock` local to this machine.
pub(crate) fn keeps_flock(option: &str) -> bool {
    matches!(option, "local_lock=flock" | "local_lock=all" | "nolock")
}

/// A mount, by the kind of its file system and its options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    options: String,
}

impl Mount {
    /// Returns the first mount in `/proc/self/mountinfo` of the device that `path` is on; `None` if none can be found.
    pub fn of(path: &Path) -> Option<Self> {
        if planted("vfs-nocto") {
            return Some(Mount::parse("nfs4,rw,vers=4.2,nocto"));
        }
        if planted("vfs-sshfs") {
            return Some(Mount::parse("fuse.sshfs,rw"));
        }
        if planted("vfs-no-mount") {
            return None;
        }
        let stat = rustix::fs::stat(path).ok()?;
        let device = format!("{}:{}", rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        // The name of another mount need not be UTF-8.
        let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
        String::from_utf8_lossy(&mounts)
            .lines()
            .find_map(|line| options_of(line, &device))
            .map(|options| Mount { options })
    }

    /// Returns the reason why refs must not be written in a folder whose mount [cannot be found](Self::of), if there is
    /// one: that file systems of this kind can have a [fault](Self::fault_of_files), or that the kind cannot be found
    /// out.
    pub fn fault_of_unknown(folder: &Path) -> Option<&'static str> {
        let is_harmless = Fs::real().kind_of(folder).is_ok_and(|kind| !kind::can_miss_changes(&kind));
        (!is_harmless).then_some(UNKNOWN)
    }

    /// Returns the mount for which [`options`](Self::options) has returned this text, perhaps on another machine.
    pub fn parse(options: &str) -> Self {
        Mount { options: options.to_owned() }
    }

    /// Returns the kind of file system and the options, separated by commas: `nfs4,rw,vers=4.2,...`.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Returns whether the file system is NFS of any version.
    pub fn is_nfs(&self) -> bool {
        self.options.starts_with("nfs")
    }

    /// Returns whether the file system is NFS 4.0 or later.
    pub fn is_nfs_4(&self) -> bool {
        self.is_nfs() && self.words().any(|option| option.starts_with("vers=4"))
    }

    /// Returns a description of how far `flock` reaches, with which refdb distinguishes the lock of a living process
    /// from a stale one.
    pub fn flock(&self) -> &'static str {
        if !self.is_nfs() {
            "not known, since this is not NFS: locks of a machine that is lost cannot be told from others"
        } else if self.words().any(keeps_flock) {
            "kept to this machine by the mount: locks of a machine that is lost cannot be told from others"
        } else {
            "reaches the server"
        }
    }

    /// Returns the kind of file system, such as `nfs4` or `fuse.sshfs`.
    fn kind(&self) -> &str {
        self.words().next().unwrap_or_default()
    }

    /// Returns whether the file system is SMB.
    fn is_smb(&self) -> bool {
        matches!(self.kind(), "cifs" | "smb3")
    }

    /// Returns the reason why refs must not be written here in any format, if there is one: that the client does not
    /// ask the server even about a file that is opened, or that a file cannot be created or renamed in one step.
    pub fn fault(&self) -> Option<&'static str> {
        match self.kind() {
            "fuse.sshfs" => Some("sshfs answers from a cache of its own without asking the server"),
            "fuse.s3fs" | "fuse.gcsfuse" | "fuse.goofys" | "fuse.rclone" | "fuse.blobfuse" | "fuse.blobfuse2" => {
                Some("a store of objects can neither create nor rename a file in one step")
            }
            _ if self.is_smb() && self.has("cache=loose") => {
                Some("the mount option cache=loose keeps the client from asking the server about a file that is opened")
            }
            _ => None,
        }
    }

    /// Returns the reason why loose refs and packed-refs must not be written here, if there is one: that of
    /// [`fault`](Self::fault), or that a program can miss a change by another machine even if it asks the server about
    /// the folder first.
    pub fn fault_of_files(&self) -> Option<&'static str> {
        if let Some(fault) = self.fault() {
            return Some(fault);
        }
        if self.is_smb() {
            return Some(
                "a client of SMB believes for up to a second that a file does not exist; keep refs in reftables",
            );
        }
        if !self.is_nfs() {
            return None;
        }
        if self.has("nocto") {
            return Some("the mount option nocto keeps the client from asking the server about a file that is opened");
        }
        // NFS 4 counts the changes of a folder, so that none is missed.
        (!self.is_nfs_4()).then_some(
            "NFS 3 shows changes of a folder by its time stamp alone, so that a change within the same tick of the \
             server's clock is missed; mount it as NFS 4, or keep refs in reftables",
        )
    }

    /// Returns what refdb cannot rely on here, although it writes, if there is something: that a request which fails is
    /// not carried out later.
    fn doubt(&self) -> Option<&'static str> {
        let gives_up = self.is_nfs() && (self.has("soft") || self.has("softerr"));
        gives_up.then_some(
            "the mount options soft and softerr make the client give up requests that the server may carry out later, \
             when other changes depend on their failure; mount it with hard",
        )
    }

    /// Returns the number of seconds for which an NFS client may use what it has cached, and for which a program that
    /// does not ask the server may therefore see old values. Returns 0 if the client asks the server for each access.
    pub fn cached_seconds(&self) -> u64 {
        if self.has("noac") || self.has("lookupcache=none") {
            return 0;
        }
        const DEFAULT: u64 = 60;
        let seconds = |key: &str| {
            let value = self.words().find_map(|option| option.strip_prefix(key)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).unwrap_or(DEFAULT)
        };
        seconds("acregmax").max(seconds("acdirmax"))
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.options.split(',')
    }

    fn has(&self, option: &str) -> bool {
        self.words().any(|word| word == option)
    }
}

/// Returns the conclusion that refs of no format are written.
fn refusal(why: &str) -> String {
    format!("unsafe: files, reftable: refdb refuses to write: {why}")
}

/// Returns the kind and the options of the mount that a line of mountinfo describes, if the mount is of this device.
fn options_of(line: &str, device: &str) -> Option<String> {
    let (own, rest) = line.split_once(" - ")?;
    let mut own = own.split(' ');
    let (here, options) = (own.nth(2)?, own.nth(2)?);
    let mut rest = rest.split(' ');
    let (kind, more) = (rest.next()?, rest.nth(1)?);
    (here == device).then(|| format!("{kind},{options},{more}"))
}

/// What is known about the storage of a folder without testing it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Storage {
    /// Whether the folder's file system is known to be local to this machine.
    pub is_local: bool,
    /// The mount, if it can be found.
    pub mount: Option<Mount>,
    /// If the mount cannot be found, why refs must not be written, if there is a reason.
    fault_of_unknown: Option<&'static str>,
}

impl Storage {
    /// Examines the storage of a folder.
    ///
    /// # Errors
    ///
    /// Fails if the folder's file system cannot be examined.
    pub fn of(folder: &Path) -> Result<Self> {
        let (is_local, mount) = (Fs::real().is_local(folder)?, Mount::of(folder));
        let fault_of_unknown = if mount.is_none() { Mount::fault_of_unknown(folder) } else { None };
        Ok(Storage { is_local, mount, fault_of_unknown })
    }

    /// Returns what follows for refs, one conclusion on each line. Lines begin with the verdicts of `refdb
    /// check-storage`; a line about an unsafe format comes first.
    pub fn conclusions(&self) -> Vec<String> {
        const NOT_TESTED: &str = "refdb does not know this kind of file system, and treats it like NFS; try it with \
                                  `refdb check-storage`";
        let mount = match &self.mount {
            _ if self.is_local => return vec!["safe: the file system is local".into()],
            None => {
                return vec![match self.fault_of_unknown {
                    Some(why) => refusal(why),
                    None => format!("not tested: {NOT_TESTED}"),
                }];
            }
            Some(mount) => mount,
        };
        if let Some(why) = mount.fault() {
            return vec![refusal(why)];
        }
        let mut lines = Vec::new();
        let fault = mount.fault_of_files();
        lines.extend(fault.map(|why| format!("unsafe: files: refdb refuses to write: {why}")));
        let written = if fault.is_some() { "reftable" } else { "files, reftable" };
        lines.push(match (mount.is_nfs(), mount.doubt()) {
            (true, None) => format!("safe: {written}"),
            (true, Some(why)) => format!("not tested: {written}: {why}"),
            (false, _) if fault.is_none() => format!("not tested: {NOT_TESTED}"),
            (false, _) => format!("not tested: {written}: {NOT_TESTED}"),
        });
        if !mount.is_nfs() {
            return lines;
        }
        let seconds = mount.cached_seconds();
        if seconds > 0 {
            lines.push(format!(
                "late: git, and JGit where its trust settings say `always`, as they do by default, can show refs of \
                 other machines up to {seconds} s late, by the client's cache; refdb asks the server"
            ));
        }
        lines
    }
}

impl fmt::Display for Storage {
    /// Writes lines for people, without a line feed at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mount {
            Some(mount) => write!(f, "mount: {}", mount.options())?,
            None => f.write_str("mount: not known; is /proc there?")?,
        }
        if !self.is_local {
            const UNKNOWN: &str =
                "not known, since the mount is not: locks of a machine that is lost cannot be told from others";
            write!(f, "\nflock: {}", self.mount.as_ref().map_or(UNKNOWN, Mount::flock))?;
        }
        self.conclusions().iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nfs(options: &str) -> Storage {
        Storage { is_local: false, mount: Some(Mount::parse(options)), fault_of_unknown: None }
    }

    #[test]
    fn a_mount_is_known_by_its_device() {
        let line = "67 28 0:41 / /srv/git rw,relatime shared:9 - nfs4 filer:/git rw,vers=4.2,lookupcache=none,hard";
        let options = options_of(line, "0:41").unwrap();
        assert_eq!(options, "nfs4,rw,relatime,rw,vers=4.2,lookupcache=none,hard");
        assert_eq!(options_of(line, "0:4"), None);
        assert_eq!(options_of("67 28 0:41", "0:41"), None);
        assert!(Mount::of(Path::new("/proc")).unwrap().options().starts_with("proc,"));
    }

    #[test]
    fn mounts_on_which_a_client_misses_changes_are_named() {
        for safe in ["nfs4,rw,vers=4.2,hard", "nfs4,rw,vers=4.0,noac", "ext4,rw,relatime", "fuse.glusterfs,rw"] {
            assert_eq!((Mount::parse(safe).fault_of_files(), Mount::parse(safe).fault()), (None, None), "{safe}");
        }
        for (options, word) in [
            ("fuse.sshfs,rw,user_id=0", "cache of its own"),
            ("fuse.s3fs,rw", "one step"),
            ("cifs,rw,vers=3.1.1,cache=loose,actimeo=1", "cache=loose"),
        ] {
            let storage = nfs(options);
            let mount = storage.mount.as_ref().unwrap();
            assert!(mount.fault().is_some_and(|fault| fault.contains(word)), "{options}");
            assert_eq!(mount.fault_of_files(), mount.fault());
            assert!(storage.conclusions()[0].starts_with("unsafe: files, reftable: refdb refuses to write: "));
        }
        let smb = nfs("smb3,rw,vers=3.1.1,cache=strict,actimeo=1");
        let [first, second] = &smb.conclusions()[..] else { panic!("{smb}") };
        assert!(first.starts_with("unsafe: files: ") && first.contains("a second"), "{smb}");
        assert!(second.starts_with("not tested: reftable: "), "{smb}");
        assert_eq!(smb.mount.unwrap().fault(), None);
        for (options, word) in [
            ("nfs,rw,vers=3,hard", "tick"),
            ("nfs,rw,vers=3,lookupcache=none,noac", "tick"),
            ("nfs4,rw,vers=4.2,nocto", "nocto"),
            ("nfs,rw,nocto,vers=3,lookupcache=none", "nocto"),
        ] {
            assert!(Mount::parse(options).fault_of_files().is_some_and(|fault| fault.contains(word)), "{options}");
            let first = &nfs(options).conclusions()[0];
            assert!(first.starts_with("unsafe: files: refdb refuses to write: ") && first.contains(word), "{first}");
        }
    }

    #[test]
    fn a_client_that_gives_up_requests_is_not_called_safe() {
        for (options, line) in [
            ("nfs4,rw,vers=4.2,soft,timeo=600", 0),
            ("nfs4,rw,vers=4.2,softerr", 0),
            ("nfs,rw,vers=3,soft,proto=tcp", 1),
        ] {
            let lines = nfs(options).conclusions();
            let formats = ["files, reftable", "reftable"][line];
            assert!(lines[line].starts_with(&format!("not tested: {formats}: the mount options soft")), "{lines:?}");
            assert!(!lines.iter().any(|line| line.starts_with("safe")), "{lines:?}");
        }
        assert_eq!(nfs("nfs4,rw,vers=4.2,hard,softreval").conclusions()[0], "safe: files, reftable");
    }

    #[test]
    fn a_client_that_caches_is_late_for_its_longest_time() {
        for (options, seconds) in [
            ("nfs4,rw,vers=4.2,hard", 60),
            ("nfs4,rw,vers=4.2,acregmin=1,acregmax=5,acdirmin=1,acdirmax=5", 5),
            ("nfs4,rw,vers=4.2,acregmax=600", 600),
            ("nfs4,rw,vers=4.2,lookupcache=pos", 60),
            ("nfs4,rw,vers=4.2,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0", 0),
            ("nfs4,rw,sync,vers=4.2,noac", 0),
            ("nfs4,rw,vers=4.2,lookupcache=none", 0),
        ] {
            assert_eq!(Mount::parse(options).cached_seconds(), seconds, "{options}");
            let late = nfs(options).conclusions().into_iter().find(|line| line.starts_with("late: "));
            assert_eq!(late.is_some(), seconds > 0, "{options}");
            assert!(late.is_none_or(|late| late.contains(&format!("up to {seconds} s late"))), "{options}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_called_safe() {
        let unknown = |fault_of_unknown| Storage { is_local: false, mount: None, fault_of_unknown };
        for storage in [unknown(None), nfs("fuse.glusterfs,rw")] {
            assert!(storage.conclusions()[0].starts_with("not tested: "), "{storage}");
            let reason = if storage.mount.is_none() { "the mount is not: " } else { "this is not NFS: " };
            assert!(storage.to_string().contains(&format!("\nflock: not known, since {reason}")), "{storage}");
        }
        assert!(unknown(Some(UNKNOWN)).conclusions()[0].starts_with("unsafe: files, reftable: "));
        assert_eq!(Mount::fault_of_unknown(Path::new("/proc")), None);
        assert_eq!(Mount::fault_of_unknown(Path::new("/nonexistent")), Some(UNKNOWN));
        let local = Storage { is_local: true, mount: Some(Mount::parse("ext4,rw")), fault_of_unknown: None };
        assert_eq!(local.to_string(), "mount: ext4,rw\nsafe: the file system is local");
    }
}
