use crate::{HashKind, ObjectId};

/// An object id formatted as the start of a line: its lower-case digits and a space. A list in which many refs point to
/// few objects can keep these texts instead of formatting an id for each ref.
#[derive(Clone, Copy, Debug)]
pub struct LineStart {
    kind: HashKind,
    text: [u8; LEN_MAX],
}

/// The length of the longest id in digits, plus a space.
const LEN_MAX: usize = HashKind::Sha256.len_hex() + 1;

impl LineStart {
    /// Formats `id`.
    pub fn new(id: &ObjectId) -> Self {
        let mut line = Vec::with_capacity(LEN_MAX);
        id.write_hex(&mut line);
        line.push(b' ');
        let mut text = [0; LEN_MAX];
        text[..line.len()].copy_from_slice(&line);
        LineStart { kind: id.kind(), text }
    }

    /// Appends the text to `out`.
    #[inline(always)]
    pub fn write(&self, out: &mut Vec<u8>) {
        // The lengths are constants here, so that each copy is a few instructions.
        match self.kind {
            HashKind::Sha1 => out.extend_from_slice(&self.text[..=HashKind::Sha1.len_hex()]),
            HashKind::Sha256 => out.extend_from_slice(&self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_starts_with_the_digits_and_a_space() {
        for kind in [HashKind::Sha1, HashKind::Sha256] {
            let id = ObjectId::from_bytes(kind, &[0xa7].repeat(kind.len_hex() / 2)).unwrap();
            let mut out = b"before ".to_vec();
            LineStart::new(&id).write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("before {id} "));
        }
    }
}
