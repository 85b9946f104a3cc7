//! Summarises the refs of a repository as a program like onefetch does, in either storage format: `summary .git`.

use gix_object::{CommitRefIter, Find, Kind};
use gix_refdb::{ReferenceExt, Store};
use std::{error::Error, path::Path};

/// The summary of a repository.
#[derive(Debug, PartialEq, Eq)]
pub struct Summary {
    /// The branch that is checked out, or the object if HEAD is detached.
    pub head: String,
    /// The number of remote-tracking branches, without symbolic ones such as `origin/HEAD`.
    pub branches: usize,
    /// The number of tags.
    pub tags: usize,
    /// The tag whose commit is the newest, if any tag leads to a commit.
    pub version: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let git_dir = std::env::args_os().nth(1).ok_or("usage: summary GIT_DIR")?;
    let Summary { head, branches, tags, version } = run(Path::new(&git_dir))?;
    println!("HEAD: {head}\n{branches} branches, {tags} tags\nversion: {}", version.unwrap_or_default());
    Ok(())
}

/// Summarises the repository in this folder.
pub fn run(git_dir: &Path) -> Result<Summary, Box<dyn Error>> {
    let refs = Store::at(git_dir)?;
    let objects = gix_odb::at(refs.refdb().repository().common_dir().join("objects"), refs.object_hash())?;
    let now = refs.iter()?;
    let mut branches = 0;
    for branch in now.remote_branches()? {
        branches += usize::from(branch?.target.try_id().is_some());
    }
    let (mut tags, mut newest) = (0, None);
    for tag in now.tags()? {
        let mut tag = tag?;
        let name = tag.name.shorten().to_string();
        tags += 1;
        let id = tag.peel_to_id(&refs, &objects)?;
        let mut buffer = Vec::new();
        let object = objects.try_find(&id, &mut buffer)?.ok_or("the object was there a moment ago")?;
        if object.kind == Kind::Commit {
            let time = CommitRefIter::from_bytes(object.data, object.object_hash).committer()?.seconds();
            newest = newest.max(Some((time, name)));
        }
    }
    let head = refs.find("HEAD")?;
    let head = head.target.try_name().map_or_else(|| head.target.to_string(), |branch| branch.shorten().to_string());
    Ok(Summary { head, branches, tags, version: newest.map(|(_, name)| name) })
}
