//! The encoding of answers about refs.

use crate::{failure::Failure, wire::Answer};
use refdb::{
    BrokenRef, LogEntry, ObjectId, RefFormat, Rejection, RejectionClass, RejectionReason, Target, TargetView,
    backend::Peeled, global::GlobalRef,
};
use refdb_refcache::{Difference, Error, Found, Holdings, Outcome, Resolved, Stats, Storage, View};

/// Encodes the formats of refs and object ids, and the version of the refs.
///
/// ```text
/// format of refs: 0 files, 1 reftable   1
/// length of an object id in bytes       1
/// version                               8
/// ```
pub(super) fn encode_info(view: &View, answer: &mut Answer) -> Result<(), Failure> {
    answer.u8(match view.format()? {
        RefFormat::Files => 0,
        RefFormat::Reftable => 1,
    });
    answer.u8(view.hash()?.len_bytes() as u8);
    answer.u64(view.version());
    Ok(())
}

/// Encodes a ref and the symbolic refs that were followed.
///
/// ```text
/// how many symbolic refs were followed   1
/// where each leads                       byte string each
/// what the last name holds               value
/// ```
pub(super) fn encode_resolved(resolved: &Resolved, answer: &mut Answer) -> Result<(), Failure> {
    answer.u8(resolved.links.len() as u8);
    if !resolved.links.is_empty() {
        for name in &resolved.links[1..] {
            answer.bytes(name)?;
        }
        answer.bytes(&resolved.name)?;
    }
    match &resolved.found {
        None => {
            answer.u8(MISSING);
            Ok(())
        }
        Some(Found { target, peeled, storage, update_index }) => {
            encode_value(TargetView::from(target), *peeled, *storage, *update_index, answer)
        }
    }
}

const MISSING: u8 = 0;
pub(super) const DIRECT: u8 = 1;
pub(super) const SYMBOLIC: u8 = 2;
pub(super) const NOT_TAG: u8 = 1 << 2;
pub(super) const TAG: u8 = 2 << 2;

pub(super) fn storage_flag(storage: Storage) -> u8 {
    const SHIFT: u8 = 4;
    match storage {
        Storage::Loose => 0,
        Storage::Packed => 1 << SHIFT,
        Storage::Table => 2 << SHIFT,
    }
}

/// Encodes the value of a ref.
///
/// ```text
/// 0 missing, or: 1 id, 2 name; +4 no tag, +8 tag; +0 loose, +16 packed, +32 in a table   1
/// update index, in a table only                                                           8
/// id, and what a tag leads to; or name                                                    raw; or byte string
/// ```
fn encode_value(
    target: TargetView<'_>,
    peeled: Peeled,
    storage: Storage,
    update_index: u64,
    answer: &mut Answer,
) -> Result<(), Failure> {
    let update_index = (storage == Storage::Table).then_some(update_index);
    let storage = storage_flag(storage);
    match target {
        TargetView::Symbolic(name) => {
            answer.u8(SYMBOLIC | storage);
            update_index.into_iter().for_each(|index| answer.u64(index));
            answer.bytes(name)
        }
        TargetView::Direct(id) => {
            let (flag, leads_to) = match peeled {
                Peeled::Unknown => (0, None),
                Peeled::NotTag => (NOT_TAG, None),
                Peeled::To(leads_to) => (TAG, Some(leads_to)),
            };
            answer.u8(DIRECT | flag | storage);
            update_index.into_iter().for_each(|index| answer.u64(index));
            answer.raw(id.as_bytes());
            if let Some(leads_to) = leads_to {
                answer.raw(leads_to.as_bytes());
            }
            Ok(())
        }
    }
}

/// Encodes the result of a batch.
///
/// ```text
/// 0 done, but for the rejected edits; 1 refused as a whole    1
/// rejections: position, reason, ref, text, to the end         4, 1, byte string, byte string
/// ```
///
/// A batch that is refused as a whole has one rejection, with the position 0.
pub(super) fn encode_outcome(outcome: Result<Outcome, Error>, answer: &mut Answer) -> Result<(), Failure> {
    match outcome {
        Ok(outcome) => {
            answer.u8(0);
            outcome.rejected.iter().try_for_each(|(at, rejection)| encode_rejection(*at, rejection, answer))
        }
        Err(Error::Store(refdb::Error::Rejected(rejection))) => {
            answer.u8(1);
            encode_rejection(0, &rejection, answer)
        }
        Err(error) => Err(error.into()),
    }
}

