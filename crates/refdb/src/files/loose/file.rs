use super::listing::Rivals;
use crate::{LooseError, Result, TargetView};
use bstr::{BStr, ByteSlice};
use refdb_types::{
    FormatOptions, HashKind, ObjectId, RefName, Target, check_format,
    space::{is_space, trim},
};
use refdb_vfs::{File, Fs};
use std::{os::unix::ffi::OsStrExt, path::Path};

/// The content of a loose ref's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LooseRef<'a> {
    /// The ref points to an object.
    Direct(ObjectId),
    /// The ref is symbolic. The name has not been checked.
    Symbolic(&'a BStr),
}

/// Parses a loose ref as git does: `ref:`, white space and a name, or an object id. White space after the name is
/// ignored, and so is white space after the id with everything that follows it (`git refs verify` reports both). A zero
/// byte after the name or the id counts as its end, as in a file whose end was not written before a loss of power.
pub fn parse(hash: HashKind, content: &[u8]) -> std::result::Result<LooseRef<'_>, LooseError> {
    if let Some(rest) = content.strip_prefix(b"ref:") {
        let rest = rest.find_byte(0).map_or(rest, |end| &rest[..end]);
        return Ok(LooseRef::Symbolic(trim(rest).as_bstr()));
    }
    if content.is_empty() {
        return Err(LooseError::Empty);
    }
    let broken = || LooseError::Content(hash.len_hex());
    let (hex, rest) = content.split_at_checked(hash.len_hex()).ok_or_else(broken)?;
    let id = ObjectId::from_hex(hash, hex).map_err(|_| broken())?;
    if rest.first().is_none_or(|byte| is_space(byte) || *byte == 0) { Ok(LooseRef::Direct(id)) } else { Err(broken()) }
}

/// What exists at a loose ref's path.
#[derive(Debug)]
pub enum At<'a> {
    /// No file, a name too long for one, or a symbolic link that is no symbolic ref and leads nowhere.
    Missing,
    /// A folder.
    Folder,
    /// A ref.
    Ref(LooseRef<'a>),
    /// A file that cannot be read or parsed.
    Broken(LooseError),
}

/// The longest content that is read, in bytes; no path, and so no symbolic ref, is longer.
const CONTENT_LEN_MAX: usize = 8192;
const CONTENT_LEN_USUAL: usize = 512;

/// How many times a missing file that another machine may be replacing is looked for again, at intervals of 2 ms, and a
/// symbolic link that was replaced is read again.
pub(crate) const REPLACED_LOOKS_MAX: usize = 50;

/// Opens a loose ref's file. With [`Rivals::Possible`], waits for a file that another machine may be replacing, for
/// about 0.1 seconds at most.
fn open(fs: &Fs, path: &Path, rivals: Rivals) -> refdb_vfs::Result<File> {
    let mut looks_left = if rivals == Rivals::Possible { REPLACED_LOOKS_MAX } else { 0 };
    loop {
        match fs.open_no_follow(path) {
            Err(error) if error.is_not_found() && looks_left > 0 && fs.is_being_replaced(path) => looks_left -= 1,
            opened => return opened,
        }
    }
}

/// Reads what exists at a loose ref's path. `buffer` is working memory that can be reused for the next call.
///
/// # Errors
///
/// Fails on an I/O error, for instance if the disk fails or too many files are open. A file that this user may not
/// read, and a pipe, socket or device, is [`At::Broken`] instead.
pub fn read<'a>(fs: &Fs, hash: HashKind, path: &Path, rivals: Rivals, buffer: &'a mut Vec<u8>) -> Result<At<'a>> {
    let mut looks_left = REPLACED_LOOKS_MAX;
    let file = loop {
        match open(fs, path, rivals) {
            Ok(file) => break file,
            // A name that is too long for a file has no ref. A writer gets the error when it creates the lock.
            Err(error) if error.is_not_found() || error.is_too_long() => return Ok(At::Missing),
            // Very old versions of git made HEAD a symbolic link, and core.preferSymlinkRefs still does.
            Err(error) if error.is_symlink() => match fs.find_link_content(path)? {
                Some(content) if is_symbolic_ref(&content) => {
                    buffer.clear();
                    buffer.extend_from_slice(content.as_os_str().as_bytes());
                    return Ok(At::Ref(LooseRef::Symbolic(buffer.as_slice().as_bstr())));
                }
                // The link was removed, or replaced by a file. If there is a link again by now, following that one
                // would show the value of another ref.
                None if looks_left > 0 => looks_left -= 1,
                _ => match fs.open(path) {
                    Ok(file) => break file,
                    Err(error) if error.is_not_found() => return Ok(At::Missing),
                    Err(error) => return unread(fs, path, error),
                },
            },
            Err(error) => return unread(fs, path, error),
        }
    };
    buffer.resize(buffer.len().clamp(CONTENT_LEN_USUAL, CONTENT_LEN_MAX), 0);
    let mut len = match file.read_at(buffer, 0) {
        Err(error) if error.is_folder() => return Ok(At::Folder),
        Err(error) => return unread(fs, path, error),
        Ok(len) => len,
    };
    if len == buffer.len() {
        buffer.resize(CONTENT_LEN_MAX, 0);
        len += file.read_at(&mut buffer[len..], len as u64)?;
    }
    Ok(match parse(hash, &buffer[..len]) {
        Ok(content) => At::Ref(content),
        Err(error) => At::Broken(error),
    })
}

