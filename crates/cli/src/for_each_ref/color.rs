//! Colors as git-config(1) describes them.

use bstr::{BStr, BString, ByteSlice};
use refdb_types::space::is_space;

/// Returns the terminal sequence for the description of a color, such as `bold red ul #ff0000`, or `None` if it is
/// invalid.
///
/// The first color is the foreground, the second the background.
pub fn sequence(description: &BStr) -> Option<BString> {
    let mut attributes: Vec<u8> = Vec::new();
    let mut colors: Vec<Vec<u8>> = Vec::new();
    let mut reset = false;
    for word in description.split(is_space).filter(|word| !word.is_empty()) {
        if word == b"reset" {
            reset = true;
        } else if let Some(code) = attribute(word) {
            attributes.push(code);
        } else if colors.len() < 2 {
            colors.push(color(word, colors.len() == 1)?);
        } else {
            return None;
        }
    }
    // git writes attributes in the order of their codes.
    attributes.sort_unstable();
    attributes.dedup();
    let mut codes: Vec<Vec<u8>> = Vec::new();
    codes.extend(attributes.into_iter().map(|code| code.to_string().into_bytes()));
    codes.extend(colors.into_iter().filter(|code| !code.is_empty()));
    if codes.is_empty() && !reset {
        return Some(BString::default());
    }
    let lead: &[u8] = if reset && !codes.is_empty() { b"\x1b[;" } else { b"\x1b[" };
    Some([lead, &bstr::join(";", codes), b"m"].concat().into())
}

fn attribute(word: &[u8]) -> Option<u8> {
    let (no, name) = match word.strip_prefix(b"no") {
        Some(name) if word != b"normal" => (true, name.strip_prefix(b"-").unwrap_or(name)),
        _ => (false, word),
    };
    let (on, off) = match name {
        b"bold" => (1, 22),
        b"dim" => (2, 22),
        b"italic" => (3, 23),
        b"ul" => (4, 24),
        b"blink" => (5, 25),
        b"reverse" => (7, 27),
        b"strike" => (9, 29),
        _ => return None,
    };
    Some(if no { off } else { on })
}

/// Returns the codes of one color, without the sequence around them.
fn color(word: &[u8], background: bool) -> Option<Vec<u8>> {
    const NAMES: [&[u8]; 8] = [b"black", b"red", b"green", b"yellow", b"blue", b"magenta", b"cyan", b"white"];
    let base = if background { 40 } else { 30 };
    let (bright, name) = match word.strip_prefix(b"bright") {
        Some(name) => (60, name),
        None => (0, word),
    };
    if word == b"normal" {
        return Some(Vec::new());
    }
    if word == b"default" {
        return Some((base + 9).to_string().into_bytes());
    }
    if let Some(index) = NAMES.iter().position(|known| *known == name) {
        return Some((base + bright + index).to_string().into_bytes());
    }
    if let Some(hex) = word.strip_prefix(b"#") {
        let digits: Vec<u32> = hex.iter().map(|digit| char::from(*digit).to_digit(16)).collect::<Option<_>>()?;
        let (red, green, blue) = match digits[..] {
            [r1, r2, g1, g2, b1, b2] => (r1 << 4 | r2, g1 << 4 | g2, b1 << 4 | b2),
            [r, g, b] => (r * 17, g * 17, b * 17),
            _ => return None,
        };
        return Some(format!("{};2;{red};{green};{blue}", base + 8).into_bytes());
    }
    let number: i32 = word.to_str().ok()?.parse().ok()?;
    match number {
        -1 => Some(Vec::new()),
        0..=7 => Some((base as i32 + number).to_string().into_bytes()),
        8..=15 => Some((base as i32 + 60 + number - 8).to_string().into_bytes()),
        16..=255 => Some(format!("{};5;{number}", base + 8).into_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sequences were taken from `git config --get-color`.
    #[test]
    fn descriptions_become_gits_sequences() {
        for (description, expected) in [
            ("red", "\x1b[31m"),
            ("bold red", "\x1b[1;31m"),
            ("red bold blue", "\x1b[1;31;44m"),
            ("brightred", "\x1b[91m"),
            ("#ff0010", "\x1b[38;2;255;0;16m"),
            ("200 13", "\x1b[38;5;200;105m"),
            ("reset", "\x1b[m"),
            ("normal", ""),
            ("default", "\x1b[39m"),
            ("nobold ul", "\x1b[4;22m"),
        ] {
            assert_eq!(sequence(description.into()), Some(expected.into()), "{description}");
        }
        assert_eq!(sequence("no-such".into()), None);
        assert_eq!(sequence("red green blue".into()), None);
    }
}
