//! Signals as ordinary errors: a process that holds locks gives them up when it is told to stop.

use crate::abort;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
use std::{
    io,
    mem::MaybeUninit,
    os::fd::AsFd,
    process::{Child, ExitStatus},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

static RECEIVED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// The signals that get a handler.
const CAUGHT: [i32; 7] = [SIGABRT, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGXFSZ];

/// Catches SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU from now on, and does what [`catch_faults`] does. This is meant
/// for programs; the host of a library has its own handlers.
///
/// A signal sets a flag. Code that waits or works for long calls [`check`] now and then, and fails. Destructors release
/// the locks on the way out, and then the program ends itself by the signal with [`end_by_signal`].
pub fn catch_signals() -> io::Result<()> {
    while_blocked(&CAUGHT, || {
        let flag = RECEIVED.get_or_init(Arc::default);
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU] {
            signal_hook::flag::register_usize(signal, Arc::clone(flag), signal as usize)?;
        }
        handle_faults()
    })?
}

/// Makes an abort of this process remove the lock files that the process creates from now on, except those of batches,
/// those that are to [outlive aborts](crate::Lock::outlive_aborts), and those that contain new content which is to be
/// [kept](crate::Lock::keep_content). Rust aborts when memory runs out. This is meant for programs that handle the
/// other signals, such as SIGTERM, themselves.
///
/// SIGXFSZ does nothing from now on: a write beyond the limit of a file's size fails instead. Programs that the process
/// starts have the default action of SIGXFSZ.
pub fn catch_faults() -> io::Result<()> {
    while_blocked(&CAUGHT, handle_faults)?
}

fn handle_faults() -> io::Result<()> {
    abort::install()?;
    // Nobody reads this flag. A signal that is ignored would be ignored by children, too.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// Runs `work` while these signals are blocked in this thread. Those that arrive meanwhile are delivered afterwards,
/// unless another thread takes them.
///
/// Handlers are installed like this, because signal-hook first replaces the default action and only then records what
/// the handler is to do. A signal in between would neither end the process nor be noticed.
fn while_blocked<T>(signals: &[i32], work: impl FnOnce() -> T) -> io::Result<T> {
    let mask = Mask::block(signals)?;
    let done = work();
    drop(mask);
    Ok(done)
}

/// The signals that this thread had blocked before. Dropping it restores this set.
struct Mask(libc::sigset_t);

impl Mask {
    fn block(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initializes `set`, whose address is valid, before anything else looks at it, and
        // `sigaddset` changes it or fails. `pthread_sigmask` reads `set` and initializes `before` unless it fails, in
        // which case `before` is not read.
        #[expect(unsafe_code, reason = "there is no safe way to block a signal")]
        let failure = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr())
        };
        if failure != 0 {
            return Err(io::Error::from_raw_os_error(failure));
        }
        // SAFETY: the call that initializes it succeeded.
        #[expect(unsafe_code, reason = "the system has filled it in")]
        Ok(Mask(unsafe { before.assume_init() }))
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        // SAFETY: the set is one that `pthread_sigmask` gave, and a null pointer means that the present one is not
        // asked for.
        #[expect(unsafe_code, reason = "there is no safe way to unblock a signal")]
        let failure = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        debug_assert_eq!(failure, 0, "a mask that the system gave is one that it takes");
    }
}

/// Makes [`check`] fail from now on, as if this signal had been caught. This is for a program with handlers of its own,
/// when its work is to end.
pub fn pretend(signal: i32) {
    RECEIVED.get_or_init(Arc::default).store(signal as usize, Ordering::Relaxed);
}

/// Returns the signal that was caught last, or that [`pretend`] was given, if there is one.
pub fn received() -> Option<i32> {
    let signal = RECEIVED.get()?.load(Ordering::Relaxed);
    (signal != 0).then_some(signal as i32)
}

/// Fails once a signal was caught or [`pretend`] was called.
pub fn check() -> io::Result<()> {
    match received() {
        None => Ok(()),
        Some(signal) => Err(io::Error::new(io::ErrorKind::Interrupted, format!("stopped by signal {signal}"))),
    }
}

