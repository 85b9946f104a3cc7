//! Opening a cache: the lock, the identity, the replay of the log.

use crate::{
    age::{Ages, Clock},
    api::{cache::Cache, options::Options},
    error::{Error, Result},
    format::{
        identity::{self, Opened},
        place::MAX_SEGMENTS,
        seal::{Key, Sealer},
    },
    log::{
        append::{Log, Meta, Old, Start},
        files::{Files, LOCK},
        footers::Footer,
        handles::Handles,
        index::{Fill, Index},
        loading::{Loading, Source},
        recover::{Found, Recovered, recover, recover_to_read, seal},
        replay::Replay,
        saved::{self, SavedShards},
        segment::Segment,
        space::{BLOCK_BYTES, SEGMENT_EXTRA_BYTES, Space, blocks},
        store::Store,
        view::{Slots, View},
    },
    reclaim::{steps::Reclaim, worker},
    regular_file,
    stats::Counters,
    sync::{Lock, Rank, SharedOption},
};
use refdb_vfs::{File, Fs};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

impl Cache {
    /// Opens the cache in a folder for reading and writing, and creates the folder if it does not exist. Only one
    /// handle on a machine may have a cache open in this way.
    ///
    /// Files that cannot be used, for example because they are damaged, of an older format, encrypted with a key that
    /// is not given, or not encrypted although a key is given, are deleted: the cache starts without them.
    /// [`Cache::notices`] names such damage if no crash can have caused it, and another format or key. All entries are
    /// deleted, and a notice has the error, if a write was ever [`Synced`](crate::Durability::Synced) and the disk
    /// fails to sync what a killed process wrote last, or the removal of entries that had expired before the clock was
    /// set back. Opening uses the index that [`Cache::close`] saved, if there is one, the files have not changed since
    /// and they fit into the limit. Otherwise, for example after a kill, it reads the footers of all segments, and the
    /// whole of a segment without an intact footer, which usually is the last one.
    ///
    /// If there are more than a million records, a background thread fills the index after this call has returned,
    /// unless the clock was set back since the last run and there is an age limit. Until an entry has been found, it is
    /// a miss, [`Cache::stats`] does not count it, and [`Cache::remove`] removes it but returns false. Meanwhile
    /// nothing is evicted or compacted, so that buffered puts are refused and durable ones wait when the limit is
    /// reached. Calls that need all entries, such as an export, an import, a compaction and closing, wait until the
    /// index is filled.
    ///
    /// # Errors
    ///
    /// [`Error::Limit`] for a limit out of range; [`Error::Locked`] if another handle has the cache open for writing;
    /// [`Error::Version`] if a newer program wrote it; [`Error::File`] and [`Error::WriteFailed`] if the folder cannot
    /// be used.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Cache> {
        Cache::open_on(Fs::real(), dir.as_ref(), options)
    }

    /// [`Cache::open`] on a file system whose operations a test observes.
    #[doc(hidden)]
    pub fn open_on(fs: Fs, dir: &Path, options: Options) -> Result<Cache> {
        let (least, most) = (Options::SMALLEST_LIMIT_BYTES, Options::LARGEST_LIMIT_BYTES);
        if !(least..=most).contains(&options.limit_bytes) {
            let limit = options.limit_bytes;
            return Err(Error::Limit { given: limit, smallest: least, largest: most });
        }
        let cache = Cache::open_with(fs, dir, options, &Pace::usual())?;
        // Processes that are killed soon would never merge their small segments otherwise. If this fails, the worker
        // tries again.
        let _ = cache.reclaim.merge_if_crowded();
        let mut workers = Vec::new();
        let started = worker::start(&cache.reclaim, &mut workers);
        // Dropping the cache ends the threads that did start.
        *cache.workers.lock() = workers;
        started.map_err(|source| start_error(dir, source))?;
        Ok(cache)
    }

    /// [`Cache::open_on`] without background threads, for tests that must know what happens when. The limit may be
    /// smaller than any that is allowed otherwise.
    #[doc(hidden)]
    pub fn open_idle(fs: Fs, dir: &Path, options: Options) -> Result<Cache> {
        Cache::open_with(fs, dir, options, &Pace { read_at_open: usize::MAX, ..Pace::usual() })
    }

    /// [`Cache::open_idle`] without filling the index, which [`Cache::read_on`] does in parts of about
    /// `records_at_once` records.
    #[doc(hidden)]
    pub fn open_unread(fs: Fs, dir: &Path, options: Options, records_at_once: usize) -> Result<Cache> {
        Cache::open_with(fs, dir, options, &Pace { read_at_open: 0, records_at_once })
    }

    fn open_with(fs: Fs, dir: &Path, options: Options, pace: &Pace) -> Result<Cache> {
        make_private_dir(&fs, dir)?;
        // Checked now, because otherwise the error would first appear in the background.
        fs.check_writable(dir)?;
        let lock_file = take_lock(&fs, dir)?;
        let Opened { store, sealer, started_anew } =
            identity::read_or_create(&fs, dir, options.key.as_ref(), &options.old_keys)?;
        let (space, maps) = (Space::new(options.limit_bytes), fs.is_local(dir)?);
        let (mut recovered, shards) = match saved_index(&fs, dir, store, pace) {
            Some((saved, shards)) if is_within(used_bytes(&saved.segments), saved.segments.len(), &space) => {
                (saved, Some(shards))
            }
            _ => (recover(&fs, dir, store, maps)?, None),
        };
        let mut notices: Vec<Error> = started_anew.into_iter().collect();
        notices.append(&mut recovered.notices);
        let promised = Files::promised_in(&fs, dir);
        delete_obsolete(&fs, dir, &recovered, promised)?;
        let unsealed = recovered.segments.iter_mut().filter(|found| !found.sealed);
        let lost: Vec<_> = unsealed.filter_map(|found| seal(&fs, found, promised).err()).collect();
        let has_lost = !lost.is_empty();
        notices.extend(lost);
        evict_beyond(&fs, dir, &mut recovered.segments, &space, promised)?;
        let saved = recovered.saved.take();
        let before_end = recovered.segments.last().map_or(0, |last| last.records_end);
        let (next_seq, floor, synced_seq) = (recovered.next_seq, recovered.floor, recovered.synced_seq);
        let handles = Handles::new(fs.clone());
        let mapped = maps.then_some(&fs);
        let Restored { view, fill, old, source } = restored(recovered, shards, &space, &handles, mapped, &mut notices)?;
        let loading = Loading::new(source, old.len() as u16, pace.records_at_once);
        let fills_now = loading.records() <= pace.read_at_open;
        let start =
            Start { dir: dir.to_owned(), handles, store, space, fill, old, floor, next_seq, before_end, synced_seq };
        let log = Log::new(start, &view.slots);
        let Options { max_age, put_timeout, clock, .. } = options;
        let lock_id = Some(lock_file.stat()?.file_id());
        let files = Files::new(fs, dir.to_owned(), maps, promised, lock_id);
        let store = Store::new(Ages::new(max_age, clock), view, files, log);
        let mut cache = Cache::on(store, sealer, put_timeout, Some(lock_file), notices);
        cache.reclaim.begin_loading(loading);
        if has_lost {
            // The next sync of a lost segment would succeed without its bytes, so nothing could be durable beside it.
            cache.store.files.health.lose();
            cache.reclaim.begin_anew_if_lost()?;
        }
        if fills_now {
            cache.reclaim.finish_loading();
        }
        cache.reclaim.pending_deletion.add_garbage(saved.and_then(|saved| saved.file));
        let failed = cache.forget_expired()?;
        cache.notices.extend(failed);
        Ok(cache)
    }

    /// Opens a cache for reading as its files are at this moment, even while another process writes to it. Nothing on
    /// disk is changed. Later changes are not seen, except by walks over entries that were moved
    /// ([`Cache::for_each`]), a value whose segment is deleted later may be a miss, and no value expires.
    ///
    /// # Errors
    ///
    /// [`Error::WrongKey`] if the key does not fit; [`Error::Version`], [`Error::OldVersion`], [`Error::Corrupt`] and
    /// [`Error::TooManySegments`] if the folder holds no usable cache; [`Error::File`] if it cannot be read.
    pub fn open_read_only(dir: impl AsRef<Path>, key: Option<&Key>) -> Result<Cache> {
        let (fs, dir) = (Fs::real(), dir.as_ref());
        let Opened { store, sealer, .. } = identity::read(&fs, dir, key)?;
        Cache::read_only(fs, dir, store, sealer)
    }

    /// Opens a cache for reading without its key, to count and verify its records. The entries of an encrypted cache
    /// are not decrypted, so look-ups find none of them.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::open_read_only`], except for [`Error::WrongKey`].
    pub fn open_to_inspect(dir: impl AsRef<Path>) -> Result<Cache> {
        let (fs, dir) = (Fs::real(), dir.as_ref());
        let store = identity::store_of(&fs, dir)?;
        Cache::read_only(fs, dir, store, Sealer::Plain { seed: store })
    }

    pub(super) fn read_only(fs: Fs, dir: &Path, store: u64, sealer: Sealer) -> Result<Cache> {
        let pace = Pace { read_at_open: usize::MAX, ..Pace::usual() };
        let (mut recovered, shards) = match saved_index(&fs, dir, store, &pace) {
            Some((saved, shards)) => (saved, Some(shards)),
            None => (recover_to_read(&fs, dir, store)?, None),
        };
        let disk_bytes: u64 = recovered.segments.iter().map(|found| found.file_bytes).sum();
        let mut space = Space::new(disk_bytes.max(Options::SMALLEST_LIMIT_BYTES));
        space.slots = space.slots.max((recovered.segments.len() + 1).min(MAX_SEGMENTS));
        let mut notices = std::mem::take(&mut recovered.notices);
        let (next_seq, floor) = (recovered.next_seq, recovered.floor);
        // No file is mapped: a mapping would keep the space of a deleted segment, and a file that shrinks would end
        // this process.
        let handles = Handles::new(fs.clone());
        let Restored { view, fill, old, source } = restored(recovered, shards, &space, &handles, None, &mut notices)?;
        let loading = Loading::new(source, old.len() as u16, pace.records_at_once);
        let start = Start {
            dir: dir.to_owned(),
            handles,
            store,
            space,
            fill,
            old,
            floor,
            next_seq,
            before_end: 0,
            synced_seq: 0,
        };
        let log = Log::new(start, &view.slots);
        let files = Files::new(fs, dir.to_owned(), false, true, None);
        let store = Store::new(Ages::new(None, Clock::system()), view, files, log);
        let cache = Cache::on(store, sealer, Duration::ZERO, None, notices);
        cache.reclaim.begin_loading(loading);
        cache.reclaim.finish_loading();
        Ok(cache)
    }

    /// A cache without background threads; without a lock file it is read-only.
    fn on(store: Store, sealer: Sealer, put_timeout: Duration, lock_file: Option<File>, notices: Vec<Error>) -> Cache {
        let store = Arc::new(store);
        Cache {
            reclaim: Arc::new(Reclaim::new(store.clone())),
            store,
            sealer,
            put_timeout,
            workers: Lock::new(Rank::Leaf, Vec::new()),
            read_only: lock_file.is_none(),
            lock_file: Lock::new(Rank::Leaf, lock_file),
            notices,
        }
    }

    /// Returns whether the cache in a folder is encrypted. The entries of an encrypted cache are secret: a tool must
    /// show neither their values nor their keys.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Corrupt`] if there is no readable cache; [`Error::Version`] and
    /// [`Error::OldVersion`] if it has another format version.
    pub fn is_encrypted(dir: impl AsRef<Path>) -> Result<bool> {
        identity::is_encrypted(&Fs::real(), dir.as_ref())
    }
}

