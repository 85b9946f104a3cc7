use super::{
    Context, Crash, copy,
    record::{Fault, Recorder, Seen},
};
use refdb_vfs::Fs;
use std::{fmt::Debug, path::Path, sync::Arc};

/// Runs `workload` once for every operation that it does, each time in a fresh copy of the folder `start`, and kills
/// it there. That operation and all later ones fail, including clean-up, as if the process had died. A write is also
/// cut short after its first byte, in its middle, and before its last byte. Then `check` examines the copy.
///
/// The workload is also run to its end, where it must succeed. `check` sees that as a crash after the last operation.
pub fn kill_everywhere<E: Debug>(
    start: &Path,
    workload: impl Fn(&Fs, &Path) -> Result<(), E>,
    check: impl Fn(&Path, &Crash),
) {
    let ops = whole_run(start, &workload, &check);
    for (at, op) in ops.iter().enumerate() {
        faulty_run(start, Fault::Dead(at), at, "killed before it".into(), &workload, &check);
        let len = op.len_bytes();
        let mut tears = vec![1, len / 2, len.saturating_sub(1)];
        tears.retain(|tear| (1..len).contains(tear));
        tears.dedup();
        for tear in tears {
            let how = format!("killed after {tear} of its bytes");
            faulty_run(start, Fault::DeadInside(at, tear), at, how, &workload, &check);
        }
    }
}

/// Runs `workload` once for every operation that it does, and makes only that operation fail, as on a full disk. Later
/// operations succeed, so that the workload can clean up and report the failure. Otherwise this is like
/// [`kill_everywhere`], but no write is cut short.
pub fn refuse_everywhere<E: Debug>(
    start: &Path,
    workload: impl Fn(&Fs, &Path) -> Result<(), E>,
    check: impl Fn(&Path, &Crash),
) {
    let ops = whole_run(start, &workload, &check);
    for at in 0..ops.len() {
        faulty_run(start, Fault::Once(at), at, "refused".into(), &workload, &check);
    }
}

/// Runs the workload to its end, and returns the operations that it did.
fn whole_run<E: Debug>(
    start: &Path,
    workload: &impl Fn(&Fs, &Path) -> Result<(), E>,
    check: &impl Fn(&Path, &Crash),
) -> Vec<Seen> {
    let temp = copy::fresh(start);
    let dir = temp.path().join("copy");
    let recorder = Arc::new(Recorder::new(&dir, Fault::None));
    workload(&Fs::with_hook(recorder.clone()), &dir).expect("the workload succeeds when nothing stops it");
    let ops = recorder.take();
    assert!(!ops.is_empty(), "the workload changes nothing through the Fs it was given");
    let crash = Crash { at: ops.len(), next: "the end".into(), how: "stopped".into(), claimed: true };
    let _context = Context(&crash);
    check(&dir, &crash);
    ops
}

fn faulty_run<E>(
    start: &Path,
    fault: Fault,
    at: usize,
    how: String,
    workload: &impl Fn(&Fs, &Path) -> Result<(), E>,
    check: &impl Fn(&Path, &Crash),
) {
    let temp = copy::fresh(start);
    let dir = temp.path().join("copy");
    let recorder = Arc::new(Recorder::new(&dir, fault));
    let claimed = workload(&Fs::with_hook(recorder.clone()), &dir).is_ok();
    let seen = recorder.take();
    let Some(op) = seen.get(at) else { panic!("the workload does other things each time it is run: {seen:?}") };
    let crash = Crash { at, next: op.to_string(), how, claimed };
    let _context = Context(&crash);
    check(&dir, &crash);
}
