//! The refs of repositories: the entry points of `org.refdb.engine.RefNatives`.
//!
//! `request` decodes the arguments and `answer` encodes the results; both describe their formats.

mod answer;
mod arbiter;
mod chunk;
mod global;
mod request;
mod warnings;

use crate::{
    buffer::Lent,
    call::{bytes_of, call, new_array, quick_call},
    failure::{Failure, Kind},
    handle::Handles,
    wire::{Answer, Request, to_path},
};
use answer::{
    encode_broken, encode_difference, encode_entry, encode_holdings, encode_outcome, encode_resolved, encode_stats,
};
use bstr::{BStr, ByteSlice};
use chunk::Chunk;
use jni::{
    EnvUnowned,
    objects::{JByteArray, JByteBuffer, JClass},
    sys::{jboolean, jint, jlong},
};
use refdb_refcache::{ListOptions, Listing, View, Views, ViewsSettings};
use request::{batch, ids, names, optimize_options, view_settings};
use std::{
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
    sync::{Arc, Mutex, PoisonError},
};

static VIEWS: Handles<Views> = Handles::new("the ref views");
static VIEW: Handles<Arc<View>> = Handles::new("the ref database");
static LISTING: Handles<Mutex<OpenListing>> = Handles::new("the list of refs");

/// A look-up buffer, which has room for a usual name, and for the answer that replaces the name. `LookupBuffer.java`
/// has the same length.
type LookupBuffer = Lent<1024>;

/// A listing that is handed to Java in chunks.
struct OpenListing {
    listing: Listing,
    chunk: Chunk,
    chunk_len: usize,
    is_done: bool,
    /// Whether a chunk could not be read, after which an empty chunk would pass for the end.
    has_failed: bool,
}

impl OpenListing {
    /// Bytes that are reserved for the rows of the first chunk. Most lists that Gerrit asks for have the refs of one
    /// change and need no more. Allocations of about this size are served from the allocator's cache of the thread.
    const FIRST_ROOM: usize = 880;
    /// Bytes after which the first chunk ends.
    const FIRST_CHUNK_LEN: usize = 4 << 10;
    /// Bytes after which each later chunk ends. A chunk of this size fits into the processor's cache.
    const CHUNK_LEN: usize = 256 << 10;

    fn new(listing: Listing) -> Self {
        OpenListing {
            listing,
            chunk: Chunk::default(),
            chunk_len: Self::FIRST_CHUNK_LEN,
            is_done: false,
            has_failed: false,
        }
    }

    /// Encodes the next rows; empty at the end. Once rows could not be read, this fails each time.
    fn next(&mut self) -> Result<&[u8], Failure> {
        let OpenListing { listing, chunk, chunk_len, is_done, has_failed } = self;
        if *has_failed {
            return Err(Failure::engine(Kind::Refused, "the list could not be read before; begin a new one"));
        }
        chunk.clear(if *chunk_len == Self::FIRST_CHUNK_LEN { Self::FIRST_ROOM } else { *chunk_len });
        if !*is_done {
            *is_done = true;
            listing
                .each(&mut |row| {
                    chunk.add(row);
                    *is_done = chunk.len() < *chunk_len;
                    if *is_done { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })
                .inspect_err(|_| *has_failed = true)
                .map_err(Failure::of_list)?;
        }
        *chunk_len = Self::CHUNK_LEN;
        chunk.finish()
    }
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_viewsOpen<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    memory_bytes: jlong,
    open_files: jint,
) -> jlong {
    call(env, |_| {
        let number = |number: jlong| usize::try_from(number).map_err(|_| Failure::Malformed("a negative number"));
        let open_files = Some(number(open_files.into())?).filter(|files| *files > 0);
        VIEWS.insert(Views::new(&ViewsSettings::new().memory_bytes(number(memory_bytes)?).open_files(open_files)))
    })
}

/// Returns what the views that were opened through `views` hold together.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_holdings<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    views: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let mut answer = Answer::default();
        encode_holdings(&VIEWS.get(views)?.holdings(), &mut answer);
        new_array(env, answer.as_slice())
    })
}

/// Returns the counters of each view: the number of views, and for each its folder and what `stats` returns.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_statsOfAll<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    views: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let mut answer = Answer::default();
        let stats = VIEWS.get(views)?.stats();
        answer.u64(stats.len() as u64);
        for (git_dir, stats) in &stats {
            answer.bytes(git_dir.as_os_str().as_bytes())?;
            encode_stats(stats, &mut answer);
        }
        new_array(env, answer.as_slice())
    })
}

/// Returns the counters of the view of the repository in a folder, after a byte that is 0 if there is no such view.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_statsOf<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    views: jlong,
    git_dir: JByteArray<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let git_dir = bytes_of(env, &git_dir)?;
        let view = VIEWS.get(views)?.get(&to_path(&git_dir));
        let mut answer = Answer::default();
        answer.u8(view.is_some().into());
        if let Some(view) = view {
            encode_stats(&view.stats(), &mut answer);
        }
        new_array(env, answer.as_slice())
    })
}