/// Returns what is at a path that cannot be read: a folder that this user may not list is no broken ref.
fn unread<'a>(fs: &Fs, path: &Path, error: refdb_vfs::Error) -> Result<At<'a>> {
    if error.is_forbidden() && fs.find(path).is_ok_and(|found| found.is_some_and(|stat| stat.is_dir())) {
        return Ok(At::Folder);
    }
    LooseError::of_file(&error).map(At::Broken).ok_or_else(|| error.into())
}

/// Returns whether a symbolic link with this content is a symbolic ref, which it shows by being spelt like the name of
/// a ref below `refs/`. Any other link is followed.
pub(crate) fn is_symbolic_ref(content: &Path) -> bool {
    let content = content.as_os_str().as_bytes();
    content.starts_with(b"refs/") && check_format(content, FormatOptions::default()).is_ok()
}

impl<'a> From<LooseRef<'a>> for TargetView<'a> {
    fn from(content: LooseRef<'a>) -> Self {
        match content {
            LooseRef::Direct(id) => TargetView::Direct(id),
            LooseRef::Symbolic(name) => TargetView::Symbolic(name),
        }
    }
}

impl LooseRef<'_> {
    /// Converts the content to an owned target.
    ///
    /// # Errors
    ///
    /// Fails if the ref is symbolic and leads to a name that no ref can have.
    pub fn to_target(self) -> std::result::Result<Target, LooseError> {
        match self {
            LooseRef::Direct(id) => Ok(Target::Direct(id)),
            LooseRef::Symbolic(name) => RefName::new_safe(name.to_vec())
                .map(Target::Symbolic)
                .ok_or_else(|| LooseError::Target(name.to_owned())),
        }
    }
}

/// Appends the content of a loose ref's file to `out`.
pub(crate) fn encode(value: TargetView<'_>, out: &mut Vec<u8>) {
    match value {
        TargetView::Direct(id) => id.write_hex(out),
        TargetView::Symbolic(name) => {
            out.extend_from_slice(b"ref: ");
            out.extend_from_slice(name);
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "79c34942e58621b484c7f8fdc5d8363413ec7d40";

    fn parsed(content: &str) -> std::result::Result<String, LooseError> {
        parse(HashKind::Sha1, content.as_bytes()).map(|content| match content {
            LooseRef::Direct(id) => id.to_string(),
            LooseRef::Symbolic(name) => format!("-> {name}"),
        })
    }

    #[test]
    fn an_id_may_be_followed_by_white_space_and_anything() {
        for tail in ["\n", "", " x", "\tx\n", "\n\nx", "\r\n", "\0", "\0x", "\0\n"] {
            assert_eq!(parsed(&format!("{HEX}{tail}")).unwrap(), HEX);
        }
        assert_eq!(parsed(&HEX.to_uppercase()).unwrap(), HEX);
        for bad in [format!("{HEX}x"), format!(" {HEX}"), HEX[1..].into(), "refs/heads/main\n".into()] {
            assert_eq!(parsed(&bad), Err(LooseError::Content(40)), "{bad}");
        }
        assert_eq!(parsed(""), Err(LooseError::Empty));
    }

    #[test]
    fn a_symbolic_ref_may_have_white_space_on_both_sides() {
        for content in ["ref: refs/heads/main", "ref:refs/heads/main  \n\n", "ref:\t refs/heads/main\n"] {
            assert_eq!(parsed(content).unwrap(), "-> refs/heads/main");
        }
        // The parser accepts this name, because the code that resolves the name decides whether it is valid.
        assert_eq!(parsed("ref: a\nb\n").unwrap(), "-> a\nb");
        assert_eq!(parsed("ref: \n").unwrap(), "-> ");
        // A zero byte ends the value.
        assert_eq!(parsed("ref: refs/heads/main\0").unwrap(), "-> refs/heads/main");
        assert_eq!(parsed("ref: refs/heads/main \0x\n").unwrap(), "-> refs/heads/main");
    }

    #[test]
    fn a_file_is_read_in_part_whatever_the_buffer_was_used_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, format!("{HEX}\n{}", " ".repeat(3 * CONTENT_LEN_MAX))).unwrap();
        for len in [0, CONTENT_LEN_USUAL, CONTENT_LEN_MAX, CONTENT_LEN_MAX + 1, 2 * CONTENT_LEN_MAX] {
            let mut buffer = vec![0; len];
            let read = read(&Fs::real(), HashKind::Sha1, &path, Rivals::LockedOut, &mut buffer).unwrap();
            assert!(matches!(read, At::Ref(LooseRef::Direct(_))), "{read:?}");
        }
    }

    #[test]
    fn what_is_encoded_parses_to_the_same() {
        let id = ObjectId::from_hex(HashKind::Sha1, HEX.as_bytes()).unwrap();
        for value in [TargetView::Direct(id), TargetView::Symbolic("refs/heads/x".into())] {
            let mut bytes = Vec::new();
            encode(value, &mut bytes);
            assert_eq!(TargetView::from(parse(HashKind::Sha1, &bytes).unwrap()), value);
        }
    }

    #[test]
    fn every_mutation_of_a_loose_ref_is_parsed_or_refused() {
        for seed in [format!("{HEX}\n"), "ref: refs/heads/main\n".into()] {
            for at in 0..seed.len() {
                for byte in 0..=255u8 {
                    let mut bytes = seed.clone().into_bytes();
                    bytes[at] = byte;
                    let _ = parse(HashKind::Sha1, &bytes);
                    let _ = parse(HashKind::Sha256, &bytes[..at]);
                }
            }
        }
    }
}
