//! The decoding of requests about refs.

use crate::{
    failure::{Failure, Kind},
    wire::Request,
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{
    Change, Edit, LogOptions, Precondition, RefName, Target,
    backend::OptimizeOptions,
    transaction::{Mode, ObjectClass, TransactionOptions},
};
use refdb_refcache::{Agreement, Batch, Trust, TrustSettings, ViewSettings};
use refdb_types::{HashKind, Ident, ObjectId};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Decodes the settings of a view. The numbers are lengths in bytes.
///
/// ```text
/// trust of packed-refs, of loose refs, of tables.list   1 each
/// 1 if a setting in effect says `always`, otherwise 0   1
/// `refdb.trustMillis`                                   8
/// sync: 0 no, 1 yes, 2 as core.fsync says               1
/// settings, `key=value`                                 names
/// ```
pub(super) fn view_settings(request: &mut Request<'_>) -> Result<ViewSettings, Failure> {
    let (packed_refs, loose_refs, tables_list) = (trust(request)?, trust(request)?, trust(request)?);
    let is_always_set = request.u8()? != 0;
    let believe = Some(request.u64()?).filter(|millis| *millis > 0).map(Duration::from_millis);
    let sync = match request.u8()? {
        0 => Some(false),
        1 => Some(true),
        2 => None,
        _ => return Err(Failure::Malformed("whether to sync")),
    };
    let config = names(request)?.into_iter().map(ToOwned::to_owned).collect();
    let trust = TrustSettings::new()
        .packed_refs(packed_refs)
        .loose_refs(loose_refs)
        .tables_list(tables_list)
        .believe(believe)
        .is_always_set(is_always_set);
    Ok(ViewSettings::new().trust(trust).sync(sync).config(config))
}

fn trust(request: &mut Request<'_>) -> Result<Trust, Failure> {
    match request.u8()? {
        0 => Ok(Trust::Always),
        1 => Ok(Trust::AfterOpen),
        2 => Ok(Trust::Never),
        _ => Err(Failure::Malformed("a trust setting")),
    }
}

/// Decodes a list of names, which follow their number.
pub(super) fn names<'a>(request: &mut Request<'a>) -> Result<Vec<&'a BStr>, Failure> {
    let count = request.u32()?;
    // The count is not used to allocate memory, because it may be wrong.
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(request.bytes()?.as_bstr());
    }
    Ok(names)
}

/// Decodes object ids, up to the end of the request.
pub(super) fn ids(request: &mut Request<'_>) -> Result<Vec<ObjectId>, Failure> {
    let mut ids = Vec::new();
    while !request.is_empty() {
        ids.push(id(request.bytes()?)?);
    }
    Ok(ids)
}

/// Decodes an object id, whose length tells its hash function.
fn id(bytes: &[u8]) -> Result<ObjectId, Failure> {
    let kind = [HashKind::Sha1, HashKind::Sha256].into_iter().find(|kind| kind.len_bytes() == bytes.len());
    kind.and_then(|kind| ObjectId::from_bytes(kind, bytes)).ok_or(Failure::Malformed("an object id"))
}

/// Decodes a batch of edits. The numbers on the right are lengths in bytes. The fields below a count come that many
/// times. A byte string after a kind, and the fields of the committer, are there only if that kind has a value.
///
/// ```text
/// flags: 1 atomic, 2 parents may be replaced by children,
///   4 broken refs may be replaced,
///   8 the global ref database has these values already,
///   16 an intent is settled                                       1
/// the id of that intent, if one is settled                        byte string
/// committer: 0 none, 1 given                                      1
///   name, email; seconds since 1970; offset as git prints it      byte strings, 8, 4
/// known objects: their number                                     4
///   id; 0 commit, 1 other, 2 tag, 3 tag and the id it leads to    byte string, 1, byte string
/// edits: their number                                             4
///   name                                                          byte string
///   change: 0 set to an id, 1 to a name, 2 delete, 3 verify       1, byte string
///   expected: 0 any, 1 exists, 2 does not, 3 id, 4 name           1, byte string
///   flags: 1 follow symbolic refs, 2 no log, 4 force log,
///     8 take over a reflog                                        1
///   message: 0 none, 1 as the edit before, 2 given                1, byte string
///   the ref that had the reflog, if one is taken over             byte string
/// ```
pub(super) fn batch(request: &mut Request<'_>) -> Result<Batch, Failure> {
    let flags = request.u8()?;
    let options = TransactionOptions::new()
        .mode(if flags & 1 != 0 { Mode::Atomic } else { Mode::PerEdit })
        .skip_hook(true)
        .allow_replacing_parents(flags & 2 != 0)
        .atomic_visibility(flags & 1 != 0)
        .allow_broken(flags & 4 != 0)
        .safe_names(true)
        .keeps_head(true);
    let agreement = match (flags & 8 != 0, flags & 16 != 0) {
        (_, true) => Agreement::Settles(String::from_utf8_lossy(request.bytes()?).into_owned()),
        (true, false) => Agreement::Agreed,
        (false, false) => Agreement::Unknown,
    };
    let committer = match request.u8()? {
        0 => None,
        _ => Some(ident(request)?),
    };
    let mut known = BTreeMap::new();
    for _ in 0..request.u32()? {
        known.insert(id(request.bytes()?)?, class(request)?);
    }
    let mut edits = Vec::new();
    let mut message = None;
    for _ in 0..request.u32()? {
        edits.push(edit(request, &mut message)?);
    }
    if !request.is_empty() {
        return Err(Failure::Malformed("more follows a batch"));
    }
    Ok(Batch { edits, options, known, committer, agreement })
}

