use std::path::{Path, PathBuf};

/// Returns the object folders that `objects/info/alternates` names, in its order.
///
/// Returns `None` if git and gitoxide could interpret the file differently: a folder does not exist, or has alternates
/// of its own, whose relative paths the two resolve against different folders. Returns `None`, too, if the file cannot
/// be read or, for example, the current folder is unknown.
pub(super) fn alternates(objects: &Path) -> Option<Vec<PathBuf>> {
    let here = std::env::current_dir().ok()?;
    let folders = gix_odb::alternate::resolve(objects.to_owned(), &here).ok()?;
    let is_plain = |folder: &PathBuf| folder.is_dir() && !folder.join("info/alternates").exists();
    folders.iter().all(is_plain).then_some(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_level_of_alternates_is_understood_and_no_more() {
        let temp = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = temp.path().join(name);
            std::fs::create_dir_all(folder.join("info")).unwrap();
            folder
        };
        let (ours, one, two) = (folder("ours"), folder("one"), folder("t wo"));
        assert_eq!(alternates(&ours), Some(Vec::new()));
        let name = |text: String| std::fs::write(ours.join("info/alternates"), text).unwrap();
        name(format!("# a comment\n../one\n\n\"{}\"\n", two.display()));
        let real = |folders: Option<Vec<PathBuf>>| {
            folders.map(|all| all.iter().map(|one| one.canonicalize().unwrap()).collect())
        };
        assert_eq!(real(alternates(&ours)), Some(vec![one.canonicalize().unwrap(), two.canonicalize().unwrap()]));
        name("../one\n../gone\n".into());
        assert_eq!(alternates(&ours), None);
        name("../one\n".into());
        std::fs::write(one.join("info/alternates"), "../t wo\n").unwrap();
        assert_eq!(alternates(&ours), None);
        std::fs::write(one.join("info/alternates"), "../ours\n").unwrap();
        assert_eq!(alternates(&ours), None);
    }
}