fn start_error(dir: &Path, source: std::io::Error) -> Error {
    Error::File(refdb_vfs::Error { operation: "start a thread for", path: dir.to_owned(), source })
}

/// Creates a folder, unless it exists, and missing folders above it, with permissions for the user only.
pub(crate) fn make_private_dir(fs: &Fs, dir: &Path) -> Result<()> {
    match fs.stat(dir) {
        Ok(stat) if stat.is_dir() => return Ok(()),
        Ok(_) => {}
        Err(error) if error.is_not_found() => {
            // The parent of a single name is empty and means the current folder, which exists.
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                make_private_dir(fs, parent)?;
            }
        }
        Err(error) => return Err(error.into()),
    }
    match fs.create_dir(dir, 0o700) {
        Err(error) if !error.is_exists() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Takes the lock of the cache in a folder.
pub(crate) fn take_lock(fs: &Fs, dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    loop {
        let file = fs.append(&path, 0o600)?;
        regular_file::check(&file)?;
        if !file.try_lock()? {
            return Err(Error::Locked { path });
        }
        // The previous owner may have deleted the cache together with its lock since this file was opened, so that
        // another process may create and lock a new file.
        let now = fs.find(&path)?;
        if now.is_some_and(|now| file.stat().is_ok_and(|ours| ours.file_id() == now.file_id())) {
            return Ok(file);
        }
    }
}

fn delete_obsolete(fs: &Fs, dir: &Path, recovered: &Recovered, promised: bool) -> Result<()> {
    let remove = |path: &PathBuf| match fs.remove_file(path) {
        Err(error) if !error.is_not_found() => Err(error),
        _ if recovered.in_turn && promised => fs.sync_dir(dir),
        _ => Ok(()),
    };
    // Something other than a regular file at the name of the saved index was put there by somebody else, so it stays.
    let saved =
        recovered.saved.iter().map(|saved| &saved.path).filter(|path| regular_file::check_place(fs, path).is_ok());
    saved.chain(&recovered.obsolete).try_for_each(remove)?;
    if !recovered.obsolete.is_empty() {
        // Synced because the numbers of these segments may be used again.
        fs.sync_dir(dir)?;
    }
    Ok(())
}

/// Bytes of these segments and of the one that is started next.
fn used_bytes(segments: &[Found]) -> u64 {
    BLOCK_BYTES + segments.iter().map(|found| blocks(found.file_bytes)).sum::<u64>()
}

fn is_within(used_bytes: u64, segments: usize, space: &Space) -> bool {
    used_bytes <= space.room_bytes && segments < MAX_SEGMENTS - 64
}

/// Deletes the oldest segments if all segments together exceed the limit, which may have been lowered, or if they are
/// nearly as many as a cache can have. No entry of these segments is kept.
fn evict_beyond(fs: &Fs, dir: &Path, segments: &mut Vec<Found>, space: &Space, promised: bool) -> Result<()> {
    let mut used = used_bytes(segments);
    let mut gone = 0;
    for found in segments.iter() {
        if is_within(used, segments.len() - gone, space) {
            break;
        }
        fs.remove_file(&found.path)?;
        if promised {
            // Synced one by one: if a loss of power brought back only the older of two, the values that the younger one
            // removed would be back.
            fs.sync_dir(dir)?;
        }
        used -= blocks(found.file_bytes);
        gone += 1;
    }
    debug_assert!(used <= space.room_bytes || gone == segments.len(), "the limit holds from the start");
    segments.drain(..gone);
    Ok(())
}

/// When and how fast the index is filled.
struct Pace {
    /// Up to this number of records, the index is filled before the cache is open.
    read_at_open: usize,
    /// About how many records are read together: more take more memory, and fewer take more time, because each part of
    /// a replay looks at all records.
    records_at_once: usize,
}

impl Pace {
    fn usual() -> Self {
        Pace { read_at_open: 1_000_000, records_at_once: 10_000_000 }
    }
}

/// What the saved index describes. Its entries are read now if there are at most `pace.read_at_open`. `None` if there
/// is no saved index that can be believed.
fn saved_index(fs: &Fs, dir: &Path, store: u64, pace: &Pace) -> Option<(Recovered, SavedShards)> {
    let (recovered, mut shards) = saved::load(fs, dir, store)?;
    if shards.entries() <= pace.read_at_open {
        shards.read_ahead()?;
    }
    Some((recovered, shards))
}

struct Restored {
    view: View,
    fill: Fill,
    old: Vec<Old>,
    source: Source,
}

/// Gives the recovered segments their slots, maps their files if `mapped` is a file system, and says from where the
/// index is to be filled.
fn restored(
    recovered: Recovered,
    shards: Option<SavedShards>,
    space: &Space,
    handles: &Arc<Handles>,
    mapped: Option<&Fs>,
    notices: &mut Vec<Error>,
) -> Result<Restored> {
    let slots_len = space.slots.max(recovered.segments.len() + 64).min(MAX_SEGMENTS);
    let slots: Slots = (0..slots_len).map(|_| SharedOption::empty()).collect();
    if recovered.segments.len() >= slots_len {
        return Err(Error::TooManySegments { segments: recovered.segments.len(), most: slots_len - 1 });
    }
    let segments = recovered.segments;
    debug_assert!(segments.is_sorted_by_key(|found| found.header.seq), "slots are in the order of the log");
    let marks = shards.as_ref().map_or_else(|| vec![0; segments.len()], SavedShards::marks);
    let (mut old, mut footers) = (Vec::new(), Vec::new());
    for (slot, (found, mark_bytes)) in segments.into_iter().zip(marks).enumerate() {
        let Found { path, header, file_bytes, newest_ms, entries, mapped: footer, .. } = found;
        let segment = Arc::new(Segment::sealed(path, header.seq, slot as u16, file_bytes, handles));
        footers.push(match footer {
            Some(footer) => {
                segment.use_mapping(footer.file);
                Footer::Mapped(segment.clone(), footer.entries)
            }
            None => {
                if let Some(Err(error)) = mapped.map(|fs| segment.map(fs)) {
                    notices.push(error.into());
                }
                Footer::Read(entries)
            }
        });
        let file_bytes = file_bytes.max(SEGMENT_EXTRA_BYTES);
        let meta = Meta {
            seq: header.seq,
            live_bytes: 0,
            mark_bytes,
            file_bytes,
            disk_bytes: blocks(file_bytes),
            newest_ms,
            sealed: true,
            emptied: false,
            stays: false,
        };
        old.push(Old { segment, meta });
    }
    let source = shards.map_or_else(|| Source::Footers(Replay::new(footers)), Source::Saved);
    let (index, fill) = Index::incomplete();
    let view = View { index, slots, counters: Counters::default() };
    Ok(Restored { view, fill, old, source })
}