fn encode_rejection(at: usize, rejection: &Rejection, answer: &mut Answer) -> Result<(), Failure> {
    answer.u32(u32::try_from(at).map_err(|_| Failure::TooLarge(at))?);
    answer.u8(match rejection.class() {
        // git's class for a held lock is `CreateExists`, which would tell Java that the ref exists but should not.
        _ if matches!(rejection.reason, RejectionReason::Locked { .. } | RejectionReason::LockedBySelf { .. }) => 7,
        RejectionClass::NameConflict => 0,
        RejectionClass::CreateExists => 1,
        RejectionClass::NonexistentRef => 2,
        RejectionClass::IncorrectOldValue => 3,
        RejectionClass::InvalidNewValue => 4,
        RejectionClass::ExpectedSymref => 5,
        RejectionClass::CaseConflict => 6,
        RejectionClass::TooLarge => 8,
        // `RejectionClass::Generic`, and what later versions tell apart.
        _ => 7,
    });
    answer.bytes(&rejection.resolved)?;
    answer.bytes(rejection.to_string().as_bytes())
}

/// Encodes refs with the values between which the global ref database decides.
///
/// ```text
/// number of refs                                          4
///   name, old id, new id; an id is empty if there is none byte strings
/// ```
pub(super) fn encode_global_refs(refs: &[GlobalRef], answer: &mut Answer) -> Result<(), Failure> {
    answer.u32(u32::try_from(refs.len()).map_err(|_| Failure::TooLarge(refs.len()))?);
    for entry in refs {
        answer.bytes(&entry.name)?;
        answer.bytes(entry.old.as_ref().map_or(&[][..], ObjectId::as_bytes))?;
        answer.bytes(entry.new.as_ref().map_or(&[][..], ObjectId::as_bytes))?;
    }
    Ok(())
}

/// Encodes an entry of a reflog.
///
/// ```text
/// old id, new id, name, email    byte strings
/// seconds since 1970             8
/// offset from UTC: 130 is +0130  4
/// message                        byte string
/// ```
pub(super) fn encode_entry(entry: &LogEntry, answer: &mut Answer) -> Result<(), Failure> {
    answer.bytes(entry.old.as_bytes())?;
    answer.bytes(entry.new.as_bytes())?;
    answer.bytes(&entry.committer.name)?;
    answer.bytes(&entry.committer.email)?;
    answer.u64(entry.committer.time_seconds);
    answer.u32(i32::from(entry.committer.offset_decimal) as u32);
    answer.bytes(&entry.message)
}

/// Encodes a ref for which view and disk differ: its name, and both values as text.
pub(super) fn encode_difference(difference: &Difference, answer: &mut Answer) -> Result<(), Failure> {
    let words = |target: &Option<Target>| match target {
        None => "missing".to_owned(),
        Some(Target::Direct(id)) => id.to_string(),
        Some(Target::Symbolic(name)) => format!("ref: {name}"),
    };
    answer.bytes(&difference.name)?;
    answer.bytes(words(&difference.view).as_bytes())?;
    answer.bytes(words(&difference.disk).as_bytes())
}

/// Encodes broken refs: the name of each, and its file and fault as text.
pub(super) fn encode_broken(broken: &[BrokenRef], answer: &mut Answer) -> Result<(), Failure> {
    broken.iter().try_for_each(|broken| {
        answer.bytes(&broken.name)?;
        answer.bytes(broken.to_string().as_bytes())
    })
}

/// Encodes counters in eight bytes each, in the order of `org.refdb.engine.RefStats`.
pub(super) fn encode_stats(stats: &Stats, answer: &mut Answer) {
    let Stats {
        view,
        hits,
        misses,
        loads,
        load_nanos,
        reopens,
        bytes,
        commits,
        groups,
        largest_group,
        rejections,
        stale,
        verifications,
        broken,
        // The log of a server takes the unreported refs themselves, so nobody needs their number here.
        unreported: _,
        unsorted,
        git_packs,
        ignored_trust,
    } = *stats;
    for number in [
        view,
        hits,
        misses,
        loads,
        load_nanos,
        reopens,
        bytes,
        commits,
        groups,
        largest_group,
        rejections,
        stale,
        verifications,
        broken,
        unsorted,
        git_packs,
        ignored_trust,
    ] {
        answer.u64(number);
    }
}

/// Encodes the fields of [`Holdings`] in their order, in eight bytes each.
pub(super) fn encode_holdings(holdings: &Holdings, answer: &mut Answer) {
    let Holdings {
        views,
        open_views,
        closed,
        files,
        files_max,
        bytes,
        bytes_max,
        background_packs,
        failed_background_packs,
    } = *holdings;
    for number in
        [views, open_views, closed, files, files_max, bytes, bytes_max, background_packs, failed_background_packs]
    {
        answer.u64(number);
    }
}
