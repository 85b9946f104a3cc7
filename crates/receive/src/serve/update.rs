//! Updates the refs: checks each command by the rules and the update hook, and executes those that pass. An atomic push
//! is one transaction; any other push is one transaction for deletions and one for the rest.

use super::{
    ServeError,
    ancestry::Ancestry,
    child::{Alive, Input, Output, Program},
    policy::{self, Judgement},
    session::Session,
    spawner::Spawner,
};
use crate::wire::Command;
use bstr::{BString, ByteSlice};
use refdb::{
    Change, Edit, LogOptions, Objects, Precondition, Rejection, Resolved, Target, TransactionOptions,
    objects::ObjectKind, transaction::Mode,
};
use refdb_types::{ObjectId, RefName};
use std::{cell::RefCell, collections::HashMap, sync::Arc};

/// The data that the checks of all commands of a push share, besides the settings.
struct PushContext<'o> {
    /// The ref that HEAD resolves to.
    head: RefName,
    /// Whether HEAD's branch is checked out.
    is_checked_out: bool,
    update_hook: Vec<(Program, Option<Spawner>)>,
    message: Arc<BString>,
    /// Walks the history. `None` if replacements, grafts or a shallow boundary change it, so that git must be asked, or
    /// if non-fast-forwards are allowed.
    ancestry: Option<RefCell<Ancestry<'o>>>,
}

impl Session<'_, '_> {
    /// Executes the commands that have not been refused.
    pub(super) fn update_refs(&mut self) -> Result<(), ServeError> {
        self.check_aliases()?;
        self.follow_large_tags()?;
        let head = match self.store.resolve(&head_name()) {
            Ok(Resolved::Object { name, .. } | Resolved::Missing(name)) => name,
            // As in git, no branch is the current one then.
            Err(error) if error.is_broken_ref() => head_name(),
            Err(error) => return Err(error.into()),
        };
        let context = PushContext {
            head,
            // If `core.bare` is unset, git treats a repository that is named by its folder as bare.
            is_checked_out: self
                .store
                .config()
                .last("core.bare")
                .is_some_and(|bare| matches!(bare.boolean(), Ok(false))),
            update_hook: self.update_programs()?,
            message: Arc::new("push".into()),
            ancestry: if self.settings.deny_non_fast_forwards && !self.is_history_changed()? {
                Some(RefCell::new(Ancestry::new(self.objects, self.settings.read_max_bytes)))
            } else {
                None
            },
        };
        self.advise_of_ignored("reference-transaction");
        if self.request.capabilities.atomic {
            self.update_atomically(&context)
        } else {
            // Deletions are a transaction of their own, so that a ref can be created whose name conflicts with a
            // deleted one.
            self.update_each(&context, true)?;
            self.update_each(&context, false)
        }
    }

    fn update_atomically(&mut self, context: &PushContext<'_>) -> Result<(), ServeError> {
        let mut transaction = self.store.transaction();
        for at in 0..self.outcomes.len() {
            if !self.outcomes[at].is_open() {
                continue;
            }
            let added = match self.judge(at, context)? {
                Some(edit) => transaction.add(edit),
                None => {
                    self.refuse_all("atomic push failure");
                    return Ok(());
                }
            };
            if let Err(error) = added {
                let reason = match &error {
                    refdb::Error::Rejected(rejection) => rejection.class().as_str(),
                    _ => "failed to update ref",
                };
                self.report_error(error)?;
                self.refuse(at, reason);
                self.refuse_all("atomic push failure");
                return Ok(());
            }
        }
        if !self.can_still_be_done(|_| true)? {
            return Ok(());
        }
        self.channel.ignore_disconnect();
        if let Err(error) = transaction.commit() {
            self.report_error(error)?;
            self.refuse_all("atomic transaction failed");
        }
        Ok(())
    }