fn ident(request: &mut Request<'_>) -> Result<Ident, Failure> {
    let (name, email) = (request.bytes()?.into(), request.bytes()?.into());
    let time_seconds = request.u64()?;
    if i64::try_from(time_seconds).is_err() {
        return Err(Failure::Malformed("the committer's time is before 1970, as none in a reflog is"));
    }
    let offset_decimal = i16::try_from(request.u32()? as i32).map_err(|_| Failure::Malformed("an offset from UTC"))?;
    Ok(Ident { name, email, time_seconds, offset_decimal })
}

fn class(request: &mut Request<'_>) -> Result<ObjectClass, Failure> {
    Ok(match request.u8()? {
        0 => ObjectClass::Commit,
        1 => ObjectClass::Other,
        2 => ObjectClass::Tag(None),
        3 => ObjectClass::Tag(Some(id(request.bytes()?)?)),
        _ => return Err(Failure::Malformed("the kind of an object")),
    })
}

fn edit(request: &mut Request<'_>, message: &mut Option<Arc<BString>>) -> Result<Edit, Failure> {
    let name = ref_name(request.bytes()?)?;
    let change = match request.u8()? {
        0 => Change::Set(Target::Direct(id(request.bytes()?)?)),
        1 => Change::Set(Target::Symbolic(ref_name(request.bytes()?)?)),
        2 => Change::Delete,
        3 => Change::Verify,
        _ => return Err(Failure::Malformed("what an edit does")),
    };
    let expected = match request.u8()? {
        0 => Precondition::Any,
        1 => Precondition::MustExist,
        2 => Precondition::MustNotExist,
        3 => Precondition::MustMatch(Target::Direct(id(request.bytes()?)?)),
        4 => Precondition::MustMatch(Target::Symbolic(ref_name(request.bytes()?)?)),
        _ => return Err(Failure::Malformed("what an edit expects")),
    };
    let flags = request.u8()?;
    match request.u8()? {
        0 => *message = None,
        1 => {}
        _ => *message = Some(Arc::new(request.bytes()?.into())),
    }
    let take_over = if flags & 8 != 0 { Some(ref_name(request.bytes()?)?) } else { None };
    let log = LogOptions::new()
        .message(message.clone())
        .suppress(flags & 2 != 0)
        .force_create(flags & 4 != 0)
        .take_over(take_over);
    Ok(Edit { name, change, expected, deref: flags & 1 != 0, log })
}

fn ref_name(name: &[u8]) -> Result<RefName, Failure> {
    RefName::new_safe(name).ok_or_else(|| {
        Failure::engine(
            Kind::Refused,
            format!("'{}' is no name that a ref can have (git-check-ref-format)", name.as_bstr()),
        )
    })
}

/// Decodes the options of an optimisation. The numbers are lengths in bytes.
///
/// ```text
/// flags: 1 all refs, 2 prune, 4 only if worth while   1
/// patterns of refs, none for all that the flags say   names
/// ```
pub(super) fn optimize_options(request: &mut Request<'_>) -> Result<OptimizeOptions, Failure> {
    let flags = request.u8()?;
    let include = names(request)?.into_iter().map(ToOwned::to_owned).collect();
    Ok(OptimizeOptions::new().all(flags & 1 != 0).prune(flags & 2 != 0).auto(flags & 4 != 0).include(include))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Answer;

    /// Such a time became one in the far future.
    #[test]
    fn a_time_before_1970_is_refused() {
        for (seconds, is_time) in [(i64::MIN, false), (-1, false), (0, true), (i64::MAX, true)] {
            let mut bytes = Answer::default();
            bytes.bytes(b"A").unwrap();
            bytes.bytes(b"a@example.com").unwrap();
            bytes.u64(seconds as u64);
            bytes.u32(0);
            let read = ident(&mut Request::new(bytes.as_slice()));
            assert_eq!(read.is_ok(), is_time, "{seconds}");
        }
    }
}
