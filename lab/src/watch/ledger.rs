//! Keeps the records of one series in a file that survives kills and full disks.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::record::{Record, VERSION};
use crate::scenario::{Values, describe};

/// Locks the folder of a history, which is created if necessary, until the file is dropped.
///
/// # Errors
///
/// Fails if another watch keeps the lock, because both would measure the same commits, or if the folder cannot be
/// written.
pub fn lock(folder: &Path) -> Result<File> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make '{}'", folder.display()))?;
    let path = folder.join("lock");
    let context = || format!("cannot lock '{}'", path.display());
    let file = OpenOptions::new().create(true).append(true).open(&path).with_context(context)?;
    let end = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(Duration::from_millis(20)),
            Err(TryLockError::WouldBlock) => bail!("another watch is using the history '{}'", folder.display()),
            Err(TryLockError::Error(error)) => return Err(error).with_context(context),
        }
    }
}

/// The time for which a lock is waited for. A program that was just being started when its watch was killed holds the
/// lock for some moments.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the name of the file of a series, without its ending.
pub fn stem(scenario: &str, parameters: &Values) -> String {
    let described = describe(parameters).replace(" = ", "=").replace(", ", ",");
    let whole = if described.is_empty() { scenario.to_owned() } else { format!("{scenario},{described}") };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.,=".contains(letter);
    let plain: String = whole.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).take(100).collect();
    // Names that had to be changed are told apart by a hash.
    if plain == whole { plain } else { format!("{plain}-{:016x}", hash(whole.as_bytes())) }
}

/// Returns a hash that never changes (FNV-1a, by Fowler, Noll and Vo).
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The file of a series.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    /// The length of the complete lines, in bytes.
    length: u64,
    records: Vec<Record>,
}

impl Ledger {
    /// Opens a file, which is created if necessary, and reads its records. A last line without an end, as a kill leaves
    /// it, is cut off.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written, or if [`parse`] refuses its complete lines.
    pub fn open(path: &Path) -> Result<Ledger> {
        let context = || format!("cannot read '{}'", path.display());
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
        let mut file = open.with_context(context)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(context)?;
        let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        bytes.truncate(complete);
        let length = complete as u64;
        file.set_len(length).with_context(|| format!("cannot cut off the torn end of '{}'", path.display()))?;
        let records = parse(&bytes).with_context(|| format!("the history '{}'", path.display()))?;
        // Otherwise a new file, with all that is appended and synced, could be gone after a loss of power.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(context)?;
        Ok(Ledger { path: path.to_owned(), file, length, records })
    }

    /// The records, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Appends a record, and syncs the file.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written, for example because the disk is full. The file is then cut back to what it was
    /// before, if that is possible.
    pub fn append(&mut self, record: Record) -> Result<()> {
        let line = serde_json::to_string(&record)? + "\n";
        let written = self
            .file
            .seek(SeekFrom::Start(self.length))
            .and_then(|_| self.file.write_all(line.as_bytes()))
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // If this fails too, the next watch cuts off the line, unless the line is complete.
            self.file.set_len(self.length).ok();
            return Err(error).with_context(|| format!("cannot write to '{}'", self.path.display()));
        }
        self.length += line.len() as u64;
        self.records.push(record);
        Ok(())
    }
}

/// Parses complete lines, and skips empty ones.
///
/// # Errors
///
/// Fails if a line is no record, the first is no start or of a newer version, or another one is a start.
pub fn parse(bytes: &[u8]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        if records.is_empty() {
            check_version(line)?;
        }
        let record = serde_json::from_slice(line).with_context(|| format!("line {} is no record", number + 1))?;
        let is_start = matches!(record, Record::Start(_));
        ensure!(is_start == records.is_empty(), "line {}: a history has one start, in its first line", number + 1);
        records.push(record);
    }
    Ok(records)
}

