//! Lists refs, filtered, sorted and formatted as a command line says.

use super::{
    filter::Filter,
    format::Format,
    history::History,
    quote::Quote,
    render::Renderer,
    sort::{Entry, Order},
    world::World,
};
use crate::{
    failure::{Result, message, say},
    listing::{self, Broken, Row, Visitor, Walk},
    output::Output,
    session::Session,
};
use bstr::{BStr, BString};
use refdb::{Snapshot, backend::Peeled, config::Config};
use refdb_types::ObjectId;
use std::ops::ControlFlow;

/// Which refs are listed, and how.
pub struct Plan<'p> {
    pub filter: Filter,
    pub walk: Walk<'p>,
    pub layout: Layout<'p>,
    pub order: &'p Order,
    pub quote: Quote,
    pub colors: bool,
    pub omit_empty: bool,
    /// The greatest number of refs; 0 for all.
    pub count: u64,
    /// A detached HEAD, which is listed before all branches.
    pub detached: Option<Detached>,
    /// Whether this is the list of `git branch`, which leaves `%(is-base:...)` empty.
    pub is_branch: bool,
}

/// How a ref is shown.
pub enum Layout<'p> {
    Format(&'p Format),
    /// By a format that depends on all the refs that are shown.
    OfAll(&'p dyn Fn(&[Entry]) -> Result<Format>),
}

/// A detached HEAD.
pub struct Detached {
    pub id: ObjectId,
    /// The text in place of a branch's name.
    pub description: BString,
}

/// Lists the refs of `snapshot` into `output`.
pub fn list(
    session: &Session,
    snapshot: &dyn Snapshot,
    history: &History<'_>,
    world: &mut dyn World,
    plan: &mut Plan<'_>,
    output: &mut Output,
) -> Result<()> {
    // git selects all of these refs before it shows the first, so one that cannot be judged leaves nothing shown.
    let selects_first = plan.is_branch || plan.filter.reach.asks_what_is_merged() || world.names_commits();
    let keeps = selects_first && plan.filter.judges_objects()
        || !plan.order.is_natural()
        || world.depends_on_all()
        || matches!(plan.layout, Layout::OfAll(_));
    let mut renderer = Renderer::new(world, plan.quote, plan.colors);
    let detached = plan.detached.take();
    renderer.detached = detached.as_ref().map(|head| head.description.clone());
    let mut lister = Lister {
        filters: !plan.filter.is_empty(),
        filter: &mut plan.filter,
        history,
        renderer,
        format: match plan.layout {
            Layout::Format(format) => Some(format),
            Layout::OfAll(_) => None,
        },
        output,
        omit_empty: plan.omit_empty,
        left: if plan.count == 0 { u64::MAX } else { plan.count },
        entries: Vec::new(),
        keeps,
        is_branch: plan.is_branch,
    };
    if let Some(head) = &detached
        && lister.wants("HEAD".into())
    {
        let row = Row { name: "HEAD".into(), id: &head.id, symref: None, peeled: &Peeled::Unknown };
        if lister.row(&row)?.is_break() {
            return Ok(());
        }
    }
    listing::walk(snapshot, &plan.walk, &mut lister)?;
    lister.finish(plan.order, &plan.layout, session.store.config())?;
    session.warn_of_disorder();
    Ok(())
}

/// Shows refs as they arrive, or keeps them until all are known.
struct Lister<'a, 'w> {
    filter: &'a mut Filter,
    filters: bool,
    history: &'a History<'a>,
    renderer: Renderer<'w>,
    /// The format, which is known from the start unless it depends on all refs.
    format: Option<&'a Format>,
    output: &'a mut Output,
    omit_empty: bool,
    left: u64,
    entries: Vec<Entry>,
    /// Whether refs are kept until all of them are known.
    keeps: bool,
    is_branch: bool,
}

impl Lister<'_, '_> {
    #[inline(always)]
    fn show(&mut self, format: &Format, row: &Row<'_>) -> Result<()> {
        let out = self.output.buffer();
        let start = out.len();
        if let Err(failure) = self.renderer.row(format, row, out) {
            // A row is shown as a whole or not at all.
            out.truncate(start);
            return Err(failure);
        }
        if !self.omit_empty || out.len() > start {
            out.push(b'\n');
        }
        self.output.relieve()
    }

    /// Keeps the row until all rows are known.
    #[inline(never)]
    fn take_down(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>> {
        self.entries.push(Entry::of(row));
        Ok(ControlFlow::Continue(()))
    }

    /// Shows the rows that were kept.
    fn finish(mut self, order: &Order, layout: &Layout<'_>, config: &Config) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        for row in entries.iter().map(Entry::row).filter(|_| !self.is_branch) {
            self.renderer.world.hear(row.name, row.id)?;
        }
        if !order.is_natural() {
            // HEAD precedes all branches, whatever they are sorted by.
            let heads = usize::from(self.renderer.detached.is_some() && entries.first().is_some_and(Entry::is_head));
            order.compute_values(&mut entries[heads..], &mut self.renderer)?;
            order.sort(&mut entries[heads..], config);
        }
        let made;
        let format = match layout {
            Layout::Format(format) => format,
            Layout::OfAll(make) => {
                made = make(&entries)?;
                &made
            }
        };
        let count = usize::try_from(self.left).unwrap_or(usize::MAX);
        entries.iter().take(count).try_for_each(|entry| self.show(format, &entry.row()))
    }
}

impl Visitor for Lister<'_, '_> {
    fn wants(&mut self, name: &BStr) -> bool {
        !self.filters || self.filter.name(name)
    }

    /// Returns `true`: as in git, a broken ref is reported even if no pattern matches it.
    fn wants_broken(&mut self, _: &BStr) -> bool {
        true
    }

    #[inline(always)]
    fn row(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>> {
        if self.filters && !self.filter.object(self.history, row)? {
            return Ok(ControlFlow::Continue(()));
        }
        match self.format {
            Some(format) if !self.keeps => self.show(format, row)?,
            _ => return self.take_down(row),
        }
        self.left -= 1;
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn broken(&mut self, broken: Broken<'_>) -> Result<()> {
        match broken {
            Broken::Content(name) => say("warning: ", &message!["ignoring broken ref ", name]),
            Broken::Name(name) => say("warning: ", &message!["ignoring ref with broken name ", name]),
        }
        Ok(())
    }
}
