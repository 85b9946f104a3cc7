//! White space as git's own `isspace` counts it: blank, tab, line feed and carriage return. Unlike
//! [`u8::is_ascii_whitespace`], it does not count a form feed.

/// Returns whether git counts a byte as white space.
#[inline]
pub fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns the text without the white space at its start.
pub fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| is_space(byte)).count()..]
}

/// Returns the text without the white space at its end.
pub fn trim_end(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last + 1)]
}

/// Returns the text without the white space at both ends.
pub fn trim(text: &[u8]) -> &[u8] {
    trim_start(trim_end(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_form_feed_nor_a_vertical_tab_is_white_space() {
        let spaces: Vec<u8> = (0..=255).filter(is_space).collect();
        assert_eq!(spaces, b"\t\n\r ");
        assert_eq!(trim(b" \t\x0c a b\x0b\r\n"), b"\x0c a b\x0b");
        assert_eq!((trim_start(b" \n"), trim_end(b" \n"), trim(b"")), (&b""[..], &b""[..], &b""[..]));
    }
}
