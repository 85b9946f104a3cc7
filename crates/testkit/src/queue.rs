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
    // The names of other programs' sockets may be any bytes.
    let sockets = fs::read("/proc/net/unix").expect("the kernel lists its sockets");
    let sockets = String::from_utf8_lossy(&sockets);
    sockets.lines().filter(|line| line.contains("@refdb-queue-") && line.contains(&queue)).count()
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
