//! Missing objects of a partial clone: git's Documentation/technical/partial-clone.

use crate::{Environment, real_git};
use refdb_types::ObjectId;
use std::{path::PathBuf, process::Stdio};

/// A partial clone, whose remote has promised to send missing objects.
#[derive(Debug)]
pub(super) struct Promisor {
    git_dir: PathBuf,
    environment: Environment,
}

impl Promisor {
    pub(super) fn new(git_dir: PathBuf, environment: Environment) -> Self {
        Promisor { git_dir, environment }
    }

    /// Lets git fetch the object from the remote. Returns whether the object exists afterwards. Blocks until git has
    /// finished.
    pub(super) fn fetch(&self, id: &ObjectId) -> bool {
        // Fetching, with its protocols, credentials and filters, is left to git, which fetches a missing object when
        // it is asked whether that object exists.
        let mut command = real_git::command(&self.environment);
        command.arg("--git-dir").arg(&self.git_dir).args(["cat-file", "-e"]).arg(id.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}
