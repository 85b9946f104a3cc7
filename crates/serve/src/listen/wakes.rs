//! Spares the runtime wake-ups that a task causes while it runs.
//!
//! hyper wakes the task of a connection from within that task for each request that has a body. The runtime then takes
//! the task for one more that is ready, and wakes another worker thread for it, which finds nothing to do. For a client
//! that polls, this was an eighth of the processor time.

use atomic_waker::AtomicWaker;
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicU8,
            Ordering::{AcqRel, Acquire},
        },
    },
    task::{Context, Poll, Wake, Waker},
};

/// How often in a row a future that wakes itself is polled, before the other tasks of the thread have their turn.
const POLLS_MAX: usize = 4;

/// The future is not being polled, and was not woken.
const ASLEEP: u8 = 0;
/// The future is being polled, and was not woken since the poll began.
const POLLED: u8 = 1;
/// The future was woken, and will be polled again without being woken once more.
const WOKEN: u8 = 2;

/// Wakes the task of a future, but only if the future is asleep.
#[derive(Debug, Default)]
struct Alarm {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, AcqRel) == ASLEEP {
            self.task.wake();
        }
    }
}

/// Waits for a future, and polls it again at once if it was woken while it was polled, but at most [`POLLS_MAX`] times
/// in a row.
pub(super) async fn sparing<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    poll_fn(move |context| {
        // A wake-up from another thread wakes the task if the state is `ASLEEP`, so the task is registered before the
        // state becomes that.
        alarm.task.register(context.waker());
        for _ in 0..POLLS_MAX {
            alarm.state.swap(POLLED, AcqRel);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(output);
            }
            if alarm.state.compare_exchange(POLLED, ASLEEP, AcqRel, Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn a_future_that_wakes_itself_runs_on_without_waking_its_task() {
        let (count, mut left) = (Arc::new(Count::default()), 3);
        let mut future = pin!(sparing(poll_fn(|context| {
            context.waker().wake_by_ref();
            left -= 1;
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })));
        let waker = Waker::from(Arc::clone(&count));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        assert_eq!(count.0.load(SeqCst), 0);
    }

    #[test]
    fn a_future_that_never_stops_waking_itself_lets_other_tasks_run() {
        let (count, polls) = (Arc::new(Count::default()), AtomicUsize::new(0));
        let mut future = pin!(sparing(poll_fn(|context| {
            polls.fetch_add(1, SeqCst);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        })));
        let waker = Waker::from(Arc::clone(&count));
        for turn in 1..=10 {
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!((polls.load(SeqCst), count.0.load(SeqCst)), (turn * POLLS_MAX, turn));
        }
    }

    #[test]
    fn a_future_that_sleeps_wakes_its_task_once_for_each_poll() {
        let (count, kept) = (Arc::new(Count::default()), Mutex::new(None::<Waker>));
        let mut future = pin!(sparing(poll_fn(|context| {
            *kept.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        })));
        let waker = Waker::from(Arc::clone(&count));
        for turn in 1..=10 {
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!(count.0.load(SeqCst), turn - 1);
            for _ in 0..3 {
                kept.lock().unwrap().as_ref().unwrap().wake_by_ref();
            }
            assert_eq!(count.0.load(SeqCst), turn, "further wake-ups before the poll change nothing");
        }
    }

    /// Another thread wakes a future while it runs. If one wake-up were lost, the future would not end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_up_from_another_thread_is_lost() {
        const STEPS: usize = 20_000;
        let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
        let woken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&woken);
        let other = std::thread::spawn(move || {
            for waker in receiver {
                counted.fetch_add(1, SeqCst);
                waker.wake();
            }
        });
        let (mut asked, done) = (0, Arc::clone(&woken));
        let steps = sparing(poll_fn(move |context| {
            if done.load(SeqCst) < asked {
                return Poll::Pending;
            }
            if asked == STEPS {
                return Poll::Ready(());
            }
            asked += 1;
            sender.send(context.waker().clone()).unwrap();
            Poll::Pending
        }));
        let ended = tokio::time::timeout(std::time::Duration::from_secs(120), tokio::spawn(steps)).await;
        ended.expect("a wake-up was lost").unwrap();
        other.join().unwrap();
    }
}
