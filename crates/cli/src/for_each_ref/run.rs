use super::{
    filter::Filter,
    history::History,
    list::{Layout, Plan, list},
    options::{COMMAND, Options, REFS_LIST},
    patterns::Patterns,
    repository::RepositoryWorld,
};
use crate::{
    Invocation,
    failure::Result,
    listing::{Ranges, Walk, follow},
    options::Command,
    output::Output,
    session::Session,
};
use bstr::ByteSlice;
use refdb::Snapshot;

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    run_as(&COMMAND, invocation)
}

/// Runs `refs list`.
pub fn run_refs_list(invocation: &Invocation<'_>) -> Result<u8> {
    run_as(&REFS_LIST, invocation)
}

fn run_as(command: &'static Command, invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, command)?;
    let mut options = Options::parse(&session, invocation, command)?;
    let mut output = Output::default();
    let result =
        output.list(&session.store, |snapshot, output| list_refs(&session, snapshot, command, &mut options, output));
    // Refs that were listed before a failure are shown.
    output.flush()?;
    result.map(|()| 0)
}

fn list_refs(
    session: &Session,
    snapshot: &dyn Snapshot,
    command: &Command,
    options: &mut Options,
    output: &mut Output,
) -> Result<()> {
    let head = follow(snapshot, "HEAD".into())?.map(|(branch, _)| branch.into());
    let history = History::of(session);
    let mut world = RepositoryWorld::new(session, snapshot, &history, head);
    let format = options.compile(command, &mut |name| world.find_base(name))?;
    let order = options.order(&mut |name| world.find_base(name))?;
    options.read_patterns()?;
    let filter = Filter {
        patterns: Patterns::new(options.patterns.clone(), options.ignore_case),
        exclude: Patterns::new(options.exclude.clone(), options.ignore_case),
        points_at: options.points_at.clone(),
        reach: options.reach.clone(),
        commits_only: false,
    };
    // With root refs, all refs are read, and only the filter applies the patterns.
    let ranges = if options.root_refs { Ranges::All } else { filter.patterns.ranges() };
    let after = options.start_after.as_ref().map(|name| name.as_bstr()).filter(|name| !name.is_empty());
    let mut plan = Plan {
        filter,
        walk: Walk { ranges: &ranges, root_refs: options.root_refs, after },
        layout: Layout::Format(&format),
        order: &order,
        quote: options.quote,
        colors: options.colors(session),
        omit_empty: options.omit_empty,
        count: options.count,
        detached: None,
        is_branch: false,
    };
    output.expect_much();
    list(session, snapshot, &history, &mut world, &mut plan, output)
}
