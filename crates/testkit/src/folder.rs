use std::{fs, path::Path};

/// The files below a folder, by their paths from there, sorted.
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
