//! Validation of names that arrive in sorted order, using what is known of the previous name.

use super::{CHUNK, FormatOptions, check_format, is_plain_path};

/// Validates names that arrive in sorted order, so that most of them begin like the previous name.
#[derive(Debug)]
pub struct OrderedNames {
    /// The first bytes of a valid name that contains no dot.
    plain_start: [u8; CHUNK],
}

impl Default for OrderedNames {
    fn default() -> Self {
        // Before the first name, any start that meets the condition will do.
        OrderedNames { plain_start: *b"refs/heads/plain" }
    }
}

impl OrderedNames {
    /// Returns whether [`check_format`] accepts the name, with any number of levels.
    #[inline]
    pub fn accept(&mut self, name: &[u8]) -> bool {
        if name.len() > CHUNK
            && name.len() <= 2 * CHUNK
            && name.first_chunk() == Some(&self.plain_start)
            && ends_simply(name)
        {
            return true;
        }
        self.accept_new(name)
    }

    /// Returns whether [`check_format`] accepts the name and it has more than one level.
    #[inline]
    pub fn accept_full(&mut self, name: &[u8]) -> bool {
        (name.starts_with(b"refs/") || name.contains(&b'/')) && self.accept(name)
    }

    #[inline(never)]
    fn accept_new(&mut self, name: &[u8]) -> bool {
        if let Some(start) = name.first_chunk().filter(|_| is_plain_path(name)) {
            self.plain_start = *start;
            return true;
        }
        check_format(name, FormatOptions { allow_onelevel: true, refspec_pattern: false }).is_ok()
    }

    /// Returns the length of the name on the first line of `text`, if [`check_format`] is certain to accept it with any
    /// number of levels. The end of the line is searched in the same pass.
    ///
    /// `None` does not mean that the name is invalid: only some plain names are certain.
    #[inline]
    pub fn accepted_line(&self, text: &[u8]) -> Option<usize> {
        if text.first_chunk() != Some(&self.plain_start) {
            return None;
        }
        let mut end = CHUNK;
        loop {
            let chunk: &[u8; CHUNK + 1] = text.get(end - 1..)?.first_chunk()?;
            let simple = simple_bytes(chunk);
            if simple < CHUNK {
                // A name must not end with a slash.
                return (chunk[simple + 1] == b'\n' && chunk[simple] != b'/').then_some(end + simple);
            }
            end += CHUNK;
        }
    }
}

/// Counts the bytes after the first that are letters, digits, `-`, `_` and single slashes, up to the first that is not.
/// The first byte only tells whether a slash follows a slash.
#[inline(never)]
fn simple_bytes(bytes: &[u8; CHUNK + 1]) -> usize {
    let (Some(before), Some(this)) = (bytes.first_chunk(), bytes.last_chunk()) else { return 0 };
    // The lowest byte of the number is the first byte of the text.
    (u128::from_le_bytes(simplicity(before, this)).trailing_ones() / u8::BITS) as usize
}

/// Returns whether the last chunk of a name longer than one chunk contains only letters, digits, `-`, `_` and single
/// slashes, and does not end with a slash.
#[inline(never)]
fn ends_simply(name: &[u8]) -> bool {
    let (Some(before), Some(this)) = (name[..name.len() - 1].last_chunk(), name.last_chunk()) else { return false };
    let simple = simplicity(before, this);
    simple.into_iter().fold(0xff, |all, simple| all & simple) == 0xff && this[CHUNK - 1] != b'/'
}

/// Sets all bits for each letter, digit, `-`, `_` and slash in `this`, except for a slash that follows a slash. At each
/// index, `before` has the byte that precedes the one in `this`.
#[inline(always)]
fn simplicity(before: &[u8; CHUNK], this: &[u8; CHUNK]) -> [u8; CHUNK] {
    let if_so = |so: bool| if so { 0xff } else { 0 };
    let mut simple = [0u8; CHUNK];
    for at in 0..CHUNK {
        let letter = if_so((this[at] | 0x20).wrapping_sub(b'a') <= b'z' - b'a');
        let dash_to_nine = if_so(this[at].wrapping_sub(b'-') <= b'9' - b'-');
        let underscore = if_so(this[at] == b'_');
        let dot = if_so(this[at] == b'.');
        let slashes = if_so(this[at] == b'/') & if_so(before[at] == b'/');
        simple[at] = (letter | dash_to_nine | underscore) & !(dot | slashes);
    }
    simple
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A length is returned only for a valid name; a valid name of plain bytes that begins like the previous one always
    /// gets its length.
    #[test]
    fn a_line_is_accepted_as_its_name_is() {
        let any_level = FormatOptions { allow_onelevel: true, refspec_pattern: false };
        let start = "refs/heads/topic";
        let mut names = OrderedNames::default();
        assert_eq!(names.accepted_line(b"refs/heads/topic/a\n0123456789abcdef"), None, "nothing was accepted yet");
        assert!(names.accept(b"refs/heads/topic/x"));
        let behind = "0123456789abcdef refs/heads/topic/y\n";
        for len in 1..70 {
            for at in 0..len {
                for byte in (0..=255u8).filter(|byte| *byte != b'\n') {
                    let mut name = [start.as_bytes(), &vec![b'a'; len]].concat();
                    name[start.len() + at] = byte;
                    // Also right behind a slash, and right behind a dot.
                    for before in [b'a', b'/', b'.'] {
                        name[start.len() + at.max(1) - 1] = if at > 0 { before } else { byte };
                        let is_good = check_format(&name, any_level).is_ok();
                        let line = [&name, "\n".as_bytes(), behind.as_bytes()].concat();
                        let found = names.accepted_line(&line);
                        assert!(found.is_none() || is_good && found == Some(name.len()), "{name:?} {found:?}");
                        let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/-_".contains(byte));
                        assert!(!(is_good && is_plain) || found.is_some(), "{name:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_line_that_is_cut_short_or_another_is_not_accepted() {
        let mut names = OrderedNames::default();
        assert!(names.accept(b"refs/heads/topic/x"));
        let whole = b"refs/heads/topic/abcdefgh\nand the next line of it";
        assert_eq!(names.accepted_line(whole), Some(25));
        assert_eq!(names.accepted_line(&[b"refs/heads/topic\n", &whole[..]].concat()), Some(16));
        for len in 0..=25 {
            assert_eq!(names.accepted_line(&whole[..len]), None, "{len}");
        }
        for other in ["refs/heads/Topic/abcdefgh\n", "refs/heads/topic/a\r\n", "refs/heads/topic/\n"] {
            assert_eq!(names.accepted_line(format!("{other}{:32}", "").as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn names_of_nul_bytes_are_refused_at_the_first_name_too() {
        let mut line = [0; 64];
        line[CHUNK..32].fill(b'a');
        line[32..].fill(b'\n');
        assert_eq!(OrderedNames::default().accepted_line(&line), None);
        for len in 1..40 {
            assert!(!OrderedNames::default().accept(&line[..len]), "{len}");
        }
    }
}
