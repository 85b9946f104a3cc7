//! `refdb branch --list` and `refdb branch --show-current`: see git-branch(1). Everything else that git-branch does is
//! left to git before refdb has changed anything or listed a branch, except that refdb refuses a new branch, or a new
//! name of one, that is too long for the repository's reftables.

use crate::{
    Invocation,
    columns::Columns,
    failure::Result,
    for_each_ref::{
        filter::Filter,
        history::History,
        list::{Detached, Layout, Plan, list},
        quote::Quote,
        repository::RepositoryWorld,
        sort::{Entry, Order},
    },
    listing::{Ranges, Walk},
    numbers,
    options::{Command, Opt, Setting, Value, Word},
    output::Output,
    session::Session,
    shortlist::{self, Wish, Words, understood},
};
use bstr::{BString, ByteSlice};
use refdb::{
    Snapshot,
    config::{Config, Value as ConfigValue},
};

// `head` finds the branch that is checked out; `layout` makes the default format of a line.
mod head;
mod layout;

use head::Head;
use layout::{Colors, Look};

pub static COMMAND: Command = Command {
    program: "git",
    name: "branch",
    about: "List branches",
    synopsis: &["[--color[=<when>] | --no-color] [--show-current]\n\
        [-v [--abbrev=<n> | --no-abbrev]]\n\
        [--column[=<options>] | --no-column] [--sort=<key>]\n\
        [--merged [<commit>]] [--no-merged [<commit>]]\n\
        [--contains [<commit>]] [--no-contains [<commit>]]\n\
        [--points-at <object>] [--format=<format>]\n\
        [(-r|--remotes) | (-a|--all)]\n\
        [--list] [<pattern>...]"],
    options: &[
        Opt::flag("verbose", "show the commit and its subject; if given twice, also the upstream branch").short(b'v'),
        shortlist::COLOR,
        Opt::flag("remotes", "list remote-tracking branches").short(b'r').fixed(),
        shortlist::CONTAINS,
        shortlist::NO_CONTAINS,
        Opt::flag("abbrev", "number of digits of object ids to show").takes(Value::Optional("n")),
        Opt::flag("all", "list local and remote-tracking branches").short(b'a').fixed(),
        shortlist::OMIT_EMPTY,
        Opt::flag("list", "list branches").short(b'l'),
        Opt::flag("show-current", "show the name of the branch that is checked out"),
        shortlist::MERGED,
        shortlist::NO_MERGED,
        shortlist::COLUMN,
        shortlist::SORT,
        Opt::flag("points-at", "show only branches that point at the object").takes(Value::Required("object")),
        shortlist::IGNORE_CASE,
        shortlist::FORMAT,
    ],
};

/// The number of spaces between columns.
const PADDING: usize = 1;

/// Which branches are listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Local,
    Remote,
    All,
}

/// The options that `branch` has and `tag` does not have.
struct Own {
    kind: Kind,
    verbose: usize,
    /// The number of digits of object ids; 0 for all, `None` if the configuration decides.
    digits: Option<u32>,
    show_current: bool,
}

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let words = understood(&COMMAND, invocation.words).filter(lists);
    let Some((words, own)) = words.and_then(|words| Own::read(&words).map(|own| (words, own))) else {
        return Err(shortlist::leave(invocation, &COMMAND));
    };
    let session = Session::open_silently(invocation.globals)?;
    let snapshot = session.store.snapshot()?;
    let head = Head::of(&*snapshot);
    let leave = || Err(shortlist::leave(invocation, &COMMAND));
    if !is_sound(session.store.config()) {
        return leave();
    }
    if head == Head::Odd {
        return leave();
    }
    if own.show_current {
        session.warn();
        return match head {
            Head::Branch(name) => show_current(name.strip_prefix(b"refs/heads/").unwrap_or(&name)),
            Head::Detached(_) | Head::Odd => Ok(0),
        };
    }
    let Some(mut wish) = Wish::read(&session, COMMAND.name, &words) else { return leave() };
    let Some(shows_colors) = wish.colors(&session, "color.branch") else { return leave() };
    let Some(colors) = Colors::of(session.store.config(), shows_colors) else { return leave() };
    if wish.columns.asked && wish.columns.are_wanted() && own.verbose > 0 {
        return leave();
    }
    session.warn();
    wish.find_objects(&session, &words)?;
    drop(snapshot);
    let columns = (wish.columns.are_wanted() && own.verbose == 0).then_some((wish.columns, PADDING));
    let look = Look { kind: own.kind, verbose: own.verbose, digits: own.digits, colors: &colors };
    shortlist::print(&session, columns, |snapshot, output| {
        print_branches(&session, snapshot, &wish, &look, shows_colors, output)
    })
}

