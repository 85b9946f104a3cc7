//! Finds the ref that `git branch` or `git tag` would create, and refuses a name that is too long for the repository's
//! reftables. Everything else is left to git, which would accept such a name and afterwards list no refs, or fill the
//! disk (docs/formats/reftable.md).

use super::{
    COLOR, COLUMN, CONTAINS, FORMAT, IGNORE_CASE, MERGED, NO_CONTAINS, NO_MERGED, OMIT_EMPTY, SORT, Words, arguments,
    asks_for_list, is_on,
};
use crate::{
    Invocation,
    failure::{Result, fatal},
    options::{Command, Opt, Parser, Value},
};
use bstr::{BString, ByteSlice};
use refdb::Store;

/// All of git's options for branches.
static BRANCH: Command = Command {
    program: "git",
    name: "branch",
    about: "List, create, or delete branches",
    synopsis: &[],
    options: &[
        Opt::flag("verbose", "").short(b'v'),
        Opt::flag("quiet", "").short(b'q'),
        Opt::flag("track", "").short(b't').takes(Value::Optional("")),
        Opt::flag("set-upstream", ""),
        Opt::flag("set-upstream-to", "").short(b'u').takes(Value::Required("")),
        Opt::flag("unset-upstream", ""),
        COLOR,
        Opt::flag("remotes", "").short(b'r').fixed(),
        CONTAINS,
        NO_CONTAINS,
        Opt::flag("with", "").takes(Value::UnlessLast("")).fixed(),
        Opt::flag("without", "").takes(Value::UnlessLast("")).fixed(),
        Opt::flag("abbrev", "").takes(Value::Optional("")),
        Opt::flag("all", "").short(b'a').fixed(),
        Opt::flag("delete", "").short(b'd'),
        Opt::letter("D", ""),
        Opt::flag("move", "").short(b'm'),
        Opt::letter("M", ""),
        OMIT_EMPTY,
        Opt::flag("copy", "").short(b'c'),
        Opt::letter("C", ""),
        Opt::flag("list", "").short(b'l'),
        Opt::flag("show-current", ""),
        Opt::flag("create-reflog", ""),
        Opt::flag("edit-description", ""),
        Opt::flag("force", "").short(b'f'),
        MERGED,
        NO_MERGED,
        COLUMN,
        SORT,
        Opt::flag("points-at", "").takes(Value::Required("")),
        IGNORE_CASE,
        Opt::flag("recurse-submodules", ""),
        FORMAT,
    ],
};

/// All of git's options for tags.
static TAG: Command = Command {
    program: "git",
    name: "tag",
    about: "Create, list, delete or verify tags",
    synopsis: &[],
    options: &[
        Opt::flag("list", "").short(b'l').fixed(),
        Opt::letter("n", "").takes(Value::Optional("")),
        Opt::flag("delete", "").short(b'd').fixed(),
        Opt::flag("verify", "").short(b'v').fixed(),
        Opt::flag("annotate", "").short(b'a'),
        Opt::flag("message", "").short(b'm').takes(Value::Required("")).fixed(),
        Opt::flag("file", "").short(b'F').takes(Value::Required("")),
        Opt::flag("trailer", "").takes(Value::Required("")),
        Opt::flag("edit", "").short(b'e'),
        Opt::flag("sign", "").short(b's'),
        Opt::flag("cleanup", "").takes(Value::Required("")),
        Opt::flag("local-user", "").short(b'u').takes(Value::Required("")),
        Opt::flag("force", "").short(b'f'),
        Opt::flag("create-reflog", ""),
        COLUMN,
        CONTAINS,
        NO_CONTAINS,
        Opt::flag("with", "").takes(Value::UnlessLast("")).fixed(),
        Opt::flag("without", "").takes(Value::UnlessLast("")).fixed(),
        MERGED,
        NO_MERGED,
        OMIT_EMPTY,
        SORT,
        Opt::flag("points-at", "").takes(Value::UnlessLast("")),
        FORMAT,
        COLOR,
        IGNORE_CASE,
    ],
};

/// Options, besides those that [`asks_for_list`] knows, with which `git branch` creates no branch.
const BRANCH_MODES: [&str; 9] =
    ["delete", "D", "list", "show-current", "edit-description", "set-upstream-to", "unset-upstream", "with", "without"];

/// Options, besides those that [`asks_for_list`] knows, with which `git tag` creates no tag.
const TAG_MODES: [&str; 6] = ["list", "n", "delete", "verify", "with", "without"];

/// Fails if the command line asks git to create a ref whose name is too long for the repository's tables. A command
/// line that cannot be parsed passes, and so does one for a repository that cannot be opened.
pub(super) fn check(invocation: &Invocation<'_>, command: &Command) -> Result<()> {
    let Some(name) = created(command.name, invocation) else { return Ok(()) };
    let Ok(store) = Store::builder_in(invocation.globals.environment()).open() else { return Ok(()) };
    if matches!(store.is_too_long(name.as_bstr()), Ok(true)) {
        return fatal!["update_ref failed for ref '", name, "': reftable: transaction failure: entry too large"];
    }
    Ok(())
}

/// Returns the full name of the ref that git is asked to create, or to which it is to move or copy a branch. Returns
/// `None` if there is no such ref, or if the command line cannot be parsed.
fn created(command: &str, invocation: &Invocation<'_>) -> Option<BString> {
    let is_branch = command == BRANCH.name;
    let words = parse(if is_branch { &BRANCH } else { &TAG }, invocation)?;
    let modes: &[&str] = if is_branch { &BRANCH_MODES } else { &TAG_MODES };
    if asks_for_list(&words) || modes.iter().any(|mode| is_on(&words, mode)) {
        return None;
    }
    let arguments = arguments(&words);
    let moves = is_branch && ["move", "M", "copy", "C"].iter().any(|mode| is_on(&words, mode));
    let name = if moves { arguments.last() } else { arguments.first() }?;
    let folder: &[u8] = if is_branch { b"refs/heads/" } else { b"refs/tags/" };
    Some([folder, name].concat().into())
}

fn parse<'w>(command: &'static Command, invocation: &Invocation<'w>) -> Option<Words<'w>> {
    let mut parser = Parser::new(command, invocation.words);
    let mut words = Vec::new();
    while let Some(word) = parser.next_word().ok()? {
        words.push(word);
    }
    Some(words)
}
