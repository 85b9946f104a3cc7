//! Tags the commit of HEAD and lists all refs, in either storage format: `first_steps GIT_DIR TAG`.

use gix_refdb::{
    ReferenceExt, Store,
    gix_ref::transaction::{PreviousValue, RefEdit},
};
use std::{error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, git_dir, tag] = arguments.as_slice() else { return Err("usage: first_steps GIT_DIR TAG".into()) };
    for line in run(Path::new(git_dir), tag)? {
        println!("{line}");
    }
    Ok(())
}

/// Creates the tag if it does not exist; another tag of that name is an error. Returns a line for each ref.
pub fn run(git_dir: &Path, tag: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let refs = Store::at(git_dir)?;
    let id = refs.find("HEAD")?.follow_to_object(&refs)?;
    let name = format!("refs/tags/{tag}");
    let edit = RefEdit::update(name.as_str().try_into()?, id, PreviousValue::MustNotExist, "");
    refs.edit_references([edit], None)?;

    let mut lines = Vec::new();
    for found in refs.iter()?.all()? {
        let found = found?;
        lines.push(format!("{} {}", found.target, found.name.shorten()));
    }
    Ok(lines)
}
