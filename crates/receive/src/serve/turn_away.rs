//! Refuses a push that git must not receive, because the names of some of its refs are too long for the repository.

use super::{
    ServeError,
    child::{Alive, Input, Output},
    long_names::TOO_LONG,
    session::Session,
};
use bstr::{BStr, BString};

impl Session<'_, '_> {
    /// Refuses all commands: those at these positions because their names are too long, and the others because only git
    /// could execute them.
    pub(super) fn refuse_too_long(&mut self, too_long: &[usize]) -> Result<(), ServeError> {
        for at in too_long {
            self.refuse(*at, TOO_LONG);
        }
        // One message suffices, because the report names each refused ref.
        if let Some(first) = too_long.first() {
            let name = self.request.commands.get(*first).name.to_owned();
            self.channel.error_about(&explained(name.as_ref()), std::iter::once(name.as_ref()))?;
        }
        let is_atomic = self.request.capabilities.atomic;
        self.refuse_all(if is_atomic { "atomic push failure" } else { "pushed with a ref whose name is too long" });
        Ok(())
    }

    /// Ends a push whose commands are all refused. No hook is called, and nothing is stored.
    pub(super) fn turn_away(mut self) -> Result<(), ServeError> {
        let failure = if self.request.commands.only_delete() { None } else { self.drop_pack()? };
        self.report(failure.as_ref().map(AsRef::as_ref))?;
        Ok(self.channel.end()?)
    }

    /// Reads and drops the pack, because clients send all of it before they read the report. Returns the reason if it
    /// cannot be read.
    fn drop_pack(&mut self) -> Result<Option<BString>, ServeError> {
        let mut git = self.limited_git("unpack-objects");
        git.words(["-n", "-q"]);
        git.words(self.max_input());
        let ended = git.run(Input::Client(self.input), Output::ErrorsToUser, Alive::AfterNul, &mut self.channel)?;
        Ok((!ended.success()).then(|| "unpack-objects abnormal exit".into()))
    }
}

fn explained(name: &BStr) -> BString {
    format!("cannot update ref '{name}': its name is too long for an index of this repository's reftables").into()
}
