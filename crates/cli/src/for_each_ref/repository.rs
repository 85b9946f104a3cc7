//! The world of a real repository.

use super::{
    atom::Direction,
    bases::Base,
    history::History,
    questions::{Answers, Question},
    remote::{Counterpart, Remotes},
    trailers::TrailerRules,
    world::{ObjectKind, World},
};
use crate::{
    clock::Clock,
    failure::{Result, fatal, message, say},
    listing::follow,
    names::{self, ShortNames},
    revision::strict_names,
    session::Session,
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{RefFormat, Snapshot};
use refdb_types::{ObjectId, Scope};
use refdb_vfs::{Fs, plain_path};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The world of a real repository. What only some fields need is looked up when it is first needed.
pub struct RepositoryWorld<'a> {
    session: &'a Session,
    snapshot: &'a dyn Snapshot,
    history: &'a History<'a>,
    short_names: Option<ShortNames<'a>>,
    head: Option<BString>,
    remotes: OnceCell<Remotes>,
    worktrees: OnceCell<BTreeMap<BString, PathBuf>>,
    clock: Clock<'a>,
    /// The commits that `%(ahead-behind:...)` and `%(is-base:...)` name, by these names.
    bases: BTreeMap<BString, ObjectId>,
    /// The history of each commit that `%(is-base:...)` names, and the nearest ref so far, by that name.
    begun: BTreeMap<BString, Base>,
    answers: Answers<'a>,
    trailer_rules: OnceCell<TrailerRules>,
    /// The fields whose commits were looked up.
    asked: BTreeSet<BString>,
}

impl<'a> RepositoryWorld<'a> {
    /// Makes the world for listing `snapshot`. `head` is what [`World::head`] returns.
    pub fn new(
        session: &'a Session,
        snapshot: &'a dyn Snapshot,
        history: &'a History<'a>,
        head: Option<BString>,
    ) -> Self {
        let (remotes, worktrees) = (OnceCell::new(), OnceCell::new());
        RepositoryWorld {
            session,
            snapshot,
            history,
            short_names: None,
            head,
            remotes,
            worktrees,
            clock: Clock::of(session.store.environment()),
            bases: BTreeMap::new(),
            begun: BTreeMap::new(),
            answers: Answers::new(session.store.environment()),
            trailer_rules: OnceCell::new(),
            asked: BTreeSet::new(),
        }
    }

    /// Finds the commit that a field names, once for each field.
    ///
    /// # Errors
    ///
    /// Fails if there is no commit of that name, or if objects cannot be read.
    pub fn find_base(&mut self, field: &BStr) -> Result<()> {
        if !self.asked.insert(field.to_owned()) {
            return Ok(());
        }
        let (kind, name) = field.split_once_str(":").unwrap_or((b"", field));
        let name = name.as_bstr();
        let found = self.session.revisions().resolve(name)?;
        if let Some(id) = found
            && let Some(commit) = self.history.named_commit(id)?
        {
            if kind.ends_with(b"is-base") {
                self.begun.insert(name.to_owned(), Base::of(self.history, commit)?);
            }
            self.bases.insert(name.to_owned(), commit);
            return Ok(());
        }
        fatal!["failed to find '", name, "'"]
    }

    /// Returns the working trees by the branches that are checked out there.
    fn checked_out(&self) -> Result<BTreeMap<BString, PathBuf>> {
        let repository = self.session.store.repository();
        let mut found = BTreeMap::new();
        let mut note = |head: &str, path: PathBuf| {
            // A worktree whose HEAD is broken or detached has no branch checked out.
            if let Ok(Some((branch, _))) = follow(self.snapshot, head.into())
                && branch.starts_with(b"refs/heads/")
            {
                // If a branch is checked out several times, git shows the last working tree.
                found.insert(branch.into(), path);
            }
        };
        note("main-worktree/HEAD", without_git(repository.common_dir()));
        let worktrees = match repository.worktrees(&Fs::real()) {
            Ok(worktrees) => worktrees,
            Err(error) => return fatal!["cannot list the worktrees: ", error.to_string()],
        };
        for worktree in worktrees {
            let Ok(text) = std::fs::read(worktree.git_dir.join("gitdir")) else { continue };
            let path = worktree.git_dir.join(text.trim_end().to_path_lossy());
            note(&format!("worktrees/{}/HEAD", worktree.id), without_git(&path));
        }
        Ok(found)
    }
}

/// Reads the configuration of remotes, and the files that describe some of them in very old repositories.
fn remotes(session: &Session) -> Remotes {
    let config = session.store.config();
    let mut remotes = Remotes::new(config);
    let default_branch = config.last("init.defaultbranch").and_then(|value| value.raw).unwrap_or(BStr::new("master"));
    let read = |folder: &str, name: &BStr| {
        std::fs::read(session.paths.common_dir.join(folder).join(name.to_path_lossy())).ok()
    };
    for file in remotes.add_files(default_branch, &read) {
        let name = file.split_once_str("/").map_or(&file[..], |(_, name)| name).as_bstr();
        let message = message![
            "reading remote from \"",
            file,
            "\", which is nominated for removal.\n\nIf you still use the \"remotes/\" directory it is recommended to\n\
             migrate to config-based remotes:\n\n\tgit remote rename ",
            name,
            " ",
            name,
            "\n\nIf you cannot, please let us know why you still need to use it by\nsending an e-mail to \
             <git@vger.kernel.org>."
        ];
        say("warning: ", &message);
    }
    remotes
}