/// Ends the process as the signal that [`received`] returns would have ended it. Returns if there is none.
pub fn end_by_signal() {
    if let Some(signal) = received() {
        // The call fails only for a signal whose default is not known.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

/// Ends the process as a write into a pipe without a reader ends a program that does not ignore `SIGPIPE`. Rust
/// programs ignore it.
pub fn end_by_broken_pipe() {
    // The call fails only for a signal whose default is not known.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
}

/// Returns whether [`check`] can fail: because [`catch_signals`] or [`pretend`] was called.
pub fn is_caught() -> bool {
    RECEIVED.get().is_some()
}

/// Waits until `input` can be read or has ended, and fails once a signal was caught. Reading alone would not notice the
/// signal: the system restarts an interrupted read.
pub fn wait_readable(input: impl AsFd) -> io::Result<()> {
    wait_until(input, PollFlags::IN)
}

/// Waits until `output` can be written to or has lost its reader, and fails once a signal was caught. A pipe then takes
/// 4 KiB at once, whereas a longer write may wait for the reader and not notice a signal.
pub fn wait_writable(output: impl AsFd) -> io::Result<()> {
    wait_until(output, PollFlags::OUT)
}

fn wait_until(end: impl AsFd, ready: PollFlags) -> io::Result<()> {
    // A signal may come between the check and the wait; then it is noticed a little later, which is harmless.
    let pause = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    loop {
        check()?;
        let mut fds = [PollFd::new(&end, ready)];
        match poll(&mut fds, Some(&pause)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes `input` to the standard input of a child, if that is a pipe, and waits for the end of the child. A child need
/// not read its input.
///
/// A child that still runs after a signal was caught gets SIGTERM, at once or within a tenth of a second. The child is
/// not waited for then, because it may ignore the signal.
///
/// # Errors
///
/// Fails if a signal was caught before the child ended, if the input cannot be written for another reason than that
/// nobody reads it, or if the child cannot be waited for.
pub fn feed_and_wait(child: &mut Child, input: &[u8]) -> io::Result<ExitStatus> {
    let (mut feed, mut rest) = (child.stdin.take(), input);
    if let Some(feed) = &feed {
        rustix::io::ioctl_fionbio(feed, true)?;
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // Some sandboxes refuse `pidfd_open`.
    let ended = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let millis = if ended.is_some() { 100 } else { 5 };
    let pause = Timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 };
    loop {
        if rest.is_empty() {
            feed = None;
        }
        let ends = [(feed.as_ref().map(AsFd::as_fd), PollFlags::OUT), (ended.as_ref().map(AsFd::as_fd), PollFlags::IN)];
        let mut fds: Vec<_> = ends.iter().filter_map(|(fd, events)| Some(PollFd::new(fd.as_ref()?, *events))).collect();
        match poll(&mut fds, Some(&pause)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Err(error) = check() {
            if let Some(pid) = pid {
                let _ = kill_process(pid, Signal::TERM);
            }
            return Err(error);
        }
        match feed.as_ref().map(|feed| rustix::io::write(feed, rest)) {
            Some(Ok(written)) => rest = &rest[written..],
            Some(Err(Errno::PIPE)) => rest = &[],
            None | Some(Err(Errno::INTR | Errno::AGAIN)) => {}
            Some(Err(error)) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_gets_its_input_unless_it_does_not_want_it() {
        let input = vec![b'x'; 1 << 20];
        for (script, code) in [("test $(wc -c) = 1048576", 0), ("exit 3", 3), ("exec <&-; sleep 0.2; exit 4", 4)] {
            let mut command = std::process::Command::new("/bin/sh");
            let mut child = command.args(["-c", script]).stdin(std::process::Stdio::piped()).spawn().expect("a shell");
            let status = feed_and_wait(&mut child, &input).expect("it ends");
            assert_eq!(status.code(), Some(code), "{script}");
        }
    }

    const CATCHES: &str = "REFDB_TEST_CATCHES";

    #[test]
    fn a_signal_that_comes_while_handlers_are_installed_is_caught_once_they_are() {
        if std::env::var_os(CATCHES).is_some() {
            let caught = while_blocked(&CAUGHT, || {
                signal_hook::low_level::raise(SIGTERM).expect("a thread may signal itself");
                catch_signals().expect("signals can be caught");
            });
            caught.expect("signals can be blocked");
            std::process::exit(received().unwrap_or_default());
        }
        let this = std::env::current_exe().expect("a test is a program");
        let test = "interrupt::tests::a_signal_that_comes_while_handlers_are_installed_is_caught_once_they_are";
        let mut again = std::process::Command::new(this);
        let status = again.args(["--exact", test, "--test-threads=1"]).env(CATCHES, "1").status();
        assert_eq!(status.expect("it can be started again").code(), Some(SIGTERM));
    }
}
