use bstr::ByteSlice;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Counts the writers of refdb in the queues for the locks of files in `folder`, including the head of each queue.
/// Writers that have left while they waited still count.
///
/// # Panics
///
/// If the folder or the kernel's list of sockets cannot be read.
pub fn queued_writers(folder: &Path) -> usize {
    let found = fs::metadata(folder).expect("the folder is there");
    let queue = format!("-{:x}-{:x}-", found.dev(), found.ino());
    // Names of other programs' sockets need not be UTF-8.
    let sockets = fs::read("/proc/net/unix").expect("the kernel lists its sockets");
    sockets.lines().filter(|line| line.contains_str("@refdb-queue-") && line.contains_str(&queue)).count()
}

/// Waits until at least `count` writers are in the queues for the locks of files in `folder`, as [`queued_writers`]
/// counts them.
///
/// # Panics
///
/// If fewer writers are in the queues after a minute.
pub fn await_queue(folder: &Path, count: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    while queued_writers(folder) < count {
        assert!(Instant::now() < end, "{} of {count} writers wait", queued_writers(folder));
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    };

    #[test]
    fn sockets_with_any_name_do_not_disturb_the_count() {
        let name = format!("refdb-testkit-{}", std::process::id());
        let stranger = SocketAddr::from_abstract_name([name.as_bytes(), b"\xff"].concat()).unwrap();
        let _stranger = UnixListener::bind_addr(&stranger).unwrap();
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(queued_writers(dir.path()), 0);
    }
}
