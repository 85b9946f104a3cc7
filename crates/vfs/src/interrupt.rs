//! Signals as ordinary errors: a process that holds locks gives them up when it is told to stop.

use crate::abort;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
use std::{
    io,
    os::fd::AsFd,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

static RECEIVED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Catches SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU from now on. It also has an abort, by which a lack of memory ends
/// the process, remove the locks. For programs; a library's host has its own handlers.
///
/// SIGXFSZ does nothing from now on: a write beyond the limit of a file's size fails. What the process starts begins with
/// SIGXFSZ as usual.
///
/// A signal sets a flag. Code that waits or works for long asks [`check`] now and then and fails. The drops on the way out
/// unlock. Then the program ends itself by the signal with [`end_by_signal`].
pub fn catch_signals() -> io::Result<()> {
    abort::install()?;
    let flag = RECEIVED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU] {
        signal_hook::flag::register_usize(signal, Arc::clone(flag), signal as usize)?;
    }
    // Nobody reads this flag. A signal that is ignored would be ignored by children, too.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// The signal that was caught, if any.
pub fn received() -> Option<i32> {
    let signal = RECEIVED.get()?.load(Ordering::Relaxed);
    (signal != 0).then_some(signal as i32)
}

/// Fails once a signal was caught.
pub fn check() -> io::Result<()> {
    match received() {
        None => Ok(()),
        Some(signal) => Err(io::Error::new(io::ErrorKind::Interrupted, format!("stopped by signal {signal}"))),
    }
}

/// Ends the process the way the caught signal would have ended it. Returns if there was none.
pub fn end_by_signal() {
    if let Some(signal) = received() {
        // It only fails for a signal whose default is not known, and those are not caught.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

/// Ends the process as a write into a pipe without a reader ends a program that does not ignore `SIGPIPE`. Rust
/// programs ignore it.
pub fn end_by_broken_pipe() {
    // It only fails for a signal whose default is not known.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
}

/// Waits until `input` can be read or has ended, or a signal was caught. Reading alone would not notice the signal:
/// the system starts an interrupted read again.
pub fn wait_readable(input: impl AsFd) -> io::Result<()> {
    // A signal may come between the check and the wait; nobody minds that it is seen a little later then.
    let pause = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    loop {
        check()?;
        let mut fds = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut fds, Some(&pause)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
