//! Signals as ordinary errors.
//!
//! A process that holds locks must give them up when it is told to stop. Instead of a handler that cleans up behind
//! everyone's back, a signal sets a flag; what waits or works for long asks [`check`] now and then and fails, and the
//! drops on the way out unlock. The program then ends itself by the signal with [`end_by_signal`].

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

static RECEIVED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Catches SIGINT, SIGTERM, SIGHUP and SIGQUIT from now on. For programs; a library's host has its own handlers.
pub fn catch_signals() -> io::Result<()> {
    let flag = RECEIVED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        signal_hook::flag::register_usize(signal, Arc::clone(flag), signal as usize)?;
    }
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