/// Fails if the first line names no version, or a newer one, whose other lines this lab may not understand.
fn check_version(line: &[u8]) -> Result<()> {
    let start: serde_json::Value = serde_json::from_slice(line).context("line 1 is no record")?;
    let version = start.get("version").and_then(serde_json::Value::as_u64).context("line 1 names no version")?;
    ensure!(
        version <= u64::from(VERSION),
        "it has version {version}, and this lab knows only {VERSION}: use the lab that wrote it, or a newer one"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use refdb_testkit::rounds;

    use super::*;
    use crate::{
        coin::Coin,
        watch::{
            record::{Broken, tests::start},
            state::State,
        },
    };

    fn broken(commit: &str) -> Record {
        Record::Broken(Broken { time: 1, commit: commit.to_owned(), why: "\n".to_owned() })
    }

    #[test]
    fn wherever_a_line_is_torn_the_lines_before_it_stay_and_the_next_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.append(start()).unwrap();
        ledger.append(broken("b")).unwrap();
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let mut ledger = Ledger::open(&path).unwrap();
            assert_eq!(ledger.records().len(), usize::from(length >= first), "{length}");
            let next = if length < first { start() } else { broken("c") };
            ledger.append(next.clone()).unwrap();
            assert_eq!(Ledger::open(&path).unwrap().records().last(), Some(&next), "{length}");
        }
    }

    #[test]
    fn a_complete_line_that_is_no_record_is_named_and_a_newer_version_is_refused() {
        let line = |record: &Record| serde_json::to_string(record).unwrap();
        let said = |text: &str| format!("{:#}", parse(text.as_bytes()).unwrap_err());
        assert!(said(&format!("{}\n{{}}\n", line(&start()))).starts_with("line 2 is no record"));
        assert!(said(&format!("{}\n{}\n", line(&start()), line(&start()))).starts_with("line 2: a history has one"));
        assert!(said(&format!("{}\n", line(&broken("b")))).starts_with("line 1 names no version"));
        let newer = line(&start()).replace("\"version\":1", "\"version\":2");
        assert!(said(&format!("{newer}\n{{\"kind\":\"new\"}}\n")).starts_with("it has version 2, and this lab"));
        for noise in ["\0\n", "[]\n", "{\"version\":1}\n", "{\"version\":-1}\n", "{\"kind\":\"start\",\"version\":1}\n"]
        {
            assert!(parse(noise.as_bytes()).is_err(), "{noise:?}");
        }
    }

    #[test]
    fn no_byte_that_changed_makes_it_panic() {
        let text: String = [start(), broken("b"), broken("c")]
            .iter()
            .map(|record| serde_json::to_string(record).unwrap() + "\n")
            .collect();
        let mut luck = Coin::new(1);
        for _ in 0..rounds(5_000, 500_000) {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..=luck.bits() % 3 {
                let place = luck.bits() as usize % bytes.len();
                bytes[place] = luck.bits() as u8;
            }
            if let Ok(records) = parse(&bytes) {
                State::of(&records, "m").ok();
            }
        }
    }

    #[test]
    fn a_second_watch_of_the_same_history_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        assert!(lock(folder.path()).unwrap_err().to_string().starts_with("another watch is using"));
        drop(held);
        lock(folder.path()).unwrap();
    }

    #[test]
    fn files_of_different_series_have_different_names() {
        let named = |pairs: &[(&str, &str)]| {
            stem("fetch", &pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(named(&[]), "fetch");
        assert_eq!(named(&[("refcount", "10"), ("refformat", "files")]), "fetch,refcount=10,refformat=files");
        assert_ne!(named(&[("a", "x/y")]), named(&[("a", "x y")]));
        assert!(!named(&[("a", "../../x")]).contains('/'));
        assert!(named(&[("a", &"x".repeat(500))]).len() < 200);
    }

    #[test]
    fn a_full_disk_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full");
        // A link to the device that is always full.
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let mut ledger = Ledger { path, file, length: 0, records: Vec::new() };
        let said = format!("{:#}", ledger.append(start()).unwrap_err());
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!((ledger.length, ledger.records().len()), (0, 0));
    }
}
