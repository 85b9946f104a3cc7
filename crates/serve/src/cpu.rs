//! How much processor time the work for a request takes.

use rustix::time::{ClockId, clock_gettime};
use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The processor time that was spent for one request so far. Clones share it. Nothing is counted unless the time is
/// asked for, because looking at a thread's clock is a system call.
#[derive(Clone, Default)]
pub(crate) struct Cpu(Option<Arc<AtomicU64>>);

impl Cpu {
    pub(crate) fn new(is_wanted: bool) -> Self {
        Cpu(is_wanted.then(Arc::default))
    }

    /// Returns the time so far, or `None` if it was not asked for.
    pub(crate) fn spent(&self) -> Option<Duration> {
        self.0.as_ref().map(|nanos| Duration::from_nanos(nanos.load(Relaxed)))
    }

    /// Adds the time that `work` takes in this thread.
    pub(crate) fn of<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(nanos) = &self.0 else { return work() };
        let before = of_this_thread();
        let done = work();
        nanos.fetch_add(of_this_thread() - before, Relaxed);
        done
    }

    /// Adds the time that `work` takes in the threads that poll it.
    pub(crate) async fn of_future<T>(&self, work: impl Future<Output = T>) -> T {
        if self.0.is_none() {
            return work.await;
        }
        let mut work = pin!(work);
        poll_fn(|context| self.of(|| work.as_mut().poll(context))).await
    }

    /// Adds the time that a process has taken, and that of its children for which it has waited. Adds nothing if
    /// somebody has waited for the process already. The kernel reports such times in ticks of 10 ms.
    pub(crate) fn add_process(&self, id: u32) {
        let Some(nanos) = &self.0 else { return };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return };
        let Some((_, fields)) = stat.rsplit_once(')') else { return };
        // The fields 14 to 17 are utime, stime, cutime and cstime. Field 2 ends with the parenthesis.
        let ticks: u64 = fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
        nanos.fetch_add(ticks * TICK_NANOS, Relaxed);
    }
}

impl fmt::Debug for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cpu").field(&self.spent()).finish()
    }
}

/// The unit of the times in `/proc/PID/stat`.
const TICK_NANOS: u64 = 10_000_000;

/// Returns the processor time of this thread in nanoseconds.
fn of_this_thread() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn burn(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn work_counts_and_waiting_does_not() {
        let cpu = Cpu::new(true);
        cpu.of_future(async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            burn(Duration::from_millis(20));
            tokio::task::yield_now().await;
        })
        .await;
        let spent = cpu.spent().unwrap();
        assert!(spent > Duration::from_millis(1) && spent < Duration::from_millis(100), "{spent:?}");
        let before = spent;
        cpu.of(|| burn(Duration::from_millis(5)));
        assert!(cpu.spent().unwrap() > before);
        assert_eq!(Cpu::new(false).spent(), None);
    }
}