/// Makes the next question to the view of the repository in a folder look at the disk. Returns false if there is no
/// such view.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_hintAt<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    views: jlong,
    git_dir: JByteArray<'l>,
) -> jboolean {
    call(env, |env| {
        let git_dir = bytes_of(env, &git_dir)?;
        let view = VIEWS.get(views)?.get(&to_path(&git_dir));
        if let Some(view) = &view {
            view.invalidate();
        }
        Ok(view.is_some())
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_viewsClose<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    views: jlong,
) {
    call(env, |_| {
        drop(VIEWS.remove(views));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_open<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    views: jlong,
    request: JByteArray<'l>,
) -> jlong {
    call(env, |env| {
        let request = bytes_of(env, &request)?;
        let mut request = Request::new(&request);
        let git_dir = request.path()?;
        let settings = view_settings(&mut request)?;
        VIEW.insert(VIEWS.get(views)?.open(&git_dir, &settings)?)
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_close<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) {
    call(env, |_| {
        drop(VIEW.remove(view));
        Ok(())
    })
}

/// Makes the next `open` of the repository in a folder create a new view. Views that are open stay usable.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_forget<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    views: jlong,
    git_dir: JByteArray<'l>,
) {
    call(env, |env| {
        let git_dir = bytes_of(env, &git_dir)?;
        VIEWS.get(views)?.close(&to_path(&git_dir));
        Ok(())
    })
}

/// Returns the formats of refs and object ids, and the version of the refs.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_info<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let view = VIEW.get(view)?;
        let mut answer = Answer::default();
        answer::encode_info(&view, &mut answer)?;
        new_array(env, answer.as_slice())
    })
}

/// Returns the address of a direct buffer that Java allocated as a [`LookupBuffer`].
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_addressOf<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    buffer: JByteBuffer<'l>,
) -> jlong {
    call(env, |env| LookupBuffer::address_of(env, &buffer))
}

/// Looks up one ref and follows symbolic refs. The name is at the start of a look-up buffer, where it is replaced by
/// the answer that `lookupMany` gives for one name. Returns the length of the answer, or -1 if the buffer is too short
/// for the answer.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_lookup<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    mut buffer: LookupBuffer,
    name_len: jint,
) -> jint {
    quick_call(env, || {
        let view = VIEW.get(view)?;
        let buffer = buffer.bytes()?;
        let name = usize::try_from(name_len).ok().and_then(|len| buffer.get(..len));
        let resolved = view.resolve(name.ok_or(Failure::Malformed("a name beyond the buffer"))?.as_bstr())?;
        let mut answer = Answer::of_one_ref();
        encode_resolved(&resolved, &mut answer)?;
        answer.u64(view.version());
        let Some(room) = buffer.get_mut(..answer.len()) else { return Ok(-1) };
        room.copy_from_slice(answer.as_slice());
        Ok(room.len() as jint)
    })
}

/// Looks up several refs and follows symbolic refs. Returns the answers in the order of the names, and then the version
/// of the refs in eight bytes.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_lookupMany<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    request: JByteArray<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let request = bytes_of(env, &request)?;
        let view = VIEW.get(view)?;
        let mut answer = Answer::default();
        for resolved in view.resolve_many(&names(&mut Request::new(&request))?)? {
            encode_resolved(&resolved, &mut answer)?;
        }
        answer.u64(view.version());
        new_array(env, answer.as_slice())
    })
}

/// Begins a list of refs. Returns the first rows as `listNext` does, followed by eight bytes each for the version of
/// the refs, an upper bound on the number of unreported warnings, and the handle of the rest. A handle of 0 says that
/// there is no more, as with most lists, which therefore take one call.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_list<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    request: JByteArray<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let request = bytes_of(env, &request)?;
        let mut request = Request::new(&request);
        let owned = |names: Vec<&BStr>| names.into_iter().map(ToOwned::to_owned).collect();
        let options = ListOptions::new().prefixes(owned(names(&mut request)?)).exclude(owned(names(&mut request)?));
        let view = VIEW.get(view)?;
        let mut listing = OpenListing::new(view.list(&options).map_err(Failure::of_list)?);
        let rows = listing.next()?;
        let mut answer = Answer::with_room(rows.len() + 3 * size_of::<u64>());
        answer.raw(rows);
        answer.u64(view.version());
        answer.u64(view.unreported());
        let rest = if listing.is_done { 0 } else { LISTING.insert(Mutex::new(listing))? };
        answer.u64(rest as u64);
        // Java cannot close a handle that it never received.
        new_array(env, answer.as_slice()).inspect_err(|_| drop(LISTING.remove(rest)))
    })
}

