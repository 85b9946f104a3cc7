//! The repository's objects, opened when the first one is asked for.

use crate::{
    failure::{Failure, Result, message},
    for_each_ref::world::ObjectKind,
};
use bstr::ByteSlice;
use gix_object::{Find, FindHeader};
use refdb_types::{HashKind, ObjectId};
use std::{cell::OnceCell, fmt::Display, path::PathBuf};

/// Reads objects. Opening the store lists its packs, which many commands can do without.
pub struct Objects {
    folder: PathBuf,
    kind: HashKind,
    handle: OnceCell<gix_odb::Handle>,
    /// Says what exists without a look at the folder of packs beforehand.
    engine: OnceCell<refdb::Objects>,
    known: Known,
    buffer: Vec<u8>,
}

/// Objects that were seen to exist: many refs hold the same ones.
#[derive(Default)]
struct Known {
    slots: Vec<Option<(ObjectId, ObjectKind)>>,
}

impl Known {
    const SLOTS: usize = 1 << 12;

    fn slot(id: &ObjectId) -> usize {
        let bytes = id.as_bytes();
        (usize::from(bytes[0]) << 8 | usize::from(bytes[1])) % Self::SLOTS
    }

    fn get(&self, id: &ObjectId) -> Option<ObjectKind> {
        let (known, kind) = (*self.slots.get(Self::slot(id))?)?;
        (known == *id).then_some(kind)
    }

    fn put(&mut self, id: ObjectId, kind: ObjectKind) {
        self.slots.resize(Self::SLOTS, None);
        self.slots[Self::slot(&id)] = Some((id, kind));
    }
}

impl Objects {
    /// The objects in `folder` and its alternates.
    pub fn new(folder: PathBuf, kind: HashKind) -> Self {
        Objects {
            folder,
            kind,
            handle: OnceCell::new(),
            engine: OnceCell::new(),
            known: Known::default(),
            buffer: Vec::new(),
        }
    }

    /// The kind of the ids.
    pub fn kind(&self) -> HashKind {
        self.kind
    }

    fn handle(&self) -> Result<&gix_odb::Handle> {
        if let Some(handle) = self.handle.get() {
            return Ok(handle);
        }
        let kind = match self.kind {
            HashKind::Sha1 => gix_hash::Kind::Sha1,
            HashKind::Sha256 => gix_hash::Kind::Sha256,
        };
        match gix_odb::at(&self.folder, kind) {
            Ok(handle) => Ok(self.handle.get_or_init(|| handle)),
            Err(error) => Err(Failure::Fatal(message!["cannot open the object store: ", error.to_string()])),
        }
    }

    /// Whether the object exists.
    pub fn exists(&mut self, id: &ObjectId) -> Result<bool> {
        if self.known.get(id).is_some() {
            return Ok(true);
        }
        if self.engine.get().is_none() {
            // A loose object is found without listing the packs. Once they are known, they come first.
            let hex = id.to_string();
            if self.folder.join(&hex[..2]).join(&hex[2..]).exists() {
                return Ok(true);
            }
        }
        let open = || refdb::Objects::in_dir(self.folder.clone(), self.kind);
        Ok(self.engine.get_or_init(open).exists(id)?)
    }

    /// Type and size; `None` if the object is missing.
    pub fn header(&mut self, id: &ObjectId) -> Result<Option<(ObjectKind, u64)>> {
        let header = self.handle()?.try_header(&convert(id)).map_err(broken(id))?;
        Ok(header.map(|header| (header.kind.into(), header.size)))
    }

    /// The type; `None` if the object is missing.
    pub fn object_kind(&mut self, id: &ObjectId) -> Result<Option<ObjectKind>> {
        if let Some(kind) = self.known.get(id) {
            return Ok(Some(kind));
        }
        let kind = self.header(id)?.map(|(kind, _)| kind);
        if let Some(kind) = kind {
            self.known.put(*id, kind);
        }
        Ok(kind)
    }

    /// Replaces `data` by the object's content; `None` if the object is missing.
    pub fn read(&mut self, id: &ObjectId, data: &mut Vec<u8>) -> Result<Option<ObjectKind>> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let found = self.handle()?.try_find(&convert(id), &mut buffer).map_err(broken(id))?;
        let kind = found.map(|found| {
            data.clear();
            data.extend_from_slice(found.data);
            found.kind.into()
        });
        self.buffer = buffer;
        Ok(kind)
    }

    /// The object behind an annotated tag, or the object itself; `None` if one on the way is missing.
    pub fn peel(&mut self, id: &ObjectId) -> Result<Option<(ObjectId, ObjectKind)>> {
        let mut id = *id;
        let mut data = Vec::new();
        loop {
            match self.object_kind(&id)? {
                None => return Ok(None),
                Some(ObjectKind::Tag) => {}
                Some(kind) => return Ok(Some((id, kind))),
            }
            self.read(&id, &mut data)?;
            let line = data.strip_prefix(b"object ").and_then(|rest| rest.lines().next()).unwrap_or_default();
            match ObjectId::from_hex(self.kind, line) {
                Ok(target) => id = target,
                Err(_) => return Err(Failure::Fatal(message!["bad tag object ", id.to_string()])),
            }
        }
    }

    /// How many digits of `id` tell it from all other objects: at least `least`, or as many as git shows by default,
    /// which grows with the number of objects.
    pub fn abbreviate(&self, id: &ObjectId, least: Option<usize>) -> Result<usize> {
        const SHORTEST: usize = 4;
        const USUAL: usize = 7;
        let full = self.kind.len_hex();
        let handle = self.handle()?;
        let least = match least {
            Some(least) => least.max(SHORTEST),
            None => {
                let count = handle.packed_object_count().map_err(broken(id))?;
                // Half of the bits suffice to make a clash unlikely; two digits hold a byte.
                let bits = u64::BITS - count.leading_zeros();
                (bits.div_ceil(2) as usize).max(USUAL)
            }
        };
        if least >= full {
            return Ok(full);
        }
        let candidate = gix_odb::store::prefix::disambiguate::Candidate::new(convert(id), least).map_err(broken(id))?;
        Ok(handle.disambiguate_prefix(candidate).map_err(broken(id))?.map_or(least, |prefix| prefix.hex_len()))
    }
}

fn convert(id: &ObjectId) -> gix_hash::ObjectId {
    gix_hash::ObjectId::from_bytes_or_panic(id.as_bytes())
}

fn broken<E: Display>(id: &ObjectId) -> impl Fn(E) -> Failure + '_ {
    move |error| Failure::Fatal(message!["cannot read object ", id.to_string(), ": ", error.to_string()])
}
