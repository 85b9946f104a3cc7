//! Writes the refs of a response in pieces, as fast as the client reads.

use super::{
    capabilities::{Offer, fits},
    ls_refs::LsRefs,
};
use crate::{
    pieces::{Piece, Pieces},
    repository::{Facts, Served},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{ObjectId, Target, TargetView, backend::Peeled, messages::say, objects::Lookups};
use refdb_receive::{HiddenRefs, wire::pkt};
use refdb_refcache::{ListOptions, Listing, Resolved, Row, Storage, View};
use refdb_vfs::again_if_lost;
use std::{
    collections::{HashSet, VecDeque},
    io,
    ops::ControlFlow,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::OwnedSemaphorePermit;

/// The format in which refs are written.
#[derive(Debug)]
pub(crate) enum Style {
    /// The response to `ls-refs` of version 2.
    LsRefs(LsRefs),
    /// The advertisement of version 0 or 1, with its capabilities.
    Advertisement(Offer),
}

impl Style {
    fn wants(&self, name: &[u8]) -> bool {
        match self {
            Style::LsRefs(LsRefs { prefixes, .. }) if !prefixes.is_empty() => {
                prefixes.iter().any(|prefix| name.starts_with(prefix))
            }
            _ => true,
        }
    }
}

/// The part of a response that has not been written yet.
#[derive(Debug)]
pub(crate) struct Rows {
    view: Arc<View>,
    facts: Arc<Facts>,
    hidden: HiddenRefs,
    style: Style,
    listing: Listing,
    /// The names, in order, of the refs that are not written yet and that `listing` leaves out because their files are
    /// corrupt or cannot be read. They are shown with an id of zeros, as in git: a client that prunes would take a ref
    /// that is missing for deleted, and delete its own copy.
    broken: VecDeque<BString>,
    /// Bounds the pieces after the first one.
    pieces: Pieces,
    /// Whether the first piece has been begun.
    has_begun: bool,
    has_ended: bool,
    /// The object that HEAD had when its line was written.
    head: Option<ObjectId>,
    /// The number of refs that have been written.
    pub(crate) refs: u64,
}

/// The number of refs, hidden ones included, after which the next one is the last of its piece, so that many hidden
/// refs do not delay other requests.
const PIECE_ROWS: usize = 10_000;

/// The capacity in bytes that is reserved for the last ref of a piece, and for a short response.
const ROOM_BYTES: usize = 4 << 10;

/// The number of bytes of a name that a warning shows if the name is too long to be listed.
const SHOWN_BYTES: usize = 200;

/// Maximum number of times that the refs are listed for one response.
const LISTINGS_MAX: usize = 9;

/// Lists the refs that a response may show, and returns the names of those among them that the list leaves out because
/// their files are corrupt or cannot be read. Fails if a folder cannot be read: a client that prunes would take its
/// refs for deleted.
fn list(view: &View, hidden: &HiddenRefs, style: &Style) -> io::Result<(Listing, VecDeque<BString>)> {
    let prefixes = match style {
        Style::LsRefs(wanted) if !wanted.prefixes.is_empty() => wanted.prefixes.clone(),
        _ => vec!["refs/".into()],
    };
    let options = ListOptions::new().prefixes(prefixes).exclude(hidden.folders());
    let listing = view.list(&options).map_err(io::Error::other)?;
    if let Some(folder) = listing.unread_folders().next() {
        return Err(io::Error::other(format!("the folder {folder} cannot be read, so its refs cannot be listed")));
    }
    let is_shown = |name: &&BStr| style.wants(name) && !hidden.covers(name);
    let broken = listing.left_out().filter(is_shown).map(ToOwned::to_owned).collect();
    Ok((listing, broken))
}

/// Returns whether the server of a network file system lost a file that a listing read.
fn is_lost(error: &io::Error) -> bool {
    let source = error.get_ref().and_then(|source| source.downcast_ref::<refdb_refcache::Error>());
    source.is_some_and(refdb_refcache::Error::is_stale)
}

impl Rows {
    /// Begins a response with the current refs.
    pub(crate) fn new(served: &Served, facts: Arc<Facts>, hidden: HiddenRefs, style: Style) -> io::Result<Self> {
        let view = Arc::clone(served.view());
        let (listing, broken) = list(&view, &hidden, &style)?;
        let pieces = served.pieces().clone();
        let (has_begun, has_ended, head, refs) = (false, false, None, 0);
        Ok(Rows { view, facts, hidden, style, listing, broken, pieces, has_begun, has_ended, head, refs })
    }

    /// Waits until it is this response's turn to have its next piece made. The first piece does not wait, because it
    /// is often the whole response. The caller drops the turn as soon as the piece is made, since the client may be
    /// slow to read it.
    pub(crate) fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Option<OwnedSemaphorePermit>> {
        if self.has_begun { self.pieces.poll_turn(context) } else { Poll::Ready(None) }
    }

    /// Returns whether the response is complete.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns whether the response listed a ref for each of these objects, even if the ref has changed since. Symbolic
    /// refs other than HEAD count with their present values.
    pub(crate) fn have_shown(&mut self, ids: &[ObjectId]) -> io::Result<bool> {
        let Rows { view, hidden, listing, head, .. } = self;
        let mut missing: HashSet<ObjectId> = ids.iter().copied().filter(|id| Some(*id) != *head).collect();
        listing.rewind();
        let look = &mut |row: &Row<'_>| {
            let is_hidden = || hidden.covers(row.name);
            match row.target {
                TargetView::Direct(id) if missing.contains(&id) && !is_hidden() => _ = missing.remove(&id),
                TargetView::Symbolic(_) if !is_hidden() => {
                    let resolved = view.resolve(row.name).ok().and_then(|resolved| resolved.found);
                    resolved.and_then(|found| found.target.id()).map(|id| missing.remove(&id));
                }
                _ => {}
            }
            if missing.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        listing.each(look).map_err(io::Error::other)?;
        Ok(missing.is_empty())
    }

    /// Returns the next piece. It may be empty before the end if none of the many refs that were read for it is shown.
    ///
    /// If the server of a network file system loses a file before the first piece is complete, the refs are listed
    /// again, up to [`LISTINGS_MAX`] times in all. Later that is an error, because a client must not get refs of two
    /// states.
    pub(crate) fn next_piece(&mut self) -> io::Result<Piece> {
        if self.has_ended {
            return Ok(Piece::small());
        }
        let is_first = !self.has_begun;
        let mut is_again = false;
        again_if_lost(
            LISTINGS_MAX,
            |error| is_first && is_lost(error),
            || {
                if std::mem::replace(&mut is_again, true) {
                    (self.listing, self.broken) = list(&self.view, &self.hidden, &self.style)?;
                    (self.has_begun, self.head, self.refs) = (false, None, 0);
                }
                self.piece()
            },
        )
    }

    fn piece(&mut self) -> io::Result<Piece> {
        let is_short = matches!(&self.style, Style::LsRefs(wanted) if !wanted.prefixes.is_empty()) && !self.has_begun;
        // The first piece is small so that the client gets it soon.
        let mut piece = if self.has_begun { self.pieces.large() } else { Piece::small() };
        let (out, len_max) = (&mut piece.bytes, piece.len_max);
        out.reserve(if is_short { ROOM_BYTES } else { len_max + ROOM_BYTES });
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(out)?;
        }
        let Rows { view, facts, hidden, style, listing, broken, refs, .. } = self;
        let mut failed = None;
        let (mut is_full, mut rows) = (false, 0);
        let objects = Arc::clone(&facts.objects);
        let mut writer = Writer { view, hidden, style, refs, objects: objects.lookups() };
        listing
            .each(&mut |row| match writer.broken(broken, Some(row.name), out).and_then(|()| writer.row(row, out)) {
                Ok(()) if out.len() < len_max && rows < PIECE_ROWS => {
                    rows += 1;
                    ControlFlow::Continue(())
                }
                Ok(()) => {
                    is_full = true;
                    ControlFlow::Break(())
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            })
            .map_err(io::Error::other)?;
        if let Some(error) = failed {
            return Err(error);
        }
        if !is_full {
            writer.broken(broken, None, out)?;
            drop(writer);
            self.end(out);
        }
        Ok(piece)
    }

    /// Writes what comes before the refs of the listing: the version, and HEAD.
    fn begin(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        // As in git, a HEAD that cannot be read is omitted.
        let head = self.view.resolve("HEAD".into());
        let head = head.unwrap_or_else(|_| Resolved { links: Vec::new(), name: "HEAD".into(), found: None });
        if let Style::Advertisement(offer) = &mut self.style {
            offer.begin(&head, out);
        }
        if self.hidden.covers("HEAD".into()) || !self.style.wants(b"HEAD") {
            return Ok(());
        }
        let id = head.found.as_ref().and_then(|found| found.target.id());
        let symbolic = (!head.links.is_empty()).then_some(head.name.as_bstr());
        match (&self.style, id) {
            (Style::LsRefs(wanted), None)
                if wanted.unborn
                    && wanted.symrefs
                    && self.facts.settings.unborn == Some(true)
                    && symbolic.is_some_and(|name| self.is_absent(name)) => {}
            (_, None) => return Ok(()),
            _ => {}
        }
        let objects = Arc::clone(&self.facts.objects);
        self.head = id;
        let Rows { view, hidden, style, refs, .. } = self;
        let mut writer = Writer { view, hidden, style, refs, objects: objects.lookups() };
        writer.write("HEAD".into(), id.as_ref(), symbolic, &Peeled::Unknown, out)
    }

    /// Returns whether no ref has this name. A broken ref, or one in a loop of symbolic refs, exists.
    fn is_absent(&self, name: &BStr) -> bool {
        self.view.get(name).is_ok_and(|found| found.is_none())
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Style::Advertisement(offer) = &mut self.style {
            offer.end(out);
        }
        pkt::flush(out);
        self.has_ended = true;
    }
}

struct Writer<'a> {
    view: &'a View,
    hidden: &'a HiddenRefs,
    style: &'a mut Style,
    refs: &'a mut u64,
    objects: Lookups<'a>,
}

impl Writer<'_> {
    /// Writes the refs of [`Rows::broken`] that come before the name `end`, or all that are left.
    fn broken(&mut self, broken: &mut VecDeque<BString>, end: Option<&BStr>, out: &mut Vec<u8>) -> io::Result<()> {
        while broken.front().is_some_and(|name| end.is_none_or(|end| name.as_bstr() < end)) {
            let Some(name) = broken.pop_front() else { break };
            let no_object = ObjectId::null(self.view.hash().map_err(io::Error::other)?);
            self.write(name.as_bstr(), Some(&no_object), None, &Peeled::NotTag, out)?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        if !self.hidden.is_empty() && self.hidden.covers(row.name) {
            return Ok(());
        }
        match &row.target {
            TargetView::Direct(id) => {
                // As in git, a ref whose object is missing is listed too.
                let peeled = match (&row.peeled, row.storage) {
                    // As in git, only packed-refs is trusted to say that an object is not a tag.
                    (Peeled::NotTag, Storage::Table | Storage::Loose) => &Peeled::Unknown,
                    (peeled, _) => peeled,
                };
                self.write(row.name, Some(id), None, peeled, out)?;
            }
            TargetView::Symbolic(_) => {
                let Ok(resolved) = self.view.resolve(row.name) else { return Ok(()) };
                let Some(Target::Direct(id)) = resolved.found.map(|found| found.target) else { return Ok(()) };
                self.write(row.name, Some(&id), Some(resolved.name.as_bstr()), &Peeled::Unknown, out)?;
            }
        }
        Ok(())
    }

    /// Writes the line of a ref. `id` is `None` for a HEAD whose branch does not exist yet. A ref whose line might not
    /// fit into a packet is left out with a warning.
    fn write(
        &mut self,
        name: &BStr,
        id: Option<&ObjectId>,
        symbolic: Option<&BStr>,
        peeled: &Peeled,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let has_room = match &*self.style {
            Style::LsRefs(_) => fits(name.len() + symbolic.map_or(0, |target| target.len())),
            Style::Advertisement(offer) => offer.has_room_for(name),
        };
        if !has_room {
            let start = name.get(..SHOWN_BYTES).unwrap_or(name);
            say("warning: ", &[b"ignoring ref whose name is too long for the protocol ", start, b"..."].concat());
            return Ok(());
        }
        let start = out.len();
        match &mut *self.style {
            Style::LsRefs(wanted) => {
                out.extend_from_slice(b"0000");
                match id {
                    Some(id) => id.write_hex(out),
                    None => out.extend_from_slice(b"unborn"),
                }
                out.push(b' ');
                out.extend_from_slice(name);
                if let Some(target) = symbolic.filter(|_| wanted.symrefs) {
                    out.extend_from_slice(b" symref-target:");
                    out.extend_from_slice(target);
                }
                if let Some(id) = id.filter(|_| wanted.peel)
                    && let Some(peeled) = peel(&mut self.objects, id, peeled)?
                {
                    out.extend_from_slice(b" peeled:");
                    peeled.write_hex(out);
                }
                out.push(b'\n');
                pkt::set_length(&mut out[start..]);
            }
            Style::Advertisement(offer) => {
                let Some(id) = id else { return Ok(()) };
                offer.line(id, name, b"", out);
                if let Some(peeled) = peel(&mut self.objects, id, peeled)? {
                    offer.line(&peeled, name, b"^{}", out);
                }
            }
        }
        *self.refs += 1;
        Ok(())
    }
}

fn peel(objects: &mut Lookups<'_>, id: &ObjectId, peeled: &Peeled) -> io::Result<Option<ObjectId>> {
    match peeled {
        Peeled::To(id) => Ok(Some(*id)),
        Peeled::NotTag => Ok(None),
        Peeled::Unknown => objects.peel_tag(id).map_err(io::Error::other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pieces::PIECE_BYTES, repository::Repositories, settings::Limits};
    use refdb::{Environment, HashKind};
    use refdb_testkit::{RefFormat, Repo};
    use std::{fmt::Write as _, fs, task::Waker};

    /// Previously, a request to another repository waited for seconds, until hundreds of clients had got as much of
    /// their lists as their sockets took.
    #[tokio::test]
    async fn the_pieces_of_long_lists_are_made_in_turns() {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let mut packed = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
        (0..9999).for_each(|number| _ = writeln!(packed, "{} refs/heads/{number:04}", "1".repeat(40)));
        fs::write(repo.git_dir().join("packed-refs"), packed).unwrap();
        let repositories = Repositories::new(&Limits::default(), Environment::without_git(repo.git_dir()));
        let served = repositories.open(repo.git_dir()).unwrap();
        let facts = served.facts().unwrap();
        let context = &mut Context::from_waker(Waker::noop());
        let [mut first, mut second, mut third] = [(); 3].map(|()| {
            let style = Style::LsRefs(LsRefs::default());
            let mut rows = Rows::new(&served, Arc::clone(&facts), HiddenRefs::default(), style).unwrap();
            assert!(matches!(rows.poll_turn(context), Poll::Ready(None)), "the first piece does not wait");
            assert!(rows.next_piece().unwrap().as_ref().len() >= PIECE_BYTES && !rows.has_ended());
            rows
        });
        // This runtime has one worker.
        let Poll::Ready(Some(turn)) = first.poll_turn(context) else { panic!("nobody else has a turn") };
        assert!(second.poll_turn(context).is_pending() && third.poll_turn(context).is_pending());
        drop(turn);
        assert!(first.poll_turn(context).is_pending(), "others have waited for longer");
        drop(second);
        assert!(matches!(third.poll_turn(context), Poll::Ready(Some(_))), "the one before it has left");
    }
}
