//! Kinds of file systems, as `statfs(2)` reports them.

use crate::planted;
use rustix::fs::StatFs;

/// Returns whether a file system is known to be on a disk or in the memory of this machine. One of an unknown kind is
/// treated as a network file system.
pub(crate) fn is_local(kind: &StatFs) -> bool {
    // From Linux' magic.h: ext2-4, XFS, btrfs, tmpfs, ramfs, F2FS, overlayfs, ZFS (from OpenZFS), bcachefs.
    const LOCAL: [u64; 9] = [
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0x0102_1994,
        0x8584_58f6,
        0xf2f5_2010,
        0x794c_7630,
        0x2fc1_2fc1,
        0xca45_1a4e,
    ];
    let is_planted = planted("vfs-local") || planted("vfs-nocto") || planted("vfs-sshfs");
    let is_planted = is_planted || planted("vfs-no-mount");
    let is_lost = planted("vfs-stale") || planted("vfs-stale-early") || planted("vfs-stale-late");
    LOCAL.contains(&(kind.f_type as u64)) && !is_planted && !is_lost
}

/// Returns whether a file system is NFS.
pub(crate) fn is_nfs(kind: &StatFs) -> bool {
    const NFS: u64 = 0x6969;
    kind.f_type as u64 == NFS
}

/// Returns whether a client of such a file system can miss changes with some options, or through some programs: NFS,
/// SMB and FUSE.
pub(crate) fn can_miss_changes(kind: &StatFs) -> bool {
    // From Linux' magic.h: CIFS, SMB2 and later, FUSE.
    const OTHERS: [u32; 3] = [0xff53_4d42, 0xfe53_4d42, 0x6573_5546];
    is_nfs(kind) || OTHERS.contains(&(kind.f_type as u32)) || planted("vfs-no-mount")
}
