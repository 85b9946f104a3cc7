//! `refdb stat`: statistics about a repository's refs, and what packing or compaction would gain.

mod files;
mod stack;
mod storage;

use crate::{
    Invocation,
    failure::{Failure, Result, fatal},
    listing,
    options::{Command, Opt, Parser, Word},
    output::Output,
    progress::Progress,
    session::Session,
};
use bstr::{BStr, ByteSlice};
use refdb::{BrokenRef, RefFormat, Snapshot, TargetView, backend::Peeled, files::FilesBackend};
use serde::Serialize;
use std::collections::BTreeMap;

pub static COMMAND: Command = Command {
    program: "refdb",
    name: "stat",
    about: "Count a repository's references and show how they are stored",
    synopsis: &["[--json] [--storage]"],
    options: &[
        Opt::flag("json", "print JSON"),
        Opt::flag("storage", "show what the mount of the repository means for its references, and count none"),
    ],
};

/// The whole report.
#[derive(Debug, Serialize)]
struct Report {
    format: &'static str,
    hash: &'static str,
    refs: Refs,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<files::Files>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<stack::Stack>,
}

/// The refs, however they are stored.
#[derive(Debug, Default, Serialize)]
struct Refs {
    total: u64,
    /// The number of refs by the first two components of their names.
    by_prefix: BTreeMap<String, u64>,
    symbolic: u64,
    dangling: u64,
    /// The number of annotated tags whose peeled objects are stored beside the refs.
    peeled: u64,
    /// The number of refs, and of folders of refs, that are broken or cannot be read; `total` does not include them.
    broken: u64,
    /// The first [`BROKEN_NAMED_MAX`] of the refs and folders that `broken` counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    broken_refs: Vec<BrokenFile>,
    with_reflog: u64,
}

/// A ref, or a folder of refs, that is broken or cannot be read.
#[derive(Debug, Serialize)]
struct BrokenFile {
    name: String,
    path: String,
    why: String,
}

/// Maximum number of broken refs and folders that are listed by name.
const BROKEN_NAMED_MAX: usize = 100;

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let mut parser = Parser::new(&COMMAND, invocation.words);
    let (mut json, mut storage) = (false, false);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(_) => return Err(COMMAND.wrong_use(None)),
            Word::Option(opt, setting) => match opt.name {
                "json" => json = setting.is_on(),
                "storage" => storage = setting.is_on(),
                _ => opt.unread(),
            },
        }
    }
    let session = Session::open(invocation.globals)?;
    if storage {
        let storage = storage::look(session.store.repository())?;
        return print(json.then_some(&storage), || storage.text());
    }
    let progress = Progress::start("Counting refs");
    let report = report(&session)?;
    progress.finish();
    session.warn_of_disorder();
    print(json.then_some(&report), || report.text())
}

/// Prints a report as JSON, or else as text.
fn print(json: Option<&impl Serialize>, text: impl FnOnce() -> String) -> Result<u8> {
    let mut output = Output::default();
    match json.map(serde_json::to_vec_pretty) {
        Some(Ok(json)) => output.buffer().extend_from_slice(&[json.as_slice(), b"\n"].concat()),
        Some(Err(error)) => return fatal![error.to_string()],
        None => output.buffer().extend_from_slice(text().as_bytes()),
    }
    output.flush()?;
    Ok(0)
}

fn report(session: &Session) -> Result<Report> {
    let repository = session.store.repository();
    let (files, stack) = match repository.ref_format() {
        RefFormat::Files => {
            let Some(backend) = session.store.backend_as::<FilesBackend>() else {
                return fatal!["the refs are no files"];
            };
            (Some(files::look(repository, backend)?), None)
        }
        RefFormat::Reftable => (None, Some(stack::look(repository, session.store.settings())?)),
    };
    Ok(Report {
        format: if files.is_some() { "files" } else { "reftable" },
        hash: repository.hash().name(),
        refs: session.store.read(Failure::is_lost, count)?,
        files,
        stack,
    })
}

fn count(snapshot: &dyn Snapshot) -> Result<Refs> {
    let mut refs = Refs::default();
    let mut cursor = snapshot.cursor(false)?;
    loop {
        let view = match cursor.next() {
            Ok(Some(view)) => view,
            Ok(None) => break,
            Err(refdb::Error::BrokenRef(broken)) => {
                refs.broken += 1;
                if refs.broken_refs.len() < BROKEN_NAMED_MAX {
                    refs.broken_refs.push(BrokenFile::of(&broken));
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        refs.total += 1;
        refs.peeled += u64::from(matches!(view.peeled, Peeled::To(_)));
        if let TargetView::Symbolic(target) = view.target {
            refs.symbolic += 1;
            refs.dangling += u64::from(listing::follow_target(snapshot, target)?.is_none());
        }
        let prefix = prefix_of(view.name);
        match refs.by_prefix.get_mut(prefix) {
            Some(count) => *count += 1,
            None => {
                refs.by_prefix.insert(prefix.to_owned(), 1);
            }
        }
    }
    refs.with_reflog = snapshot.log_names()?.len() as u64;
    Ok(refs)
}

impl BrokenFile {
    fn of(broken: &BrokenRef) -> Self {
        BrokenFile {
            name: broken.name.to_string(),
            path: broken.path.display().to_string(),
            why: broken.why.to_string(),
        }
    }
}

/// Returns the first two components of a name: `refs/heads/` for `refs/heads/a/b`.
fn prefix_of(name: &BStr) -> &str {
    let end = name.find_iter("/").nth(1).map_or(name.len(), |slash| slash + 1);
    name[..end].to_str().unwrap_or("(not UTF-8)")
}

impl Report {
    fn text(&self) -> String {
        let mut text = format!("format: {}, {}\nrefs: {}\n", self.format, self.hash, self.refs.total);
        for (prefix, count) in &self.refs.by_prefix {
            text.push_str(&format!("  {prefix}: {count}\n"));
        }
        for (what, count) in [
            ("symbolic", self.refs.symbolic),
            ("dangling", self.refs.dangling),
            ("peeled tags", self.refs.peeled),
            ("broken", self.refs.broken),
            ("with a reflog", self.refs.with_reflog),
        ] {
            if count > 0 {
                text.push_str(&format!("{what}: {count}\n"));
            }
        }
        for BrokenFile { name, path, why } in &self.refs.broken_refs {
            text.push_str(&format!("  {name} is broken: {path}: {why}\n"));
        }
        if let Some(files) = &self.files {
            text.push_str(&files.text());
        }
        if let Some(stack) = &self.stack {
            text.push_str(&stack.text());
        }
        text
    }
}

/// Formats bytes for people.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_for_people() {
        for (count, expected) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (99 << 20, "99.0 MiB")] {
            assert_eq!(bytes(count), expected);
        }
    }

    #[test]
    fn refs_are_counted_by_their_first_two_components() {
        for (name, expected) in [("refs/heads/a/b", "refs/heads/"), ("refs/stash", "refs/stash"), ("HEAD", "HEAD")] {
            assert_eq!(prefix_of(name.into()), expected);
        }
    }
}
