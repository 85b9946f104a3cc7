//! Answers the coordinator's questions about repositories on a host. Each client has views of its own, as a server has.

use bstr::BStr;
use refdb::{
    Change, Edit, Error, Misuse, Precondition, TargetView,
    backend::OptimizeOptions,
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_refcache::{Batch, ListOptions, View, ViewSettings, Views, ViewsSettings};
use refdb_types::{HashKind, ObjectId, RefName, Target};
use std::{collections::HashMap, path::Path, sync::Arc};

/// The text of an answer, or of an error.
pub(super) type Answer = Result<String, String>;

/// Takes every id for that of a commit, because the repositories have no objects.
struct Commits;

impl ObjectCheck for Commits {
    fn classify(&self, _: &ObjectId) -> Result<ObjectClass, refdb::ObjectError> {
        Ok(ObjectClass::Commit)
    }
}

/// A client's open repositories.
#[derive(Default)]
pub(super) struct Client {
    views: HashMap<String, (Views, Arc<View>)>,
}

impl Client {
    /// Answers a question: `VERB GIT_DIR ARGUMENT...`.
    pub(super) fn answer(&mut self, words: &[&str]) -> Answer {
        match words {
            ["close", git_dir] => {
                self.views.remove(*git_dir);
                Ok("closed".into())
            }
            // The repository is opened without `refdb.unsafeStorage`, so that refdb refuses here what it refuses to a
            // server by default.
            ["try", git_dir, name] => {
                let (_, view) = open(git_dir, &[])?;
                match swap(&view, &[name, "0", "1"]) {
                    Err(error) => match error.store() {
                        Some(Error::Misuse(Misuse::UnsafeStorage { why, .. })) => Ok(format!("refuses: {why}")),
                        _ => Err(error.to_string()),
                    },
                    Ok(()) => Ok("writes".into()),
                }
            }
            ["get", git_dir, name] => get(self.view(git_dir)?, name),
            ["list", git_dir] => list(self.view(git_dir)?),
            ["set", git_dir, swaps @ ..] => outcome(swap(self.view(git_dir)?, swaps)),
            ["pack", git_dir] => {
                let all = OptimizeOptions::new().all(true);
                self.view(git_dir)?.optimize(&all).map(|_| "ok".into()).map_err(|error| error.to_string())
            }
            _ => Err(format!("unknown question '{}'", words.join(" "))),
        }
    }

    fn view(&mut self, git_dir: &str) -> Result<&View, String> {
        if !self.views.contains_key(git_dir) {
            let opened = open(git_dir, &["refdb.unsafeStorage=true"])?;
            self.views.insert(git_dir.to_owned(), opened);
        }
        Ok(&self.views[git_dir].1)
    }
}

fn open(git_dir: &str, config: &[&str]) -> Result<(Views, Arc<View>), String> {
    let mut all = vec!["user.name=refdb".into(), "user.email=refdb@localhost".into()];
    all.extend(config.iter().map(|setting| (*setting).into()));
    let settings = ViewSettings::new().config(all).objects(Some(Arc::new(Commits)));
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(Path::new(git_dir), &settings).map_err(|error| error.to_string())?;
    Ok((views, view))
}

fn get(view: &View, name: &str) -> Answer {
    let found = view.resolve(BStr::new(name)).map_err(|error| error.to_string())?.found;
    Ok(found.and_then(|found| found.target.id()).map_or(0, |id| value_of(id.as_bytes())).to_string())
}

/// Returns `NAME VALUE` for each branch.
fn list(view: &View) -> Answer {
    let text = |error: refdb_refcache::Error| error.to_string();
    let mut listing = view.list(&ListOptions::new().prefixes(vec!["refs/heads/".into()])).map_err(text)?;
    let mut words = Vec::new();
    while let Some(row) = listing.next().map_err(text)? {
        let TargetView::Direct(id) = row.target else { return Err(format!("{} is symbolic", row.name)) };
        words.push(format!("{} {}", row.name, value_of(id.as_bytes())));
    }
    Ok(words.join(" "))
}

/// Changes refs in one atomic batch. The words are `NAME OLD NEW` for each ref, where 0 stands for no value.
fn swap(view: &View, words: &[&str]) -> refdb_refcache::Result<()> {
    let edits: Option<Vec<Edit>> = words.chunks(3).map(edit).collect();
    let bad = || refdb_refcache::Error::Store(Error::Misuse(Misuse::BadId(words.join(" "))));
    view.commit(&Batch::atomic(edits.ok_or_else(bad)?)).map(drop)
}

fn edit(swap: &[&str]) -> Option<Edit> {
    let &[name, old, new] = swap else { return None };
    let (old, new): (u64, u64) = (old.parse().ok()?, new.parse().ok()?);
    let change = if new == 0 { Change::Delete } else { Change::Set(Target::Direct(id_of(new)?)) };
    let expected =
        if old == 0 { Precondition::MustNotExist } else { Precondition::MustMatch(Target::Direct(id_of(old)?)) };
    Some(Edit::new(RefName::new(name).ok()?, change, expected))
}

fn outcome(result: refdb_refcache::Result<()>) -> Answer {
    let Err(error) = result else { return Ok("done".into()) };
    match error.store() {
        Some(Error::Rejected(_) | Error::Lock(_) | Error::StackLocked(_)) => Ok(format!("refused: {error}")),
        _ => Err(error.to_string()),
    }
}

/// Returns the object id that stands for a value.
fn id_of(value: u64) -> Option<ObjectId> {
    ObjectId::from_hex(HashKind::Sha1, format!("{value:040x}").as_bytes()).ok()
}

fn value_of(id: &[u8]) -> u64 {
    id.iter().rev().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}
