use super::{ServeError, channel::Channel};
use crate::{
    HiddenRefs,
    wire::{Advertisement, Offer},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Snapshot, Store, TargetView};
use refdb_types::{ObjectId, OrderedNames, RefName, SYMREF_DEPTH_MAX, Target};
use std::{cell::Cell, collections::HashSet, ops::ControlFlow};

/// Sends all refs below `refs/` except hidden ones and symbolic refs that lead to no object. Broken refs, and refs
/// whose names are broken or too long for a packet, are skipped with a warning. The objects of refs are not looked up,
/// so that a client can delete a ref whose object is lost.
///
/// `others` are the values of the refs of alternates. Each value that has not been sent before is sent as a `.have`
/// line.
///
/// If the server of a network file system loses a file that is read, the refs are read again as long as nothing has
/// been sent. Later the advertisement fails, because a client must not get refs of two states.
pub(super) fn advertise(
    store: &Store,
    hidden: &HiddenRefs,
    offer: &Offer,
    version_1: bool,
    others: Option<&[ObjectId]>,
    channel: &mut Channel<'_>,
) -> Result<(), ServeError> {
    let has_sent = Cell::new(false);
    let may_repeat = |error: &ServeError| error.is_stale() && !has_sent.get();
    let (advertisement, mut packets) = store.read(may_repeat, |snapshot| {
        let mut packets = Vec::new();
        let advertisement = Advertisement::begin(offer, version_1, &mut packets);
        let seen = others.is_some().then(HashSet::new);
        let has_sent = &has_sent;
        let mut advertiser = Advertiser { snapshot, hidden, advertisement, packets, seen, has_sent, channel };
        advertiser.show_all()?;
        for id in others.unwrap_or_default() {
            advertiser.show(HAVE.into(), TargetView::Direct(*id))?;
        }
        Ok::<_, ServeError>((advertiser.advertisement, advertiser.packets))
    })?;
    advertisement.end(&mut packets);
    Ok(channel.send(&packets)?)
}

/// The name under which the value of an alternate's ref is advertised.
const HAVE: &str = ".have";

/// How to proceed after a ref.
enum Advertised {
    /// The ref was sent or skipped; the next one is considered by itself.
    One,
    /// The ref is hidden, and so is every ref between it and this name.
    SkipTo(BString),
}

struct Advertiser<'a, 'c> {
    snapshot: &'a dyn Snapshot,
    hidden: &'a HiddenRefs,
    advertisement: Advertisement,
    packets: Vec<u8>,
    /// The values that were sent, if there are alternates, whose refs with the same values need not be sent.
    seen: Option<HashSet<ObjectId>>,
    /// Whether anything has been sent to the client.
    has_sent: &'a Cell<bool>,
    channel: &'a mut Channel<'c>,
}

impl Advertiser<'_, '_> {
    fn show_all(&mut self) -> Result<(), ServeError> {
        let mut names = OrderedNames::default();
        let mut cursor = self.snapshot.cursor(false)?;
        loop {
            let (mut failed, mut behind) = (None, None);
            let walked = cursor.for_each(&mut |view| {
                let shown = if !names.accept(view.name) {
                    self.pass_over("ignoring ref with broken name", view.name)
                } else {
                    self.show(view.name, view.target)
                };
                match shown {
                    Ok(Advertised::One) => ControlFlow::Continue(()),
                    Ok(Advertised::SkipTo(name)) => {
                        behind = Some(name);
                        ControlFlow::Break(())
                    }
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            match walked {
                Ok(_) => match behind {
                    Some(name) => cursor.seek(name.as_bstr())?,
                    None => return Ok(()),
                },
                Err(refdb::Error::BrokenRef(broken)) => {
                    self.pass_over("ignoring broken ref", broken.name.as_ref())?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    fn show(&mut self, name: &BStr, target: TargetView<'_>) -> Result<Advertised, ServeError> {
        if self.hidden.covers(name) {
            return Ok(match self.hidden.folder_around(name) {
                None => Advertised::One,
                // `0` is the byte after `/`, so this name follows all refs below the directory.
                Some(folder) => Advertised::SkipTo([folder.as_bytes(), b"0"].concat().into()),
            });
        }
        let id = match target {
            TargetView::Direct(id) => id,
            TargetView::Symbolic(target) => match follow(self.snapshot, target)? {
                Some(id) => id,
                // The symbolic ref leads to no object, so clients need not know of it.
                None => return Ok(Advertised::One),
            },
        };
        if id.is_null() {
            return self.pass_over("ignoring broken ref", name);
        }
        if name == HAVE && self.seen.as_ref().is_some_and(|seen| seen.contains(&id)) {
            return Ok(Advertised::One);
        }
        if !self.advertisement.add(&id, name, &mut self.packets) {
            return self.pass_over("ignoring ref whose name is too long for the protocol", name);
        }
        if let Some(seen) = &mut self.seen {
            seen.insert(id);
        }
        if self.channel.send_if_full(&mut self.packets)? {
            self.has_sent.set(true);
        }
        Ok(Advertised::One)
    }

    fn pass_over(&mut self, why: &str, name: &BStr) -> Result<Advertised, ServeError> {
        let mut message = BString::from(why);
        message.push(b' ');
        message.extend_from_slice(name);
        self.channel.warning(&message)?;
        Ok(Advertised::One)
    }
}

/// Returns the object to which a symbolic ref with this target resolves, or `None` if it is dangling, broken or nested
/// too deeply.
fn follow(snapshot: &dyn Snapshot, target: &BStr) -> Result<Option<ObjectId>, ServeError> {
    let Ok(mut name) = RefName::new(target.to_vec()) else { return Ok(None) };
    // Resolving the symbolic ref itself was the first step.
    for _ in 1..SYMREF_DEPTH_MAX {
        match snapshot.get(name.as_bstr()) {
            Ok(Some(Target::Direct(id))) => return Ok(Some(id)),
            Ok(Some(Target::Symbolic(next))) => name = next,
            Ok(None) => return Ok(None),
            Err(error) if error.is_broken_ref() => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
