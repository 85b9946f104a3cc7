use crate::Result;
use refdb_vfs::File;

/// Where a [`TableWriter`](crate::TableWriter) puts its bytes.
pub trait Sink {
    /// Appends all of `bytes`.
    fn write(&mut self, bytes: &[u8]) -> refdb_vfs::Result<()>;
}

impl Sink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> refdb_vfs::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

impl Sink for File {
    fn write(&mut self, bytes: &[u8]) -> refdb_vfs::Result<()> {
        self.write_all(bytes)
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn write(&mut self, bytes: &[u8]) -> refdb_vfs::Result<()> {
        (**self).write(bytes)
    }
}

/// The sink with a buffer before it, so that few and large writes reach it. It also holds the padding that a block to
/// come asks for. The last block of a file has none, nor has one before a log block.
pub(crate) struct Output<S> {
    sink: S,
    buffer: Vec<u8>,
    flushed: u64,
    padding: usize,
}

const FLUSH_AT: usize = 256 * 1024;

impl<S: Sink> Output<S> {
    pub(crate) fn new(sink: S) -> Self {
        Output { sink, buffer: Vec::new(), flushed: 0, padding: 0 }
    }

    /// How many bytes there are so far, padding to come not counted.
    pub(crate) fn position(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Asks for padding before the next block.
    pub(crate) fn ask_padding(&mut self, len: usize) {
        debug_assert_eq!(self.padding, 0, "what was asked for is written or skipped before the next block");
        self.padding = len;
    }

    /// Writes the padding asked for.
    pub(crate) fn pad(&mut self) {
        self.buffer.resize(self.buffer.len() + std::mem::take(&mut self.padding), 0);
    }

    /// Forgets the padding asked for.
    pub(crate) fn skip_padding(&mut self) {
        self.padding = 0;
    }

    /// Lets `append` add to the buffer, and passes the buffer on when it is large.
    pub(crate) fn put(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let before = self.buffer.len();
        append(&mut self.buffer);
        debug_assert!(self.buffer.len() >= before, "positions that were told stay where they are");
        if self.buffer.len() >= FLUSH_AT { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.sink.write(&self.buffer)?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
