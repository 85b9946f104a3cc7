//! Passes lines between hosts without a network connection: each line is a file in a folder that the hosts share.
//!
//! The files of one direction are numbered. The reader lists the folder until the next file is there, because an NFS
//! client that opens a folder asks the server whether the folder has changed (unless it is mounted with `nocto`),
//! whereas it may cache the absence of a name for a minute.

use super::{repository, serve::Sink};
use refdb_vfs::{BatchId, Error, Fs, host_name, interrupt};
use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

/// The name of the folder of mailboxes in the folder of a run.
const MAIL: &str = "mail";
/// The pause between two listings of the folder.
const TICK: Duration = Duration::from_millis(10);
/// The number of listings without a new line after which the reader changes the folder.
const LOOKS: u32 = 30;
/// How long the coordinator waits for hosts to join, and a host for a run to join. Either side waits this long for the
/// next line, and [`TURN_MAX`] longer for each host that has joined.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// The time that is allowed for the scenes with each host, during which the others are sent nothing.
const TURN_MAX: Duration = Duration::from_secs(60);
/// The last line of a direction.
const BYE: &str = "bye";

/// The direction of a line.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Question,
    Answer,
}

impl Way {
    fn letter(self) -> &'static str {
        match self {
            Way::Question => "q",
            Way::Answer => "a",
        }
    }
}

/// Sends lines in one direction. Sends [`BYE`] as the last line when it is dropped.
pub(super) struct Outbox {
    folder: PathBuf,
    way: Way,
    sent: u64,
}

impl Outbox {
    pub(super) fn new(folder: &Path, way: Way) -> Self {
        Outbox { folder: folder.to_owned(), way, sent: 0 }
    }
}

impl Sink for Outbox {
    fn send(&mut self, line: &str) -> io::Result<()> {
        self.sent += 1;
        let name = format!("{}{}", self.way.letter(), self.sent);
        let temporary = self.folder.join(format!("tmp-{name}"));
        let written =
            repository::write(&temporary, line).and_then(|()| Fs::real().rename(&temporary, &self.folder.join(name)));
        written.map_err(|error| io::Error::other(error.to_string()))
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // The folder may be gone, in which case nobody reads the line.
        let _ = self.send(BYE);
    }
}

/// Receives the lines of one direction. It ends at the last one, after a signal, when no line
/// has arrived for [`PATIENCE`] and [`TURN_MAX`] for each host that has joined, or when the folder or a line's file
/// cannot be read for another reason than `ESTALE`.
pub(super) struct Inbox {
    folder: PathBuf,
    way: Way,
    received: u64,
}

impl Inbox {
    pub(super) fn new(folder: &Path, way: Way) -> Self {
        Inbox { folder: folder.to_owned(), way, received: 0 }
    }

    /// Returns the next line, or `None` if it has not arrived yet. Fails if the folder or the line's file cannot be
    /// read.
    fn look(&mut self) -> Result<Option<String>, Error> {
        let name = format!("{}{}", self.way.letter(), self.received + 1);
        let entries = Fs::real().read_dir(&self.folder)?;
        if !entries.iter().any(|(entry, _)| *entry == *name.as_bytes()) {
            return Ok(None);
        }
        let path = self.folder.join(name);
        let content = Fs::real().read(&path)?;
        self.received += 1;
        // A file that stays does no harm, because the next line has another name.
        let _ = Fs::real().remove_file(&path);
        Ok(Some(String::from_utf8_lossy(&content).into_owned()))
    }

    /// How long to wait for the next line.
    fn patience(&self) -> Duration {
        let hosts = self.folder.parent().and_then(|office| joined(office).ok()).unwrap_or_default();
        PATIENCE + TURN_MAX * hosts.len() as u32
    }

    /// Makes a file and removes it. The server's answer shows the NFS client that others have changed the folder too,
    /// even on a mount with `nocto`, where the client does not ask the server about a folder that it opens.
    fn knock(&self) {
        let path = self.folder.join(format!("knock-{}", self.way.letter()));
        // A failure does no harm, because this is repeated.
        let _ = repository::write(&path, "").and_then(|()| Fs::real().remove_file(&path));
    }
}

