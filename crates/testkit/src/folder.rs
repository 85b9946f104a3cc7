use std::{fs, io, path::Path};

/// Returns the sorted paths of the files below a folder, relative to it. Links to folders are followed.
///
/// # Panics
///
/// If a folder cannot be read.
pub fn files_below(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(folder) = pending.pop() {
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("cannot list '{}': {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("the folder can be read to its end").path();
            if path.is_dir() {
                pending.push(path);
            } else {
                found.push(path.strip_prefix(dir).expect("it lies below").display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// Copies a folder with everything in it.
///
/// # Panics
///
/// If that is not possible.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    copy(from, to).unwrap_or_else(|error| panic!("cannot copy '{}': {error}", from.display()));
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
