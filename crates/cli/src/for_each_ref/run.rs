use super::{
    filter::Filter,
    format::Format,
    history::History,
    options::{COMMAND, Options, REFS_LIST},
    patterns::Patterns,
    render::Renderer,
    repository::RepositoryWorld,
    sort::{Entry, Order},
    world::World,
};
use crate::{
    Invocation,
    failure::{Result, message, say},
    listing::{self, Broken, Ranges, Row, Visitor, Walk},
    options::Command,
    output::Output,
    session::Session,
};
use bstr::{BStr, ByteSlice};
use refdb::{Snapshot, config::Config};
use std::ops::ControlFlow;

/// Runs the command.
pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    run_as(&COMMAND, invocation)
}

/// Runs the command under its newer name.
pub fn run_refs_list(invocation: &Invocation<'_>) -> Result<u8> {
    run_as(&REFS_LIST, invocation)
}

fn run_as(command: &'static Command, invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, command)?;
    let mut options = Options::parse(&session, invocation, command)?;
    let mut output = Output::default();
    let result = list(&session, command, &mut options, &mut output);
    // What was listed before a failure is shown.
    output.flush()?;
    result.map(|()| 0)
}

fn list(session: &Session, command: &Command, options: &mut Options, output: &mut Output) -> Result<()> {
    let snapshot = session.store.snapshot()?;
    let head = listing::follow(&*snapshot, "HEAD".into())?.map(|(branch, _)| branch.into());
    let history = History::of(session);
    let mut world = RepositoryWorld::new(session, &*snapshot, &history, head);
    let format = &options.compile(command, &mut |name| world.find_base(name))?;
    let order = &options.order(&mut |name| world.find_base(name))?;
    options.read_patterns()?;
    let mut filter = Filter {
        patterns: Patterns::new(std::mem::take(&mut options.patterns), options.ignore_case),
        exclude: Patterns::new(std::mem::take(&mut options.exclude), options.ignore_case),
        points_at: std::mem::take(&mut options.points_at),
        reach: std::mem::take(&mut options.reach),
    };
    let ranges = filter.patterns.ranges();
    let walk = Walk {
        ranges: &ranges,
        root_refs: options.root_refs,
        after: options.start_after.as_ref().map(|name| name.as_bstr()).filter(|name| !name.is_empty()),
    };
    output.expect_much();
    let keeps = !order.is_natural() || world.depends_on_all();
    let mut lister = Lister {
        filters: !filter.is_empty(),
        filter: &mut filter,
        history: &history,
        renderer: Renderer::new(&mut world, options.quote, options.colors()),
        format,
        order,
        output,
        omit_empty: options.omit_empty,
        left: if options.count == 0 { u64::MAX } else { options.count },
        entries: Vec::new(),
        sorts: !order.is_natural(),
        keeps,
        config: session.store.config(),
    };
    walk_all(&*snapshot, &walk, &mut lister)?;
    lister.finish()?;
    session.warn_of_disorder();
    Ok(())
}

/// With root refs the patterns' prefixes do not tell where they lie; there are few of them.
fn walk_all(snapshot: &dyn Snapshot, walk: &Walk<'_>, lister: &mut Lister<'_, '_>) -> Result<()> {
    let all = Ranges::All;
    let ranges = if walk.root_refs { &all } else { walk.ranges };
    listing::walk(snapshot, &Walk { ranges, ..*walk }, lister)
}

/// Shows refs as they come, or takes them down to be sorted.
struct Lister<'a, 'w> {
    filter: &'a mut Filter,
    filters: bool,
    history: &'a History<'a>,
    renderer: Renderer<'w>,
    format: &'a Format,
    order: &'a Order,
    output: &'a mut Output,
    omit_empty: bool,
    left: u64,
    entries: Vec<Entry>,
    sorts: bool,
    /// Whether refs are kept until all are known.
    keeps: bool,
    config: &'a Config,
}

impl Lister<'_, '_> {
    #[inline(always)]
    fn show(&mut self, row: &Row<'_>) -> Result<()> {
        let out = self.output.buffer();
        let start = out.len();
        if let Err(failure) = self.renderer.row(self.format, row, out) {
            // A row is shown whole or not at all.
            out.truncate(start);
            return Err(failure);
        }
        if !self.omit_empty || out.len() > start {
            out.push(b'\n');
        }
        self.output.relieve()
    }

    /// Keeps the row until all are known.
    #[inline(never)]
    fn take_down(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>> {
        self.entries.push(Entry::of(row));
        Ok(ControlFlow::Continue(()))
    }

    fn finish(mut self) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        for row in entries.iter().map(Entry::row) {
            self.renderer.world.hear(row.name, row.id)?;
        }
        if self.sorts {
            self.order.weigh(&mut entries, &mut self.renderer)?;
            self.order.sort(&mut entries, self.config);
        }
        let count = usize::try_from(self.left).unwrap_or(usize::MAX);
        entries.iter().take(count).try_for_each(|entry| self.show(&entry.row()))
    }
}

impl Visitor for Lister<'_, '_> {
    fn wants(&mut self, name: &BStr) -> bool {
        !self.filters || self.filter.name(name)
    }

    /// As git, which looks at patterns later.
    fn wants_broken(&mut self, _: &BStr) -> bool {
        true
    }

    #[inline(always)]
    fn row(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>> {
        if self.filters && !self.filter.object(self.history, row)? {
            return Ok(ControlFlow::Continue(()));
        }
        if self.keeps {
            return self.take_down(row);
        }
        self.show(row)?;
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
