//! Counts how the repositories below a folder store their refs and objects, loose or packed, without running git.

use std::{
    collections::BTreeMap,
    fs::{self, DirEntry, File},
    io::{BufRead, BufReader, ErrorKind},
    path::Path,
};

use anyhow::{Context, Result};

/// The numbers of refs and objects of one repository, or of the files that contain them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stock {
    /// Files below `refs/`, except for locks; 0 for a repository with reftables, which has no loose refs.
    pub loose_refs: u64,
    /// Refs in `packed-refs`.
    pub packed_refs: u64,
    /// Tables in `reftable/tables.list`.
    pub tables: u64,
    /// Pack files.
    pub packs: u64,
    /// Loose objects.
    pub loose_objects: u64,
}

/// Returns the repositories at or below `root`, by their relative paths, except for those inside the git directory of
/// another one. The search follows no symbolic links.
pub fn below(root: &Path) -> Result<BTreeMap<String, Stock>> {
    let mut found = BTreeMap::new();
    walk(root, root, &mut found).with_context(|| format!("cannot count refs and packs below '{}'", root.display()))?;
    Ok(found)
}

fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Stock>) -> Result<()> {
    if folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir() {
        let path = folder.strip_prefix(root).unwrap_or(folder).to_string_lossy();
        found.insert(if path.is_empty() { ".".to_owned() } else { path.into_owned() }, of(folder)?);
        return Ok(());
    }
    for entry in entries(folder)? {
        if entry.file_type()?.is_dir() {
            walk(root, &entry.path(), found)?;
        }
    }
    Ok(())
}

/// Returns the stock of one repository.
fn of(repository: &Path) -> Result<Stock> {
    let tables = repository.join("reftable/tables.list");
    let is_reftable = tables.exists();
    let mut stock = Stock {
        loose_refs: if is_reftable { 0 } else { files(&repository.join("refs"), |name| !name.ends_with(".lock"))? },
        packed_refs: lines(&repository.join("packed-refs"), |line| !matches!(line.first(), Some(b'#' | b'^') | None))?,
        tables: lines(&tables, |line| !line.is_empty())?,
        ..Stock::default()
    };
    for entry in entries(&repository.join("objects"))? {
        match entry.file_name().to_string_lossy().as_ref() {
            "pack" => stock.packs = files(&entry.path(), |name| name.ends_with(".pack"))?,
            name if name.len() == 2 => stock.loose_objects += files(&entry.path(), |name| !name.starts_with("tmp_"))?,
            _ => {}
        }
    }
    Ok(stock)
}

/// Returns the number of files below a folder whose names the function `counts` accepts.
fn files(folder: &Path, counts: fn(&str) -> bool) -> Result<u64> {
    let mut count = 0;
    for entry in entries(folder)? {
        if entry.file_type()?.is_dir() {
            count += files(&entry.path(), counts)?;
        } else {
            count += u64::from(counts(&entry.file_name().to_string_lossy()));
        }
    }
    Ok(count)
}

/// Returns the number of lines of a file that the function `counts` accepts. A file that does not exist has none.
fn lines(file: &Path, counts: fn(&[u8]) -> bool) -> Result<u64> {
    let mut open = match File::open(file) {
        Ok(open) => BufReader::new(open),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error).with_context(|| file.display().to_string()),
    };
    let (mut line, mut count) = (Vec::new(), 0);
    while open.read_until(b'\n', &mut line)? > 0 {
        count += u64::from(counts(line.strip_suffix(b"\n").unwrap_or(&line)));
        line.clear();
    }
    Ok(count)
}

/// Returns the entries of a folder. A folder that does not exist has none, because a program of the run may still be
/// removing files.
fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.collect::<std::io::Result<_>>()?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| folder.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, content: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    #[test]
    fn refs_tables_packs_and_objects_are_counted_in_each_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let files = [
            ("a/.git/HEAD", ""),
            ("a/.git/refs/heads/main", "1\n"),
            ("a/.git/refs/heads/deep/er", "1\n"),
            ("a/.git/refs/heads/other.lock", ""),
            ("a/.git/packed-refs", "# pack-refs with: peeled\n1 refs/tags/a\n^2\n1 refs/tags/b\n"),
            ("a/.git/objects/12/3456", ""),
            ("a/.git/objects/12/tmp_obj_x", ""),
            ("a/.git/objects/pack/pack-1.pack", ""),
            ("a/.git/objects/pack/pack-1.idx", ""),
            ("deep/b.git/HEAD", ""),
            ("deep/b.git/refs/heads", "this repository uses the reftable format\n"),
            ("deep/b.git/reftable/tables.list", "one.ref\ntwo.ref\n"),
            ("deep/b.git/objects/info/packs", ""),
            ("no-repository/HEAD", ""),
        ];
        files.iter().for_each(|(file, content)| write(root, file, content));
        std::os::unix::fs::symlink(root, root.join("no-repository/round")).unwrap();
        let a = Stock { loose_refs: 2, packed_refs: 2, tables: 0, packs: 1, loose_objects: 1 };
        let b = Stock { tables: 2, ..Stock::default() };
        let expected = BTreeMap::from([("a/.git".to_owned(), a), ("deep/b.git".to_owned(), b)]);
        assert_eq!(below(root).unwrap(), expected);
        assert_eq!(below(&root.join("a/.git")).unwrap(), BTreeMap::from([(".".to_owned(), a)]));
        assert!(below(&root.join("nowhere")).unwrap().is_empty());
    }
}
