//! `fsck.<msg-id>`: the severity of each check of git-fsck(1).

use crate::failure::{Failure, Result, fatal};
use bstr::{BStr, ByteSlice};
use refdb::{
    Store,
    config::Value,
    verify::{Check, Level},
};
use refdb_types::{ObjectId, space::trim};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

/// Returns the severity in `wanted` without the number that may follow. Only `largePathname` may have such a number,
/// the maximum length of a path's component in bytes: `warn:4096`. As in git, the number is parsed before the severity.
fn without_length<'a>(id: &BStr, wanted: &'a BStr, value: &Value<'_>) -> Result<&'a BStr> {
    let (true, Some((word, length))) = (id == "largepathname", wanted.split_once_str(":")) else { return Ok(wanted) };
    if (Value { raw: Some(length.as_bstr()), ..*value }).long().is_err() {
        return fatal!["unable to parse max tree entry len: ", length];
    }
    Ok(word.as_bstr())
}

/// Checks that git can read a list of the ids of objects that git does not check. Refs are checked even if they hold
/// such an object.
fn check_skip_list(store: &Store, path: &[u8]) -> Result<()> {
    let Ok(list) = std::fs::read(store.environment().resolve(OsStr::from_bytes(path).as_ref())) else {
        return fatal!["could not open object name list: ", path];
    };
    for line in list.lines() {
        let id = trim(line.split(|byte| *byte == b'#').next().unwrap_or_default());
        if !id.is_empty() && ObjectId::from_hex(store.hash(), id).is_err() {
            return fatal!["invalid object name: ", id];
        }
    }
    Ok(())
}

/// The severity of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Severity {
    Ignore,
    Warn,
    Error,
}

/// Git's checks that do not concern refs, by the names of git-fsck(1), which settings may contain.
const OTHERS: &str = "badDate badDateOverflow badEmail badFilemode badGpgsig badHeaderContinuation badName badObjectSha1 \
    badParentSha1 badTagName badTimezone badTree badTreeSha1 badType duplicateEntries emptyName extraHeaderEntry fullPathname \
    gitattributesBlob gitattributesLarge gitattributesLineLength gitattributesMissing gitattributesSymlink gitignoreSymlink \
    gitmodulesBlob gitmodulesLarge gitmodulesMissing gitmodulesName gitmodulesParse gitmodulesPath gitmodulesSymlink \
    gitmodulesUpdate gitmodulesUrl hasDot hasDotdot hasDotgit largePathname mailmapSymlink missingAuthor missingCommitter \
    missingEmail missingNameBeforeEmail missingObject missingSpaceBeforeDate missingSpaceBeforeEmail missingTag \
    missingTagEntry missingTaggerEntry missingTree missingType missingTypeEntry multipleAuthors nulInCommit nulInHeader \
    nullSha1 treeNotSorted unknownType unterminatedHeader zeroPaddedDate zeroPaddedFilemode";

/// Checks whose severity git does not allow to be reduced, in lower case.
const FATAL: [&str; 2] = ["nulinheader", "unterminatedheader"];

/// The configured severities, and whether `--strict` makes errors of warnings for which no severity is configured.
#[derive(Debug)]
pub(super) struct Levels {
    set: Vec<(Check, Severity)>,
    strict: bool,
}

impl Levels {
    pub(super) fn of(store: &Store, strict: bool) -> Result<Self> {
        let mut levels = Levels { set: Vec::new(), strict };
        for value in store.config().iter() {
            let Some(id) = value.key.strip_prefix(b"fsck.") else { continue };
            if id == b"skiplist" {
                levels.set_skip_list(store, &value)?;
                continue;
            }
            let wanted = value.text().map_err(|error| Failure::Lines(error.report()))?;
            levels.set(id.as_bstr(), without_length(id.as_bstr(), wanted, &value)?)?;
        }
        Ok(levels)
    }

    /// Takes over `fsck.skipList`: the path of a list. As in git, words that follow the path, after blanks, commas or
    /// bars, are further settings: `ID=SEVERITY` or `ID:SEVERITY`.
    fn set_skip_list(&mut self, store: &Store, value: &Value<'_>) -> Result<()> {
        let path = value.path(store.environment()).map_err(|error| Failure::Lines(error.report()))?;
        let Some(path) = path else { return Ok(()) };
        let mut words = path.as_os_str().as_bytes().split(|byte| b" ,|".contains(byte));
        check_skip_list(store, words.next().unwrap_or_default())?;
        for word in words.filter(|word| !word.is_empty()) {
            let end = word.find_byteset("=:");
            let id = word[..end.unwrap_or(word.len())].to_ascii_lowercase();
            match end.map(|end| word[end + 1..].as_bstr()) {
                Some(list) if id == b"skiplist" => check_skip_list(store, list)?,
                Some(wanted) => self.set(id.as_bstr(), without_length(id.as_bstr(), wanted, value)?)?,
                None if id == b"skiplist" => return fatal!["skiplist requires a path"],
                None => return fatal!["Missing '=': '", id, "'"],
            }
        }
        Ok(())
    }

    /// Adds the setting `fsck.ID`. `id` is in lower case, unless it has a subsection and so is unknown.
    fn set(&mut self, id: &BStr, wanted: &BStr) -> Result<()> {
        let check = Check::ALL.into_iter().find(|check| id.eq_ignore_ascii_case(check.name().as_bytes()));
        if check.is_none() && !OTHERS.split(' ').any(|other| id.eq_ignore_ascii_case(other.as_bytes())) {
            return fatal!["Unhandled message id: ", id];
        }
        let severity = match wanted.as_bytes() {
            b"error" => Severity::Error,
            b"warn" => Severity::Warn,
            b"ignore" => Severity::Ignore,
            _ => return fatal!["Unknown fsck message type: '", wanted, "'"],
        };
        if severity != Severity::Error && FATAL.iter().any(|fatal| id == *fatal) {
            return fatal!["Cannot demote ", id, " to ", wanted];
        }
        self.set.extend(check.map(|check| (check, severity)));
        Ok(())
    }

    /// Returns the severity of a check: that of its last setting, or else its default.
    pub(super) fn severity(&self, check: Check) -> Severity {
        let set = self.set.iter().rev().find(|(other, _)| *other == check).map(|(_, severity)| *severity);
        set.unwrap_or(match check.level() {
            Level::Error => Severity::Error,
            Level::Warn if self.strict => Severity::Error,
            Level::Warn | Level::Info => Severity::Warn,
        })
    }
}