impl Iterator for Inbox {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let begun = Instant::now();
        let mut looks = 0;
        while (begun.elapsed() < PATIENCE || begun.elapsed() < self.patience()) && interrupt::received().is_none() {
            looks += 1;
            match self.look() {
                Ok(Some(line)) => return Some(line).filter(|line| line != BYE),
                Ok(None) => {
                    if looks % LOOKS == 0 {
                        self.knock();
                    }
                    sleep(TICK);
                }
                // The NFS client's list of names may be outdated.
                Err(error) if error.is_stale() => sleep(TICK),
                Err(_) => return None,
            }
        }
        None
    }
}

/// Makes the folder in which hosts that join put their mailboxes.
pub(super) fn open_office(run: &Path) -> Result<PathBuf, Error> {
    let office = run.join(MAIL);
    Fs::real().create_dir(&office, 0o777)?;
    Ok(office)
}

/// Returns the names of the hosts that have joined, each with its mailbox.
pub(super) fn joined(office: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut boxes: Vec<(String, PathBuf)> = Vec::new();
    for (name, _) in Fs::real().read_dir(office)? {
        let name = String::from_utf8_lossy(&name).into_owned();
        if let Some((_, host)) = name.split_once('-') {
            boxes.push((host.to_owned(), office.join(&name)));
        }
    }
    boxes.sort_unstable();
    Ok(boxes)
}

/// Makes a mailbox for this host in the only run in `dir` for which [`open_office`] was called. Returns `None` if there
/// is no such run yet.
///
/// # Errors
///
/// Returns a text if there are several such runs, or if something could not be read or made.
pub(super) fn join(dir: &Path) -> Result<Option<PathBuf>, String> {
    let text = |error: Error| error.to_string();
    let is_run = |name: &[u8]| name.starts_with(repository::RUN.as_bytes());
    let entries = Fs::real().read_dir(dir).map_err(text)?;
    let runs = entries.iter().filter(|(name, _)| is_run(name)).map(|(name, _)| dir.join(os(name)).join(MAIL));
    let offices: Vec<PathBuf> = runs.filter(|office| office.is_dir()).collect();
    match &offices[..] {
        [] => Ok(None),
        [office] => {
            let host = String::from_utf8_lossy(&host_name()).replace('/', "-");
            let mailbox = office.join(format!("{}-{host}", BatchId::random()));
            Fs::real().create_dir(&mailbox, 0o777).map_err(text)?;
            Ok(Some(mailbox))
        }
        _ => Err(format!("there are several folders {}* in it: remove those that no run uses", repository::RUN)),
    }
}

fn os(name: &[u8]) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_in_order_and_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut outbox = Outbox::new(dir.path(), Way::Question);
        let mut other = Outbox::new(dir.path(), Way::Answer);
        other.send("an answer").unwrap();
        for at in 0..12 {
            outbox.send(&format!("line {at}")).unwrap();
        }
        drop(outbox);
        let lines: Vec<String> = Inbox::new(dir.path(), Way::Question).collect();
        assert_eq!(lines, (0..12).map(|at| format!("line {at}")).collect::<Vec<_>>());
    }

    /// Previously, the last of more than 30 hosts left before its turn came.
    #[test]
    fn a_host_waits_for_the_turns_of_all_others() {
        let office = tempfile::tempdir().unwrap();
        for host in 0..40 {
            std::fs::create_dir(office.path().join(format!("id-{host}"))).unwrap();
        }
        let inbox = Inbox::new(&office.path().join("id-39"), Way::Question);
        assert!(inbox.patience() >= 40 * TURN_MAX);
    }

    #[test]
    fn a_host_joins_the_only_run() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(join(dir.path()), Ok(None));
        let run = dir.path().join("refdb-check-1");
        std::fs::create_dir(&run).unwrap();
        assert_eq!(join(dir.path()), Ok(None), "a run that waits for nobody");
        let office = open_office(&run).unwrap();
        let mailbox = join(dir.path()).unwrap().unwrap();
        assert_eq!(joined(&office).unwrap().into_iter().map(|(_, path)| path).collect::<Vec<_>>(), [mailbox]);
        std::fs::create_dir_all(dir.path().join("refdb-check-2/mail")).unwrap();
        assert!(join(dir.path()).unwrap_err().contains("several"));
    }
}
