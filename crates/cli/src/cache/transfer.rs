use super::{COMMAND, Settings, is_secret, refuse_another_users, say_lost};
use crate::{
    failure::{Failure, Result, fatal, message, system_text},
    output::Stdout,
};
use refdb_kvcache::{Cache, Options, Verified, delete_cache};
use std::{
    io::{self, BufReader, BufWriter, ErrorKind},
    path::Path,
};

/// Writes all entries to standard output, except for those whose record is damaged or cannot be read, whose number is
/// reported.
pub(super) fn export(folder: &Path, settings: &Settings) -> Result<u8> {
    if is_secret(folder)? && !settings.secrets {
        return fatal![
            "'",
            folder.display().to_string(),
            "' holds secrets, which an export has in the clear; say --secrets if that is what you want"
        ];
    }
    let cache = Cache::open_read_only(folder, settings.key.as_ref())?;
    say_lost(&cache);
    let mut output = BufWriter::with_capacity(1 << 20, Stdout);
    match cache.export(&mut output) {
        Ok(Verified { good, bad }) => {
            eprintln!("{good} entries exported");
            if bad > 0 {
                eprintln!("{bad} entries left out, because they are harmed or cannot be read");
            }
            Ok(0)
        }
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => fatal!["cannot write the export: ", system_text(&error)],
    }
}

/// Stores the entries of an export from standard input, as [`Cache::import`] does. If the cache exists, entries beyond
/// the given limit are evicted first.
pub(super) fn import(folder: &Path, settings: &Settings) -> Result<u8> {
    let Some(limit) = settings.limit else {
        return Err(COMMAND.wrong_use(Some(message!["import needs --limit"])));
    };
    refuse_another_users(folder)?;
    let is_new = !folder.join("format").exists();
    if !is_new {
        // With a wrong key, opening the cache would empty it.
        drop(Cache::open_read_only(folder, settings.key.as_ref())?);
    }
    let mut options = Options::new(limit);
    options.key = settings.key.clone();
    let cache = Cache::open(folder, options)?;
    say_lost(&cache);
    let imported = cache.import(&mut BufReader::with_capacity(1 << 20, io::stdin().lock()));
    if is_new && imported.is_err() && cache.stats().entries == 0 {
        // If the empty cache stayed, it would refuse the next import if that uses another key.
        let _ = cache.close().and_then(|()| delete_cache(folder));
    }
    let imported = imported?;
    cache.close()?;
    eprintln!(
        "{} entries imported, {} kept as they were, {} too large",
        imported.stored, imported.kept, imported.too_large
    );
    Ok(0)
}
