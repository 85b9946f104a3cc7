//! Object folders beside the repository's own: those of `objects/info/alternates` and of the environment.

use crate::environment::os;
use bstr::ByteSlice;
use std::path::{Path, PathBuf};

/// Returns the folders that `GIT_ALTERNATE_OBJECT_DIRECTORIES` names, relative ones as they are given.
///
/// As in git, the entries are separated by `:`, an entry that begins with `#` is a comment, and one in double quotes
/// may contain `:` and C's escapes. Git ends a quoted entry at the byte after the closing quote, whatever that byte is.
pub(super) fn named(list: &[u8]) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let (entry, len) = match unquote(rest) {
            Some(unquoted) => unquoted,
            None => {
                let len = rest.find_byte(b':').unwrap_or(rest.len());
                let entry = if rest.starts_with(b"#") { Vec::new() } else { rest[..len].to_vec() };
                (entry, len)
            }
        };
        if !entry.is_empty() {
            folders.push(os(&entry).to_owned());
        }
        rest = rest.get(len + 1..).unwrap_or_default();
    }
    folders
}

/// Returns the text in double quotes with which `from` begins, without its quotes and escapes, and its length in
/// `from`. Returns `None` if there is none, or if it has an escape that C and git do not both know.
fn unquote(from: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut text = Vec::new();
    let mut bytes = from.strip_prefix(b"\"")?;
    loop {
        let (&byte, rest) = bytes.split_first()?;
        bytes = rest;
        match byte {
            b'"' => return Some((text, from.len() - bytes.len())),
            b'\\' => {
                let (&escape, rest) = bytes.split_first()?;
                bytes = rest;
                text.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let is_octal = |digit: &u8| matches!(digit, b'0'..=b'7');
                        let digits = bytes.get(..2).filter(|digits| digits.iter().all(is_octal))?;
                        bytes = &bytes[2..];
                        (escape - b'0') << 6 | (digits[0] - b'0') << 3 | (digits[1] - b'0')
                    }
                    _ => return None,
                });
            }
            _ => text.push(byte),
        }
    }
}

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
    fn a_list_of_object_folders_is_split_and_unquoted_as_by_git() {
        let split = |list: &str| named(list.as_bytes()).into_iter().map(|f| f.into_os_string().into_string().unwrap());
        for (list, folders) in [
            ("", vec![]),
            ("/a:b", vec!["/a", "b"]),
            (":::/a:", vec!["/a"]),
            ("#x:/a:# y", vec!["/a"]),
            ("\"/a:b\":c", vec!["/a:b", "c"]),
            ("\"/a\"x/b", vec!["/a", "/b"]),
            ("\"\\057a\\\"\\t\"", vec!["/a\"\t"]),
            ("\"/a:b", vec!["\"/a", "b"]),
            ("\"\\777\":b", vec!["\"\\777\"", "b"]),
        ] {
            assert_eq!(split(list).collect::<Vec<_>>(), folders, "{list}");
        }
    }

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
