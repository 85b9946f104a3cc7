use crate::{
    branch, cache, check_ref_format, check_storage, dump,
    failure::{Failure, Result},
    for_each_ref,
    globals::{Globals, Rest, USAGE},
    group::{Entry, Group},
    lab,
    options::Command,
    output::Output,
    pack_refs, receive_pack, reflog, refs, serve, show_ref, stat, symbolic_ref, tag, update_ref, upload_pack,
};
use bstr::ByteSlice;
use std::{ffi::OsString, os::unix::ffi::OsStrExt};

/// A command with its arguments.
#[derive(Debug)]
pub struct Invocation<'a> {
    /// The options in front of the command's name.
    pub globals: &'a Globals,
    /// The words after the command's name.
    pub words: &'a [OsString],
}

static ENTRIES: [Entry; 16] = [
    (&branch::COMMAND, branch::run),
    (&cache::COMMAND, cache::run),
    (&check_ref_format::COMMAND, check_ref_format::run),
    (&check_storage::COMMAND, check_storage::run),
    (&dump::COMMAND, dump::run),
    (&for_each_ref::COMMAND, for_each_ref::run),
    (&lab::COMMAND, lab::run),
    (&pack_refs::COMMAND, pack_refs::run),
    (&receive_pack::COMMAND, receive_pack::run),
    (&serve::COMMAND, serve::run),
    (&show_ref::COMMAND, show_ref::run),
    (&stat::COMMAND, stat::run),
    (&symbolic_ref::COMMAND, symbolic_ref::run),
    (&tag::COMMAND, tag::run),
    (&update_ref::COMMAND, update_ref::run),
    (&upload_pack::COMMAND, upload_pack::run),
];

static GROUPS: [&Group; 2] = [&reflog::GROUP, &refs::GROUP];

/// Returns the option tables of all commands, except for those of groups.
pub fn commands() -> impl Iterator<Item = &'static Command> {
    ENTRIES.iter().map(|(command, _)| *command)
}

/// Returns the commands that consist of subcommands.
pub fn groups() -> impl Iterator<Item = &'static Group> {
    GROUPS.into_iter()
}

/// Runs the program with the words after its name, and returns its exit code.
pub fn run(words: &[OsString]) -> u8 {
    dispatch(words).unwrap_or_else(Failure::report)
}

fn dispatch(words: &[OsString]) -> Result<u8> {
    let (globals, rest) = Globals::parse(words)?;
    let (name, words) = match rest {
        Rest::Command(name, words) => (name.as_bytes(), words),
        Rest::Help => return print(&help()).map(|()| 0),
        Rest::Nothing => return print(&help()).map(|()| 1),
        Rest::Version => return print(concat!("refdb version ", env!("CARGO_PKG_VERSION"), "\n")).map(|()| 0),
    };
    let invocation = Invocation { globals: &globals, words };
    if let Some((_, run)) = ENTRIES.iter().find(|(command, _)| command.name.as_bytes() == name) {
        return run(&invocation);
    }
    if let Some(group) = groups().find(|group| group.command.name.as_bytes() == name) {
        return group.run(&invocation);
    }
    eprintln!("refdb: '{}' is not a refdb command. See 'refdb --help'.", name.as_bstr());
    Err(Failure::Exit(1))
}

fn help() -> String {
    let mut text = format!("{USAGE}\n");
    let mut shown: Vec<&Command> = commands().chain(groups().map(|group| &group.command)).collect();
    shown.sort_by_key(|command| command.name);
    for command in shown {
        text.push_str(&format!("   {:<18}{}\n", command.name, command.about));
    }
    text
}

fn print(text: &str) -> Result<()> {
    let mut output = Output::default();
    output.buffer().extend_from_slice(text.as_bytes());
    output.flush()
}
