//! How far `flock(2)` reaches on a file system that other machines share.
//!
//! An NFS client can be configured to keep locks local (`local_lock=flock`, `local_lock=all`, `nolock`). Then not even
//! two mounts on one machine see each other's locks, so that a living owner cannot be distinguished from a dead one.

use crate::{EndedBoot, File, Fs, Result, signature::Signature, storage};

/// Returns whether the mount of a device may keep `flock` local, which is so if its options say it or if the mount
/// cannot be looked up.
pub(super) fn may_stay_in_mount(device: u64) -> bool {
    mounts().and_then(|mounts| stays_in_mount(&mounts, device)).unwrap_or(true)
}

/// Returns the mounts of this process, `None` if they cannot be read. Names that are not UTF-8 are changed.
fn mounts() -> Option<String> {
    Some(String::from_utf8_lossy(&std::fs::read("/proc/self/mountinfo").ok()?).into_owned())
}

/// Returns whether a `flock` of any machine is seen here because the server keeps it. This is so for NFS if it is
/// mounted without an option that keeps `flock` local. Other network file systems may or may not pass `flock` on to the
/// server, which their options do not reveal.
pub(super) fn reaches_server(device: u64) -> bool {
    #[cfg(test)]
    if let Some(is_kept) = SHARED.get() {
        return is_kept;
    }
    mounts().is_some_and(|mounts| is_kept_by_server(&mounts, device))
}

/// Returns whether an open file is on a local file system of this machine, which may be a file server.
pub(super) fn is_local(fs: &Fs, file: &File) -> Result<bool> {
    #[cfg(test)]
    if SHARED.get().is_some() {
        return Ok(false);
    }
    fs.is_file_local(file)
}

#[cfg(test)]
thread_local! {
    /// If a test sets this, all its files are taken for files on a file system that machines share, and the value says
    /// whether the server keeps `flock`.
    pub(super) static SHARED: std::cell::Cell<Option<bool>> = const { std::cell::Cell::new(None) };
}

/// Returns whether the owner of a lock on this device belongs to that boot and has ended, where `flock` shows no holder
/// of the lock.
pub(super) fn ended_with(boot: &EndedBoot, owner: &Signature, device: u64) -> bool {
    owner.boot == boot.id() && (boot.is_vouched_for() || reaches_server(device))
}

fn is_kept_by_server(mounts: &str, device: u64) -> bool {
    let number = number_of(device);
    let is_nfs = |line: &str| {
        let kind = line.split_once(" - ").and_then(|(_, source)| source.split(' ').next());
        matches!(kind, Some("nfs" | "nfs4"))
    };
    stays_in_mount(mounts, device) == Some(false)
        && mounts.lines().filter(|line| line.split(' ').nth(2) == Some(&number)).all(is_nfs)
}

/// Returns a device as the list of mounts names it.
fn number_of(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// Returns whether a mount of the device keeps `flock` local; `None` if the list of mounts does not have the device.
fn stays_in_mount(mounts: &str, device: u64) -> Option<bool> {
    let number = number_of(device);
    mounts
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some(&number))
        .filter_map(|line| line.split_once(" - "))
        .map(|(_, source)| source.rsplit(' ').next().unwrap_or_default())
        .map(|options| options.split(',').any(storage::keeps_flock))
        .reduce(|one, other| one || other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:51 / /srv/git rw,relatime shared:2 - nfs4 host:/git rw,vers=4.2,hard,local_lock=none,addr=a
41 22 0:52 / /srv/local rw,relatime - nfs4 host:/git rw,vers=4.2,hard,local_lock=flock,addr=a
42 22 0:53 / /srv/old rw,relatime shared:3 master:4 - nfs host:/git rw,vers=3,nolock,local_lock=all,addr=a
43 22 0:54 / /srv/posix rw,relatime - nfs host:/git rw,vers=3,local_lock=posix,addr=a
44 22 0:55 / /srv/far rw,relatime - fuse.sshfs host:/git rw,user_id=0
torn
";

    #[test]
    fn a_mount_that_keeps_locks_to_itself_is_known_by_its_options() {
        let told = |minor| stays_in_mount(MOUNTS, rustix::fs::makedev(0, minor));
        assert_eq!(stays_in_mount(MOUNTS, rustix::fs::makedev(254, 0)), Some(false));
        assert_eq!([51, 52, 53, 54].map(told), [Some(false), Some(true), Some(true), Some(false)]);
        assert_eq!(told(99), None);
        let kept = |minor| is_kept_by_server(MOUNTS, rustix::fs::makedev(0, minor));
        assert_eq!([51, 52, 53, 54, 55, 99].map(kept), [true, false, false, true, false, false]);
        assert_eq!(stays_in_mount("", 0), None);
    }

    #[test]
    fn a_device_that_is_mounted_nowhere_proves_nothing() {
        assert!(may_stay_in_mount(rustix::fs::makedev(4_000, 1)));
    }
}
