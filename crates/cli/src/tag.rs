//! `refdb tag --list`: see git-tag(1). Everything else that git-tag does is left to git before refdb has listed a tag,
//! except that refdb refuses a new tag whose name is too long for the repository's reftables.

use crate::{
    Invocation,
    failure::Result,
    for_each_ref::{
        history::History,
        list::{Layout, Plan, list},
        quote::Quote,
        repository::RepositoryWorld,
        sort::Order,
    },
    listing::{self, Ranges, Walk},
    numbers::{self, WithUnit},
    options::{Command, Opt, Setting, Value, Word},
    output::Output,
    session::Session,
    shortlist::{self, Wish, Words, understood},
};
use bstr::{BString, ByteSlice};
use refdb::Snapshot;

pub static COMMAND: Command = Command {
    program: "git",
    name: "tag",
    about: "List tags",
    synopsis: &["[-n[<num>]] -l [--contains <commit>] [--no-contains <commit>]\n\
        [--points-at <object>] [--column[=<options>] | --no-column]\n\
        [--sort=<key>] [--format=<format>]\n\
        [--merged <commit>] [--no-merged <commit>] [<pattern>...]"],
    options: &[
        Opt::flag("list", "list tags").short(b'l').fixed(),
        Opt::letter("n", "print <n> lines of each tag message").takes(Value::Optional("n")),
        shortlist::COLUMN,
        shortlist::CONTAINS,
        shortlist::NO_CONTAINS,
        shortlist::MERGED,
        shortlist::NO_MERGED,
        shortlist::OMIT_EMPTY,
        shortlist::SORT,
        Opt::flag("points-at", "show only tags that point at the object").takes(Value::UnlessLast("object")),
        shortlist::FORMAT,
        shortlist::COLOR,
        shortlist::IGNORE_CASE,
    ],
};

/// The number of spaces between columns.
const PADDING: usize = 2;

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let words = understood(&COMMAND, invocation.words).filter(lists);
    let Some((words, lines)) = words.and_then(|words| lines(&words).map(|lines| (words, lines))) else {
        return Err(shortlist::leave(invocation, &COMMAND));
    };
    let session = Session::open_silently(invocation.globals)?;
    if !shortlist::is_sound(session.store.config(), &["tag.gpgsign", "tag.forcesignannotated"]) {
        return Err(shortlist::leave(invocation, &COMMAND));
    }
    let wish = Wish::read(&session, COMMAND.name, &words);
    let Some((mut wish, colors)) = wish.and_then(|wish| wish.colors(&session, "color.ui").map(|colors| (wish, colors)))
    else {
        return Err(shortlist::leave(invocation, &COMMAND));
    };
    if wish.columns.asked && wish.columns.are_wanted() && lines.is_some() {
        return Err(shortlist::leave(invocation, &COMMAND));
    }
    session.warn();
    wish.find_objects(&session, &words)?;
    let columns = (wish.columns.are_wanted() && lines.is_none()).then_some((wish.columns, PADDING));
    shortlist::print(&session, columns, |snapshot, output| {
        print_tags(&session, snapshot, &wish, lines, colors, output)
    })?;
    // `git tag` ignores the exit code of the git that arranges the columns.
    Ok(0)
}

/// Returns whether the command line asks for a list.
fn lists(words: &Words<'_>) -> bool {
    let has_lines = words.iter().any(|word| matches!(word, Word::Option(opt, _) if opt.name == "n"));
    let asks = shortlist::is_on(words, "list") || shortlist::asks_for_list(words) || has_lines;
    asks || shortlist::arguments(words).is_empty()
}

/// Returns the number of lines of messages that `-n` asks for, `Some(None)` if `-n` is not given, or `None` if the
/// value of `-n` is negative or not a number in the range of C's int.
fn lines(words: &Words<'_>) -> Option<Option<i32>> {
    let mut lines = None;
    for word in words {
        match word {
            Word::Option(opt, Setting::Value(value)) if opt.name == "n" => match numbers::with_unit(value) {
                WithUnit::Int(number) if number >= 0 => lines = Some(number),
                _ => return None,
            },
            Word::Option(opt, _) if opt.name == "n" => lines = Some(1),
            _ => {}
        }
    }
    Some(lines)
}

fn print_tags(
    session: &Session,
    snapshot: &dyn Snapshot,
    wish: &Wish,
    lines: Option<i32>,
    colors: bool,
    output: &mut Output,
) -> Result<()> {
    let head = listing::follow(snapshot, "HEAD".into())?.map(|(branch, _)| branch.into());
    let history = History::of(session);
    let mut world = RepositoryWorld::new(session, snapshot, &history, head);
    let order = Order::new(&wish.sort, wish.ignore_case, &mut |name| world.find_base(name))?;
    let text = wish.format.clone().unwrap_or_else(|| usual_format(lines));
    let format = shortlist::format(text.as_bstr(), &mut |name| world.find_base(name))?;
    let ranges = Ranges::Prefixes(vec!["refs/tags/".into()]);
    let mut plan = Plan {
        filter: wish.filter(),
        walk: Walk { ranges: &ranges, root_refs: false, after: None },
        layout: Layout::Format(&format),
        order: &order,
        quote: Quote::None,
        colors,
        omit_empty: wish.omit_empty,
        count: 0,
        detached: None,
        is_branch: false,
    };
    list(session, snapshot, &history, &mut world, &mut plan, output)
}

fn usual_format(lines: Option<i32>) -> BString {
    match lines.filter(|lines| *lines > 0) {
        Some(lines) => format!("%(align:15)%(refname:lstrip=2)%(end) %(contents:lines={lines})").into(),
        None => "%(refname:lstrip=2)".into(),
    }
}
