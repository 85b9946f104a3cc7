use crate::{HashKind, ObjectId};

/// An object id as a line of text begins with it: its lower-case digits and a space. For lists of millions of refs, in
/// which few objects stand many times.
#[derive(Clone, Copy, Debug)]
pub struct LineStart {
    kind: HashKind,
    text: [u8; LEN_MAX],
}

/// The digits of the longest ids, and a space.
const LEN_MAX: usize = HashKind::Sha256.len_hex() + 1;

impl LineStart {
    /// The text of `id`.
    pub fn new(id: &ObjectId) -> Self {
        let mut line = Vec::with_capacity(LEN_MAX);
        id.write_hex(&mut line);
        line.push(b' ');
        let mut text = [0; LEN_MAX];
        text[..line.len()].copy_from_slice(&line);
        LineStart { kind: id.kind(), text }
    }

    /// Appends the text.
    #[inline(always)]
    pub fn write(&self, out: &mut Vec<u8>) {
        // Lengths that are known when this is compiled.
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