    fn update_each(&mut self, context: &PushContext, deletions: bool) -> Result<(), ServeError> {
        // Deletions come first.
        let is_left = |command: Command<'_>| deletions || !command.deletes();
        let options = TransactionOptions::new().mode(Mode::PerEdit);
        let mut transaction = self.store.transaction();
        transaction.options(options);
        // The index of the command of each edit.
        let mut commands = Vec::new();
        for at in 0..self.outcomes.len() {
            if !self.outcomes[at].is_open() || self.request.commands.get(at).deletes() != deletions {
                continue;
            }
            let Some(edit) = self.judge(at, context)? else { continue };
            match transaction.add(edit) {
                Ok(()) => commands.push(at),
                Err(error) => {
                    self.report_error(error)?;
                    self.refuse(at, if deletions { "failed to delete" } else { "failed to update ref" });
                }
            }
        }
        if commands.is_empty() || !self.can_still_be_done(is_left)? {
            return Ok(());
        }
        self.channel.ignore_disconnect();
        match transaction.commit() {
            Ok(committed) => {
                let mut reasons = HashMap::new();
                for (position, rejection) in committed.rejected {
                    self.report_rejection(&rejection)?;
                    let name = self.request.commands.get(commands[position]).name.to_owned();
                    reasons.insert(name, rejection.class().as_str());
                }
                self.refuse_names(&reasons);
            }
            Err(error) => {
                self.report_error(error)?;
                // As in git, no further transaction follows, and refs that were already deleted stay deleted.
                self.refuse_those(is_left, "failed to update refs");
            }
        }
        Ok(())
    }

    /// Refuses all commands for these names, as git does, even if one command for a name is a deletion and another is
    /// an update. A command that is refused before its turn has come is not executed.
    fn refuse_names(&mut self, reasons: &HashMap<BString, &str>) {
        if reasons.is_empty() {
            return;
        }
        for at in 0..self.outcomes.len() {
            if let Some(reason) = reasons.get(self.request.commands.get(at).name) {
                self.outcomes[at].refusal = Some((*reason).into());
            }
        }
    }

    fn report_error(&mut self, error: refdb::Error) -> Result<(), ServeError> {
        if refdb_vfs::interrupt::received().is_some() {
            return Err(error.into());
        }
        match &error {
            refdb::Error::Rejected(rejection) => self.report_rejection(rejection),
            _ => Ok(self.channel.error(error.to_string().as_bytes())?),
        }
    }

    fn report_rejection(&mut self, rejection: &Rejection) -> Result<(), ServeError> {
        Ok(self.channel.error_about(rejection.to_string().as_bytes(), rejection.names())?)
    }

    /// Checks a command and returns its edit, or `None` if the command is refused, for example by a rule, by the
    /// update hook, or because its object is missing.
    fn judge(&mut self, at: usize, context: &PushContext<'_>) -> Result<Option<Edit>, ServeError> {
        let command = self.request.commands.get(at);
        let objects = self.objects;
        let is_head = command.name == context.head.as_bstr();
        let name = policy::name(command);
        if self.pass(at, name)?.is_none() {
            return Ok(None);
        }
        let command = self.request.commands.get(at);
        if context.is_checked_out && is_head {
            let judgement = policy::current(command, self.settings);
            // This setting applies to deletions too, which another setting governs as well.
            if self.pass(at, judgement)?.is_none() {
                return Ok(None);
            }
        }
        let command = self.request.commands.get(at);
        if !command.new.is_null() && !objects.exists(&command.new).map_err(refdb::Error::from)? {
            let text = format!("unpack should have generated {}, but I can't find it!", command.new);
            self.channel.error(text.as_bytes())?;
            self.refuse(at, "bad pack");
            return Ok(None);
        }
        let judgement = if command.deletes() && !command.old.is_null() {
            policy::deletion(command, self.settings, is_head)
        } else {
            Judgement::default()
        };
        if self.pass(at, judgement)?.is_none() || !self.is_fast_forward_enough(at, context)? {
            return Ok(None);
        }
        if !self.update_hook(&context.update_hook, at)? {
            let text = [b"hook declined to update ", self.request.commands.get(at).name.as_bytes()].concat();
            self.channel.error(&text)?;
            self.refuse(at, "hook declined");
            return Ok(None);
        }
        self.edit(at, context)
    }