/// Returns a proof of the rows of a list: two lists by the same [`Views`] that were begun with equal arguments have
/// equal rows if their proofs are equal and not empty. A proof that would be long is empty.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_listProof<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    listing: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let listing = LISTING.get(listing)?;
        let listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        new_array(env, &listing.listing.proof().unwrap_or_default())
    })
}

/// Returns the next rows as a whole [`Chunk`], or an empty array at the end.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_listNext<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    listing: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let listing = LISTING.get(listing)?;
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        new_array(env, listing.next()?)
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_listClose<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    listing: jlong,
) {
    call(env, |_| {
        drop(LISTING.remove(listing));
        Ok(())
    })
}

/// Returns the refs below `refs/` that point at each of some objects, directly or through an annotated tag: the version
/// of the refs in eight bytes, and then for each object, in order, the number of names and the names.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_pointingAt<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    request: JByteArray<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let request = bytes_of(env, &request)?;
        let objects = ids(&mut Request::new(&request))?;
        let view = VIEW.get(view)?;
        let found = view.pointing_at_each(&objects)?;
        let mut answer = Answer::default();
        answer.u64(view.version());
        for object in &objects {
            let names = found.get(object).map_or(&[][..], Vec::as_slice);
            answer.u32(u32::try_from(names.len()).map_err(|_| Failure::TooLarge(names.len()))?);
            names.iter().try_for_each(|name| answer.bytes(name))?;
        }
        new_array(env, answer.as_slice())
    })
}

/// Returns the refs whose names keep this name from being created, after a byte without meaning.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_conflicting<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    name: JByteArray<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let name = bytes_of(env, &name)?;
        let mut answer = Answer::default();
        answer.u8(1);
        for name in VIEW.get(view)?.conflicting(name.as_bstr())? {
            answer.bytes(&name)?;
        }
        new_array(env, answer.as_slice())
    })
}

/// Applies a batch of edits. A rejected edit is part of the answer and no exception.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_commit<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    request: JByteArray<'l>,
) -> JByteArray<'l> {
    call(env, |env| {
        let request = bytes_of(env, &request)?;
        let view = VIEW.get(view)?;
        let batch = batch(&mut Request::new(&request))?;
        let mut answer = Answer::default();
        encode_outcome(view.commit(&batch), &mut answer)?;
        new_array(env, answer.as_slice())
    })
}

/// Returns at most `max` entries of a reflog, newest first, after skipping `skip` of them. The first byte says whether
/// there is a reflog.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_log<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    name: JByteArray<'l>,
    skip: jint,
    max: jint,
) -> JByteArray<'l> {
    call(env, |env| {
        let name = bytes_of(env, &name)?;
        let (mut skip, mut max) = (skip, max);
        let mut entries = Answer::default();
        let mut failure = None;
        let exists = VIEW.get(view)?.log(name.as_bstr(), &mut |entry| {
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            if max <= 0 {
                return ControlFlow::Break(());
            }
            max -= 1;
            failure = encode_entry(entry, &mut entries).err();
            if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut answer = Answer::default();
        answer.u8(exists.into());
        answer.raw(entries.as_slice());
        new_array(env, answer.as_slice())
    })
}

/// Packs refs, or compacts tables.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_optimize<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
    request: JByteArray<'l>,
) {
    call(env, |env| {
        let request = bytes_of(env, &request)?;
        let options = optimize_options(&mut Request::new(&request))?;
        VIEW.get(view)?.optimize(&options)?;
        Ok(())
    })
}

/// Makes the next question to the view look at the disk, whatever the trust settings say.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_hint<'l>(env: EnvUnowned<'l>, _class: JClass<'l>, view: jlong) {
    call(env, |_| {
        VIEW.get(view)?.invalidate();
        Ok(())
    })
}

/// Drops all caches of the view and opens the repository again.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_flush<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) {
    call(env, |_| Ok(VIEW.get(view)?.flush()?))
}

/// Compares the view with the disk. Returns the number of refs, the number of broken refs and each of these, and the
/// differences.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_verify<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let report = VIEW.get(view)?.verify()?;
        let mut answer = Answer::default();
        answer.u64(report.refs);
        answer.u32(report.broken.len() as u32);
        encode_broken(&report.broken, &mut answer)?;
        for difference in &report.differences {
            encode_difference(difference, &mut answer)?;
        }
        new_array(env, answer.as_slice())
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_refdb_engine_RefNatives_stats<'l>(
    env: EnvUnowned<'l>,
    _class: JClass<'l>,
    view: jlong,
) -> JByteArray<'l> {
    call(env, |env| {
        let mut answer = Answer::default();
        encode_stats(&VIEW.get(view)?.stats(), &mut answer);
        new_array(env, answer.as_slice())
    })
}
