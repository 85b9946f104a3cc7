use super::{ServeError, channel::Channel};
use crate::{
    Hidden,
    wire::{Advertisement, Offer},
};
use bstr::{BStr, BString};
use refdb::{Snapshot, TargetView};
use refdb_types::{ObjectId, OrderedNames, RefName, SYMREF_DEPTH_MAX, Target};
use std::ops::ControlFlow;

/// Sends the refs, but for those that are hidden or dangling. Whether their objects are there is not looked at, so that a ref
/// whose object is lost can be deleted.
pub(super) fn advertise(
    snapshot: &dyn Snapshot,
    hidden: &Hidden,
    offer: &Offer,
    version_1: bool,
    channel: &mut Channel<'_>,
) -> Result<(), ServeError> {
    let mut packets = Vec::new();
    let advertisement = Advertisement::begin(offer, version_1, &mut packets);
    let mut shower = Shower { snapshot, hidden, advertisement, packets, channel };
    let mut names = OrderedNames::default();
    let mut cursor = snapshot.cursor(false)?;
    loop {
        let mut failed = None;
        let walked = cursor.for_each(&mut |view| {
            let shown = if !names.accept(view.name) {
                shower.pass_over("ignoring ref with broken name", view.name)
            } else {
                shower.show(view.name, view.target)
            };
            match shown {
                Ok(()) => ControlFlow::Continue(()),
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
            Ok(_) => break,
            Err(refdb::Error::BrokenRef(broken)) => shower.pass_over("ignoring broken ref", broken.name.as_ref())?,
            Err(error) => return Err(error.into()),
        }
    }
    let Shower { advertisement, mut packets, channel, .. } = shower;
    advertisement.end(&mut packets);
    Ok(channel.send(&packets)?)
}

struct Shower<'a, 'c> {
    snapshot: &'a dyn Snapshot,
    hidden: &'a Hidden,
    advertisement: Advertisement,
    packets: Vec<u8>,
    channel: &'a mut Channel<'c>,
}

impl Shower<'_, '_> {
    fn show(&mut self, name: &BStr, target: TargetView<'_>) -> Result<(), ServeError> {
        if self.hidden.covers(name) {
            return Ok(());
        }
        let id = match target {
            TargetView::Direct(id) => id,
            TargetView::Symbolic(target) => match follow(self.snapshot, target)? {
                Some(id) => id,
                // It is an unborn branch, or a mistake of its maker: no client needs to hear of it.
                None => return Ok(()),
            },
        };
        if id.is_null() {
            return self.pass_over("ignoring broken ref", name);
        }
        if !self.advertisement.add(&id, name, &mut self.packets) {
            return self.pass_over("ignoring ref whose name is too long for the protocol", name);
        }
        Ok(self.channel.relieve(&mut self.packets)?)
    }

    fn pass_over(&mut self, why: &str, name: &BStr) -> Result<(), ServeError> {
        let mut message = BString::from(why);
        message.push(b' ');
        message.extend_from_slice(name);
        Ok(self.channel.warning(&message)?)
    }
}

/// The object that a symbolic ref leads to.
fn follow(snapshot: &dyn Snapshot, target: &BStr) -> Result<Option<ObjectId>, ServeError> {
    let Ok(mut name) = RefName::new(target.to_vec()) else { return Ok(None) };
    for _ in 0..SYMREF_DEPTH_MAX {
        match snapshot.get(name.as_bstr()) {
            Ok(Some(Target::Direct(id))) => return Ok(Some(id)),
            Ok(Some(Target::Symbolic(next))) => name = next,
            // What cannot be read leads nowhere.
            Ok(None) | Err(refdb::Error::BrokenRef(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