    /// Sends the messages of a judgement. Returns `None` if it refuses the command.
    fn pass(&mut self, at: usize, judgement: Judgement) -> Result<Option<()>, ServeError> {
        for warning in judgement.warnings {
            self.channel.warning(warning.as_bytes())?;
        }
        for error in judgement.errors {
            self.channel.error(&error)?;
        }
        Ok(match judgement.refusal {
            None => Some(()),
            Some(reason) => {
                self.refuse(at, reason);
                None
            }
        })
    }

    fn is_fast_forward_enough(&mut self, at: usize, context: &PushContext<'_>) -> Result<bool, ServeError> {
        let command = self.request.commands.get(at);
        if !policy::must_be_fast_forward(command, self.settings) {
            return Ok(true);
        }
        let (old, new, name) = (command.old, command.new, command.name.to_owned());
        for id in [old, new] {
            if self.objects.kind(&id).map_err(refdb::Error::from)? != Some(ObjectKind::Commit) {
                let text = [format!("Bad sha1 objects {old} and {new} for ").as_bytes(), &name].concat();
                self.channel.error(&text)?;
                self.refuse(at, "bad ref");
                return Ok(false);
            }
        }
        let known = context.ancestry.as_ref().and_then(|ancestry| ancestry.borrow_mut().leads_to(new, old));
        let leads_to_old = match known {
            Some(known) => known,
            None => {
                let mut git = self.limited_git("merge-base");
                git.words(["--is-ancestor".into(), old.to_string(), new.to_string()]);
                git.run(Input::Nothing, Output::ToUser, Alive::Always, &mut self.channel)?.success()
            }
        };
        if leads_to_old {
            return Ok(true);
        }
        let judgement = policy::no_fast_forward(self.request.commands.get(at));
        Ok(self.pass(at, judgement)?.is_some())
    }

    fn edit(&mut self, at: usize, context: &PushContext<'_>) -> Result<Option<Edit>, ServeError> {
        let Command { old, new, name } = self.request.commands.get(at);
        let Some(name) = RefName::new_safe(name.to_vec()) else {
            self.refuse(at, "funny refname");
            return Ok(None);
        };
        let (change, expected) = if new.is_null() {
            let expected = if exists(self.objects, &old)? {
                Precondition::MustMatch(Target::Direct(old))
            } else {
                self.warn_of_deletion(at, &name)?;
                Precondition::Any
            };
            (Change::Delete, expected)
        } else if old.is_null() {
            (Change::Set(Target::Direct(new)), Precondition::MustNotExist)
        } else {
            (Change::Set(Target::Direct(new)), Precondition::MustMatch(Target::Direct(old)))
        };
        let log = LogOptions::new().message(Some(Arc::clone(&context.message)));
        Ok(Some(Edit { name, change, expected, deref: true, log }))
    }

    /// Warns about a deletion whose old value names no object, and records whether the ref exists.
    fn warn_of_deletion(&mut self, at: usize, name: &RefName) -> Result<(), ServeError> {
        let is_there = match self.store.resolve(name) {
            Ok(resolved) => matches!(resolved, Resolved::Object { .. }),
            Err(error) if error.is_broken_ref() => true,
            Err(error) => return Err(error.into()),
        };
        self.outcomes[at].did_not_exist = !is_there;
        let text = if is_there { "allowing deletion of corrupt ref" } else { "deleting a non-existent ref" };
        Ok(self.channel.warning(text.as_bytes())?)
    }
}

fn head_name() -> RefName {
    RefName::new("HEAD").unwrap_or_else(|_| unreachable!("HEAD is a refname"))
}

fn exists(objects: &Objects, id: &ObjectId) -> Result<bool, ServeError> {
    Ok(!id.is_null() && objects.exists(id).map_err(refdb::Error::from)?)
}
