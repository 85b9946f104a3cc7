//! Missing objects of a partial clone: git's Documentation/technical/partial-clone.

use refdb_types::ObjectId;
use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

/// A partial clone, whose remote has promised to send missing objects.
#[derive(Debug)]
pub(super) struct Promisor {
    git_dir: PathBuf,
}

impl Promisor {
    pub(super) fn new(git_dir: PathBuf) -> Self {
        Promisor { git_dir }
    }

    /// Lets git ask the remote for the object, as git itself does when it meets a missing one. Whether it is there now.
    pub(super) fn fetch(&self, id: &ObjectId) -> bool {
        // Fetching is git's business: protocols, credentials, filters. To look at an object makes it fetch.
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&self.git_dir).args(["cat-file", "-e"]).arg(id.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}
