//! Converts values between refdb and gix-ref.

use crate::{Error, Result};
use bstr::{BStr, BString, ByteSlice};
use gix_actor::date::Time;
use gix_ref::{FullName, FullNameRef, Reference, Target};
use refdb::{HashKind, Ident, LogEntry, RefName, RefView, TargetView, backend::Peeled};

pub(crate) fn id_for_gix(id: &refdb::ObjectId) -> gix_hash::ObjectId {
    gix_hash::ObjectId::from_bytes_or_panic(id.as_bytes())
}

pub(crate) fn id_for_refdb(id: &gix_hash::oid) -> refdb::ObjectId {
    let raw = id.as_bytes();
    let id = [HashKind::Sha1, HashKind::Sha256].into_iter().find_map(|kind| refdb::ObjectId::from_bytes(kind, raw));
    id.expect("both crates have ids of 20 and of 32 bytes")
}

pub(crate) fn name_for_gix(name: &BStr) -> Result<FullName> {
    FullName::try_from(name).map_err(|source| Error::StoredName { name: name.to_owned(), source })
}

/// Converts a name. Fails if refdb accepts no such name; whether it may be written is checked when it is.
pub(crate) fn name_for_refdb(name: &FullNameRef) -> Result<RefName> {
    let bad = || refdb::Misuse::BadName(name.as_bstr().to_owned());
    Ok(RefName::new_safe(name.as_bstr().to_vec()).ok_or_else(bad).map_err(refdb::Error::from)?)
}

pub(crate) fn target_for_gix(target: TargetView<'_>) -> Result<Target> {
    Ok(match target {
        TargetView::Direct(id) => Target::Object(id_for_gix(&id)),
        TargetView::Symbolic(name) => Target::Symbolic(name_for_gix(name)?),
    })
}

pub(crate) fn target_for_refdb(target: &Target) -> Result<refdb::Target> {
    Ok(match target {
        Target::Object(id) => refdb::Target::Direct(id_for_refdb(id)),
        Target::Symbolic(name) => refdb::Target::Symbolic(name_for_refdb(name.as_ref())?),
    })
}

pub(crate) fn reference_for_gix(view: &RefView<'_>) -> Result<Reference> {
    let peeled = match view.peeled {
        Peeled::To(id) => Some(id_for_gix(&id)),
        Peeled::Unknown | Peeled::NotTag => None,
    };
    Ok(Reference { name: name_for_gix(view.name)?, target: target_for_gix(view.target)?, peeled })
}

pub(crate) fn ident_for_refdb(who: gix_actor::SignatureRef<'_>) -> Result<Ident> {
    let who = who.trim();
    let bad = || Error::Time(who.time.to_owned());
    let time = who.time().map_err(|_| bad())?;
    let minutes = time.offset / 60;
    let offset = i16::try_from(minutes / 60 * 100 + minutes % 60).map_err(|_| bad())?;
    let seconds = u64::try_from(time.seconds).map_err(|_| bad())?;
    Ok(Ident { name: who.name.into(), email: who.email.into(), time_seconds: seconds, offset_decimal: offset })
}

pub(crate) fn line_for_gix(entry: &LogEntry) -> gix_ref::log::Line {
    let Ident { name, email, time_seconds, offset_decimal } = &entry.committer;
    let offset = i32::from(*offset_decimal);
    let time = Time {
        seconds: i64::try_from(*time_seconds).unwrap_or(i64::MAX),
        offset: (offset / 100 * 60 + offset % 100) * 60,
    };
    gix_ref::log::Line {
        previous_oid: id_for_gix(&entry.old),
        new_oid: id_for_gix(&entry.new),
        signature: gix_actor::Signature { name: name.clone(), email: email.clone(), time },
        message: entry.message.clone(),
    }
}

pub(crate) fn message_for_refdb(message: &BString) -> Option<std::sync::Arc<BString>> {
    let message = message.trim();
    (!message.is_empty()).then(|| std::sync::Arc::new(message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_of_time_keeps_its_sign_and_its_minutes() {
        for (time, decimal) in [("7 +0130", 130), ("7 -0330", -330), ("7 +0000", 0), ("7 -0015", -15)] {
            let who = gix_actor::SignatureRef { name: " A ".into(), email: "a@example.com".into(), time };
            let ident = ident_for_refdb(who).unwrap();
            assert_eq!((ident.name.as_bstr(), ident.time_seconds, ident.offset_decimal), ("A".into(), 7, decimal));
            let id = refdb::ObjectId::null(HashKind::Sha256);
            let entry = LogEntry { old: id, new: id, committer: ident, message: "m".into() };
            assert_eq!(line_for_gix(&entry).signature.time.to_string(), time);
        }
        for time in ["", "x", "-1 +0000"] {
            let who = gix_actor::SignatureRef { name: "A".into(), email: "a@example.com".into(), time };
            assert!(matches!(ident_for_refdb(who), Err(Error::Time(_))), "{time}");
        }
    }

    #[test]
    fn ids_of_both_kinds_come_back_as_they_were() {
        for (kind, length) in [(HashKind::Sha1, 20), (HashKind::Sha256, 32)] {
            let id = refdb::ObjectId::from_bytes(kind, &[7; 32][..length]).unwrap();
            assert_eq!(id_for_refdb(&id_for_gix(&id)), id);
        }
    }
}
