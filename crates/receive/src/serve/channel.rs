use super::redactor::Redactor;
use crate::wire::pkt::{self, Band};
use bstr::BStr;
use refdb::messages;
use refdb_vfs::interrupt;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, Mode, OFlags},
    io::{Errno, retry_on_intr},
    net::SendFlags,
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// The connection to the client.
///
/// Messages to the user are sent in the second side band, or, as long as the client has not requested side bands,
/// printed to standard error.
pub(super) struct Channel<'c> {
    output: BorrowedFd<'c>,
    mode: WriteMode,
    side_band: bool,
    /// The silence after which a keepalive packet is sent.
    keep_alive: Option<Duration>,
    client: Client,
    redactor: Redactor,
}

/// Whether the push depends on the client's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    /// The push ends with an error if the client disconnects.
    Needed,
    /// Refs may have been changed, so the push is completed even if the client disconnects.
    Dispensable,
    /// The client has disconnected, and nothing is sent any more.
    Gone,
}

/// How output is written: without blocking where that is possible, because a signal would not end a write that is
/// blocked by a client that reads nothing.
enum WriteMode {
    /// The pipe, opened again: the original file description may be shared with other processes, which must not find
    /// it non-blocking.
    Pipe(OwnedFd),
    Socket,
    /// Any other output, such as a file or a pipe that cannot be opened again. Writes block.
    Blocking,
}

impl WriteMode {
    fn to(output: BorrowedFd<'_>) -> Self {
        let kind = rustix::fs::fstat(output).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::Socket) => WriteMode::Socket,
            Ok(FileType::Fifo) => {
                let path = format!("/proc/self/fd/{}", output.as_raw_fd());
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                rustix::fs::open(path, flags, Mode::empty()).map_or(WriteMode::Blocking, WriteMode::Pipe)
            }
            _ => WriteMode::Blocking,
        }
    }

    fn write(&self, output: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            WriteMode::Pipe(pipe) => rustix::io::write(pipe, bytes),
            WriteMode::Socket => rustix::net::send(output, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            WriteMode::Blocking => rustix::io::write(output, bytes),
        }
    }
}

/// The number of bytes from which on [`Channel::send_if_full`] sends packets.
const SEND_BYTES: usize = 128 << 10;

impl<'c> Channel<'c> {
    pub(super) fn new(output: BorrowedFd<'c>, redactor: Redactor) -> Self {
        Channel {
            output,
            mode: WriteMode::to(output),
            side_band: false,
            keep_alive: None,
            client: Client::Needed,
            redactor,
        }
    }

    /// Sends the answer in side bands from now on.
    pub(super) fn use_side_band(&mut self, keep_alive_seconds: u32) {
        self.side_band = true;
        self.keep_alive = (keep_alive_seconds > 0).then(|| Duration::from_secs(keep_alive_seconds.into()));
    }

    pub(super) fn has_side_band(&self) -> bool {
        self.side_band
    }

    pub(super) fn keep_alive(&self) -> Option<Duration> {
        self.keep_alive
    }

    /// From now on, lets the push continue even if the client disconnects.
    pub(super) fn ignore_disconnect(&mut self) {
        if self.client == Client::Needed {
            self.client = Client::Dispensable;
        }
    }

    /// Fails if the client has disconnected and the push depends on its connection. A client that leaves while nothing
    /// is sent to it or read from it, for example during a hook, would otherwise go unnoticed.
    pub(super) fn check_client(&self) -> io::Result<()> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        if self.client != Client::Needed {
            return Ok(());
        }
        let output = self.output.as_fd();
        let mut output = [PollFd::new(&output, PollFlags::OUT)];
        retry_on_intr(|| poll(&mut output, Some(&NOW)))?;
        let has_left = output[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
        if has_left { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// Sends packets as they are. Once disconnects are ignored, the only error is that a signal has arrived.
    pub(super) fn send(&mut self, packets: &[u8]) -> io::Result<()> {
        match self.client {
            Client::Needed => self.write(packets),
            Client::Gone => interrupt::check(),
            Client::Dispensable => {
                if self.write(packets).is_err() {
                    self.client = Client::Gone;
                }
                interrupt::check()
            }
        }
    }

    fn write(&mut self, mut packets: &[u8]) -> io::Result<()> {
        while !packets.is_empty() {
            match self.mode.write(self.output, packets) {
                Ok(written) => packets = &packets[written..],
                Err(Errno::INTR) => interrupt::check()?,
                Err(Errno::AGAIN) => self.await_client()?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until output can be written again, because the client reads or has disconnected.
    fn await_client(&self) -> io::Result<()> {
        const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        loop {
            interrupt::check()?;
            match poll(&mut [PollFd::new(&self.output.as_fd(), PollFlags::OUT)], Some(&PAUSE)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends and clears `packets` if they are at least [`SEND_BYTES`] long, and returns whether they were.
    pub(super) fn send_if_full(&mut self, packets: &mut Vec<u8>) -> io::Result<bool> {
        let is_full = packets.len() >= SEND_BYTES;
        if is_full {
            self.send(packets)?;
            packets.clear();
        }
        Ok(is_full)
    }

    /// Sends text for the user.
    pub(super) fn text(&mut self, text: &[u8]) -> io::Result<()> {
        if !self.side_band {
            messages::write(text.to_vec());
            return Ok(());
        }
        let mut packets = Vec::with_capacity(text.len() + pkt::LENGTH_BYTES + 1);
        pkt::band(Band::Progress, text, &mut packets);
        self.send(&packets)
    }

    pub(super) fn keepalive(&mut self) -> io::Result<()> {
        let mut packet = Vec::new();
        pkt::keepalive(&mut packet);
        self.send(&packet)
    }

    pub(super) fn error(&mut self, message: &[u8]) -> io::Result<()> {
        self.line("error: ", message, std::iter::empty())
    }

    /// Sends an error whose text mentions these names.
    pub(super) fn error_about<'n>(&mut self, message: &[u8], names: impl Iterator<Item = &'n BStr>) -> io::Result<()> {
        self.line("error: ", message, names)
    }

    /// Sends a message as `fatal:`, as git does if a child process ends before it has executed its program.
    pub(super) fn fatal(&mut self, message: &[u8]) -> io::Result<()> {
        self.line("fatal: ", message, std::iter::empty())
    }

    pub(super) fn warning(&mut self, message: &[u8]) -> io::Result<()> {
        self.line("warning: ", message, std::iter::empty())
    }

    fn line<'n>(&mut self, prefix: &str, message: &[u8], names: impl Iterator<Item = &'n BStr>) -> io::Result<()> {
        let lines = [prefix.as_bytes(), &self.redactor.redact(message, names), b"\n"].concat();
        self.text(&lines)
    }

    /// Sends the report, in the first side band if the client has requested side bands.
    pub(super) fn report(&mut self, report: &[u8]) -> io::Result<()> {
        if !self.side_band {
            return self.send(report);
        }
        let mut packets = Vec::with_capacity(report.len() + 1024);
        pkt::band(Band::Data, report, &mut packets);
        self.send(&packets)
    }

    /// Sends the flush packet that ends an answer in side bands. Does nothing without side bands.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let mut packet = Vec::new();
        pkt::flush(&mut packet);
        if self.side_band { self.send(&packet) } else { Ok(()) }
    }
}
