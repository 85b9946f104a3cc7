//! Follows annotated tags that are too large to be read in this process, by asking git, whose memory is limited.

use super::{
    ServeError,
    child::{Alive, Input, Output},
    session::Session,
};
use refdb_types::ObjectId;
use std::{collections::HashSet, fmt::Write};

/// Maximum number of tags about which one process of git is asked, so that its answer stays short.
const ASKED_AT_ONCE: usize = 500;

const BEYOND_LIMIT: &str = "following its tag failed or exceeded a limit";

impl Session<'_, '_> {
    /// Follows the tags that are too large to be read, by `refdb.receiveReadLimit` or 1 MiB if that is more, to the
    /// objects that they lead to, because reftables and packed-refs store the ids of these objects. If git fails or
    /// exceeds a limit, refuses the commands for the tags that have not been followed by then, or all commands of an
    /// atomic push.
    pub(super) fn follow_large_tags(&mut self) -> Result<(), ServeError> {
        let open = (0..self.outcomes.len()).filter(|at| self.outcomes[*at].is_open());
        let ids = open.map(|at| self.request.commands.get(at).new).filter(|id| !id.is_null());
        let large = self.objects.unread_tags(ids.collect::<HashSet<_>>()).map_err(refdb::Error::from)?;
        for (at, tags) in large.chunks(ASKED_AT_ONCE).enumerate() {
            if !self.ask_about(tags)? {
                self.refuse_tags(&large[at * ASKED_AT_ONCE..])?;
                self.refuse_rest_if_atomic();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Asks git to which objects these tags lead. Returns `false` if git failed or exceeded a limit.
    fn ask_about(&mut self, tags: &[ObjectId]) -> Result<bool, ServeError> {
        let mut questions = String::new();
        for tag in tags {
            let _ = writeln!(questions, "{tag}^{{}}");
        }
        let mut git = self.limited_git("cat-file");
        git.words(["--batch-check=%(objectname)"]);
        let ended = git.run(Input::Bytes(questions.as_bytes()), Output::Wanted, Alive::Always, &mut self.channel)?;
        if !ended.success() {
            return Ok(false);
        }
        let answers = ended.output.split(|byte| *byte == b'\n');
        for (tag, answer) in tags.iter().zip(answers) {
            // Anything but an id means that the tag leads to no object.
            let to = ObjectId::from_hex(self.store.hash(), answer).ok();
            self.objects.learn_tag(tag, to).map_err(refdb::Error::from)?;
        }
        Ok(true)
    }

    /// Refuses the commands whose new values are, or lead to, one of these tags.
    fn refuse_tags(&mut self, tags: &[ObjectId]) -> Result<(), ServeError> {
        for at in 0..self.outcomes.len() {
            let new = self.request.commands.get(at).new;
            if new.is_null() {
                continue;
            }
            let unread = self.objects.unread_tags([new]).map_err(refdb::Error::from)?;
            if unread.iter().any(|tag| tags.contains(tag)) {
                self.refuse(at, BEYOND_LIMIT);
            }
        }
        Ok(())
    }
}
