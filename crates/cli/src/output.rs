//! Standard output through one large buffer.

use crate::failure::{Failure, Result, message, system_text};
use bstr::ByteSlice;
use refdb::{Snapshot, Store, config::parse_boolean};
use refdb_vfs::interrupt;
use std::{
    cell::Cell,
    io::{self, IsTerminal, Write},
    os::unix::ffi::OsStrExt,
    rc::Rc,
};

/// Standard output through one large buffer.
///
/// Commands append to [`Output::buffer`], and call [`Output::relieve`] now and then to write the buffer if it is full.
#[derive(Debug, Default)]
pub struct Output {
    buffer: Vec<u8>,
    holds: bool,
    /// Whether an error names standard output in the words of `git log`.
    is_of_log: bool,
    /// Whether anything has been written. It is shared, because [`Output::list`] asks while the output is lent.
    has_written: Rc<Cell<bool>>,
}

/// Returns whether standard output leads to a terminal or to git's pager.
pub fn is_for_people() -> bool {
    io::stdout().is_terminal() || has_pager()
}

/// Returns whether git has put its pager between standard output and the terminal.
fn has_pager() -> bool {
    let variable = std::env::var_os("GIT_PAGER_IN_USE");
    variable.is_some_and(|value| parse_boolean(Some(value.as_bytes().as_bstr())) == Some(true))
}

/// Returns whether colors are shown by default: on a terminal that has them, and in a pager there if `color.pager`
/// (or `pager.color`) allows it.
pub fn shows_colors(store: &Store) -> bool {
    // The older name of the setting counts like the newer one, and the last of both decides.
    let is_setting = |key: &[u8]| matches!(key, b"color.pager" | b"pager.color");
    let setting = || store.config().iter().rfind(|value| is_setting(value.key.as_bytes()));
    let pager_takes = || setting().is_none_or(|value| value.boolean().unwrap_or(true));
    store.environment().get("TERM").is_some_and(|term| term != "dumb")
        && (io::stdout().is_terminal() || has_pager() && pager_takes())
}

const FLUSH_BYTES: usize = 128 << 10;
const SPARE_BYTES: usize = 8 << 10;

impl Output {
    /// Returns standard output for a command that shows a log.
    pub fn of_log() -> Self {
        Output { is_of_log: true, ..Output::default() }
    }

    /// Returns the buffer of bytes that have not been written yet.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Returns whether the next [`Output::relieve`] is going to write.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= FLUSH_BYTES && !self.holds
    }

    /// Writes the buffer if it is full, except after [`Output::hold`].
    #[inline]
    pub fn relieve(&mut self) -> Result<()> {
        if self.is_full() { self.flush() } else { Ok(()) }
    }

    /// Returns whether anything has been written, after which [`Output::list`] does not begin again.
    pub fn has_written(&self) -> bool {
        self.has_written.get()
    }

    /// Makes [`Output::relieve`] write nothing from now on, for output that another program is going to lay out.
    pub fn hold(&mut self) {
        self.holds = true;
    }

    /// Reserves the whole buffer at once, for commands that are going to list many refs.
    pub fn expect_much(&mut self) {
        self.buffer.reserve(FLUSH_BYTES + SPARE_BYTES);
    }

    /// Calls `list` with a snapshot of the store, and again with a new snapshot if a file is lost on a network file
    /// system before any output has been written.
    pub fn list<T>(
        &mut self,
        store: &Store,
        mut list: impl FnMut(&dyn Snapshot, &mut Output) -> Result<T>,
    ) -> Result<T> {
        let has_written = Rc::clone(&self.has_written);
        let may_repeat = |failure: &Failure| failure.is_lost() && !has_written.get();
        store.read(may_repeat, |snapshot| {
            if !self.has_written.get() {
                self.buffer.clear();
            }
            list(snapshot, self)
        })
    }

    /// Writes everything that is in the buffer.
    pub fn flush(&mut self) -> Result<()> {
        self.has_written.set(self.has_written.get() || !self.buffer.is_empty());
        match Stdout.write_all(&self.buffer) {
            Ok(()) => {
                self.buffer.clear();
                Ok(())
            }
            Err(_) if interrupt::received().is_some() => Err(Failure::Interrupted),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
            Err(error) => {
                let name = if self.is_of_log { "'stdout'" } else { "standard output" };
                Err(Failure::Fatal(message!["write failure on ", name, ": ", system_text(&error)]))
            }
        }
    }
}

/// Standard output without a buffer. A write waits for the reader of a pipe, even if the pipe is non-blocking, but
/// fails once a signal was caught.
#[derive(Debug)]
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// Number of bytes that a pipe takes without waiting if anything can be written to it.
        const AT_ONCE_BYTES: usize = 4 << 10;
        // An error of the kind `Interrupted` would be taken for a reason to try again.
        let wait_writable =
            || interrupt::wait_writable(io::stdout()).map_err(|error| io::Error::other(error.to_string()));
        loop {
            let mut piece = bytes;
            if interrupt::is_caught() {
                wait_writable()?;
                piece = &bytes[..bytes.len().min(AT_ONCE_BYTES)];
            }
            match rustix::io::write(io::stdout(), piece) {
                Ok(written) => return Ok(written),
                Err(error) => wait(error.into(), wait_writable)?,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits by `until_ready` if a read or write that failed may succeed after that. Returns the error if repeating the
/// call cannot help.
pub fn wait(error: io::Error, until_ready: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::WouldBlock => until_ready(),
        _ => Err(error),
    }
}
