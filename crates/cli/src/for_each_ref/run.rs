use super::{
    filter::Filter,
    format::Format,
    history::History,
    options::Options,
    patterns::{Patterns, Ranges},
    reach::Reach,
    render::{Renderer, Row},
    repository::RepositoryWorld,
    sort::{Entry, Order},
};
use crate::{
    Invocation,
    failure::{Failure, Result, WRONG_USE, fatal, message, say},
    listing::{self, Broken, Visitor, Walk},
    output::Output,
    session::{Paths, Session},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Snapshot, Target, config::Config};
use refdb_types::ObjectId;
use std::ops::ControlFlow;

/// Runs the command.
pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let (session, options) = Session::begin(invocation, Options::parse)?;
    let format = options.compile()?;
    let order = Order::new(&options.sort, options.ignore_case)?;
    let mut output = Output::default();
    let result = list(&session, &options, &format, &order, &mut output);
    // What was listed before a failure is shown.
    output.flush()?;
    result.map(|()| 0)
}

fn list(session: &Session, options: &Options, format: &Format, order: &Order, output: &mut Output) -> Result<()> {
    let mut filter = filter(session, options)?;
    let snapshot = session.store.snapshot()?;
    let head = match snapshot.get("HEAD".into()) {
        Ok(Some(Target::Symbolic(branch))) => Some(BString::from(branch)),
        _ => None,
    };
    let history = History::of(session);
    let mut world = RepositoryWorld::new(session, &*snapshot, &history, head);
    world.find_bases(format.atoms().into_iter().chain(order.atoms()))?;
    let ranges = filter.patterns.ranges();
    let walk = Walk {
        ranges: &ranges,
        root_refs: options.root_refs,
        after: options.start_after.as_ref().map(|name| name.as_bstr()).filter(|name| !name.is_empty()),
    };
    output.expect_much();
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
        paths: &session.paths,
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

fn filter(session: &Session, options: &Options) -> Result<Filter> {
    let mut points_at = Vec::new();
    for text in &options.points_at {
        match session.revisions().resolve(text.as_bstr())? {
            Some(id) => points_at.push(id),
            None => return Err(Failure::Error(message!["malformed object name '", text, "'"], WRONG_USE)),
        }
    }
    let mut reach = Reach::default();
    reach.contains = commits(session, &options.contains, WRONG_USE)?;
    reach.no_contains = commits(session, &options.no_contains, WRONG_USE)?;
    reach.merged = commits(session, &options.merged, 128)?;
    reach.no_merged = commits(session, &options.no_merged, 128)?;
    Ok(Filter {
        patterns: Patterns::new(options.patterns.clone(), options.ignore_case),
        exclude: Patterns::new(options.exclude.clone(), options.ignore_case),
        points_at,
        reach,
    })
}

/// The commits that conditions name. Git ends with different codes for different options.
fn commits(session: &Session, texts: &[BString], code: u8) -> Result<Vec<ObjectId>> {
    let fail = |message: BString| match code {
        128 => Failure::Fatal(message),
        code => Failure::Error(message, code),
    };
    let mut found = Vec::new();
    for text in texts {
        let Some(id) = session.revisions().resolve(text.as_bstr())? else {
            return Err(fail(message!["malformed object name ", text]));
        };
        match History::of(session).peel_to_commit(id)? {
            Some(commit) => found.push(commit),
            None if code == 128 => return fatal!["object '", text, "' does not point to a commit"],
            None => return Err(fail(message!["no such commit ", text])),
        }
    }
    Ok(found)
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
    paths: &'a Paths,
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

    /// Keeps the row until all can be sorted.
    #[inline(never)]
    fn take_down(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>> {
        self.entries.push(self.order.entry(row, &mut self.renderer)?);
        Ok(ControlFlow::Continue(()))
    }

    fn finish(mut self) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        self.order.sort(&mut entries, self.config);
        let count = usize::try_from(self.left).unwrap_or(usize::MAX);
        entries.iter().take(count).try_for_each(|entry| self.show(&entry.row()))
    }
}

impl Visitor for Lister<'_, '_> {
    fn wants(&mut self, name: &BStr) -> bool {
        !self.filters || self.filter.name(name)
    }

    #[inline(always)]
    fn row(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>> {
        if self.filters && !self.filter.object(self.history, row)? {
            return Ok(ControlFlow::Continue(()));
        }
        if self.sorts {
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

    fn name_of(&self, error: &refdb::Error) -> Option<BString> {
        self.paths.broken_ref(error)
    }
}
