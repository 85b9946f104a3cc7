//! Export and import of a cache's entries through Java's streams.

use super::{CACHES, numbers};
use crate::{
    call::{call, copy_bytes, put_bytes},
    failure::{Failure, Kind},
};
use jni::{
    Env, EnvUnowned, jni_sig, jni_str,
    objects::{JByteArray, JClass, JObject, JValue},
    sys::jlong,
};
use std::io::{self, BufReader, BufWriter, Read, Write};

/// Maximum number of bytes that are written to or read from a stream at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes all entries to an `OutputStream`, except for those whose record is damaged or cannot be read. Returns the
/// number of written ones.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_exportTo<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    stream: JObject<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let cache = CACHES.get(handle)?;
        let mut to = JavaStream::new(env, &stream)?;
        let exported = cache.export(&mut BufWriter::with_capacity(CHUNK_BYTES, &mut to));
        to.result(exported.map_err(|error| Failure::engine(Kind::Io, error.to_string())))
            .and_then(|exported| numbers(env, &[exported.good]))
    })
}

/// Puts the entries of an export from an `InputStream`. Returns the numbers of entries that were stored, kept and too
/// large, as [`Imported`](refdb_kvcache::Imported) explains them.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_CacheNatives_importFrom<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    handle: jlong,
    stream: JObject<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let cache = CACHES.get(handle)?;
        let mut from = JavaStream::new(env, &stream)?;
        let imported = cache.import(&mut BufReader::with_capacity(CHUNK_BYTES, &mut from));
        from.result(imported).and_then(|imported| numbers(env, &[imported.stored, imported.kept, imported.too_large]))
    })
}

/// A Java stream as a Rust reader or writer. An exception that Java throws ends the transfer, and the entry point
/// throws it.
struct JavaStream<'a, 'l> {
    env: &'a mut Env<'l>,
    stream: &'a JObject<'l>,
    chunk: JByteArray<'l>,
    failure: Option<Failure>,
}

impl<'a, 'l> JavaStream<'a, 'l> {
    fn new(env: &'a mut Env<'l>, stream: &'a JObject<'l>) -> Result<Self, Failure> {
        let chunk = env.new_byte_array(CHUNK_BYTES)?;
        Ok(JavaStream { env, stream, chunk, failure: None })
    }

    /// The result of the whole transfer. A failure of the stream is the reason for any other failure.
    fn result<T, E: Into<Failure>>(self, done: Result<T, E>) -> Result<T, Failure> {
        match self.failure {
            Some(failure) => Err(failure),
            None => done.map_err(Into::into),
        }
    }

    fn write_chunk(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        put_bytes(self.env, &self.chunk, bytes)?;
        let arguments = [JValue::from(&self.chunk), JValue::Int(0), JValue::Int(bytes.len() as i32)];
        self.env.call_method(self.stream, jni_str!("write"), jni_sig!("([BII)V"), &arguments)?;
        Ok(())
    }

    fn read_chunk(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        let arguments = [JValue::from(&self.chunk), JValue::Int(0), JValue::Int(into.len() as i32)];
        let read = self.env.call_method(self.stream, jni_str!("read"), jni_sig!("([BII)I"), &arguments)?.i()?;
        let read = usize::try_from(read).unwrap_or(0); // -1 is the end
        let into = into.get_mut(..read).ok_or(Failure::Malformed("a stream that gives more than was asked for"))?;
        copy_bytes(self.env, &self.chunk, into)?;
        Ok(read)
    }

    /// Uses the stream unless it has failed before, because Java must not be called while an exception is pending.
    fn once<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Failure>) -> io::Result<T> {
        let failed = || io::Error::other("Java's stream failed");
        if self.failure.is_some() {
            return Err(failed());
        }
        work(self).map_err(|failure| {
            self.failure = Some(failure);
            failed()
        })
    }
}

impl Write for JavaStream<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(CHUNK_BYTES)];
        self.once(|stream| stream.write_chunk(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for JavaStream<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(CHUNK_BYTES);
        self.once(|stream| stream.read_chunk(&mut into[..most]))
    }
}
