use crate::Result;
use refdb_vfs::File;

/// The destination of the bytes that a [`TableWriter`](crate::TableWriter) writes.
pub trait Sink {
    /// Appends all of `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes cannot be written; some of them may have been.
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

/// A buffer in front of a sink, so that the sink gets few and large writes.
///
/// The padding of a block is written only once another block follows. The last block of a file, and one before a log
/// block, have none.
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

    /// The number of bytes so far, without pending padding.
    pub(crate) fn position(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Notes the padding of the last block.
    pub(crate) fn ask_padding(&mut self, len: usize) {
        debug_assert_eq!(self.padding, 0, "what was asked for is written or skipped before the next block");
        self.padding = len;
    }

    /// Writes the pending padding.
    pub(crate) fn pad(&mut self) {
        self.buffer.resize(self.buffer.len() + std::mem::take(&mut self.padding), 0);
    }

    /// Forgets the pending padding.
    pub(crate) fn skip_padding(&mut self) {
        self.padding = 0;
    }

    /// Lets `append` extend the buffer, and writes the buffer out when it is large.
    pub(crate) fn put(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let before = self.buffer.len();
        append(&mut self.buffer);
        debug_assert!(self.buffer.len() >= before, "positions that were returned stay valid");
        if self.buffer.len() >= FLUSH_AT { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.sink.write(&self.buffer)?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
