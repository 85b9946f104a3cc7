//! Commands that consist of subcommands: `refs list`, `reflog expire`. See gitcli(7).

use crate::{
    Invocation,
    failure::{Failure, Result, message},
    options::{Asked, Command, Parser, Word},
    output::Output,
    session::Session,
};
use std::{ffi::OsString, os::unix::ffi::OsStrExt};

/// The option table of a subcommand and the function that runs it.
pub type Entry = (&'static Command, fn(&Invocation<'_>) -> Result<u8>);

/// Subcommands that share their first word.
#[derive(Debug)]
pub struct Group {
    /// The name and the description of the group, which has no options.
    pub command: Command,
    /// The subcommands, whose names begin with the group's name.
    pub members: &'static [Entry],
    /// What runs if the first word is not the name of a subcommand.
    pub otherwise: Option<Entry>,
}

impl Group {
    /// Runs the subcommand that the first word names, or else [`Group::otherwise`]. A single word that asks for the
    /// usage or for completions is answered for the group.
    pub fn run(&'static self, invocation: &Invocation<'_>) -> Result<u8> {
        let words = invocation.words;
        let first = words.first().map(|word| word.as_bytes());
        let is_alone = words.len() == 1;
        match first {
            Some(b"-h" | b"--help-all") if is_alone => return Err(Failure::UsageAsked(None, self.usage())),
            Some(b"--git-completion-helper" | b"--git-completion-helper-all") if is_alone => {
                return self.complete(invocation);
            }
            _ => {}
        }
        let named = self.members.iter().find(|(command, _)| Some(command.last_word().as_bytes()) == first);
        match (named, &self.otherwise) {
            (Some((_, run)), _) => run(&Invocation { globals: invocation.globals, words: &words[1..] }),
            (None, Some((_, run))) => run(invocation),
            (None, None) => {
                // A missing repository is reported first.
                Session::open(invocation.globals)?;
                Err(self.no_member(words))
            }
        }
    }

    /// Returns the failure for words that name no subcommand.
    fn no_member(&'static self, words: &[OsString]) -> Failure {
        match Parser::new(&self.command, words).next_word() {
            Err(Failure::Usage(message, _)) => Failure::Usage(message, self.usage()),
            Err(Failure::UsageAsked(message, _)) => Failure::UsageAsked(message, self.usage()),
            Err(other) => other,
            Ok(Some(Word::Argument(word))) if words.first().is_some_and(|first| first.as_bytes() == *word) => {
                Failure::Usage(Some(message!["unknown subcommand: `", word, "'"]), self.usage())
            }
            Ok(_) => Failure::Usage(Some("need a subcommand".into()), self.usage()),
        }
    }

    /// Prints the names of the subcommands, for a shell's completion.
    fn complete(&self, invocation: &Invocation<'_>) -> Result<u8> {
        Session::open(invocation.globals)?;
        let names: Vec<&str> = self.members.iter().map(|(command, _)| command.last_word()).collect();
        let mut output = Output::default();
        output.buffer().extend(names.join(" ").bytes());
        output.buffer().push(b'\n');
        output.flush()?;
        Ok(0)
    }

    /// Returns the synopses of all subcommands.
    pub fn usage(&self) -> String {
        let mut text = String::new();
        for (command, _) in self.members {
            command.push_forms(&mut text);
        }
        debug_assert!(self.command.options.is_empty(), "what stands before a member is no option");
        text + &self.command.usage(Asked::Full)
    }
}