/// Returns `true` only if git would accept the values of `core.abbrev`, `color.branch`, `color.ui`, the colors that
/// lists use, `column.ui`, `column.branch`, `branch.autoSetupMerge` and `branch.autoSetupRebase`, which it reads before
/// anything else.
fn is_sound(config: &Config) -> bool {
    let rebase = |value: ConfigValue<'_>| {
        matches!(value.raw.map(|raw| raw.as_bytes()), Some(b"never" | b"local" | b"remote" | b"always"))
    };
    let merge = |value: ConfigValue<'_>| {
        matches!(value.raw.map(|raw| raw.as_bytes()), Some(b"always" | b"inherit" | b"simple"))
            || value.boolean().is_ok()
    };
    shortlist::is_sound(config, &[])
        && shortlist::are_colors_sound(config, "color.branch")
        && Colors::of(config, false).is_some()
        && Columns::configured(config, COMMAND.name).is_some()
        && config.all("branch.autosetuprebase").all(rebase)
        && config.all("branch.autosetupmerge").all(merge)
}

/// Returns whether the command line asks either for a list, or for the branch that is checked out and nothing else.
fn lists(words: &Words<'_>) -> bool {
    let has_arguments = !shortlist::arguments(words).is_empty();
    let asks = shortlist::is_on(words, "list") || shortlist::asks_for_list(words);
    if shortlist::is_on(words, "show-current") { !asks && !has_arguments } else { asks || !has_arguments }
}

impl Own {
    /// Reads the options. Returns `None` if `--abbrev` has a value that is negative, too large or no number, so that
    /// git decides what it means.
    fn read(words: &Words<'_>) -> Option<Self> {
        let mut own = Own { kind: Kind::Local, verbose: 0, digits: None, show_current: false };
        for word in words {
            let Word::Option(opt, setting) = word else { continue };
            match (opt.name, *setting) {
                ("remotes", _) => own.kind = Kind::Remote,
                ("all", _) => own.kind = Kind::All,
                ("verbose", setting) => own.verbose = if setting.is_on() { own.verbose + 1 } else { 0 },
                ("abbrev", Setting::Value(digits)) => own.digits = Some(numbers::unsigned_int(digits)?),
                ("abbrev", Setting::Off) => own.digits = Some(0),
                ("abbrev", Setting::On) => own.digits = None,
                ("show-current", setting) => own.show_current = setting.is_on(),
                _ => {}
            }
        }
        Some(own)
    }
}

fn show_current(name: &[u8]) -> Result<u8> {
    let mut output = Output::default();
    output.buffer().extend([name, b"\n"].concat());
    output.flush()?;
    Ok(0)
}

fn print_branches(
    session: &Session,
    snapshot: &dyn Snapshot,
    wish: &Wish,
    look: &Look<'_>,
    shows_colors: bool,
    output: &mut Output,
) -> Result<()> {
    let history = History::of(session);
    let (branch, detached) = match Head::of(snapshot) {
        Head::Branch(name) => (Some(name), None),
        Head::Detached(id) if look.kind != Kind::Remote => {
            (None, Some(Detached { id, description: head::description(session, snapshot, &history, &id)? }))
        }
        _ => (None, None),
    };
    let mut world = RepositoryWorld::new(session, snapshot, &history, branch);
    let order = Order::new(&wish.sort, wish.ignore_case, &mut |name| world.find_base(name))?;
    let description = detached.as_ref().map(|head| head.description.clone());
    let of_all = |entries: &[Entry]| {
        let width = look.width(entries, description.as_ref().map(|text| text.as_bstr()));
        shortlist::format(look.format(width).as_bstr(), &mut |_| Ok(()))
    };
    let text = wish.format.clone().or_else(|| (look.verbose == 0).then(|| look.format(0)));
    let format = text.map(|text| shortlist::format(text.as_bstr(), &mut |name| world.find_base(name))).transpose()?;
    let ranges = Ranges::Prefixes(folders(look.kind));
    let filter = Filter { commits_only: look.verbose > 0, ..wish.filter() };
    let mut plan = Plan {
        filter,
        walk: Walk { ranges: &ranges, root_refs: false, after: None },
        layout: format.as_ref().map_or(Layout::OfAll(&of_all), Layout::Format),
        order: &order,
        quote: Quote::None,
        colors: shows_colors,
        omit_empty: wish.omit_empty,
        count: 0,
        detached,
        is_branch: true,
    };
    list(session, snapshot, &history, &mut world, &mut plan, output)
}

fn folders(kind: Kind) -> Vec<BString> {
    let (local, remote) = ("refs/heads/".into(), "refs/remotes/".into());
    match kind {
        Kind::Local => vec![local],
        Kind::Remote => vec![remote],
        Kind::All => vec![local, remote],
    }
}
