//! A command that is made of others: `refs list`, `reflog expire`. See gitcli(7).

use crate::{
    Invocation,
    failure::{Failure, Result, message},
    options::{Asked, Command, Parser, Word},
    output::Output,
    session::Session,
};
use std::{ffi::OsString, os::unix::ffi::OsStrExt};

/// A command's table and its work.
pub type Entry = (&'static Command, fn(&Invocation<'_>) -> Result<u8>);

/// Commands that share a first word.
#[derive(Debug)]
pub struct Group {
    /// What users know of it: its name, and what it is for. It has no options.
    pub command: Command,
    /// The commands, whose names begin with the group's.
    pub members: &'static [Entry],
    /// What runs if the first word is no member's.
    pub otherwise: Option<Entry>,
}

impl Group {
    /// Runs the member that the first word names.
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
                // That there is no repository is said first.
                Session::open(invocation.globals)?;
                Err(self.no_member(words))
            }
        }
    }

    /// Why the words name no member.
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

    /// The words that may follow, for a shell that completes words.
    fn complete(&self, invocation: &Invocation<'_>) -> Result<u8> {
        Session::open(invocation.globals)?;
        let names: Vec<&str> = self.members.iter().map(|(command, _)| command.last_word()).collect();
        let mut output = Output::default();
        output.buffer().extend(names.join(" ").bytes());
        output.buffer().push(b'\n');
        output.flush()?;
        Ok(0)
    }

    /// The forms of use of all members.
    pub fn usage(&self) -> String {
        let mut text = String::new();
        for (command, _) in self.members {
            command.push_forms(&mut text);
        }
        debug_assert!(self.command.options.is_empty(), "what stands before a member is no option");
        text + &self.command.usage(Asked::Full)
    }
}
