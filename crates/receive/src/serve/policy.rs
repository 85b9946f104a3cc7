//! Decides whether the settings refuse a command, with the same reasons as git. All decisions are pure functions.

use crate::{
    settings::{Deny, Settings},
    wire::Command,
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{FormatOptions, check_format};

/// The result of applying a rule to a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Judgement {
    /// Error messages for the user.
    pub(super) errors: Vec<BString>,
    /// Warnings for the user.
    pub(super) warnings: Vec<&'static str>,
    /// The reason why the command is refused; `None` if it is not.
    pub(super) refusal: Option<&'static str>,
}

impl Judgement {
    fn refuse(text: &str, name: &BStr, reason: &'static str) -> Self {
        let errors = vec![[text.as_bytes(), name.as_bytes()].concat().into()];
        Judgement { errors, refusal: Some(reason), ..Judgement::default() }
    }

    fn warn(warning: &'static str) -> Self {
        Judgement { warnings: vec![warning], ..Judgement::default() }
    }

    fn advise(mut self, advice: &str) -> Self {
        self.errors.push(advice.into());
        self
    }
}

const ALLOW_CURRENT: &str = "\
The branch is checked out on the server, where the working tree would no longer match it.
There, 'git config receive.denyCurrentBranch updateInstead' changes the working tree too,
'ignore' or 'warn' let the branch move alone, and 'refuse' keeps this message away.
";

const ALLOW_DELETING_CURRENT: &str = "\
Without the branch that its HEAD names, the repository could not be cloned as usual.
There, 'git config receive.denyDeleteCurrent ignore' or 'warn' allow it,
and 'refuse' keeps this message away.
";

/// Checks whether clients may use the name of the command's ref at all.
pub(super) fn name(command: Command<'_>) -> Judgement {
    let options = FormatOptions { allow_onelevel: command.deletes(), refspec_pattern: false };
    let is_good = match command.name.strip_prefix(b"refs/") {
        None | Some(b"") => false,
        Some(rest) => check_format(rest, options).is_ok(),
    };
    if is_good {
        return Judgement::default();
    }
    let text = [&b"refusing to update funny ref '"[..], command.name.as_bytes(), b"' remotely"].concat();
    Judgement { errors: vec![text.into()], refusal: Some("funny refname"), ..Judgement::default() }
}

/// Checks whether the checked-out branch may be changed.
pub(super) fn current(command: Command<'_>, settings: &Settings) -> Judgement {
    match settings.deny_current {
        Deny::Ignore => Judgement::default(),
        Deny::Warn => Judgement::warn("updating the current branch"),
        deny => {
            let refused = Judgement::refuse(
                "refusing to update checked out branch: ",
                command.name,
                "branch is currently checked out",
            );
            if deny == Deny::Unconfigured { refused.advise(ALLOW_CURRENT) } else { refused }
        }
    }
}

/// Checks whether a ref may be deleted. `is_head` says whether HEAD leads to that ref.
pub(super) fn deletion(command: Command<'_>, settings: &Settings, is_head: bool) -> Judgement {
    if settings.deny_deletes && command.name.starts_with(b"refs/heads/") {
        return Judgement::refuse("denying ref deletion for ", command.name, "deletion prohibited");
    }
    match settings.deny_delete_current {
        _ if !is_head => Judgement::default(),
        Deny::Ignore => Judgement::default(),
        Deny::Warn => Judgement::warn("deleting the current branch"),
        deny => {
            let reason = "deletion of the current branch prohibited";
            let refused = Judgement::refuse("refusing to delete the current branch: ", command.name, reason);
            if deny == Deny::Unconfigured { refused.advise(ALLOW_DELETING_CURRENT) } else { refused }
        }
    }
}

/// Returns whether the command may only fast-forward its ref.
pub(super) fn must_be_fast_forward(command: Command<'_>, settings: &Settings) -> bool {
    let is_change = !command.old.is_null() && !command.new.is_null();
    settings.deny_non_fast_forwards && is_change && command.name.starts_with(b"refs/heads/")
}

/// Returns the refusal of a change that is not a fast-forward.
pub(super) fn no_fast_forward(command: Command<'_>) -> Judgement {
    let text = [&b"denying non-fast-forward "[..], command.name.as_bytes(), b" (you should pull first)"].concat();
    Judgement { errors: vec![text.into()], refusal: Some("non-fast-forward"), ..Judgement::default() }
}

/// Returns the reason why a command for a hidden ref is refused.
pub(super) fn hidden(command: Command<'_>) -> &'static str {
    if command.deletes() { "deny deleting a hidden ref" } else { "deny updating a hidden ref" }
}