/// Returns the folder of a working tree from the path of its `.git`, and a path with another last component as it is.
/// The result is absolute and without `..`, even if it does not exist any more.
fn without_git(path: &Path) -> PathBuf {
    let path = plain_path(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    match path.parent() {
        Some(parent) if path.file_name().is_some_and(|name| name == ".git") => parent.to_owned(),
        _ => path,
    }
}

impl World for RepositoryWorld<'_> {
    fn kind(&mut self, id: &ObjectId) -> Result<Option<ObjectKind>> {
        Ok(self.history.objects()?.kind(id)?)
    }

    fn header(&mut self, id: &ObjectId) -> Result<Option<(ObjectKind, u64)>> {
        Ok(self.history.objects()?.header(id)?.map(|header| (header.kind, header.size_bytes)))
    }

    fn read(&mut self, id: &ObjectId, data: &mut Vec<u8>) -> Result<Option<ObjectKind>> {
        Ok(self.history.objects()?.content(id, data)?)
    }

    fn grafted(&self, commit: &ObjectId) -> Option<&[ObjectId]> {
        self.history.grafted(commit)
    }

    fn abbreviate(&mut self, id: &ObjectId, least: Option<usize>) -> Result<usize> {
        self.session.abbreviate(id, least)
    }

    fn shorten<'n>(&mut self, name: &'n BStr) -> Result<&'n BStr> {
        let short_names = match &mut self.short_names {
            Some(known) => known,
            none => none.insert(ShortNames::new(self.snapshot, strict_names(&self.session.store)?)),
        };
        short_names.shorten(name)
    }

    fn head(&self) -> Option<&BStr> {
        self.head.as_ref().map(|head| head.as_bstr())
    }

    fn counterpart(&mut self, side: Direction, name: &BStr) -> Counterpart {
        let remotes = self.remotes.get_or_init(|| remotes(self.session));
        let expand = &mut |short: &BStr| names::expand(self.snapshot, short);
        match side {
            Direction::Upstream => remotes.upstream(name, expand),
            Direction::Push => remotes.push(name, expand),
        }
    }

    fn ahead_behind(&mut self, id: &ObjectId, other: &BStr) -> Result<Option<(usize, usize)>> {
        let Some((_, other)) = follow(self.snapshot, other)? else { return Ok(None) };
        match (self.history.peel_to_commit(*id)?, self.history.peel_to_commit(other)?) {
            (Some(one), Some(two)) => Ok(Some(self.history.ahead_behind(one, two)?)),
            _ => Ok(None),
        }
    }

    fn ahead_behind_base(&mut self, id: &ObjectId, base: &BStr) -> Result<Option<(usize, usize)>> {
        match (self.bases.get(base), self.history.named_commit(*id)?) {
            (Some(base), Some(commit)) => Ok(Some(self.history.ahead_behind(commit, *base)?)),
            _ => Ok(None),
        }
    }

    fn names_commits(&self) -> bool {
        !self.bases.is_empty()
    }

    fn depends_on_all(&self) -> bool {
        !self.begun.is_empty()
    }

    fn hear(&mut self, name: &BStr, id: &ObjectId) -> Result<()> {
        if !self.begun.is_empty()
            && let Some(commit) = self.history.listed_commit(*id)?
        {
            self.begun.values_mut().try_for_each(|base| base.hear(self.history, name, commit))?;
        }
        Ok(())
    }

    fn is_base(&self, name: &BStr, base: &BStr) -> bool {
        self.begun.get(base).is_some_and(|base| base.is(name))
    }

    fn ask(&mut self, question: &Question) -> Result<BString> {
        self.answers.ask(question)
    }

    fn trailer_rules(&mut self) -> &TrailerRules {
        self.trailer_rules.get_or_init(|| TrailerRules::of(self.session.store.config()))
    }

    fn worktree(&mut self, name: &BStr) -> Result<Option<&BStr>> {
        if self.worktrees.get().is_none() {
            let found = self.checked_out()?;
            self.worktrees.get_or_init(|| found);
        }
        let path = self.worktrees.get().and_then(|found| found.get(name));
        Ok(path.map(|path| path.as_os_str().as_bytes().as_bstr()))
    }

    fn is_packed(&self, name: &BStr) -> bool {
        // A loose file hides the entry in packed-refs.
        let folder = match Scope::of(name) {
            Scope::Worktree => &self.session.paths.git_dir,
            _ => &self.session.paths.common_dir,
        };
        let path = folder.join(name.to_path_lossy());
        let is_loose = || std::fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir());
        self.session.store.repository().ref_format() == RefFormat::Files && name.starts_with(b"refs/") && !is_loose()
    }

    fn clock(&self) -> &Clock<'_> {
        &self.clock
    }
}
